"""The tutorials that people port, each as a whole program: what they do elsewhere, they do here."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest

from tests.graph.kit import T
from wesichain import Agent
from wesichain.core import Message, Role
from wesichain.graph import (
    END,
    Append,
    GraphBuilder,
    MemoryCheckpointer,
    StateUpdate,
)
from wesichain.testing import FunctionLlm, ScriptedLlm


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
