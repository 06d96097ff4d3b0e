"""The cost per hop of a long run: a thousand hops with results of 4 kB in a window of 8,000 tokens.

Run: python -m bench.context    (CPU of a hop; the best of several rounds, taken in turn)
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from wesichain.agent import AgentRuntime
from wesichain.context import ClearToolResults, ContextView, Window, tokens_of
from wesichain.core import LlmRequest, LlmResponse, ToolCall, Usage
from wesichain.policy import Budget
from wesichain.tools import tool

HOPS = 1_000
ROUNDS = 9
SPAN = 50  # hops on either side
WINDOW = 8_000
FLAT = 1.25  # hop 1,000 to hop 100
LIMIT = 1.3  # with a view to without
PAGE = "x" * 4_000


class Reading:
    """A model that calls for page after page, and records the time of each request."""

    model = "reading"

    def __init__(self) -> None:
        self.times: list[float] = []
        self.longest = 0

    async def complete(self, request: LlmRequest) -> LlmResponse:
        number = len(self.times)
        if number % 25 == 0:
            self.longest = max(self.longest, sum(map(tokens_of, request.messages)))
        self.times.append(time.process_time())
        if number == HOPS:
            return LlmResponse("done", usage=Usage(120, 12))
        return LlmResponse("", (ToolCall(f"c{number}", "look", {"n": number}),), Usage(120, 33), "tool_calls")


@tool
async def look(n: int) -> str:
    """Look at a page."""
    return f"{n} {PAGE}"


def run(views: Sequence[ContextView]) -> tuple[list[float], int]:
    """CPU seconds per hop, and the tokens of the longest request."""
    model = Reading()
    budget = Budget(steps=HOPS + 1)
    runtime: AgentRuntime[Any] = AgentRuntime(model, [look], budget=budget, context=views)
    asyncio.run(runtime.run("Read it all."))
    times = model.times
    return [after - before for before, after in pairwise(times)], model.longest


def around(hops: Sequence[float], number: int) -> float:
    return median(hops[max(0, number - SPAN) : number + SPAN])


def main() -> int:
    sides: dict[str, list[ContextView]] = {
        "no view": [],
        f"Window({WINDOW})": [Window(WINDOW)],
        f"ClearToolResults({WINDOW})": [ClearToolResults(WINDOW)],
    }
    early: dict[str, float] = dict.fromkeys(sides, 1.0)
    late, whole, longest = early.copy(), early.copy(), dict.fromkeys(sides, 0)
    for _ in range(ROUNDS):
        for name, views in sides.items():
            hops, tokens = run(views)
            early[name] = min(early[name], around(hops, 100))
            late[name] = min(late[name], around(hops, HOPS - SPAN))
            whole[name] = min(whole[name], median(hops))
            longest[name] = max(longest[name], tokens)
    for name in sides:
        print(
            f"{name:<24} hop 100: {early[name] * 1e6:6.1f} us   hop 1,000: {late[name] * 1e6:6.1f} us   "
            f"ratio {late[name] / early[name]:.2f}   longest request {longest[name]:,} tokens"
        )
    window = f"Window({WINDOW})"
    flat, dear = late[window] / early[window], whole[window] / whole["no view"]
    print(f"flat: {flat:.2f} (at most {FLAT}); with a window to without: {dear:.2f} (at most {LIMIT})")
    return 0 if flat <= FLAT and dear <= LIMIT and longest[window] <= WINDOW else 1


if __name__ == "__main__":
    sys.exit(main())
