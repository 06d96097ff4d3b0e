"""An app around a durable agent: its runs outlive the process, and so do their streams."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conftest import ROOT
from tests.durable.databases import database_in
from tests.ports import reserved_port
from tests.warm import python
from wesichain import Agent, LlmRequest, LlmResponse, Role, ToolCall, tool
from wesichain.agent import SqliteConversations
from wesichain.durable import DurableAgent
from wesichain.edge import create_app
from wesichain.edge.runs import thread_of
from wesichain.errors import ConfigError
from wesichain.testing import FakeClock, FunctionLlm

from .desk import HOPS, durable
from .kit import Frame, frames, read, say, scripted, serving

REFUND = say(ToolCall("r1", "refund", {"amount": 5}))
ANN, BOB = {"x-user": "ann"}, {"x-user": "bob"}


@contextmanager
def process(database: str, port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [*python(), "-m", "tests.edge.desk", database, str(port), str(log)]
    started = subprocess.Popen(command, cwd=ROOT)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


async def up(client: httpx2.AsyncClient) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                if (await client.get("/health")).status_code == 200:
                    return
            except httpx2.TransportError:
                await asyncio.sleep(0.1)


async def test_a_run_goes_on_where_a_killed_server_was_and_a_reader_misses_nothing(tmp_path: Path) -> None:
    database, log = database_in(tmp_path), tmp_path / "hops"
    port = reserved_port()
    found: list[Frame] = []
    url = f"http://127.0.0.1:{port}"
    async with httpx2.AsyncClient(base_url=url, timeout=60, headers=ANN, verify=False) as client:
        with process(database, port, log) as first:
            await up(client)
            try:
                async with client.stream(
                    "POST", "/runs/stream", json={"task": "go", "run_id": "r"}
                ) as response:
                    assert response.status_code == 200
                    async for frame in frames(response):
                        found.append(frame)
                        if frame.data["kind"] == "tool_completed" and frame.data["value"] == "hop 2":
                            first.kill()  # between two steps of the run
            except httpx2.TransportError:
                pass
        assert found
        assert found[-1].data["kind"] not in {"run_completed", "run_interrupted"}
        with process(database, port, log):
            await up(client)  # and it goes on unasked
            while found[-1].data["kind"] != "run_completed":
                found += await read(client, "GET", "/runs/r/events", after=found[-1].id)
                if found[-1].data["kind"] == "run_interrupted":
                    (item,) = found[-1].data["pending"]
                    decisions = {item["token"]: {"kind": "approve"}}
                    stranger = await client.post("/runs/r/decisions", json=decisions, headers=BOB)
                    assert stranger.status_code == 404
                    done = await client.post("/runs/r/decisions", json=decisions)
                    assert (done.status_code, done.json()["output"]) == (200, "there")
                    assert (await client.post("/runs/r/decisions", json=decisions)).status_code == 409
            again = await read(client, "GET", "/runs/r/events")
            assert (await client.get("/runs/r/events", headers=BOB)).status_code == 404
            assert (await client.post("/runs/r/cancel", headers=BOB)).status_code == 404
    assert [frame.id for frame in found] == [*range(1, len(found) + 1)]
    assert [frame.data for frame in again] == [frame.data for frame in found]
    hops = [int(line) for line in log.read_text().split()]
    assert sorted(set(hops)) == [*range(HOPS)]
    assert len(hops) <= HOPS + 1, "a finished step was done again"


async def test_a_client_that_leaves_does_not_end_a_durable_run(tmp_path: Path) -> None:
    agent = durable(database_in(tmp_path), tmp_path / "hops")
    async with serving(create_app(agent)) as client:
        await read(client, "POST", "/runs/stream", json={"task": "go", "run_id": "r"}, most=3)
        answer = await client.post("/runs", json={"task": "go", "run_id": "r"})
        assert answer.status_code == 202
        assert (await client.post("/runs/r/cancel")).status_code == 200
        token = answer.json()["pending"][0]["token"]
        assert (await client.post("/runs/r/decisions", json={token: {"kind": "approve"}})).status_code == 409
        assert (await client.post("/runs", json={"task": "other", "run_id": "r"})).status_code == 409
        assert (await client.post("/runs/r/cancel")).status_code == 409, "it has ended"


async def test_a_durable_agent_beside_a_plain_one_that_has_deps(tmp_path: Path) -> None:
    agents: dict[str, Any] = {
        "plain": scripted("hi"),
        "frog": durable(database_in(tmp_path), tmp_path / "hops"),
    }
    async with serving(create_app(agents, deps=lambda _: "world")) as client:
        assert (await client.post("/runs", json={"task": "?"})).status_code == 200
        waiting = await client.post("/runs", json={"task": "?", "agent": "frog", "conversation": "c"})
        assert waiting.status_code == 202
        path = f"/runs/{waiting.json()['run_id']}"
        decisions = {waiting.json()["pending"][0]["token"]: {"kind": "approve"}}
        assert (await client.post(f"{path}/decisions", json=decisions)).json()["output"] == "there"


# --- tools of a frontend, and decisions on several calls ---------------------------------------------


def painter(database: str) -> DurableAgent[Any]:
    """Paints with a tool of the frontend, if it has one, and erases two things after approval."""

    def reply(request: LlmRequest) -> LlmResponse:
        results = [message.text for message in request.messages if message.role is Role.TOOL]
        if results:
            return LlmResponse(" and ".join(results))
        if any(tool.name == "paint" for tool in request.tools):
            return LlmResponse(tool_calls=(ToolCall("p", "paint", {"colour": "red"}),))
        return LlmResponse(
            tool_calls=tuple(ToolCall(f"e{number}", "erase", {"number": number}) for number in (1, 2))
        )

    @tool(approval=True)
    async def erase(number: int) -> str:
        """Erase a thing."""
        return f"erased {number}"

    agent = Agent(FunctionLlm(reply), tools=[erase], name="painter")
    return DurableAgent(agent, "painter", database_url=database)


PAINT = {
    "name": "paint",
    "description": "Paint the page.",
    "parameters": {"type": "object", "properties": {"colour": {"type": "string"}}},
}


def ui_request(*more: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A request of `useChat`."""
    user = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Paint it"}]}
    return {"id": "chat", "messages": [user, *more], **fields}


def ag_request(*more: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A request of AG-UI."""
    user = {"id": "1", "role": "user", "content": "Paint it"}
    head = {"threadId": "chat", "runId": "x", "state": {}, "context": [], "forwardedProps": {}}
    return {**head, "tools": [PAINT], "messages": [user, *more], **fields}


ASKED = {"type": "tool-paint", "toolCallId": "{run}/p", "input": {"colour": "red"}}
PAINTED = {
    "/ai-sdk": (
        ui_request(tools=[PAINT]),
        ui_request(
            {
                "id": "2",
                "role": "assistant",
                "parts": [{**ASKED, "state": "output-available", "output": "ok"}],
            }
        ),
    ),
    "/ag-ui": (
        ag_request(),
        ag_request({"id": "2", "role": "tool", "toolCallId": "{run}/p", "content": "ok"}),
    ),
}


@pytest.mark.parametrize("path", [*PAINTED])
async def test_a_tool_of_the_frontend_is_answered_in_another_process(tmp_path: Path, path: str) -> None:
    database = database_in(tmp_path)
    first, second = PAINTED[path]

    def authorize(request: Any) -> str:
        return str(request.headers.get("x-user", ""))

    async with serving(create_app(painter(database), authorize=authorize), headers=ANN) as client:
        asked = await client.post(path, json=first)
        assert asked.status_code == 200, asked.text
        assert "paint" in asked.text
    second = json.loads(json.dumps(second).replace("{run}", asked.headers["x-run-id"][-12:]))
    async with serving(create_app(painter(database), authorize=authorize), headers=ANN) as client:
        stranger = await client.post(path, json=second, headers=BOB)
        assert stranger.status_code == 409 or "RUN_ERROR" in stranger.text
        answered = await client.post(path, json=second)
        assert answered.status_code == 200, answered.text
        assert answered.headers["x-run-id"] == asked.headers["x-run-id"]
        assert '"ok"' in answered.text  # the answer of the run is the result of the tool


@pytest.mark.parametrize("is_durable", [False, True])
async def test_a_decision_that_does_not_fit_is_400_and_one_that_comes_too_late_409(
    is_durable: bool, tmp_path: Path
) -> None:
    """The same for an agent and for a durable agent."""
    calls = (ToolCall("a", "refund", {"amount": 5}), ToolCall("b", "locate", {}))
    clock = FakeClock()
    agent = scripted(LlmResponse("", calls), "done", approval_ttl=60.0, clock=clock)
    served: Any = agent
    if is_durable:
        served = DurableAgent(agent, "desk", database_url=database_in(tmp_path), clock=clock)
    async with serving(create_app(served)) as client:
        waiting = (await client.post("/runs", json={"task": "x", "run_id": "r"})).json()["pending"]
        refund, locate = [item["token"] for item in waiting]
        approve, provide = {"kind": "approve"}, {"kind": "provide", "value": "here"}

        for late, (first, second), status in (
            (0, (approve, approve), 400),
            (61, (approve, provide), 409),
        ):
            clock.advance(late)
            answer = await client.post("/runs/r/decisions", json={refund: first, locate: second})
            assert answer.status_code == status, answer.text
    if is_durable:
        await served.close()


async def test_decisions_on_several_calls_are_all_kept_or_none(tmp_path: Path) -> None:
    async with serving(create_app(painter(database_in(tmp_path)))) as client:
        waiting = (await client.post("/runs", json={"task": "Erase", "run_id": "r"})).json()
        one, two = (item["token"] for item in waiting["pending"])
        fitting, odd = {"kind": "approve_with", "args": {"number": 7}}, {"kind": "approve_with", "args": {}}
        for wrong, status in (
            ({one: fitting, two: odd}, 400),
            ({one: odd, two: fitting}, 400),
            ({one: fitting}, 409),
        ):
            refused = await client.post("/runs/r/decisions", json=wrong)
            assert refused.status_code == status, refused.text
        done = await client.post("/runs/r/decisions", json={one: fitting, two: {"kind": "approve"}})
        assert done.json()["output"] == "erased 7 and erased 2"


async def test_a_run_id_that_two_callers_send_at_once_belongs_to_one(tmp_path: Path) -> None:
    agent = DurableAgent(scripted("a secret"), database_url=database_in(tmp_path))
    async with serving(create_app(agent, authorize=lambda request: request.headers["x-user"])) as client:
        order = {"task": "?", "run_id": "same"}
        answers = await asyncio.gather(
            *(client.post("/runs", json=order, headers=who) for who in (ANN, BOB, ANN, BOB))
        )
    by_caller = {tuple(one.status_code for one in answers[first::2]) for first in (0, 1)}
    assert by_caller == {(200, 200), (404, 404)}


@pytest.mark.parametrize("is_alive", [False, True], ids=["the first app has ended", "both apps live"])
async def test_an_answer_after_a_decision_in_another_app_is_part_of_its_conversation(
    tmp_path: Path, is_alive: bool
) -> None:
    def app() -> Any:
        store = SqliteConversations(tmp_path / "talks.db")
        return create_app(painter(database_in(tmp_path)), conversations=store)

    order = {"task": "Erase", "conversation": "c"}
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(serving(app()))
        for run_id in ("r-1", "r-2"):  # the same is asked and answered twice
            waiting = (await first.post("/runs", json={**order, "run_id": run_id})).json()
            if not is_alive:
                await stack.aclose()
            second = await stack.enter_async_context(serving(app()))
            decisions = {item["token"]: {"kind": "approve"} for item in waiting["pending"]}
            assert (await second.post(f"/runs/{run_id}/decisions", json=decisions)).status_code == 200
            first = second
        await asyncio.sleep(2.5 if is_alive else 0.2)  # so long an app waits between two looks
    said = await SqliteConversations(tmp_path / "talks.db").open("c").read()
    assert [message.role for message in said] == [Role.USER, Role.ASSISTANT] * 2


async def test_a_question_of_a_run_inside_a_durable_one_is_answered_by_its_thread(tmp_path: Path) -> None:
    inner = scripted(REFUND, "inside", name="inner")
    outer = scripted(say(ToolCall("i1", "inner", {"task": "?"})), "done", tools=[inner.as_tool()])
    app = create_app(DurableAgent(outer, database_url=database_in(tmp_path)))
    asked: dict[str, Any] = {"threadId": "t", "messages": [{"id": "u", "role": "user", "content": "?"}]}
    asked |= {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    async with serving(app) as client:
        waiting = await read(client, "POST", "/ag-ui", json={**asked, "runId": "1"})
        (asks,) = waiting[-1].data["outcome"]["interrupts"]
        answer = [{"interruptId": asks["id"], "status": "resolved", "payload": {"approved": True}}]
        done = await read(client, "POST", "/ag-ui", json={**asked, "runId": "2", "resume": answer})
    assert done[-1].data["result"] == "done"


async def test_a_conversation_and_settings_are_those_of_the_durable_run(tmp_path: Path) -> None:
    seen: list[tuple[int, float | None]] = []

    def reply(request: LlmRequest) -> str:
        seen.append((len(request.messages), request.settings.temperature))
        return "yes"

    database = database_in(tmp_path)
    agent: DurableAgent[Any] = DurableAgent(Agent(FunctionLlm(reply), name="talker"), database_url=database)
    body = {"task": "?", "conversation": "c", "settings": {"temperature": 0.5}}
    async with serving(create_app(agent)) as client:
        for _ in range(4):
            answer = await client.post("/runs", json=body)
            assert answer.json()["output"] == "yes", answer.text
    assert seen == [(1, 0.5), (3, 0.5), (5, 0.5), (7, 0.5)]


async def test_an_a2a_task_keeps_its_context_in_another_process(tmp_path: Path) -> None:
    async def call(client: httpx2.AsyncClient, method: str, **params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = (await client.post("/a2a", json=body, headers=ANN)).json()["result"]
        return answer.get("task", answer)

    def app() -> Any:
        agent = durable(database_in(tmp_path), tmp_path / "hops")
        return create_app(agent, authorize=lambda request: request.headers.get("x-user"))

    message: dict[str, Any] = {"messageId": "1", "role": "ROLE_USER", "contextId": "the trip, März"}
    async with serving(app()) as client:
        task = await call(client, "SendMessage", message={**message, "parts": [{"text": "go"}]})
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    async with serving(app()) as client:
        assert (await call(client, "GetTask", id=task["id"]))["contextId"] == message["contextId"]
        (item,) = task["status"]["message"]["parts"][1]["data"]["pending"]
        answer = {**message, "taskId": task["id"], "parts": [{"data": {item["token"]: {"kind": "approve"}}}]}
        done = await call(client, "SendMessage", message=answer)
        assert (done["status"]["state"], done["contextId"]) == ("TASK_STATE_COMPLETED", message["contextId"])


def test_a_durable_agent_makes_its_own_deps(tmp_path: Path) -> None:
    agent = durable(database_in(tmp_path), tmp_path / "hops")
    with pytest.raises(ConfigError, match="its own deps"):
        create_app(agent, deps=lambda _: 1)


async def test_nobody_hides_the_waiting_approval_of_another(tmp_path: Path) -> None:
    """Bob knows the name of Ann and of her chat, and writes the prefix of her runs wherever he can."""

    def authorize(request: Any) -> str:
        return str(request.headers.get("x-user", ""))

    agent = DurableAgent(scripted(REFUND, "done"), "desk", database_url=database_in(tmp_path), version="v1")
    async with serving(create_app(agent, authorize=authorize)) as client:
        chat = {**ui_request(), "tools": []}
        asked = await read(client, "POST", "/ai-sdk", json=chat, headers=ANN)
        call = next(frame.data for frame in asked if frame.data["type"] == "tool-approval-request")
        thread = thread_of("ann", "chat")
        for name in ("x", "y"):
            order = {"task": f"{thread} {name}", "run_id": f"{thread}-{name}"}
            assert (await client.post("/runs", json=order, headers=BOB)).status_code == 202
        part = {
            "type": "tool-refund",
            "toolCallId": call["toolCallId"],
            "state": "approval-responded",
            "approval": {"id": call["approvalId"], "approved": True},
        }
        answer = {**chat, "messages": [*chat["messages"], {"id": "2", "role": "assistant", "parts": [part]}]}
        sent = await read(client, "POST", "/ai-sdk", json=answer, headers=ANN)
    assert {"refunded 5"} == {frame.data["output"] for frame in sent if "output" in frame.data}
