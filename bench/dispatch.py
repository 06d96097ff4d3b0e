"""The cost of a validated call of an async tool, of a sync one, and of one that returns at once.

    python bench/dispatch.py [rounds]

Three ratios, each of CPU time, the sides run in turn, many times; a ratio is the median of its pairs:

- an async tool, against bare pydantic validation and await;
- a sync tool, which runs in a thread, against an async tool and a bare `run_in_executor` together;
- a sync tool with `blocking=False`, which runs on the loop, against an async tool.

Exit status 1 if one exceeds its limit.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from wesichain.core import ToolCall
from wesichain.tools import ToolContext, ToolSet, tool

LIMITS = {"async / bare": 2.5, "sync / (async + executor)": 1.2, "at once / async": 1.1}
CALLS = 2_000
HOPS = 300  # of tools that run in a thread


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def add_here(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class AddArgs(TypedDict):
    """The arguments, validated by hand."""

    a: int
    b: int


ADAPTER = TypeAdapter(AddArgs)
REGISTRY = (
    ToolSet()
    .register(tool(add))
    .register(tool(add_here, name="sync"))
    .register(tool(add_here, name="at_once", blocking=False))
    .build()
)
ARGS = {"a": 1, "b": 2}
CONTEXT = ToolContext()


async def bare(count: int) -> None:
    for _ in range(count):
        await add(**ADAPTER.validate_python(ARGS))


async def executor(count: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(count):
        await loop.run_in_executor(None, add_here, 1, 2)


def dispatched(name: str) -> Callable[[int], Awaitable[None]]:
    call = ToolCall("1", name, ARGS)

    async def work(count: int) -> None:
        for _ in range(count):
            await REGISTRY.dispatch(call, CONTEXT)

    return work


async def cpu(work: Callable[[int], Awaitable[None]], count: int) -> float:
    """CPU nanoseconds per call, of all threads."""
    start = time.process_time_ns()
    await work(count)
    return (time.process_time_ns() - start) / count


SIDES: dict[str, tuple[Callable[[int], Awaitable[None]], int]] = {
    "bare validation and await": (bare, CALLS),
    "an async tool": (dispatched("add"), CALLS),
    "bare run_in_executor": (executor, HOPS),
    "a sync tool": (dispatched("sync"), HOPS),
    "a sync tool, at once": (dispatched("at_once"), CALLS),
}


async def measure(rounds: int) -> list[list[float]]:
    """Measure every side once per round."""
    for work, count in SIDES.values():  # warm up
        await work(count)
    return [[await cpu(work, count) for work, count in SIDES.values()] for _ in range(rounds)]


def main() -> int:
    rows = asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 60))
    for name, column in zip(SIDES, zip(*rows, strict=True), strict=True):
        print(f"{name:28}{statistics.median(column):10.0f} ns")
    ratios = {
        "async / bare": statistics.median(ours / plain for plain, ours, _, _, _ in rows),
        "sync / (async + executor)": statistics.median(sync / (ours + hop) for _, ours, hop, sync, _ in rows),
        "at once / async": statistics.median(at_once / ours for _, ours, _, _, at_once in rows),
    }
    for name, ratio in ratios.items():
        print(f"{name:28}{ratio:10.2f}    (limit {LIMITS[name]})")
    return 0 if all(ratio <= LIMITS[name] for name, ratio in ratios.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
