"""The drive: a tool inside the caller's task behaves as if awaited, and never holds it beyond the limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from math import inf
from typing import Any

import pytest

from tests.virtual_time import in_virtual_time, run
from wesichain.tools.running import CallDrive, OutOfTimeError

SLACK = 0.1  # in virtual time: some turns of the loop
GRACE = 0.1  # shorter than the real one, for the sake of these tests; `test_timeouts` has that


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wesichain.tools.running.drive.GRACE", GRACE)


async def driven(coro: Coroutine[Any, Any, Any], seconds: float = inf) -> Any:
    """What a registry does: one step by hand, the rest by the drive."""
    try:
        yielded = coro.send(None)
    except StopIteration as end:
        return end.value
    return await CallDrive(coro, yielded, seconds=seconds)


def now() -> float:
    return asyncio.get_running_loop().time()


async def swallow() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass


async def spin() -> None:
    while True:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            pass


async def wait_for_stubborn_task() -> None:
    async def swallow_for_a_while() -> None:  # for ever, and no asyncio program could end
        end = now() + 3 * GRACE
        while now() < end:
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                pass

    await asyncio.create_task(swallow_for_a_while())


STUBBORN = [swallow, spin, wait_for_stubborn_task]


# --- as if awaited -------------------------------------------------------------------------------


async def the_current_task() -> bool:
    before = asyncio.current_task()
    await asyncio.sleep(0)
    await asyncio.sleep(0.001)
    return asyncio.current_task() is before


async def own_timeout() -> str:
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(10)
    except TimeoutError:
        await asyncio.sleep(0.001)
        return "went on"
    return "never"


async def own_wait_for() -> str:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.sleep(10), 0.01)
    return "went on"


async def failing_task_group() -> str:
    async def fail() -> None:
        await asyncio.sleep(0.001)
        raise ValueError("one")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await asyncio.sleep(10)
    except* ValueError:
        pass
    await asyncio.sleep(0.001)
    return "went on"


async def task_group_that_fails_at_its_end() -> int:
    """Python 3.11 and 3.12 leave the task marked as cancelled here; a tool must not suffer from it."""

    async def fail() -> None:
        raise ValueError("two")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
    except* ValueError:
        pass
    await asyncio.sleep(GRACE + 0.05)
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def cancelled_from_outside_of_a_task_group() -> int:
    """By a method that is named as one of task groups: this cancellation is not undone."""

    class Watcher:
        def _on_task_done(self, task: asyncio.Task[Any]) -> None:
            task.cancel()

    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_soon(Watcher()._on_task_done, task)
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        return task.cancelling() - task.uncancel()
    return 0


async def anyio_scopes() -> str:
    import anyio

    with anyio.move_on_after(0.01) as scope:
        await anyio.sleep(10)
    assert scope.cancelled_caught
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, 0.001)
    return await anyio.to_thread.run_sync(lambda: "went on")


async def at_once() -> str:
    return "at once"


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        pytest.param(at_once, "at once", id="finishes-at-the-first-step"),
        pytest.param(the_current_task, True, id="stays-in-the-caller's-task"),
        pytest.param(own_timeout, "went on", id="asyncio.timeout-inside-works"),
        pytest.param(own_wait_for, "went on", id="asyncio.wait_for-inside-works"),
        pytest.param(failing_task_group, "went on", id="a-failing-task-group-can-be-handled"),
        pytest.param(task_group_that_fails_at_its_end, 0, id="a-task-group-that-fails-at-its-end-is-settled"),
        pytest.param(cancelled_from_outside_of_a_task_group, 1, id="another-cancellation-is-not-undone"),
        pytest.param(anyio_scopes, "went on", id="anyio-works"),
    ],
)
async def test_a_tool_runs_as_if_awaited(
    tool: Callable[[], Coroutine[Any, Any, Any]], expected: object
) -> None:
    assert await driven(tool(), 20) == expected
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@in_virtual_time
async def test_an_exception_comes_through_with_its_traceback() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing") as caught:
        await driven(fail())
    assert caught.traceback[-1].name == "fail"


@in_virtual_time
async def test_a_cancelled_error_of_the_tool_s_own_is_not_the_caller_s() -> None:
    async def pretend() -> None:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="nobody had cancelled"):
        await driven(pretend())


@in_virtual_time
async def test_waiting_for_a_cancelled_task_is_not_the_caller_s_cancellation_either() -> None:
    async def wait() -> None:
        other = asyncio.create_task(asyncio.sleep(10))
        asyncio.get_running_loop().call_soon(other.cancel)
        await other

    with pytest.raises(RuntimeError, match="nobody had cancelled"):
        await driven(wait())


@pytest.mark.parametrize("has_been_awaited", [None, False, True])
@in_virtual_time
async def test_what_is_yielded_and_is_no_awaited_future_is_an_error_inside_the_tool(
    has_been_awaited: bool | None,
) -> None:
    future = asyncio.get_running_loop().create_future()

    class Odd:
        def __await__(self) -> Generator[Any, None, None]:
            if has_been_awaited:
                asyncio.get_running_loop().call_soon(future.set_result, None)
                yield from future
            yield "not a future" if has_been_awaited is None else future

    async def wait() -> str:
        try:
            await Odd()
        except RuntimeError as error:
            return str(error)
        return "nothing"

    assert "cannot wait for" in await driven(wait())


# --- the limit -----------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", STUBBORN)
@in_virtual_time
async def test_a_tool_that_swallows_cancellation_is_abandoned_in_time(
    tool: Callable[[], Coroutine[Any, Any, Any]],
) -> None:
    start = now()
    with pytest.raises(OutOfTimeError) as caught:
        await driven(tool(), 0.05)
    assert caught.value.abandoned
    assert GRACE <= now() - start < 0.05 + GRACE + SLACK


@in_virtual_time
async def test_a_tool_that_stops_is_not_abandoned() -> None:
    cleaned: list[str] = []

    async def tidy() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)
            cleaned.append("up")

    with pytest.raises(OutOfTimeError) as caught:
        await driven(tidy(), 0.05)
    assert not caught.value.abandoned
    assert cleaned == ["up"]
    caller = asyncio.current_task()
    assert caller is not None
    assert caller.cancelling() == 0, "the limit was the tool's, and cancels nobody else"


@pytest.mark.parametrize("last_word", ["value", "error"])
@in_virtual_time
async def test_a_late_end_is_still_late(last_word: str) -> None:
    async def late() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if last_word == "error":
                raise ValueError("in the last moment") from None
        return "too late"

    with pytest.raises(OutOfTimeError) as caught:
        await driven(late(), 0.01)
    assert isinstance(caught.value.__cause__, ValueError if last_word == "error" else type(None))


@in_virtual_time
async def test_an_abandoned_tool_still_finishes_its_cleanup() -> None:
    done = asyncio.Event()

    async def clean() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(GRACE + 0.1)
            done.set()

    with pytest.raises(OutOfTimeError) as caught:
        await driven(clean(), 0.01)
    assert caught.value.abandoned
    await asyncio.wait_for(done.wait(), 10)


def test_an_abandoned_tool_does_not_hold_up_the_end_of_the_loop() -> None:
    async def main() -> asyncio.AbstractEventLoop:
        for tool in STUBBORN:
            with pytest.raises(OutOfTimeError):
                await driven(tool(), 0.01)
        return asyncio.get_running_loop()

    loop = run(main())
    assert loop.time() < len(STUBBORN) * GRACE + 3 * GRACE + 2 * SLACK
    assert asyncio.all_tasks(loop) == set()


# --- the caller's cancellation -------------------------------------------------------------------


async def cancelled(tool: Callable[[], Coroutine[Any, Any, Any]], after: float = 0.02) -> float:
    """Cancel a caller; how long it took to end."""
    task = asyncio.create_task(driven(tool(), 60))
    await asyncio.sleep(after)
    start = now()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    return now() - start


@pytest.mark.parametrize("tool", STUBBORN)
@in_virtual_time
async def test_a_cancelled_caller_is_free_in_time(tool: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    assert await cancelled(tool) < GRACE + SLACK


@in_virtual_time
async def test_an_outer_timeout_is_an_ordinary_timeout() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await driven(asyncio.sleep(3600), 60)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@in_virtual_time
async def test_a_caller_that_was_cancelled_before_can_still_run_tools() -> None:
    """As in a `finally` of a cancelled run: its old cancellation is not taken for a new one."""

    async def caller() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return str(await driven(own_timeout(), 60))
        return "never"

    task = asyncio.create_task(caller())
    await asyncio.sleep(0.01)
    task.cancel()
    assert await task == "went on"


@in_virtual_time
async def test_closing_the_caller_closes_the_tool() -> None:
    closed: list[bool] = []

    async def tool() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            closed.append(True)

    coro = driven(tool(), 60)
    coro.send(None)
    coro.close()
    assert closed == [True]
