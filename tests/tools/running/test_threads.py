"""Threads: blocking work waits for nobody, keeps its context, and does not hold up the exit."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.waiting import until
from wesichain.tools.running import in_thread
from wesichain.tools.running.threads import _Pool, _Worker

NAME = contextvars.ContextVar("NAME", default="nobody")


@pytest.fixture
def new_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of the test's own; those of earlier tests may still be busy."""
    monkeypatch.setattr("wesichain.tools.running.threads._pool", _Pool())


async def test_it_runs_elsewhere_with_the_caller_s_context() -> None:
    NAME.set("somebody")
    assert await in_thread(lambda: (NAME.get(), threading.current_thread().name)) == (
        "somebody",
        "wesichain-tool",
    )


async def test_stop_iteration_can_be_told() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await in_thread(lambda: next(iter(())))


async def test_system_exit_is_only_an_outcome() -> None:
    def leave() -> None:
        sys.exit(3)

    future = in_thread(leave)
    while not future.done():
        await asyncio.sleep(0.001)
    assert isinstance(future.exception(), SystemExit)


async def test_one_thread_serves_calls_in_a_row(new_pool: None) -> None:
    assert len({await in_thread(threading.get_ident) for _ in range(6)}) == 1


async def test_no_job_waits_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wesichain.tools.running.threads._pool", _Pool())
    all_there = threading.Barrier(40)
    first = [in_thread(partial(all_there.wait, 60)) for _ in range(25)]
    await in_thread(lambda: None)  # while others block
    later = [in_thread(partial(all_there.wait, 60)) for _ in range(15)]
    assert sorted(await asyncio.gather(*first, *later)) == list(range(40))


async def test_what_was_given_up_before_it_began_never_begins(
    monkeypatch: pytest.MonkeyPatch, new_pool: None
) -> None:
    began: list[str] = []
    waiting = threading.Event()

    def start(self: _Worker) -> None:
        waiting.wait(30)
        threading.Thread.start(self)

    monkeypatch.setattr(_Worker, "start", start)
    future = in_thread(lambda: began.append("it"))
    future.cancel()
    waiting.set()
    assert await in_thread(lambda: "the next") == "the next"
    assert began == []


async def test_a_system_without_threads_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, new_pool: None
) -> None:
    refusals = iter([RuntimeError("can't start new thread")] * 2)

    def start(self: _Worker) -> None:
        for refusal in refusals:
            raise refusal
        threading.Thread.start(self)

    monkeypatch.setattr(_Worker, "start", start)
    assert await asyncio.wait_for(in_thread(lambda: "in the end"), 20) == "in the end"


async def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch, new_pool: None) -> None:
    monkeypatch.setattr("wesichain.tools.running.threads.IDLE_SECONDS", 0.05)
    ours = await asyncio.gather(*(in_thread(threading.current_thread) for _ in range(5)))
    await until(lambda: not any(thread.is_alive() for thread in ours))


def test_the_loop_may_be_gone_when_the_thread_is_done() -> None:
    release, started = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        release.wait(30)

    async def leave() -> None:
        in_thread(work)
        await asyncio.sleep(0.01)

    asyncio.run(leave())
    release.set()
    assert started.wait(5)


def test_a_result_is_not_kept_alive_by_an_idle_thread() -> None:
    import gc
    import weakref

    class Thing:
        pass

    async def main() -> Callable[[], Any]:
        return weakref.ref(await in_thread(Thing))

    reference = asyncio.run(main())
    deadline = time.monotonic() + 10
    while reference() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert reference() is None


def test_a_worker_that_was_just_called_does_not_leave() -> None:
    pool = _Pool()
    worker = _Worker(pool)
    assert not pool.retire(worker)
    assert pool.next_job(worker) is None  # it is idle now
    assert pool.retire(worker)
    assert not pool.retire(worker)
