"""The law of the protocols: what a client shows last is the output, over a generator of random agents.

A page of each protocol runs an agent, approves what waits and provides what is external, until the run ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
from hypothesis import given
from hypothesis import strategies as st

from wesichain import Agent, Finish, LlmRequest, LlmResponse, Role, ToolCall, tool
from wesichain.core import TextChunk, Usage
from wesichain.edge import create_app
from wesichain.errors import ToolError
from wesichain.llm import StreamingLlm
from wesichain.policy import Budget
from wesichain.testing import FakeClock, FunctionLlm


@tool(effect="pure")
async def weather(number: int) -> str:
    """The weather of a place."""
    return f"sunny in {number}"


@tool(approval=True)
async def refund(number: int) -> str:
    """Give money back."""
    return f"refunded {number}"


@tool(external=True)
async def locate(number: int) -> str:
    """Where a user is."""
    return str(number)


@tool
async def broken(number: int) -> str:
    """Break."""
    raise ToolError(f"out of paper {number}")


@tool
async def enough(number: int) -> Finish[str]:
    """End the run."""
    del number
    return Finish("that is all")


@dataclass(frozen=True)
class Step:
    """One reply of a model: a text, reasoning and calls; `cuts` streams break off before it is complete."""

    text: str
    reasoning: str
    calls: tuple[str, ...]
    cuts: int


@dataclass(frozen=True)
class Plan:
    """An agent: its steps, the last of which is an answer, and the agent that it may call."""

    steps: tuple[Step, ...]
    answer: str
    streams: bool
    inner: Plan | None = None
    typed: bool = False


class Scripted(FunctionLlm):
    """Plays a plan: the next step is chosen by the messages so far."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.left = [step.cuts for step in plan.steps]
        super().__init__(self._reply)

    def _reply(self, request: LlmRequest) -> LlmResponse:
        since = [message.role for message in request.messages]
        turn = len(since) - 1 - since[::-1].index(Role.USER)
        number = sum(role is Role.ASSISTANT for role in since[turn:])
        plan = self._plan
        if number >= len(plan.steps):
            answer = json.dumps({"said": plan.answer}) if plan.typed else plan.answer
            return LlmResponse(answer, usage=Usage(1, 1))
        step = plan.steps[number]
        if self.left[number]:
            self.left[number] -= 1
            raise Cut(step.text)
        calls = tuple(
            ToolCall(
                f"c{place}", name, {"task": f"go {place}"} if name == "inner" else {"number": place}
            )  # a text model repeats its ids in every run
            for place, name in enumerate(step.calls, number * 10)
        )
        return LlmResponse(step.text, calls, usage=Usage(1, 1), reasoning=step.reasoning)


class Cut(Exception):
    """A stream breaks off after this text."""


class Streaming(Scripted, StreamingLlm):
    async def stream(self, request: LlmRequest) -> Any:
        try:
            reply = await self.complete(request)
        except Cut as cut:
            yield TextChunk(str(cut) or "hm")
            raise
        for start in range(0, len(reply.content), 3):
            yield TextChunk(reply.content[start : start + 3])
        yield reply


def agent_of(plan: Plan, name: str = "outer") -> Agent[Any, Any]:
    tools: list[Any] = [weather, refund, locate, broken, enough]
    if plan.inner is not None:
        tools.append(agent_of(plan.inner, "inner").as_tool(description="Asks another."))
    options: dict[str, Any] = {"output_type": dict[str, str]} if plan.typed else {}
    model = Streaming(plan) if plan.streams else Scripted(plan)
    return Agent(model, name=name, tools=tools, clock=FakeClock(), budget=Budget(steps=500), **options)


words = st.sampled_from(["", "let me look", "it is sunny", "that is all"])


def steps(names: list[str]) -> st.SearchStrategy[tuple[Step, ...]]:
    calls = st.lists(st.sampled_from(names), min_size=1, max_size=3).map(tuple)
    reasoning = st.sampled_from(["", "hm"])
    one = st.builds(Step, text=words, reasoning=reasoning, calls=calls, cuts=st.sampled_from([0, 0, 1]))
    return st.lists(one, max_size=3).map(tuple)


answers = st.sampled_from(["it is sunny", "that is all", "4 2"])
LEAVES = ["weather", "refund", "locate", "broken", "enough"]
inners = st.builds(Plan, steps=steps(LEAVES), answer=answers, streams=st.booleans())
plans = st.one_of(
    st.builds(Plan, steps=steps(LEAVES), answer=answers, streams=st.booleans()),
    st.builds(
        Plan, steps=steps([*LEAVES, "inner", "inner"]), answer=answers, streams=st.booleans(), inner=inners
    ),
    st.builds(
        Plan,
        steps=steps(["weather", "refund"]),
        answer=answers,
        streams=st.booleans(),
        typed=st.just(True),
    ),
)


@dataclass
class Seen:
    """What a client shows at the end: the texts in order, the calls, and how many results each had."""

    texts: dict[str, str] = field(default_factory=dict[str, str])
    withdrawn: set[str] = field(default_factory=set[str])
    value: Any = None
    inputs: dict[str, int] = field(default_factory=dict[str, int])
    results: dict[str, int] = field(default_factory=dict[str, int])
    provided: set[str] = field(default_factory=set[str])
    ended: str = ""

    @property
    def last(self) -> Any:
        """What is shown last."""
        if self.value is not None:
            return self.value
        shown = [text for key, text in self.texts.items() if key not in self.withdrawn and text.strip()]
        return shown[-1].strip() if shown else ""

    def count(self, counts: dict[str, int], call: str) -> None:
        counts[call] = counts.get(call, 0) + 1


Client = httpx2.AsyncClient


async def sent(client: Client, path: str, body: Any) -> list[Any]:
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    lines = [line[6:] for line in response.text.split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


async def on_ai_sdk(client: Client) -> Seen:
    seen = Seen()
    user = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "go"}]}
    body: Any = {"id": "chat", "messages": [user]}
    while seen.ended != "stop":
        asked: list[Any] = []
        waiting: dict[str, Any] = {}
        for one in await sent(client, "/ai-sdk", body):
            id = str(one.get("id", ""))  # noqa: A001
            call = one.get("toolCallId", "")
            match one["type"]:
                case "text-start":
                    assert id not in seen.texts
                    seen.texts[id] = ""
                case "text-delta":
                    seen.texts[id] += one["delta"]
                case "text-end" if "providerMetadata" in one:
                    seen.withdrawn.add(id)
                case "data-output":
                    seen.value = one["data"]
                case "tool-input-available":
                    seen.count(seen.inputs, call)
                    waiting[call] = one
                case "tool-output-available" | "tool-output-error" | "tool-output-denied":
                    assert call in seen.inputs, "a result comes after its call"
                    seen.count(seen.results, call)
                    waiting.pop(call, None)
                case "tool-approval-request":
                    asked.append(
                        {
                            "type": "tool-x",
                            "toolCallId": call,
                            "state": "approval-responded",
                            "approval": {"id": one["approvalId"], "approved": True},
                        }
                    )
                case "finish":
                    seen.ended = one["finishReason"]
                case _:
                    pass
        if seen.ended == "tool-calls":
            names = {one["toolCallId"] for one in asked}
            external = [id for id, one in waiting.items() if id not in names and one["toolName"] == "locate"]  # noqa: A001
            seen.provided.update(external)
            asked += [
                {"type": "tool-locate", "toolCallId": id, "state": "output-available", "output": "Bern"}
                for id in external  # noqa: A001
            ]
            body = {"id": "chat", "messages": [user, {"id": "a", "role": "assistant", "parts": asked}]}
        else:
            assert seen.ended == "stop", seen.ended
    return seen


async def on_ag_ui(client: Client) -> Seen:
    seen = Seen()
    user = {"id": "u", "role": "user", "content": "go"}
    base = {
        "threadId": "t",
        "state": {},
        "tools": [],
        "context": [],
        "forwardedProps": {},
        "protocolVersion": "1.0",
    }
    body: Any = {**base, "runId": "r0", "messages": [user]}
    number = 0
    while seen.ended != "success":
        names: dict[str, str] = {}
        for one in await sent(client, "/ag-ui", body):
            match one["type"]:
                case "TEXT_MESSAGE_START":
                    assert one["messageId"] not in seen.texts
                    seen.texts[one["messageId"]] = ""
                case "TEXT_MESSAGE_CONTENT":
                    seen.texts[one["messageId"]] += one["delta"]
                case "CUSTOM":
                    seen.withdrawn.add(one["value"]["messageId"])
                case "TOOL_CALL_START":
                    seen.count(seen.inputs, one["toolCallId"])
                    names[one["toolCallId"]] = one["toolCallName"]
                case "TOOL_CALL_RESULT":
                    assert one["toolCallId"] in seen.inputs
                    seen.count(seen.results, one["toolCallId"])
                case "RUN_FINISHED":
                    outcome = one["outcome"]
                    seen.ended = outcome["type"]
                    if not isinstance(one.get("result"), str | None):
                        seen.value = one["result"]
                    resume = [
                        {"interruptId": item["id"], "status": "resolved", "payload": {"approved": True}}
                        for item in outcome.get("interrupts", ())
                    ]
                    asked = {item["toolCallId"] for item in outcome.get("interrupts", ())}
                    pending = {id for id, name in names.items() if name == "locate"} - asked - {*seen.results}  # noqa: A001
                    waits = bool(asked or outcome.get("pendingToolCallIds"))
                    number += 1
                    body = {
                        **base,
                        "runId": f"r{number}",
                        "resume": resume,
                        "messages": [
                            user,
                            *(
                                {"id": f"m{id}", "role": "tool", "toolCallId": id, "content": "Bern"}
                                for id in pending  # noqa: A001
                            ),
                        ],
                    }
                    seen.provided.update(pending)
                    seen.ended = "waits" if waits else seen.ended
                case "RUN_ERROR":
                    raise AssertionError(one)
                case _:
                    pass
    return seen


async def on_a2a(client: Client) -> Seen:
    seen = Seen()
    message: Any = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "go"}]}
    while seen.ended != "TASK_STATE_COMPLETED":
        params = {"message": message}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": params}
        for one in await sent(client, "/a2a", body):
            found = one["result"]
            if update := found.get("artifactUpdate"):
                (part,) = update["artifact"]["parts"]
                if "data" in part:
                    seen.value = part["data"]
                else:
                    before = seen.texts.get("answer", "") if update.get("append") else ""
                    seen.texts["answer"] = before + part["text"]
            if update := found.get("statusUpdate"):
                seen.ended = update["status"]["state"]
                if seen.ended == "TASK_STATE_INPUT_REQUIRED":
                    pending = update["status"]["message"]["parts"][1]["data"]["pending"]
                    decisions = {
                        item["token"]: {"kind": "provide", "value": "Bern"}
                        if item["external"]
                        else {"kind": "approve"}
                        for item in pending
                    }
                    message = {**message, "taskId": update["taskId"], "parts": [{"data": decisions}]}
                else:
                    assert seen.ended == "TASK_STATE_COMPLETED", found
    return seen


CLIENTS: Mapping[str, Callable[[Client], Any]] = {"ai-sdk": on_ai_sdk, "ag-ui": on_ag_ui, "a2a": on_a2a}


def _output(plan: Plan) -> Any:
    """What the run returns: the answer, or the result of the first tool that ends it."""
    if any("enough" in step.calls for step in plan.steps):
        return "that is all"
    return {"said": plan.answer} if plan.typed else plan.answer


async def check(plan: Plan) -> None:
    for name, client_of in CLIENTS.items():
        transport = httpx2.ASGITransport(create_app(agent_of(plan)))
        async with httpx2.AsyncClient(transport=transport, base_url="http://x", timeout=30) as client:
            seen: Seen = await client_of(client)
        assert seen.last == _output(plan), (name, seen)
        if name != "a2a":
            assert set(seen.inputs.values()) <= {1}, (name, "a call is shown once", seen)
            assert set(seen.results.values()) <= {1}, (name, "a result is shown once", seen)
            assert seen.results.keys() | seen.provided == seen.inputs.keys(), (name, "each call ends", seen)


@given(plans)
def test_what_a_client_shows_last_is_the_output(plan: Plan) -> None:
    asyncio.run(check(plan))
