"""The cost per hop of deps, a middleware and a context view, against the plain agent.

    python -m bench.equipped [rounds]

CPU time of a run of `HOPS` hops, the sides run in turn, many times; a ratio is the median of its pairs. Each
part is measured alone as well. No row may be above `LIMIT`: where one is, it says so and exits with 1.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from typing_extensions import override

from wesichain import Agent, Budget, Middleware, RunContext, ToolContext, tool
from wesichain.context import Window
from wesichain.core import LlmRequest, LlmResponse, Role, ToolCall
from wesichain.middleware import CallModel, CallTool
from wesichain.tools import ToolResult

HOPS = 100
LIMIT = 1.3
ROUNDS = 60


@dataclass
class Desk:
    """The caller's deps."""

    step: int


class Counting:
    """A stateless model: it adds one to the last result until it has counted to `HOPS`."""

    model = "counting"

    async def complete(self, request: LlmRequest) -> LlmResponse:
        last = request.messages[-1]
        number = int(last.text) if last.role is Role.TOOL else 0
        if number == HOPS:
            return LlmResponse(f"{number}")
        call = ToolCall(f"c{number}", "add", {"a": number, "b": 1})
        return LlmResponse(tool_calls=(call,), finish_reason="tool_calls")


@tool(name="add")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(name="add")
async def add_of_desk(ctx: ToolContext[Desk], a: int, b: int) -> int:
    """Add two numbers."""
    return a + b * ctx.deps.step


class AroundModel(Middleware[Desk]):
    @override
    async def wrap_model(
        self, ctx: RunContext[Desk], request: LlmRequest, call_next: CallModel
    ) -> LlmResponse:
        return await call_next(request)


class AroundTool(Middleware[Desk]):
    @override
    async def wrap_tool(self, ctx: ToolContext[Desk], call: ToolCall, call_next: CallTool) -> ToolResult:
        return await call_next(call)


def agent(**options: Any) -> Agent[Any, str]:
    given: dict[str, Any] = {"tools": [add], "budget": Budget(steps=HOPS + 1), **options}
    return Agent(Counting(), **given)


DEPS: dict[str, Any] = {"deps_type": Desk, "tools": [add_of_desk]}
VIEW: dict[str, Any] = {"context": [Window(8_000)]}
SIDES: dict[str, dict[str, Any]] = {
    "deps": DEPS,
    "wrap_model": {"middleware": [AroundModel()]},
    "wrap_tool": {"middleware": [AroundTool()]},
    "view": VIEW,
    "deps, wrap_model and view": {**DEPS, **VIEW, "middleware": [AroundModel()]},
    "deps, wrap_tool and view": {**DEPS, **VIEW, "middleware": [AroundTool()]},
}


def seconds(run: Callable[[], Awaitable[Any]]) -> float:
    """The CPU time of a run."""

    async def timed() -> float:
        gc.collect()
        began = time.process_time()
        result = await run()
        taken = time.process_time() - began
        assert result.output == str(HOPS)
        return taken

    return asyncio.run(timed())


def measure(rounds: int) -> dict[str, float]:
    """The ratio of each side to the plain agent."""
    bare, desk = agent(), Desk(1)
    sides = {name: agent(**options) for name, options in SIDES.items()}
    ratios: dict[str, list[float]] = {name: [] for name in sides}
    seconds(lambda: bare.run("Count."))
    for number in range(rounds):
        for name, side in sides.items():
            deps = desk if "deps" in name else None
            pair = [partial(bare.run, "Count."), partial(side.run, "Count.", deps=deps)]
            order = pair if number % 2 else pair[::-1]
            taken = [seconds(run) for run in order]
            first, second = taken if number % 2 else taken[::-1]
            ratios[name].append(second / first)
    return {name: statistics.median(found) for name, found in ratios.items()}


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    found = measure(rounds)
    for name, ratio in found.items():
        verdict = "ABOVE THE LIMIT" if ratio > LIMIT else "ok"
        print(f"{name:28} {ratio:.2f} times the bare agent, at most {LIMIT}: {verdict}")
    return int(any(ratio > LIMIT for ratio in found.values()))


if __name__ == "__main__":
    sys.exit(main())
