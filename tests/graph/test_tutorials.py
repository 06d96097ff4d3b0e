"""The tutorials that people port, each as a whole program: what they do elsewhere, they do here."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

import pytest

from tests.graph.kit import T
from wesichain import Agent
from wesichain.core import Message, Role
from wesichain.errors import GraphInterruptedError
from wesichain.graph import (
    END,
    START,
    Add,
    Append,
    GraphBuilder,
    MemoryCheckpointer,
    Merge,
    Send,
    StateUpdate,
    interrupt,
)
from wesichain.testing import FunctionLlm, ScriptedLlm


async def test_map_reduce() -> None:
    class Jokes(TypedDict, total=False):
        topics: list[str]
        jokes: Annotated[list[str], Append]
        best: str

    builder = GraphBuilder(Jokes)
    builder.add_node("plan", lambda _: {"topics": ["cats", "dogs", "owls"]})
    builder.add_node("joke", lambda task: {"jokes": [f"a joke about {task['topic']}"]})
    builder.add_node("pick", lambda s: {"best": max(s["jokes"])})
    builder.add_conditional_edges(
        "plan", lambda s: [Send("joke", {"topic": topic}) for topic in s["topics"]], ["joke"]
    )
    graph = builder.add_edge("joke", "pick").set_entry("plan").build()
    done = await graph.invoke({})
    assert done["jokes"] == ["a joke about cats", "a joke about dogs", "a joke about owls"]
    assert done["best"] == "a joke about owls"


async def test_a_supervisor_hands_work_to_agents_until_it_is_done() -> None:
    class Team(TypedDict, total=False):
        task: str
        notes: Annotated[list[str], Append]
        researcher: str
        writer: str

    def supervisor(state: Team) -> StateUpdate:
        if "researcher" not in state:
            return StateUpdate(goto="researcher")
        if "writer" not in state:
            return StateUpdate({"task": f"write about: {state['researcher']}"}, goto="writer")
        return StateUpdate({"notes": ["done"]}, goto=END)

    builder = GraphBuilder(Team)
    builder.add_node("supervisor", supervisor, goto=["researcher", "writer", END])
    builder.add_node("researcher", Agent(ScriptedLlm(["Owls are silent."]), name="researcher"))
    builder.add_node("writer", Agent(ScriptedLlm(["A text about silent owls."]), name="writer"))
    builder.add_edge("researcher", "supervisor").add_edge("writer", "supervisor").set_entry("supervisor")
    done = await builder.build(MemoryCheckpointer()).invoke({"task": "owls"}, T)
    assert (done["writer"], done["notes"]) == ("A text about silent owls.", ["done"])


async def test_time_travel() -> None:
    class Story(TypedDict, total=False):
        topic: str
        text: str

    builder = GraphBuilder(Story).add_node("topic", lambda _: {"topic": "socks"})
    builder.add_node("write", lambda s: {"text": f"a story about {s['topic']}"}).add_edge("topic", "write")
    graph = builder.set_entry("topic").build(MemoryCheckpointer())
    assert (await graph.invoke({}, T))["text"] == "a story about socks"
    before = next(one for one in await graph.history("t") if one.next == ("write",))
    await graph.update_state("t", {"topic": "chickens"}, checkpoint_id=before.checkpoint_id)
    assert (await graph.resume("t"))["text"] == "a story about chickens"
    assert (await graph.resume("t", checkpoint_id=before.checkpoint_id))["text"] == "a story about socks"
    sources = [one.source for one in await graph.history("t")]
    assert sources == ["loop", "branch", "loop", "update", "loop", "loop", "input"]


async def test_parallel_questions() -> None:
    class Form(TypedDict, total=False):
        answers: Annotated[dict[str, str], Merge]

    builder = GraphBuilder(Form)
    for name in ("name", "city"):
        builder.add_node(name, lambda _, name=name: {"answers": {name: interrupt(f"your {name}?")}})
        builder.add_edge(START, name)
    graph = builder.build(MemoryCheckpointer())
    with pytest.raises(GraphInterruptedError) as stop:
        await graph.invoke({}, T)
    told = {
        asked.id: {"your name?": "Ann", "your city?": "Oslo"}[asked.value] for asked in stop.value.interrupts
    }
    assert (await graph.resume("t", told))["answers"] == {"name": "Ann", "city": "Oslo"}


async def test_tokens_from_a_node_while_the_graph_goes_on() -> None:
    class Chat(TypedDict, total=False):
        messages: Annotated[list[Message], Append]
        length: int

    builder = GraphBuilder(Chat).add_node("talk", Agent(ScriptedLlm(["The sun is a star."])))
    builder.add_node("count", lambda s: {"length": len(s["messages"])}).add_edge("talk", "count")
    stream = (
        builder.set_entry("talk")
        .build()
        .stream({"messages": [Message(Role.USER, "What is the sun?")]}, modes=("messages", "updates"))
    )
    items = [item async for item in stream]
    assert "".join(item.data for item in items if item.mode == "messages") == "The sun is a star."
    assert [item.node for item in items if item.mode == "updates"] == ["talk", "count"]
    assert stream.result["length"] == 2


async def test_a_subgraph_for_every_item() -> None:
    class Order(TypedDict, total=False):
        item: str
        price: int
        total: Annotated[int, Add]
        log: Annotated[list[str], Append]

    one = GraphBuilder(Order).add_node("price", lambda s: {"price": len(s["item"])})
    one.add_node("book", lambda s: {"total": s["price"], "log": [f"{s['item']} {interrupt(s['item'])}"]})
    inner = one.add_edge("price", "book").set_entry("price")

    class Basket(TypedDict, total=False):
        items: list[str]
        total: Annotated[int, Add]
        log: Annotated[list[str], Append]

    builder = GraphBuilder(Basket).add_node("order", inner.build())
    builder.add_conditional_edges(
        START, lambda s: [Send("order", {"item": item}) for item in s["items"]], ["order"]
    )
    graph = builder.build(MemoryCheckpointer())
    with pytest.raises(GraphInterruptedError) as stop:
        await graph.invoke({"items": ["tea", "bread"]}, T)
    done = await graph.resume("t", {asked.id: "yes" for asked in stop.value.interrupts})
    assert (done["total"], done["log"]) == (8, ["tea yes", "bread yes"])


@pytest.mark.parametrize("turns", [50, pytest.param(1000, marks=pytest.mark.slow)])
async def test_a_chat_of_a_thousand_turns_remembers_its_beginning(turns: int) -> None:
    class Chat(TypedDict, total=False):
        messages: Annotated[list[Message], Append]

    def answer(request: Any) -> str:
        return f"heard {sum(message.role is Role.USER for message in request.messages)}"

    builder = GraphBuilder(Chat).add_node("chat", Agent(FunctionLlm(answer))).set_entry("chat")
    graph = builder.build(MemoryCheckpointer())
    for turn in range(turns):
        done = await graph.invoke({"messages": [Message(Role.USER, f"turn {turn}")]}, T)
    assert len(done["messages"]) == 2 * turns
    assert done["messages"][-1].content == f"heard {turns}"
    assert done["messages"][0].content == "turn 0"


async def test_a_router_with_a_loop_and_a_limit() -> None:
    class Draft(TypedDict, total=False):
        text: str
        rounds: Annotated[int, Add]

    def judge(state: Draft) -> Literal["write", "__end__"]:
        return "write" if state["rounds"] < 3 else "__end__"

    builder = GraphBuilder(Draft).add_node("write", lambda s: {"text": s.get("text", "") + "x", "rounds": 1})
    builder.add_conditional_edges("write", judge)
    assert await builder.set_entry("write").build().invoke({}) == {"text": "xxx", "rounds": 3}
