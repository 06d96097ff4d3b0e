"""The contracts of stores: what their laws ask of a store, and a broken store for each law, which it refuses.

The calls of each law are in `laws/` (see `tests/expected.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests import expected
from wesichain.agent import MemoryConversations
from wesichain.core import Message, Role
from wesichain.errors import CheckpointError
from wesichain.store import ThreadEntry
from wesichain.store.memory_threads import MemoryThreadLogs
from wesichain.testing import ConversationsContract, ThreadLogsContract
from wesichain.testing.store_contract import run_in_loops

LAWS = Path(__file__).parent / "laws"
LONGEST = 160  # characters of a call in the file
Method = Callable[..., Any]


def conflict(name: str) -> CheckpointError:
    return CheckpointError(f"{name} has moved on")


def logs(**methods: Method) -> Any:
    """The suite of a store of logs in memory with these methods in place of its own."""
    made = type("Broken", (MemoryThreadLogs,), methods)

    async def make(_: object) -> Any:
        return made(conflict)

    return type("Suite", (ThreadLogsContract,), {"make_logs": make})()


def conversations(**methods: Method) -> Any:
    made = type("Broken", (MemoryConversations,), methods)

    async def make(_: object) -> Any:
        return made()

    return type("Suite", (ConversationsContract,), {"make": make})()


def laws_of(suite: Any) -> list[str]:
    return [name for name in dir(suite) if name.startswith("test_")]


# --- what the laws ask ----------------------------------------------------------------------------------


def asked_by(suite: Any, store: type[Any], names: tuple[str, ...], released: str) -> str:
    """The calls of every law, a line each; the same call again and again is one line."""
    said: list[str] = []

    def noted(name: str) -> Method:
        method = getattr(store, name)

        def call(self: Any, *args: Any, **options: Any) -> Any:
            given = [*map(_plain, args), *(f"{key}={value!r}" for key, value in options.items())]
            said.append(_short(f"{name}({', '.join(given)})"))
            return method(self, *args, **options)

        return call

    async def release(*_: object) -> None:
        said.append("released")

    made = suite(**{name: noted(name) for name in names})
    setattr(type(made), released, release)
    lines: list[str] = []
    for law in laws_of(made):
        said.clear()
        getattr(made, law)()
        in_order = sorted(said) if "at_once" in law or "at_the_same_time" in law else said
        counted = [(line, len(list(same))) for line, same in groupby(in_order)]
        lines += [law, *[f"    {line}" + (f" {count} times" if count > 1 else "") for line, count in counted]]
    return "\n".join(lines) + "\n"


def _plain(value: object) -> str:
    match value:
        case ThreadEntry():
            parts = "".join(f" {name[:4]}:{data.decode()}" for name, data in value.parts.items())
            return f"{value.seq} {value.owner!r} base {value.base} at {value.at} {value.body}{parts}"
        case Message():
            text = f"{value.role} {value.content!r} {value.tool_calls or ''}".rstrip()
            return f"{text} is_error" if value.is_error else text
        case list() | tuple():
            return "[" + ", ".join(map(_plain, value)) + "]"
        case _:
            return repr(value)


def _short(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}... {len(text)} characters, {crc32(text.encode()):08x}"


SUITES: dict[str, Callable[[], str]] = {
    "logs": lambda: asked_by(logs, MemoryThreadLogs, ("append", "read", "delete", "names"), "close"),
    "conversations": lambda: asked_by(
        conversations, MemoryConversations, ("open", "append", "read", "delete", "list"), "done"
    ),
}


@pytest.mark.parametrize("name", SUITES)
def test_the_laws_ask_what_is_written(name: str) -> None:
    expected.check(LAWS / f"{name}.txt", SUITES[name]())


# --- broken stores ----------------------------------------------------------------------------------------

_append, _read, _delete, _names = (
    MemoryThreadLogs.append,
    MemoryThreadLogs.read,
    MemoryThreadLogs.delete,
    MemoryThreadLogs.names,
)


def kept_as(change: Callable[[ThreadEntry], ThreadEntry]) -> Method:
    """Appends something else than it was given."""

    async def append(self: Any, name: str, entries: Any, **options: Any) -> None:
        await _append(self, name, [change(one) for one in entries], **options)

    return append


async def append_whatever_is_there(
    self: Any, name: str, entries: Any, *, after: int | None, settles: str | None = None
) -> None:
    found = await _read(self, name, since=0)
    last = found[-1].seq if found and after is not None else after
    await _append(self, name, entries, after=last, settles=settles)


async def append_after_a_look(self: Any, name: str, entries: Any, **options: Any) -> None:
    """Another writer comes between the look and the write."""
    seq = max([0, *(one.seq for one in await _read(self, name, since=0))])
    await asyncio.sleep(0)
    if options["after"] not in (None, seq):
        raise conflict(name)
    await append_whatever_is_there(self, name, entries, **options)


async def append_and_settle_first(self: Any, name: str, entries: Any, **options: Any) -> None:
    log = self._logs.get(name)
    if log is not None and options.get("settles"):
        log.owned = []
    await _append(self, name, entries, **options)


async def append_without_settling(self: Any, name: str, entries: Any, *, after: Any, **_: Any) -> None:
    await _append(self, name, entries, after=after)


async def append_anew_where_nothing_is_left(self: Any, name: str, entries: Any, **options: Any) -> None:
    if not await _read(self, name, since=0):
        await _delete(self, name)
    await _append(self, name, entries, **options)


async def append_in_pieces(self: Any, name: str, entries: Any, **options: Any) -> None:
    if options["after"] is not None:
        return await _append(self, name, entries, **options)
    for entry in entries:
        await _append(self, name, [entry], **options)
        await asyncio.sleep(0)
    return None


async def append_in_one_loop(self: Any, name: str, entries: Any, **options: Any) -> None:
    self._loop = getattr(self, "_loop", None) or asyncio.get_running_loop()
    assert self._loop is asyncio.get_running_loop(), "bound to another event loop"
    await _append(self, name, entries, **options)


async def append_times_as_they_are(self: Any, name: str, entries: Any, **options: Any) -> None:
    await _append(self, name, entries, **options)
    self._logs[name].at = entries[-1].at


def read_as(change: Callable[[list[ThreadEntry]], list[ThreadEntry]]) -> Method:
    async def read(self: Any, name: str, **options: Any) -> Any:
        return change(list(await _read(self, name, **options)))

    return read


async def read_what_is_known(self: Any, name: str, **options: Any) -> Any:
    if name not in self._logs:
        raise KeyError(name)
    return await _read(self, name, **options)


async def read_from_the_next(self: Any, name: str, *, since: int | None = None, newest: Any = None) -> Any:
    return await _read(self, name, since=None if since is None else since + 1, newest=newest)


async def read_from_the_beginning(self: Any, name: str, *, since: int | None = None, **_: Any) -> Any:
    return await _read(self, name, since=since or 0)


async def read_the_newest_alone(self: Any, name: str, *, since: Any = None, newest: Any = None) -> Any:
    found = await _read(self, name, since=since, newest=newest)
    return found if newest is None else found[-newest:]


async def append_or_be_silent(self: Any, name: str, entries: Any, **options: Any) -> None:
    with suppress(CheckpointError):
        await _append(self, name, entries, **options)


async def delete_what_is_known(self: Any, name: str, *, before: int | None = None) -> None:
    if name not in self._logs:
        raise KeyError(name)
    await _delete(self, name, before=before)


async def delete_the_log_alone(self: Any, name: str, *, before: int | None = None) -> None:
    """What is pending stays."""
    owned = self._logs[name].owned if name in self._logs else []
    await _delete(self, name, before=before)
    if owned and before is None:
        await _append(self, name, owned, after=0)


async def delete_the_entries_alone(self: Any, name: str, *, before: int | None = None) -> None:
    """The number of the last one, and the parts, stay."""
    if name in self._logs:
        self._logs[name].own = self._logs[name].owned = []


async def delete_as_a_whole(self: Any, name: str, *, before: int | None = None) -> None:
    await _delete(self, name)


async def delete_one_more(self: Any, name: str, *, before: int | None = None) -> None:
    await _delete(self, name, before=None if before is None else before + 1)


def named_by(change: Callable[[str], str]) -> dict[str, Method]:
    """Logs are kept under another form of their name."""

    async def append(self: Any, name: str, entries: Any, **options: Any) -> None:
        await _append(self, change(name), entries, **options)

    async def read(self: Any, name: str, **options: Any) -> Any:
        return await _read(self, change(name), **options)

    return {"append": append, "read": read}


async def names_by_their_letters(self: Any) -> Any:
    return sorted(await _names(self), key=lambda one: one.name)


async def names_as_they_began(self: Any) -> Any:
    return [replace(one, seq=1) for one in await _names(self)]


BROKEN_LOGS: list[tuple[dict[str, Method], str]] = [
    ({"append": kept_as(lambda one: replace(one, at=round(one.at)))}, "read_back_as_it_was"),
    ({"append": kept_as(lambda one: replace(one, body=one.body.replace("\\u0000", "")))}, "read_back_as_it"),
    ({"append": kept_as(lambda one: replace(one, base=1))}, "begins_at_the_base"),
    ({"append": kept_as(lambda one: replace(one, owner=one.owner[:1]))}, "owners_do_not_mix"),
    ({"append": kept_as(lambda one: replace(one, body=one.body[:1_000_000]))}, "large_body"),
    ({"append": kept_as(lambda one: replace(one, parts={}))}, "parts_come_back"),
    ({"append": append_whatever_is_there}, "written_once"),
    ({"append": append_or_be_silent}, "written_once"),
    ({"append": append_whatever_is_there}, "settled_cannot_be_written_again"),
    ({"append": append_after_a_look}, "one_wins"),
    ({"append": append_and_settle_first}, "refused_settles_nothing"),
    ({"append": append_without_settling}, "settles_what_was_pending"),
    ({"append": append_in_pieces}, "never_refused_and_lost_by_nobody"),
    ({"append": append_anew_where_nothing_is_left}, "used_once_also_after"),
    ({"append": append_in_one_loop}, "several_event_loops"),
    ({"append": append_times_as_they_are}, "added_to_last_is_listed_first"),
    ({"append": kept_as(lambda one: replace(one, at=0.0))}, "listed_the_newest_first"),
    ({"read": read_what_is_known}, "an_unknown_thread"),
    ({"read": read_from_the_next}, "an_unknown_thread"),
    ({"read": read_from_the_beginning}, "begins_at_the_base"),
    ({"read": read_the_newest_alone}, "every_older_one_that_has_an_owner"),
    ({"read": read_as(lambda found: found[::-1])}, "numbers_go_on"),
    ({"read": read_as(lambda found: [one for one in found if not one.owner])}, "pending_on_its_parent"),
    ({"delete": delete_what_is_known}, "forgets_one_thread_wholly"),
    ({"delete": delete_what_is_known}, "deleting_the_beginning"),
    ({"delete": delete_the_log_alone}, "forgets_one_thread_wholly"),
    ({"delete": delete_the_entries_alone}, "forgets_one_thread_wholly"),
    ({"delete": delete_as_a_whole}, "deleting_the_beginning"),
    ({"delete": delete_as_a_whole}, "used_once_also_after"),
    ({"delete": delete_one_more}, "deleting_the_beginning"),
    (named_by(lambda name: ""), "owners_do_not_mix"),
    (named_by(str.strip), "named_anything"),
    (named_by(str.lower), "any_names_do_not_mix"),
    (named_by(lambda name: name[:255]), "named_anything"),
    ({"names": names_by_their_letters}, "listed_the_newest_first"),
    ({"names": names_as_they_began}, "listed_the_newest_first"),
]


def said_as(change: Callable[[Message], Message]) -> Method:
    async def append(self: Any, id: str, turn: Any) -> None:
        await MemoryConversations.append(self, id, tuple(map(change, turn)))

    return append


def _is_in(self: Any, id: str) -> None:
    if id not in self._turns:
        raise KeyError(id)


async def append_one_by_one(self: Any, id: str, turn: Any) -> None:
    for message in turn:
        await MemoryConversations.append(self, id, (message,))
        await asyncio.sleep(0)


async def append_to_one(self: Any, id: str, turn: Any) -> None:
    await MemoryConversations.append(self, "c", turn)


async def append_in_place(self: Any, id: str, turn: Any) -> None:
    self._turns.setdefault(id, []).append(turn)


async def open_by_reading(self: Any, id: str, *, newest: int | None = None) -> Any:
    self._turns.setdefault(id, [])
    return await MemoryConversations.read(self, id, newest=newest)


async def turns_without_rules(self: Any, id: str, *, newest: int | None = None) -> Any:
    return (await MemoryConversations.read(self, id))[-(newest or 1000) :]


async def turns_but_one(self: Any, id: str, *, newest: int | None = None) -> Any:
    return await MemoryConversations.read(self, id, newest=None if newest is None else newest - 1)


async def forget_what_is_known(self: Any, id: str) -> None:
    _is_in(self, id)
    await MemoryConversations.delete(self, id)


async def forget_the_turns(self: Any, id: str) -> None:
    if id in self._turns:
        self._turns[id] = []


async def forget_all(self: Any, id: str) -> None:
    self._turns.clear()


async def oldest_first(self: Any) -> list[str]:
    return list(self._turns)


async def in_one_loop(self: Any, id: str, turn: Any) -> None:
    self._loop = getattr(self, "_loop", None) or asyncio.get_running_loop()
    assert self._loop is asyncio.get_running_loop(), "bound to another event loop"
    await MemoryConversations.append(self, id, turn)


async def append_to_stripped(self: Any, id: str, turn: Any) -> None:
    await MemoryConversations.append(self, id.strip(), turn)


async def read_stripped(self: Any, id: str, *, newest: int | None = None) -> Any:
    return await MemoryConversations.read(self, id.strip(), newest=newest)


BROKEN_CONVERSATIONS: list[tuple[dict[str, Method], str]] = [
    ({"append": said_as(lambda one: replace(one, opaque=None))}, "read_back_as_they_were"),
    ({"append": said_as(lambda one: replace(one, content=one.text))}, "read_back_as_they_were"),
    ({"append": said_as(lambda one: replace(one, content=one.text[:1_000_000]))}, "large_message"),
    ({"append": said_as(lambda one: replace(one, role=Role.USER))}, "extends_it_with_the_question"),
    ({"append": append_one_by_one}, "each_kept_in_whole"),
    ({"append": append_one_by_one}, "every_older_system_message"),
    ({"append": append_to_one}, "extends_it_with_the_question"),
    ({"append": append_to_one}, "forgets_one_conversation"),
    ({"append": append_in_place}, "listed_the_newest_first"),
    ({"append": in_one_loop}, "several_event_loops"),
    ({"append": append_to_stripped, "read": read_stripped}, "named_anything"),
    ({"read": open_by_reading}, "leave_nothing_behind"),
    ({"read": open_by_reading}, "fails_leaves_no_trace"),
    ({"read": turns_without_rules}, "every_older_system_message"),
    ({"read": turns_without_rules}, "what_a_conversation_in_memory"),
    ({"read": turns_but_one}, "every_older_system_message"),
    ({"delete": forget_what_is_known}, "forgets_one_conversation"),
    ({"delete": forget_the_turns}, "forgets_one_conversation"),
    ({"delete": forget_all}, "forgets_one_conversation"),
    ({"list": oldest_first}, "listed_the_newest_first"),
]


@pytest.mark.parametrize(
    ("suite", "law"),
    [
        pytest.param(made, law, id="-".join([law, *(method.__name__ for method in methods.values())]))
        for suite, broken in ((logs, BROKEN_LOGS), (conversations, BROKEN_CONVERSATIONS))
        for methods, law in broken
        for made in [suite(**methods)]
    ],
)
def test_a_broken_store_is_refused(suite: Any, law: str) -> None:
    (name,) = (name for name in laws_of(suite) if law in name)
    with pytest.raises((AssertionError, CheckpointError, KeyError)):
        getattr(suite, name)()


def test_a_fault_in_one_of_the_loops_is_told() -> None:
    async def work(number: int) -> None:
        assert number != 3

    with pytest.raises(AssertionError, match=r"AssertionError\("):
        run_in_loops(work)
