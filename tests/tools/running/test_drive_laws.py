"""Laws of the drive, looked for in random programs: as if awaited, and cancellable at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.tools.running.test_drive import GRACE, SLACK, driven, now, short_grace
from tests.virtual_time import run as run_virtually

__all__ = ["short_grace"]  # a fixture


Program = Callable[[], Awaitable[Any]]


def pause(kind: str) -> Program:
    async def run() -> str:
        await asyncio.sleep(0 if kind == "turn" else 0.001)
        return kind

    return run


def fail() -> Awaitable[Any]:
    async def run() -> None:
        raise LookupError("on purpose")

    return run()


async def expire() -> str:
    try:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(60)
    except TimeoutError:
        return "expired"
    return "never"


def wrap(inner: tuple[Program, ...], kind: str) -> Program:
    first = inner[0]

    async def run() -> Any:
        match kind:
            case "gather":
                return await asyncio.gather(*(program() for program in inner), return_exceptions=True)
            case "sequence":
                return [await program() for program in inner]
            case "timeout":
                async with asyncio.timeout(60):
                    return await first()
            case "group":
                try:
                    async with asyncio.TaskGroup() as group:
                        for program in inner:
                            group.create_task(_as_coroutine(program))
                except ExceptionGroup:
                    return "group failed"
                return "group done"
            case "catch":
                try:
                    return await first()
                except Exception as error:
                    await asyncio.sleep(0)
                    return type(error).__name__
            case "finally":
                try:
                    return await first()
                finally:
                    await asyncio.sleep(0)
            case _:
                return await asyncio.create_task(_as_coroutine(first))

    return run


async def _as_coroutine(program: Program) -> Any:
    return await program()


KINDS = ["gather", "sequence", "timeout", "group", "catch", "finally", "task"]
PROGRAMS = st.recursive(
    st.sampled_from([pause("turn"), pause("moment"), fail, expire]),
    lambda inner: st.builds(wrap, st.lists(inner, min_size=1, max_size=3).map(tuple), st.sampled_from(KINDS)),
    max_leaves=6,
)


async def outcome(run: Coroutine[Any, Any, Any]) -> tuple[str, str]:
    try:
        return "value", repr(await run)
    except (Exception, asyncio.CancelledError) as error:
        return "error", type(error).__name__


@draws(30)
@given(PROGRAMS)
def test_law_a_driven_tool_ends_as_an_awaited_one_does(program: Program) -> None:
    async def drive() -> tuple[str, str]:
        found = await outcome(driven(_as_coroutine(program), 60))
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        return found

    async def both() -> None:
        expected = await asyncio.create_task(outcome(_as_coroutine(program)))
        assert await asyncio.create_task(drive()) == expected

    run_virtually(both())


# A program that is given up is thrown away where it waits: one that waits as it ends is told of by the interpreter.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@draws(20)
@given(PROGRAMS, st.integers(0, 6), st.booleans())
def test_law_a_driven_tool_can_be_cancelled_at_any_moment(
    program: Program, turns: int, swallows: bool
) -> None:
    async def stubborn() -> None:
        while True:
            try:
                await program()
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if not swallows:
                    raise
            except Exception:
                await asyncio.sleep(0)

    async def main() -> None:
        task = asyncio.create_task(driven(stubborn(), 60))
        for _ in range(turns + 1):
            await asyncio.sleep(0)
        start = now()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert now() - start < GRACE + SLACK

    run_virtually(main())
