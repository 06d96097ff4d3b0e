"""Synchronous calls: one event loop per thread, and no leaks after a call."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypedDict

import pytest

from wesichain.errors import GraphInterruptedError
from wesichain.graph import Graph, GraphBuilder, interrupt

SEEN: ContextVar[int] = ContextVar("seen", default=0)


class State(TypedDict, total=False):
    n: int


def one_node(node: Any) -> Graph[State]:
    return GraphBuilder(State).add_node("a", node).set_entry("a").build()


def test_a_call_inside_a_node_is_a_run_of_its_own() -> None:
    inner = one_node(lambda _: {"n": interrupt("?")})

    def node(_: State) -> Any:
        with pytest.raises(GraphInterruptedError, match="it cannot be resumed"):
            inner.invoke_sync({})
        return {"n": 1}

    outer = GraphBuilder(State).add_node("a", node, blocking=True).set_entry("a").build()
    assert outer.invoke_sync({}) == {"n": 1}
    assert asyncio.run(outer.invoke({})) == {"n": 1}


def loops_of(count: int) -> list[asyncio.AbstractEventLoop]:
    """Return the event loops of so many calls in this thread."""
    found: list[asyncio.AbstractEventLoop] = []
    graph = one_node(lambda _: found.append(asyncio.get_running_loop()))
    for _ in range(count):
        graph.invoke_sync({})
    return found


def test_calls_of_a_thread_share_an_event_loop() -> None:
    assert len(set(map(id, loops_of(3)))) == 1


def test_a_thread_that_ends_closes_its_loop() -> None:
    found: list[asyncio.AbstractEventLoop] = []
    thread = threading.Thread(target=lambda: found.extend(loops_of(2)))
    thread.start()
    thread.join()
    assert all(loop.is_closed() for loop in found)
    assert found[0] is not loops_of(1)[0]


def test_the_loop_of_a_thread_that_ended_is_closed_where_another_runs() -> None:
    found: list[asyncio.AbstractEventLoop] = []
    errors: list[Exception] = []

    def work() -> None:
        found.extend(loops_of(1))
        try:
            one_node(lambda _: interrupt("?")).invoke_sync({})
        except GraphInterruptedError as error:
            errors.append(error)  # the frames of its traceback refer to the thread's loop

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    async def drop() -> None:
        errors.clear()
        gc.collect()

    asyncio.run(drop())
    assert found[0].is_closed()


def test_what_a_node_left_running_is_cancelled_before_the_call_returns() -> None:
    ended: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def leave(_: State) -> None:
        tasks.append(asyncio.ensure_future(linger()))
        await asyncio.sleep(0)

    one_node(leave).invoke_sync({})
    assert ended == ["cancelled"]


def test_what_a_node_set_for_itself_is_gone_with_the_next_call() -> None:
    found: list[int] = []

    def look(_: State) -> None:
        found.append(SEEN.get())
        SEEN.set(7)

    graph = one_node(look)
    graph.invoke_sync({})
    graph.invoke_sync({})
    assert found == [0, 0]
    assert SEEN.get() == 0


def test_ctrl_c_ends_a_node_that_blocks() -> None:
    def block(_: State) -> None:
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the node went on")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the test runner may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            one_node(block).invoke_sync({})
    finally:
        signal.signal(signal.SIGINT, before)
    assert one_node(lambda _: {"n": 1}).invoke_sync({}) == {"n": 1}


def test_a_forked_process_has_a_loop_of_its_own(tmp_path: Path) -> None:
    (mine,) = loops_of(1)
    child = os.fork()
    if child == 0:
        (theirs,) = loops_of(1)
        (tmp_path / "said").write_text("apart" if theirs is not mine else "shared")
        os._exit(0)
    os.waitpid(child, 0)
    assert (tmp_path / "said").read_text() == "apart"
    assert loops_of(1) == [mine]
