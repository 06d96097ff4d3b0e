"""The end of what will not stop: cancelled, given a moment, left behind, and never complained about."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from wesichain.core import waiting
from wesichain.core.waiting import CancellationToken, abandon, stray_cancel


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "GRACE", 0.02)


async def stopped(gate: asyncio.Event) -> str:
    await gate.wait()
    return "by itself"


async def deaf(gate: asyncio.Event) -> str:
    while not gate.is_set():
        try:
            await gate.wait()
        except asyncio.CancelledError:
            continue
    raise ValueError("later")


async def started(*tasks: Any) -> list[asyncio.Task[Any]]:
    made = [asyncio.create_task(task) for task in tasks]
    await asyncio.sleep(0)
    return made


async def test_what_still_runs_is_cancelled_and_what_has_ended_is_left_as_it_is() -> None:
    gate = asyncio.Event()
    runs, ended = await started(stopped(gate), asyncio.sleep(0, "done"))
    await asyncio.sleep(0)
    await abandon((runs, ended))
    assert runs.cancelled()
    assert ended.result() == "done"
    await abandon(())


async def test_with_grace_one_may_stop_by_itself() -> None:
    gate = asyncio.Event()
    runs, late = await started(stopped(gate), asyncio.sleep(9))
    asyncio.get_running_loop().call_soon(gate.set)
    await abandon((runs, late), grace=0.02)
    assert runs.result() == "by itself"
    assert late.cancelled()


async def test_what_will_not_stop_is_left_behind_and_its_error_is_nobody_s() -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    gate = asyncio.Event()
    tasks = await started(deaf(gate))
    await asyncio.wait_for(abandon(tasks), 5)
    assert not tasks[0].done()
    gate.set()
    await asyncio.wait(tasks)
    del tasks
    gc.collect()
    assert complaints == []


def test_a_stray_cancel_names_its_cause() -> None:
    cause = asyncio.CancelledError()
    fault = stray_cancel(cause)
    assert str(fault) == "it raised CancelledError, though nobody had cancelled it"
    assert fault.__cause__ is cause


def test_a_token_above_one_that_is_cancelled_keeps_nobody_who_looks() -> None:
    above = CancellationToken()
    below, seen = above.child(), list[str]()
    below.cancel()
    below.on_cancel(lambda: seen.append("told"))
    assert seen == ["told"]
    assert not above._watchers
    forget = above.child().on_cancel(lambda: seen.append("never"))
    forget()
    assert not above._watchers


def test_a_callback_is_called_once_however_many_tokens_of_its_line_are_cancelled() -> None:
    above, seen = CancellationToken(), list[str]()
    below = above.child()
    below.on_cancel(lambda: seen.append("told"))
    above.cancel()
    below.cancel()
    assert seen == ["told"]


async def test_a_wait_that_is_given_up_leaves_nothing_in_the_token() -> None:
    token = CancellationToken()
    (waits,) = await started(token.wait())
    waits.cancel()
    await asyncio.wait([waits])
    assert not token._watchers
