"""Outgoing events: no refused answer and no secret leaves, by any route or protocol, plain or durable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.durable.databases import database_in
from wesichain import Agent, Finish, ToolCall, tool
from wesichain.durable import DurableAgent
from wesichain.edge import create_app
from wesichain.middleware import OutputGuard
from wesichain.testing import FunctionLlm

from .kit import Talker, read, say, scripted, serving

SECRET = "the launch code is 0451"


def _is_fine(answer: Any) -> bool:
    assert SECRET not in str(answer), f"refused: {answer}"
    return True


@tool
async def enough() -> Finish[str]:
    """End the run."""
    return Finish(SECRET)


def _inner(**options: Any) -> Any:
    return scripted(SECRET, name="inner", middleware=[OutputGuard(_is_fine)], **options)


GUARDED: dict[str, Any] = {
    "an answer": lambda: scripted(SECRET, middleware=[OutputGuard(_is_fine)]),
    "an answer that does not stream": lambda: Agent(
        FunctionLlm(lambda _: say(text=SECRET)), middleware=[OutputGuard(_is_fine)]
    ),
    "a typed answer": lambda: scripted(
        say(ToolCall("f", "final_answer", {"said": SECRET})),
        output_type=dict[str, str],
        output_mode="tool",
        middleware=[OutputGuard(_is_fine)],
    ),
    "a tool that ends the run": lambda: scripted(
        say(ToolCall("e", "enough", {}), ToolCall("w", "weather", {"city": "Bern"})),
        tools=[enough],
        middleware=[OutputGuard(_is_fine)],
    ),
    "an answer of an agent below": lambda: scripted(
        say(ToolCall("a", "inner", {"task": "go"})), "done", tools=[_inner().as_tool(description="Asks.")]
    ),
    "an answer that a check sends back": lambda: scripted(
        say(text=SECRET),
        "done",
        output_type=str,
        output_checks=[_no_code],
        middleware=[OutputGuard(_is_fine)],
    ),
}


def _no_code(answer: str) -> str:
    if SECRET in answer:
        raise ValueError("not this")
    return answer


REQUESTS: dict[str, Any] = {
    "/runs/stream": {"task": "go"},
    "/ai-sdk": {
        "id": "c",
        "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "go"}]}],
    },
    "/ag-ui": {
        "threadId": "t",
        "runId": "x",
        "state": {},
        "tools": [],
        "context": [],
        "forwardedProps": {},
        "messages": [{"id": "1", "role": "user", "content": "go"}],
    },
    "/a2a": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendStreamingMessage",
        "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "go"}]}},
    },
}


@pytest.mark.parametrize("is_durable", [False, True], ids=["plain", "durable"])
@pytest.mark.parametrize("kind", GUARDED)
async def test_a_refused_answer_leaves_in_no_protocol(kind: str, is_durable: bool, tmp_path: Path) -> None:
    agent: Any = GUARDED[kind]()
    if is_durable:
        agent = DurableAgent(agent, "guarded", database_url=database_in(tmp_path), version="v1")
    async with serving(create_app(agent)) as client:
        found = {path: await read(client, "POST", path, json=body) for path, body in REQUESTS.items()}
        run_id = found["/runs/stream"][0].data["run_id"]
        found["again"] = await read(client, "GET", f"/runs/{run_id}/events")
        whole = await client.post("/runs", json={"task": "go"})
    for path, sent in found.items():
        assert SECRET not in json.dumps([frame.data for frame in sent]), path
    assert SECRET not in whole.text
    events = [frame.data for frame in found["again"]]
    assert [event["seq"] for event in events] == [*range(1, len(events) + 1)], "every event is sent"
    assert any(event.get("refused") for event in events)


async def test_an_answer_that_a_guard_accepts_is_sent_after_its_check() -> None:
    checked: list[str] = []

    def check(answer: str) -> None:
        checked.append(answer)

    agent = scripted("sunny", middleware=[OutputGuard(check)])
    async with serving(create_app(agent)) as client:
        events = [frame.data for frame in await read(client, "POST", "/runs/stream", json={"task": "?"})]
    (reply,) = (event for event in events if event["kind"] == "model_responded")
    assert reply["response"]["content"] == "sunny"
    assert "refused" not in reply
    assert checked == ["sunny"]


async def test_text_before_calls_is_sent_though_a_guard_holds() -> None:
    call = say(ToolCall("w", "weather", {"city": "Bern"}), text="let me look")
    agent = scripted(call, "sunny", middleware=[OutputGuard(_is_fine)])
    async with serving(create_app(agent)) as client:
        events = [frame.data for frame in await read(client, "POST", "/runs/stream", json={"task": "?"})]
    replies = [event["response"]["content"] for event in events if event["kind"] == "model_responded"]
    assert replies == ["let me look", "sunny"]


KEY = "sk-" + "aB3dE5gH7jK9mN1pQ2sT"


@tool
async def broken() -> str:
    """Break."""
    raise RuntimeError(f"postgres://svc:hunter2pw@db/x {KEY}")


@pytest.mark.parametrize("is_durable", [False, True], ids=["plain", "durable"])
async def test_secrets_in_errors_do_not_leave(is_durable: bool, tmp_path: Path) -> None:
    def reply(request: Any) -> Any:
        if len(request.messages) > 1:
            raise RuntimeError(f"no {KEY}")
        return say(ToolCall("b", "broken", {}))

    agent: Any = Agent(Talker(reply), tools=[broken])
    if is_durable:
        agent = DurableAgent(agent, "broken", database_url=database_in(tmp_path), version="v1")
    async with serving(create_app(agent)) as client:
        sent = [
            frame.data
            for path, body in REQUESTS.items()
            for frame in await read(client, "POST", path, json=body)
        ]
        whole = await client.post("/runs", json={"task": "go"})
    text = json.dumps(sent) + whole.text
    assert KEY not in text
    assert "hunter2pw" not in text
    assert "redacted" in text
