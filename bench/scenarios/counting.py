"""The stub model and its tool: the model adds one to the last result until it has counted to `hops`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from wesichain import Agent, Budget, RepromptN, Role, tool
from wesichain.core import LlmRequest, LlmResponse, ToolCall
from wesichain.tools import Tool

QUESTION = "Count up, one addition at a time, and tell me the sum."


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ADD = tool(add)


def add_plainly(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def add_in_thread() -> Tool:
    """The tool as a plain function, which may block and so runs in a thread."""
    return tool(add_plainly, name="add")


def add_here() -> Tool:
    """The tool as a plain function with `blocking=False`."""
    return tool(add_plainly, name="add", blocking=False)


class Counting:
    """A stateless model: its reply depends only on the last message.

    It costs the same at every step, serves any number of runs at once, and a run only gets anywhere
    if the tool really ran and its result really came back.
    """

    model = "counting"

    def __init__(self, hops: int, *, malformed: bool = False, waits: bool = False) -> None:
        self.hops = hops
        self.malformed = malformed
        self.waits = waits

    async def complete(self, request: LlmRequest) -> LlmResponse:
        if self.waits:
            await asyncio.sleep(0)
        last = request.messages[-1]
        if last.role is not Role.TOOL:
            if self.malformed:
                return _call("bad", {"a": "zero", "b": 1})
            total = 0
        elif last.content[0] == "[":  # the error of a malformed call
            total = 0
        else:
            total = int(str(last.content))  # in every revision that this is compared with, content is there
        if total == self.hops:
            return LlmResponse(f"the sum is {total}")
        return _call(f"call_{total}", {"a": total, "b": 1})


def _call(id: str, args: dict[str, object]) -> LlmResponse:
    return LlmResponse(tool_calls=(ToolCall(id, "add", args),), finish_reason="tool_calls")  # type: ignore[arg-type]  # plain JSON


def counting_agent(
    hops: int, made: Callable[[], Tool] = lambda: ADD, *, malformed: bool = False, waits: bool = False
) -> Agent[Any, str]:
    """An ordinary agent whose model counts to `hops`; one that waits lets other runs continue."""
    policy = RepromptN(3) if malformed else None
    model = Counting(hops, malformed=malformed, waits=waits)
    return Agent(model, tools=[made()], policy=policy, budget=Budget(steps=hops + 5))


async def count(agent: Agent[Any, str], hops: int) -> int:
    """Run once, check the answer, and return the number of model calls."""
    result = await agent.run(QUESTION)
    if result.output != f"the sum is {hops}":
        raise AssertionError(f"answered {result.output!r}")
    return result.outcome.iteration_count
