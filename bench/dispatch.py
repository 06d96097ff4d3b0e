"""Dispatch: what a checked call to an async tool costs, against bare pydantic validation and await.

    python bench/dispatch.py [rounds]

Both sides run in turn, many times, and CPU time is counted; the ratio is that of the medians. Exits with
status 1 where it is above the limit.
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

LIMIT = 2.5
CALLS = 2_000


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class AddArgs(TypedDict):
    """The arguments, as a user would check them by hand."""

    a: int
    b: int


ADAPTER = TypeAdapter(AddArgs)
REGISTRY = ToolSet().register(tool(add)).build()
CALL = ToolCall("1", "add", {"a": 1, "b": 2})
CONTEXT = ToolContext()


async def bare() -> None:
    args = CALL.args
    for _ in range(CALLS):
        await add(**ADAPTER.validate_python(args))


async def dispatched() -> None:
    for _ in range(CALLS):
        await REGISTRY.dispatch(CALL, CONTEXT)


async def cpu(work: Callable[[], Awaitable[None]]) -> float:
    """Nanoseconds of CPU a call."""
    start = time.process_time_ns()
    await work()
    return (time.process_time_ns() - start) / CALLS


async def measure(rounds: int) -> list[tuple[float, float]]:
    await cpu(bare), await cpu(dispatched)  # warm up
    return [(await cpu(bare), await cpu(dispatched)) for _ in range(rounds)]


def main() -> int:
    pairs = asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 60))
    bare_ns, dispatched_ns = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(ours / theirs for theirs, ours in pairs)
    print(f"bare validation and await  {bare_ns:8.0f} ns")
    print(f"registry.dispatch          {dispatched_ns:8.0f} ns")
    print(f"ratio                      {ratio:8.2f}    (limit {LIMIT})")
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
