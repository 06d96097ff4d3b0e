"""Streams with data: values, updates, messages, custom values, events; several at once, inner graphs included."""

from __future__ import annotations

import asyncio
import time
from typing import Any, TypedDict

import pytest

from tests.graph.kit import Log, note
from tests.waiting import PATIENCE
from wesichain import Agent
from wesichain.core import LlmRequest, LlmResponse, Message, Role
from wesichain.errors import ConfigError
from wesichain.graph import (
    GraphBuilder,
    GraphContext,
    StreamItem,
)
from wesichain.testing import ScriptedLlm, StreamingScriptedLlm


def nested() -> Any:
    """a, then an inner graph with x and y."""
    inner = GraphBuilder(Log).add_node("x", note("x")).add_node("y", note("y")).add_edge("x", "y")
    builder = GraphBuilder(Log).add_node("a", note("a")).add_node("sub", inner.set_entry("x").build())
    return builder.add_edge("a", "sub").set_entry("a")


async def collected(stream: Any) -> list[StreamItem]:
    return [item async for item in stream]


async def test_custom_values_come_from_threads_and_from_inner_graphs_in_order() -> None:
    def inside(_: Log, ctx: GraphContext) -> None:
        for number in range(3):
            ctx.emit(number)
            time.sleep(0.001)

    inner = GraphBuilder(Log).add_node("in", inside, blocking=True).set_entry("in").build()
    graph = GraphBuilder(Log).add_node("sub", inner).set_entry("sub").build()
    items = await collected(graph.stream({}, modes=("custom",)))
    assert [(item.node, item.subgraph, item.data) for item in items] == [
        ("in", "sub", 0),
        ("in", "sub", 1),
        ("in", "sub", 2),
    ]
    await graph.invoke({})  # emitting without listeners does nothing


@pytest.mark.parametrize("modes", [("tokens",), (), "value", ("values", "x")], ids=repr)
def test_a_mode_that_there_is_not_is_refused(modes: Any) -> None:
    with pytest.raises(ConfigError, match="use one or more of events, values, updates, messages, custom"):
        nested().build().stream({}, modes=modes)


async def test_closing_a_stream_stops_its_run() -> None:
    ended: list[str] = []

    async def hang(_: Log, ctx: GraphContext) -> None:
        ctx.emit("begun")
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.append("hang")

    stream = GraphBuilder(Log).add_node("hang", hang).set_entry("hang").build().stream({}, modes=("custom",))
    async with stream:
        assert (await anext(stream)).data == "begun"
    assert ended == ["hang"]


async def test_a_single_mode_may_be_a_text() -> None:
    modes: Any = "updates"
    assert len(await collected(nested().build().stream({}, modes=modes))) == 4


@pytest.mark.parametrize("model", [StreamingScriptedLlm, ScriptedLlm])
@pytest.mark.parametrize("inner", [False, True])
async def test_the_text_of_models_that_plain_nodes_call_is_streamed(model: Any, inner: bool) -> None:
    async def ask(llm: Any) -> dict[str, Any]:
        reply = await llm.complete(LlmRequest("m", (Message(Role.USER, "hi"),)))
        return {"log": [reply.content]}

    left, right = model([LlmResponse("one two")]), model([LlmResponse("three")])
    builder = GraphBuilder(Log).add_node("left", lambda _: ask(left))

    async def other(_: Any) -> dict[str, Any]:
        return await ask(right)

    graph = builder.add_node("right", other).add_edge("left", "right").set_entry("left").build()
    if inner:
        graph = GraphBuilder(Log).add_node("sub", graph).set_entry("sub").build()
    stream = graph.stream({}, modes=("messages",))
    items = [item async for item in stream]
    assert {item.node for item in items} == {"left", "right"}
    text = {name: "".join(item.data for item in items if item.node == name) for name in ("left", "right")}
    assert text == {"left": "one two", "right": "three"}
    assert stream.result["log"] == ["one two", "three"]
    assert (len(items) > 2) == (model is StreamingScriptedLlm)


async def test_the_text_of_an_agent_is_streamed_once() -> None:
    class Answers(TypedDict, total=False):
        input: str
        output: str

    for model in (StreamingScriptedLlm, ScriptedLlm):
        agent = Agent(model([LlmResponse("one two")]))
        graph = GraphBuilder(Answers).add_node("agent", agent).set_entry("agent").build()
        items = [item async for item in graph.stream({"input": "?"}, modes=("messages",))]
        assert "".join(item.data for item in items) == "one two"
