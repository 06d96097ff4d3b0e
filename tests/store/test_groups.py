"""Appends that wait for the same thread are one group, and do not spoil each other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from tests.waiting import until
from wesichain.store import Entry, StoreUnavailableError
from wesichain.store.groups import Groups, Results
from wesichain.store.log_rules import Append

T = TypeVar("T")


class Session:
    """A session with a list; the first job that it does waits until it may go on."""

    def __init__(self) -> None:
        self.written: list[list[str]] = []
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()

    def do(self, job: Callable[[list[list[str]]], T]) -> T:
        self.has_begun.set()
        assert self.may_go_on.wait(30)
        return job(self.written)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def write(written: list[list[str]], appends: Sequence[Append]) -> Results:
    names = [append.log for append in appends]
    for error in (StoreUnavailableError("away"), ValueError("spoiled")):
        if str(error) in names:
            raise error
    written.append(names)
    return [KeyError(name) if name == "refused" else None for name in names]


def append(log: str) -> Append:
    return Append(log, [Entry(1, "a", "", 1.0)], 0, None)


@pytest.mark.parametrize(
    ("names", "written", "errors"),
    [
        pytest.param("abcd", ["abcd"], {}, id="one-group"),
        pytest.param(["a", "refused", "b"], [["a", "refused", "b"]], {1: KeyError}, id="one-is-refused"),
        pytest.param(["a", "spoiled", "b"], ["a", "b"], {1: ValueError}, id="one-spoils-the-group"),
        pytest.param(
            ["a", "away", "b"], [], dict.fromkeys(range(3), StoreUnavailableError), id="none-can-be-written"
        ),
    ],
)
async def test_what_waits_is_written_together(names: Any, written: Any, errors: dict[int, type]) -> None:
    session = Session()
    groups = Groups(session, write, name="group")
    first = asyncio.ensure_future(groups.append(append("first")))
    await until(session.has_begun.is_set)
    tasks = [asyncio.ensure_future(groups.append(append(name))) for name in names]
    await asyncio.sleep(0)
    session.may_go_on.set()
    found = await asyncio.gather(first, *tasks, return_exceptions=True)
    assert found[0] is None
    for number, error in enumerate(found[1:]):
        assert isinstance(error, errors.get(number, type(None)))
    assert len({id(error) for error in found if error}) == len(errors), "tasks share an error"
    assert [[*group] for group in written] == session.written[1:]
    groups.close()
