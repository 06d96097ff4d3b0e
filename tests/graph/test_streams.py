"""Streams with data: values, updates, messages, custom values, events; several at once, inner graphs included."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any, TypedDict

import pytest

from tests.graph.kit import Log, T, note, stopped
from wesichain import Agent
from wesichain.core import Event, LlmRequest, LlmResponse, Message, Role, RunStarted, TextChunk
from wesichain.errors import ConfigError, GraphInterruptedError, NodeFailedError
from wesichain.graph import (
    START,
    GraphBuilder,
    GraphContext,
    GraphInterrupt,
    MemoryCheckpointer,
    ReActAgentNode,
    Send,
    StreamItem,
    interrupt,
)
from wesichain.testing import ScriptedLlm, StreamingScriptedLlm


def nested() -> Any:
    """a, then an inner graph with x and y."""
    inner = GraphBuilder(Log).add_node("x", note("x")).add_node("y", note("y")).add_edge("x", "y")
    builder = GraphBuilder(Log).add_node("a", note("a")).add_node("sub", inner.set_entry("x").build())
    return builder.add_edge("a", "sub").set_entry("a")


async def collected(stream: Any) -> list[StreamItem]:
    return [item async for item in stream]


async def read_into(seen: list[StreamItem], stream: Any) -> None:
    """Read a stream that ends by raising."""
    async for item in stream:
        seen.append(item)  # noqa: PERF401  # what came before it raised is kept


async def test_updates_say_who_wrote_what_also_inside() -> None:
    stream = nested().build().stream({"n": 1}, modes=("updates",))
    assert [(item.node, item.subgraph, item.data) for item in await collected(stream)] == [
        ("a", "", {"log": ["a"]}),
        ("x", "sub", {"log": ["x"]}),
        ("y", "sub", {"log": ["y"]}),
        ("sub", "", {"log": [["x"], ["y"]]}),
    ]
    assert stream.result["log"] == ["a", "x", "y"]


async def test_values_are_the_state_after_the_input_and_every_super_step() -> None:
    items = await collected(nested().build().stream({"n": 1}, modes=["values"]))
    assert [(item.subgraph, item.data["log"]) for item in items] == [
        ("", []),
        ("", ["a"]),
        ("sub", ["a"]),
        ("sub", ["a", "x"]),
        ("sub", ["a", "x", "y"]),
        ("", ["a", "x", "y"]),
    ]
    items[1].data["log"].append("mine")
    assert items[2].data["log"] == ["a"], "what is shown is the reader's own"


async def test_several_modes_at_once_come_in_the_order_in_which_things_happen() -> None:
    def node(_: Log, ctx: GraphContext) -> Any:
        ctx.emit({"progress": 0.5})
        return {"log": ["a"]}

    graph = GraphBuilder(Log).add_node("a", node, blocking=False).set_entry("a").build()
    items = await collected(graph.stream({}, modes=("values", "updates", "custom", "events")))
    assert [item.mode for item in items if item.mode != "events"] == ["values", "custom", "updates", "values"]
    assert next(item for item in items if item.mode == "custom") == StreamItem(
        "custom", "a", "", {"progress": 0.5}
    )
    assert [type(item.data).__name__ for item in items if item.mode == "events"] == [
        "RunStarted",
        "NodeStarted",
        "NodeCompleted",
        "RunCompleted",
    ]


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
    await graph.invoke({})  # emitting where nobody listens does nothing


class Streaming(ScriptedLlm):
    """A model that says its text word by word."""

    async def stream(self, request: LlmRequest) -> AsyncIterator[TextChunk | LlmResponse]:
        response = await self.complete(request)
        for word in response.content.split(" "):
            yield TextChunk(f"{word} ")
        yield response


async def test_tokens_of_an_agent_in_a_node_come_as_messages() -> None:
    builder: GraphBuilder[dict[str, Any]] = GraphBuilder()
    builder.add_node("talk", ReActAgentNode(llm=Streaming(["It is a fine day"]))).set_entry("talk")
    outer = GraphBuilder().add_node("sub", builder.build()).set_entry("sub").build()
    items = await collected(outer.stream({"input": "hi"}, modes=("messages",)))
    assert [(item.node, item.subgraph) for item in items] == [("talk", "sub")] * 5
    assert "".join(item.data for item in items) == "It is a fine day "


async def test_a_model_that_cannot_stream_says_its_text_in_one_piece() -> None:
    builder: GraphBuilder[dict[str, Any]] = GraphBuilder()
    builder.add_node("talk", ReActAgentNode(llm=ScriptedLlm(["Hello."]))).set_entry("talk")
    items = await collected(builder.build().stream({"input": "hi"}, modes=("messages", "updates")))
    assert [item.data for item in items if item.mode == "messages"] == ["Hello."]


async def test_questions_come_as_data_in_every_mode_and_then_the_stream_raises() -> None:
    inner = GraphBuilder(Log).add_node("ask", lambda _: {"log": [interrupt("sure?")]}).set_entry("ask")
    builder = GraphBuilder(Log).add_node("sub", inner.build()).set_entry("sub")
    graph = builder.build(MemoryCheckpointer())
    seen: list[StreamItem] = []
    with pytest.raises(GraphInterruptedError) as caught:
        await read_into(seen, graph.stream({}, T, modes=("custom", "updates")))
    assert [(item.mode, item.node, item.subgraph) for item in seen] == [
        ("custom", "ask", "sub"),
        ("updates", "ask", "sub"),
    ]
    assert {item.data for item in seen} == set(caught.value.interrupts)
    assert isinstance(seen[0].data, GraphInterrupt)
    rest = await collected(graph.stream_resume("t", "yes", modes=("updates",)))
    assert [item.data for item in rest] == [{"log": ["yes"]}, {"log": ["yes"]}]


async def test_what_finished_before_a_question_is_not_told_again() -> None:
    builder = GraphBuilder(Log).add_node("a", note("a")).add_node("ask", lambda _: {"log": [interrupt("?")]})
    graph = builder.add_edge(START, "a").add_edge(START, "ask").build(MemoryCheckpointer())
    await stopped(graph.invoke({}, T))
    items = await collected(graph.stream_resume("t", "!", modes=("updates",)))
    assert [item.node for item in items] == ["ask"]


async def test_sends_are_told_one_by_one() -> None:
    builder = GraphBuilder(Log).add_node("work", lambda n: {"log": [f"w{n}"]})
    builder.add_conditional_edges(START, lambda _: [Send("work", n) for n in range(3)], ["work"])
    items = await collected(builder.build().stream({}, modes=("updates",)))
    assert sorted(item.data["log"][0] for item in items) == ["w0", "w1", "w2"]
    assert {item.node for item in items} == {"work"}


async def test_without_modes_it_yields_events_as_before() -> None:
    stream = nested().build().stream({})
    events: list[Event] = [event async for event in stream]
    assert isinstance(events[0], RunStarted)
    assert stream.result["log"] == ["a", "x", "y"]


async def test_a_failure_raises_after_what_there_was() -> None:
    def fail(_: Log) -> None:
        raise ValueError("no")

    graph = GraphBuilder(Log).add_node("a", note("a")).add_node("b", fail).add_edge("a", "b").set_entry("a")
    seen: list[StreamItem] = []
    with pytest.raises(NodeFailedError, match="no"):
        await read_into(seen, graph.build().stream({}, modes=("updates",)))
    assert [item.data for item in seen] == [{"log": ["a"]}]


@pytest.mark.parametrize("modes", [("tokens",), (), "value", ("values", "x")], ids=repr)
def test_a_mode_that_there_is_not_is_refused(modes: Any) -> None:
    with pytest.raises(ConfigError, match="there are events, values, updates, messages, custom"):
        nested().build().stream({}, modes=modes)


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
