"""Shown: what a client is shown of a run, and its law: the text that is shown last ends with the output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.durable.databases import database_in
from wesichain import Agent, Finish, LlmRequest, LlmResponse, Role, ToolCall, tool
from wesichain.agent import Interrupted, Outcome
from wesichain.core import Event, RunCompleted, Usage
from wesichain.core.internal import Approve, ApproveWith, Refuse
from wesichain.durable import DurableAgent
from wesichain.edge import create_app
from wesichain.edge.display import (
    CallBegan,
    CallEnded,
    DisplayReader,
    Ended,
    Part,
    ReasoningPiece,
    StepBegan,
    StepEnded,
    TextEnded,
    TextPiece,
    TypedAnswer,
    waiting_in,
)
from wesichain.edge.runs import RunEnd
from wesichain.llm.react_text import TextReAct
from wesichain.testing import FakeClock, FunctionLlm
from wesichain.trace import CollectingSink

from .kit import Talker, read, refund, say, scripted, serving, weather


def shown(events: Sequence[Event]) -> list[Part]:
    reader = DisplayReader()
    return [part for event in events for part in reader.of(event)]


def texts(parts: Sequence[Part]) -> list[str]:
    """The texts that were not withdrawn."""
    found: dict[str, str] = {}
    for part in parts:
        if isinstance(part, TextPiece):
            found[part.id] = found.get(part.id, "") + part.text
        elif isinstance(part, TextEnded) and part.is_withdrawn:
            del found[part.id]
    return [*found.values()]


async def played(agent: Agent[Any, Any], task: Any = "go", **options: Any) -> tuple[list[Part], Outcome[Any]]:
    """What is shown of a streamed run, and its outcome."""
    async with agent.stream(task, **options) as run:
        reader = DisplayReader()
        parts = [part async for event in run for part in reader.of(event)]
    assert run.outcome is not None
    return parts, run.outcome


@tool
async def enough() -> Finish[str]:
    """End the run."""
    return Finish("that is all")


def _cut() -> Any:
    """A model whose first stream breaks off after some text."""
    calls: list[int] = []

    class Cut(Talker):
        async def stream(self, request: LlmRequest) -> Any:
            calls.append(1)
            async for item in super().stream(request):
                if len(calls) == 1 and isinstance(item, LlmResponse):
                    raise RuntimeError("the connection broke")
                yield item

    return Agent(Cut(lambda _: say(text="it is sunny")), clock=FakeClock())


AGENTS: dict[str, Any] = {
    "a text in pieces": lambda: scripted("it is sunny"),
    "a text in one piece": lambda: Agent(FunctionLlm(lambda _: say(text="it is sunny"))),
    "reasoning": lambda: scripted(LlmResponse("it is sunny", reasoning="I looked", usage=Usage(10, 5))),
    "a text before a call": lambda: scripted(
        say(ToolCall("w", "weather", {"city": "Bern"}), text="let me look"), "it is sunny"
    ),
    "a tool that ends the run": lambda: scripted(
        say(ToolCall("e", "enough", {}), text="let me look"), tools=[enough]
    ),
    "a cut attempt": _cut,
    "a text model": lambda: Agent(
        TextReAct(Talker(lambda _: LlmResponse("Thought: I know.\nFinal Answer: it is sunny"))),
        tools=[weather],
    ),
    "a text model that does not stream": lambda: Agent(
        TextReAct(FunctionLlm(lambda _: LlmResponse("Thought: I know.\nFinal Answer: it is sunny"))),
        tools=[weather],
    ),
}


@pytest.mark.parametrize("kind", AGENTS)
async def test_the_text_that_is_shown_last_ends_with_the_output(kind: str) -> None:
    parts, outcome = await played(AGENTS[kind]())
    (end,) = (part for part in parts if isinstance(part, Ended))
    assert end is parts[-1]
    assert isinstance(end.event, RunCompleted)
    shown_texts = texts(parts)
    assert shown_texts[-1].endswith(str(end.event.output))
    assert "".join(shown_texts).count(str(end.event.output)) == 1, "it is shown once"
    # The same from the stored events, which have no pieces of text.
    stored = shown([event for event in outcome.events if event.kind != "text_delta"])
    assert "".join(texts(stored)).count(str(end.event.output)) == 1


async def test_the_text_of_a_cut_attempt_is_withdrawn() -> None:
    parts, _ = await played(_cut())
    assert [part.is_withdrawn for part in parts if isinstance(part, TextEnded)] == [True, False]


async def test_a_typed_answer_is_shown_as_its_value() -> None:
    parts, _ = await played(scripted('{"n": 1}', output_type=dict[str, int]))
    assert [part.value for part in parts if isinstance(part, TypedAnswer)] == [{"n": 1}]


async def test_parts_are_well_formed() -> None:
    agent = scripted(
        LlmResponse(
            "let me look",
            tool_calls=(ToolCall("w", "weather", {"city": "Bern"}),),
            reasoning="hm",
            usage=Usage(1, 1),
        ),
        "sunny",
    )
    parts, _ = await played(agent)
    kinds = [type(part) for part in parts if not isinstance(part, TextPiece)]
    first = [StepBegan, ReasoningPiece, TextEnded, CallBegan, CallEnded, StepEnded]
    assert kinds == [*first, StepBegan, TextEnded, StepEnded, Ended]


# --- calls that wait -----------------------------------------------------------------------------------


def pair() -> Agent[Any, Any]:
    """An agent that calls another twice at once; each asks for a refund, of 5 and of 500."""

    def reply(request: LlmRequest) -> LlmResponse:
        task = next(message.text for message in request.messages if message.role is Role.USER)
        if any(message.role is Role.TOOL for message in request.messages):
            return say(text=f"paid {task}")
        return say(ToolCall("c1", "refund", {"amount": int(task)}))

    inner = Agent(Talker(reply), tools=[refund], name="teller")
    calls = (ToolCall("a", "teller", {"task": "5"}), ToolCall("b", "teller", {"task": "500"}))
    return scripted(say(*calls), "all paid", tools=[inner.as_tool(description="Pays.")])


async def test_two_calls_of_one_agent_below_have_ids_of_their_own() -> None:
    parts, outcome = await played(pair())
    assert isinstance(outcome, Interrupted)
    waiting = waiting_in(RunEnd(outcome))
    assert len({item.id for item in waiting}) == 2
    began = {part.id: part.args for part in parts if isinstance(part, CallBegan)}
    for item in waiting:
        assert began[item.id] == item.call.call.args
    assert not [part for part in parts if isinstance(part, CallEnded)], "a call that waits has not ended"
    (end,) = (part for part in parts if isinstance(part, Ended))
    assert end.waiting == waiting


async def test_a_resumed_run_shows_each_call_and_each_result_once() -> None:
    agent = pair()
    parts, outcome = await played(agent)
    assert isinstance(outcome, Interrupted)
    waiting = waiting_in(RunEnd(outcome))
    first, second = waiting
    decisions: dict[str, Any] = {
        first.call.token: ApproveWith({"amount": 6}),
        second.call.token: Refuse("no"),
    }
    reader = DisplayReader()
    parts += reader.resumed(waiting, decisions)
    async with agent.stream(outcome, decisions=decisions) as run:
        parts += [part async for event in run for part in reader.of(event)]
    began = [part.id for part in parts if isinstance(part, CallBegan)]
    ended = {part.id: part for part in parts if isinstance(part, CallEnded)}
    assert len(began) == len({*began}) == 4
    assert len([part for part in parts if isinstance(part, CallEnded)]) == 4
    assert sorted(ended) == sorted(began)
    assert (ended[first.id].value, ended[second.id].is_refused) == ("refunded 6", True)
    assert texts(parts)[-1] == "all paid"


async def test_ids_of_calls_differ_between_the_runs_of_a_conversation() -> None:
    agent = scripted(say(ToolCall("call_1", "weather", {"city": "Bern"})), "sunny")
    ids = [part.id for _ in range(2) for part in (await played(agent))[0] if isinstance(part, CallBegan)]
    assert len({*ids}) == 2


CHAT = {"id": "c", "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "go"}]}]}


@pytest.mark.parametrize("is_durable", [False, True], ids=["plain", "durable"])
async def test_each_approval_of_the_ai_sdk_names_the_call_with_its_own_arguments(
    is_durable: bool, tmp_path: Path
) -> None:
    agent: Any = pair()
    if is_durable:
        agent = DurableAgent(agent, "pair", database_url=database_in(tmp_path), version="v1")
    async with serving(create_app(agent)) as client:
        sent = [frame.data for frame in await read(client, "POST", "/ai-sdk", json=CHAT)][:-1]
        inputs = {one["toolCallId"]: one["input"] for one in sent if one["type"] == "tool-input-available"}
        asked = {
            one["toolCallId"]: one["approvalId"] for one in sent if one["type"] == "tool-approval-request"
        }
        assert sorted(inputs[call]["amount"] for call in asked) == [5, 500]
        said = [
            {
                "type": "tool-refund",
                "toolCallId": call,
                "state": "approval-responded",
                "approval": {"id": token, "approved": inputs[call]["amount"] == 5},
            }
            for call, token in asked.items()
        ]
        answer = {**CHAT, "messages": [*CHAT["messages"], {"id": "2", "role": "assistant", "parts": said}]}
        sent = [frame.data for frame in await read(client, "POST", "/ai-sdk", json=answer)][:-1]
    results = {one.get("toolCallId"): one for one in sent if one["type"].startswith("tool-output")}
    for call in asked:
        is_paid = results[call].get("output") == "refunded 5"
        assert is_paid == (inputs[call]["amount"] == 5)
        assert is_paid or results[call]["type"] == "tool-output-denied"
    assert "".join(one["delta"] for one in sent if one["type"] == "text-delta") == "all paid"


async def test_a_call_that_waits_is_shown_once_though_the_run_is_resumed() -> None:
    sink = CollectingSink()
    agent = scripted(say(ToolCall("c1", "refund", {"amount": 9})), "done", events=[sink])
    waits = await agent.outcome("pay")
    assert isinstance(waits, Interrupted)
    (waiting,) = waits.pending
    await agent.resume(waits, decisions={waiting.token: Approve()})
    began = [part for part in shown(sink.events) if isinstance(part, CallBegan)]
    assert [(part.name, part.args) for part in began] == [("refund", {"amount": 9})]
