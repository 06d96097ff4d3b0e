"""Promises: a timeout bounds every tool, a blocking tool delays nobody, a process is killed."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Strays
from tests.virtual_time import in_virtual_time
from tests.waiting import until
from wesichain.core import ToolCall
from wesichain.errors import ToolErrorKind, ToolExecutionError, ToolTimeoutError
from wesichain.tools import CancellationToken, ToolContext, ToolRegistry, ToolResult, ToolSet, tool
from wesichain.tools.running.drive import GRACE


def registry(*tools: Any) -> ToolRegistry:
    return ToolSet.of(tools).build()


async def call(item: Any, args: dict[str, Any] | None = None, ctx: ToolContext | None = None) -> ToolResult:
    made = registry(item)
    return await made.dispatch(ToolCall("c1", made.names[0], args or {}), ctx)


@tool(timeout=0.1)
async def stubborn() -> None:
    """Swallow every cancellation."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass


@tool(timeout=0.1)
async def slow() -> str:
    """Be slow, but stop when told."""
    await asyncio.sleep(3600)
    return "never"


@tool(timeout=0.3, isolate=True)
def endless() -> None:
    """Loop for ever."""
    while True:
        pass


class Held(dict[str, int]):
    """A result that can be watched."""


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_nothing_of_a_call_that_has_ended_is_kept_until_its_timeout(kind: str) -> None:
    made: list[weakref.ref[Held]] = []

    def now() -> dict[str, int]:
        held = Held(a=1)
        made.append(weakref.ref(held))
        return held

    async def later() -> dict[str, int]:
        future: asyncio.Future[dict[str, int]] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: future.set_result(now()))
        return await future

    result = await call(tool(later if kind == "async" else now, description="Make one.", timeout=3600))
    assert result.value == {"a": 1}
    await asyncio.wait_for(until(lambda: gc.collect() >= 0 and made[0]() is None), 10)


# --- timeouts ------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_tool_that_swallows_cancellation_gives_control_back() -> None:
    result = await call(stubborn)
    assert asyncio.get_running_loop().time() == pytest.approx(0.1 + GRACE, abs=0.05)
    assert isinstance(result.error, ToolTimeoutError)
    assert result.error.abandoned
    assert (result.error.tool_name, result.error.call_id, result.error.seconds) == ("stubborn", "c1", 0.1)
    assert "abandoned" in str(result.error)


@in_virtual_time
async def test_a_tool_that_stops_was_stopped() -> None:
    result = await call(slow)
    assert isinstance(result.error, ToolTimeoutError)
    assert not result.error.abandoned
    assert result.error.kind is ToolErrorKind.TIMEOUT
    assert str(result.error) == "tool 'slow' did not finish within 0.1 s and was stopped"


async def test_a_blocking_tool_runs_on_in_its_thread() -> None:
    answered, ended = threading.Event(), threading.Event()

    @tool(timeout=0.1)
    def blocking() -> None:
        """Block until the caller has its answer."""
        answered.wait(60)
        ended.set()

    result = await call(blocking)
    assert not ended.is_set()
    answered.set()
    assert isinstance(result.error, ToolTimeoutError)
    assert result.error.abandoned
    assert ended.wait(60)


async def test_a_blocking_tool_hears_that_nobody_waits() -> None:
    heard = threading.Event()

    @tool(timeout=0.1)
    def patient(ctx: ToolContext) -> None:
        """Watch the context."""
        while not ctx.cancellation.cancelled:
            time.sleep(0.01)
        heard.set()

    context = ToolContext()
    assert isinstance((await call(patient, ctx=context)).error, ToolTimeoutError)
    assert heard.wait(10)
    assert not context.cancellation.cancelled  # the run's own token is the run's


async def test_a_blocking_tool_hears_the_run_s_cancellation() -> None:
    token, started = CancellationToken(), threading.Event()

    @tool
    def patient(ctx: ToolContext) -> str | None:
        """Watch the context."""
        started.set()
        while not ctx.cancellation.cancelled:
            time.sleep(0.01)
        return ctx.cancellation.reason

    watching = asyncio.create_task(call(patient, ctx=ToolContext(cancellation=token)))
    await until(started.is_set)
    token.cancel("the user left")
    assert (await watching).value == "the user left"


@in_virtual_time
async def test_a_timeout_error_of_the_tool_s_own_is_its_failure() -> None:
    @tool
    async def impatient() -> None:
        """Time out inside."""
        async with asyncio.timeout(0.01):
            await asyncio.sleep(10)

    assert isinstance((await call(impatient)).error, ToolExecutionError)


# --- starvation ----------------------------------------------------------------------------------


async def test_sixty_four_sleeping_tools_delay_no_innocent_one() -> None:
    release, entered = threading.Event(), threading.Semaphore(0)

    @tool(timeout=60)
    def sleeper() -> None:
        """Sleep."""
        entered.release()
        release.wait(60)

    @tool
    async def innocent() -> str:
        """Do nothing wrong."""
        return "innocent"

    @tool
    def innocent_too() -> str:
        """Block for no time."""
        return "innocent"

    tools = registry(sleeper, innocent, innocent_too)
    sleepers = [asyncio.create_task(tools.dispatch(ToolCall(str(n), "sleeper", {}))) for n in range(64)]
    for _ in sleepers:
        assert await asyncio.to_thread(entered.acquire, timeout=60)
    try:
        for name in ("innocent", "innocent_too"):
            start = time.process_time()
            assert (await tools.dispatch(ToolCall("x", name, {}))).value == "innocent"
            # CPU, not wall time: what the sleepers cost us, not what the machine is busy with.
            assert time.process_time() - start < 1
    finally:
        release.set()
    assert all(result.ok for result in await asyncio.gather(*sleepers))


# --- cancellation --------------------------------------------------------------------------------


async def test_the_caller_of_a_blocking_tool_can_be_cancelled() -> None:
    started, cancelled, ended = threading.Event(), threading.Event(), threading.Event()

    @tool(timeout=60)
    def blocking() -> None:
        """Block until the caller is gone."""
        started.set()
        cancelled.wait(60)
        ended.set()

    task = asyncio.create_task(call(blocking))
    await until(started.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not ended.is_set()
    cancelled.set()


# --- isolation -----------------------------------------------------------------------------------


async def test_an_endless_loop_is_killed_and_gone(strays: Strays) -> None:
    result = await call(endless)
    assert isinstance(result.error, ToolTimeoutError)
    assert not result.error.abandoned
    assert strays() == []


async def test_an_isolated_tool_gives_its_result() -> None:
    @tool(isolate=True)
    def where(a: int, ctx: ToolContext) -> dict[str, Any]:
        """Say where this runs."""
        return {"pid": os.getpid(), "a": a, "step": ctx.step_id, "é": None}

    @tool(isolate=True)
    async def later(a: int) -> list[int]:
        """Wait, elsewhere."""
        await asyncio.sleep(0.01)
        return [a] * 2

    value: Any = (await call(where, {"a": 5}, ToolContext(step_id=3))).value
    assert value.pop("pid") != os.getpid()
    assert value == {"a": 5, "step": 3, "é": None}
    assert (await call(later, {"a": 4})).value == [4, 4]


async def test_how_the_process_of_an_isolated_tool_ended_is_told() -> None:
    @tool(isolate=True)
    def crashes() -> None:
        """Crash."""
        faulthandler.disable()
        os.kill(os.getpid(), signal.SIGSEGV)

    @tool(isolate=True)
    def leaves() -> None:
        """Leave without a word."""
        os._exit(3)

    crashed = (await call(crashes)).error
    assert isinstance(crashed, ToolExecutionError)
    assert "SIGSEGV" in str(crashed)
    assert "status 3" in str((await call(leaves)).error)


def test_the_interpreter_exits_promptly_after_all_this(tmp_path: Path) -> None:
    program = """
import asyncio, time
from wesichain.core import ToolCall
from wesichain.tools import ToolSet, tool

@tool(timeout=0.1)
async def stubborn() -> None:
    "Swallow."
    while True:
        try: await asyncio.sleep(3600)
        except asyncio.CancelledError: pass

@tool(timeout=0.1)
def blocking() -> None:
    "Block."
    time.sleep(3600)

@tool(timeout=0.1, isolate=True)
def endless() -> None:
    "Spin."
    while True: pass

async def main():
    tools = ToolSet.of([stubborn, blocking, endless]).build()
    results = await asyncio.gather(*(tools.dispatch(ToolCall(n, n, {})) for n in tools.names))
    print([type(result.error).__name__ for result in results])
asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=120, check=False, text=True
    )
    assert ended.stdout.strip() == str(["ToolTimeoutError"] * 3)
    assert (ended.returncode, ended.stderr) == (0, "")
