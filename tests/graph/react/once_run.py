"""A graph with a `once` tool that kills itself: `python -m tests.graph.react.once_run STORE EFFECTS KIND POINT`.

KIND: a ReActAgentNode, an Agent, one with the tool in an inner agent, or the loop as a graph in the
graph, with the tool or with an agent that has it. POINT is the one of
`tests/graph/killed_run.py`; `in:tool` is after the effect and before it is recorded.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from typing_extensions import override

from tests.graph.killed_run import Deadly, die, open_store
from wesichain import Agent, ReActAgentNode, tool
from wesichain.core import LlmRequest, LlmResponse, Role, ToolCall, ToolCallingLlm
from wesichain.graph import Checkpointer, ExecutionOptions, Graph, GraphBuilder, react_graph

THREAD = ExecutionOptions(thread_id="t")


class Model(ToolCallingLlm):
    """Calls one tool, with a call id that differs in every process, and then repeats its result."""

    def __init__(self, name: str) -> None:
        self.model = "model"
        self._name = name
        self._asked = 0

    @override
    async def complete(self, request: LlmRequest) -> LlmResponse:
        told = [message.content for message in request.messages if message.role is Role.TOOL]
        if told:
            return LlmResponse(f"I was told: {told[-1]}")
        self._asked += 1
        args: Any = {"task": "pay"} if self._name == "clerk" else {"amount": 5}
        call = ToolCall(f"{self._name}-{os.getpid()}-{self._asked}", self._name, args)
        return LlmResponse("", (call,))


def build(store: Checkpointer, effects: Path, kind: str, point: str = "") -> Graph[Any]:
    @tool(effect="once")
    def pay(amount: int) -> str:
        """Pay an amount."""
        if point == "before:tool":
            die()
        with effects.open("a") as file:
            file.write("paid\n")
        if point == "in:tool":
            die()
        return f"paid {amount}"

    builder: GraphBuilder[dict[str, Any]] = GraphBuilder()
    if kind == "node":
        node: Any = ReActAgentNode(llm=Model("pay"), tools=[pay])
    elif kind == "agent":
        node = Agent(Model("pay"), tools=[pay])
    elif kind == "steps":
        node = react_graph(llm=Model("pay"), tools=[pay])
    elif kind == "steps-inside":
        clerk = Agent(Model("pay"), tools=[pay], name="clerk")
        node = react_graph(llm=Model("clerk"), tools=[clerk.as_tool()])
    else:
        clerk = Agent(Model("pay"), tools=[pay], name="clerk")
        node = Agent(Model("clerk"), tools=[clerk.as_tool()])
    builder.add_node("work", node).add_node("after", lambda _: {"after": True}).add_edge("work", "after")
    return builder.set_entry("work").build(store)


async def main(where: str, effects: Path, kind: str, point: str) -> None:
    graph = build(Deadly(open_store(where), point), effects, kind, point)
    await graph.invoke({"input": "pay 5"}, THREAD)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]))
