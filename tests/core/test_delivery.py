"""The law of every thread that works for a task: once the task is told, the thread has nothing of it.

Were it otherwise, the thread could be the last to know what the task has dropped, and free it beside the end
of the program: a finalizer that is then taken off Python's list keeps all others from being called.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import TypeVar, TypeVarTuple

import pytest
from typing_extensions import override

from wesichain.core.internal import Delivery
from wesichain.llm.local.places import off_loop
from wesichain.store.workers import Workers
from wesichain.tools.running.threads import in_thread

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Owner:
    """Whose work it is."""

    def tell(self) -> Owner:
        return self

    def fail(self) -> Owner:
        raise ValueError(self)

    def stop(self) -> Owner:
        raise StopIteration(self)


class Session:
    def do(self, job: Callable[[None], T]) -> T:
        return job(None)

    def close(self) -> None: ...


class HeldLoop(asyncio.SelectorEventLoop):
    """A loop that holds a thread which has told it something, until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.held = 0

    @override
    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        ours = threading.current_thread().name.startswith("wesichain-")
        self.held += ours
        handle = super().call_soon_threadsafe(callback, *args, context=context)
        assert not ours or self.go_on.wait(60)
        return handle


Ask = Callable[[Callable[[], Owner]], Awaitable[Owner]]


def ask_workers(job: Callable[[], Owner]) -> Awaitable[Owner]:
    return Workers(Session, name="wesichain-test").run(lambda _: job())


def ask_workers_surely(job: Callable[[], Owner]) -> Awaitable[Owner]:
    return Workers(Session, name="wesichain-test").start(lambda _: job())


def ask_off_loop(job: Callable[[], Owner]) -> Awaitable[Owner]:
    return off_loop(lambda _stop: job())


ASKED: dict[str, Ask] = {
    "a store": ask_workers,
    "a store, for one that must know": ask_workers_surely,
    "a tool": in_thread,
    "a local model": ask_off_loop,
}


async def ends(ask: Ask, work: Callable[[Owner], Callable[[], Owner]]) -> weakref.ref[Owner]:
    """Ask for it and drop all of it: what came, what failed, and whose it was."""
    owner = Owner()
    try:
        assert await ask(work(owner)) is owner
    except (ValueError, RuntimeError):
        assert work is not tells
    return weakref.ref(owner)


def tells(owner: Owner) -> Callable[[], Owner]:
    return owner.tell


def fails(owner: Owner) -> Callable[[], Owner]:
    return owner.fail


def stops(owner: Owner) -> Callable[[], Owner]:
    return owner.stop


@pytest.mark.parametrize(
    ("who", "work"),
    [(who, work) for who in ASKED for work in (tells, fails, stops)],
)
def test_what_a_task_has_dropped_no_thread_still_has(
    who: str, work: Callable[[Owner], Callable[[], Owner]]
) -> None:
    loop = HeldLoop()
    try:
        owner = loop.run_until_complete(ends(ASKED[who], work))
        gc.collect()  # an error knows the frame that it was caught in
        assert loop.held == 1, "the thread is held while it tells the loop"
        assert owner() is None
    finally:
        loop.go_on.set()
        loop.close()


def test_what_comes_after_the_loop_has_closed_is_dropped() -> None:
    loop = asyncio.new_event_loop()
    future: asyncio.Future[Owner] = loop.create_future()
    owner = Owner()
    known = weakref.ref(owner)
    delivery = Delivery(loop, future, owner, None)
    loop.close()
    delivery.deliver()
    del owner
    assert known() is None


async def test_a_thread_that_waits_is_used_before_another_is_started() -> None:
    workers = Workers(Session, name="wesichain-test", most=4)
    for _ in range(3):
        await workers.run(lambda _: None)
    assert len(workers._threads) == 1
    gate = threading.Event()
    jobs = [workers.start(lambda _: gate.wait(60)) for _ in range(6)]
    assert len(workers._threads) == 4, "no more than it may have"
    gate.set()
    assert await asyncio.gather(*jobs) == [True] * 6
    workers.close()


async def test_a_job_whose_end_must_be_known_cannot_be_cancelled() -> None:
    gate = threading.Event()
    workers = Workers(Session, name="wesichain-test")
    waits = asyncio.ensure_future(asyncio.wait_for(workers.start(lambda _: gate.wait(60)), 60))
    await asyncio.sleep(0)
    waits.cancel()
    await asyncio.sleep(0)
    assert not waits.done(), "whoever waits is told of the cancel when the job has ended"
    future = workers.start(lambda _: "done")
    assert not future.cancel()
    gate.set()
    assert await future == "done"
    with pytest.raises(asyncio.CancelledError):
        await waits
    workers.close()


@pytest.mark.parametrize("error", [None, ValueError("no")])
async def test_one_who_was_cancelled_is_told_nothing(error: ValueError | None) -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    future.cancel()
    Delivery(asyncio.get_running_loop(), future, 1, error).deliver()
    await asyncio.sleep(0)
    assert future.cancelled()


class CountingLoop(asyncio.SelectorEventLoop):
    """A loop that counts how often another thread has woken it."""

    woken = 0

    @override
    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self.woken += 1
        return super().call_soon_threadsafe(callback, *args, context=context)


def test_a_loop_is_woken_once_for_all_that_came_before_it_looked() -> None:
    loop = CountingLoop()

    async def look_twice() -> tuple[list[int], int]:
        futures = [loop.create_future() for _ in range(4)]
        for place, future in enumerate(futures[:3]):
            Delivery(loop, future, place, None).deliver()
        found = [await future for future in futures[:3]]
        Delivery(loop, futures[3], 3, None).deliver()
        return [*found, await futures[3]], loop.woken

    try:
        assert loop.run_until_complete(look_twice()) == ([0, 1, 2, 3], 2)
    finally:
        loop.close()


def test_a_loop_that_closes_before_it_looks_is_not_kept() -> None:
    loop = asyncio.new_event_loop()
    Delivery(loop, loop.create_future(), Owner(), None).deliver()
    known = weakref.ref(loop)
    loop.close()
    del loop
    gc.collect()
    assert known() is None
