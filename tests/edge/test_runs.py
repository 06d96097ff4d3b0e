"""The plain API: a run is started, followed, decided on and cancelled over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from tests.durable.databases import database_in
from wesichain import Agent, ToolCall, ToolContext, tool
from wesichain.agent import MemoryConversations, SqliteConversations
from wesichain.core import LlmResponse, Message, ModelResponded, Role, RunStarted, Usage
from wesichain.core.events import HandedOff
from wesichain.core.internal import Price
from wesichain.durable import DurableAgent
from wesichain.edge import Identity, Limits, create_app
from wesichain.edge.runs import (
    ConversationDirectory,
    CostMeter,
    error_text,
    new_run_id,
    status_of,
    thread_of,
)
from wesichain.errors import (
    ApprovalExpiredError,
    BudgetExceededError,
    ConfigError,
    GuardrailError,
    LoopDetectedError,
    ModelRefusedError,
    ModelTransportError,
    ReplayMismatchError,
    StoreError,
)

from .kit import frames, read, say, scripted, serving

WEATHER = say(ToolCall("w1", "weather", {"city": "Bern"}))
REFUND = say(ToolCall("r1", "refund", {"amount": 5}))
LOCATE = say(ToolCall("l1", "locate", {}))


# --- cancelling and leaving --------------------------------------------------------------------------


class Slow:
    """A tool that waits to be let go, and says when it was begun and how it ended."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.ended: list[str] = []

    def agent(self) -> Agent[Any, Any]:
        @tool(name="slow", timeout=60)
        async def slow(ctx: ToolContext) -> str:
            """Wait."""
            self.begun.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.ended.append("cancelled")
                raise
            self.ended.append("done")
            return "waited"

        return scripted(say(ToolCall("s1", "slow", {})), "done", tools=[slow])


async def test_a_run_is_cancelled() -> None:
    slow = Slow()
    async with serving(create_app(slow.agent())) as client:
        answer = asyncio.create_task(client.post("/runs", json={"task": "?", "run_id": "r-1"}))
        await slow.begun.wait()
        assert (await client.post("/runs/r-1/cancel")).json() == {"run_id": "r-1", "cancelled": True}
        assert (await answer).status_code == 409
        assert (await client.post("/runs/r-1/cancel")).status_code == 409
        events = await read(client, "GET", "/runs/r-1/events")
    assert slow.ended == ["cancelled"]
    assert events[-1].data["kind"] == "run_interrupted"


CHAT = {"id": "c", "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "?"}]}]}
PAGE = {"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "?"}]}


@pytest.mark.parametrize(
    ("path", "body", "end"),
    [("/ai-sdk", CHAT, {"type": "abort"}), ("/ag-ui", PAGE, {"outcome": {"type": "cancelled"}})],
)
async def test_a_stream_says_that_its_run_was_cancelled(path: str, body: Any, end: Any) -> None:
    slow = Slow()
    async with (
        serving(create_app(slow.agent())) as client,
        client.stream("POST", path, json=body) as response,
    ):
        await slow.begun.wait()
        assert (await client.post(f"/runs/{response.headers['x-run-id']}/cancel")).status_code == 200
        said = [frame.data async for frame in frames(response) if frame.data != "[DONE]"]
    assert said[-1].items() >= end.items()


@pytest.mark.parametrize(
    ("path", "stay"), [("/runs", False), ("/runs/stream", True), ("/runs/stream", False)]
)
async def test_a_client_that_leaves_cancels_a_run_that_was_not_told_to_stay(path: str, stay: bool) -> None:
    slow = Slow()
    async with serving(create_app(slow.agent())) as client:

        async def ask() -> None:
            async with client.stream(
                "POST", path, json={"task": "?", "run_id": "r", "stay": stay}
            ) as response:
                await response.aread()

        asking = asyncio.create_task(ask())
        await slow.begun.wait()
        asking.cancel()
        await asyncio.wait([asking])
        if stay:
            await asyncio.sleep(0.05)
            assert slow.ended == []
            slow.go.set()
        events = await read(client, "GET", "/runs/r/events")
    assert events[-1].data["kind"] == ("run_completed" if stay else "run_interrupted")
    assert slow.ended == ["done" if stay else "cancelled"]


# --- the world of a caller ---------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "body"), [("/runs", {"task": "?"}), ("/ag-ui", PAGE)])
@pytest.mark.parametrize("where", ["deps", "authorize"])
async def test_nothing_of_an_error_in_the_services_own_functions_leaves(
    where: str, path: str, body: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(_: Any) -> None:
        raise HTTPException(402, "pay first")

    def fail(_: Any) -> str:
        raise RuntimeError("password=hunter2")

    for function, status in ((refuse, 402), (fail, 500)):
        given: dict[str, Any] = {where: function}
        async with serving(create_app(scripted("hi"), **given)) as client:
            answer = await client.post(path, json=body)
        assert answer.status_code == status, answer.text
        assert "hunter2" not in answer.text
        assert ("pay first" in answer.text) is (status == 402)
        assert ("RuntimeError: password=hunter2" in caplog.text) is (status == 500), "the log has it"


@pytest.mark.parametrize(
    ("identity", "owner"), [("ann", "ann"), ({"team": 7}, '{"team":7}'), (7, "7"), (True, "")], ids=str
)
async def test_a_run_belongs_to_the_identity_of_its_caller(identity: Any, owner: str) -> None:
    app = create_app(scripted("hi"), authorize=lambda _: identity)
    async with serving(app) as client:
        assert (await client.post("/runs", json={"task": "?", "run_id": "r"})).status_code == 200
        assert (await app.state.runs.get(owner, "r")).run_id == "r"
        assert await app.state.runs.find("bob", "r") is None


class FullInbox:
    def put(self, outcome: Any) -> None:
        raise OSError("no space left")

    claim = take = put


async def test_a_run_waits_though_the_inbox_is_full(caplog: pytest.LogCaptureFixture) -> None:
    inbox: Any = FullInbox()
    async with serving(create_app(scripted(REFUND, "done"), inbox=inbox)) as client:
        waiting = await client.post("/runs", json={"task": "?", "run_id": "r"})
    assert waiting.status_code == 202
    assert "the waiting run r could not be added to the inbox" in caplog.text


class LostConversations(MemoryConversations):
    async def append(self, id: str, turn: Any) -> None:
        raise StoreError("the disk is full")


async def test_a_turn_that_cannot_be_stored_is_an_error_of_its_run() -> None:
    async with serving(create_app(scripted("hi"), conversations=LostConversations())) as client:
        answer = await client.post("/runs", json={"task": "?", "conversation": "c"})
    assert (answer.status_code, "the disk is full" in answer.json()["error"]) == (500, True)


# --- the rest ----------------------------------------------------------------------------------------


async def test_health_and_the_description() -> None:
    async with serving(create_app(scripted("hi"), path="/v1")) as client:
        assert (await client.get("/v1/health")).json() == {"status": "ok"}
        described = (await client.get("/v1/openapi.json")).json()
        assert (await client.post("/v1/runs", json={"task": "?"})).json()["output"] == "hi"
    assert described["openapi"] == "3.1.0"
    assert "/v1/runs/{id}/decisions" in described["paths"]
    bodies = [
        end["requestBody"]
        for at in described["paths"].values()
        for end in at.values()
        if "requestBody" in end
    ]
    assert [body["required"] for body in bodies] == [True] * 3
    ends = [end for at in described["paths"].values() for end in at.values()]
    places = {
        (one["name"], one["in"], one.get("required", False))
        for end in ends
        for one in end.get("parameters", ())
    }
    assert places == {("id", "path", True), ("Last-Event-ID", "header", False)}
    named = {*re.findall(r"#/components/schemas/(\w+)", json.dumps(described["paths"]))}
    assert named == {*described["components"]["schemas"]}, "each schema is that of a body or an answer"


@pytest.mark.parametrize(
    "wrong",
    [{"path": "v1"}, {"path": "/v1/"}, {"cors": "https://a.example"}, {"cors": ["*"]}],
    ids=str,
)
def test_what_cannot_be_served_is_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        create_app(scripted("hi"), **wrong)
    with pytest.raises(ConfigError):
        create_app({})
    with pytest.raises(ConfigError, match=r"Limits\(runs=0\) must be above zero"):
        Limits(runs=0)
    with pytest.raises(ConfigError):
        create_app("agent")  # type: ignore[arg-type]


def test_a_run_that_has_ended_is_known_to_another_event_loop() -> None:
    client = TestClient(create_app(scripted("hi")))  # without `with`, each request has a loop of its own
    first = client.post("/runs", json={"task": "a", "run_id": "r"})
    again = client.post("/runs", json={"task": "a", "run_id": "r"})
    assert (again.status_code, again.json()) == (200, first.json())


async def test_an_order_that_is_sent_twice_at_once_is_one_run(tmp_path: Path) -> None:
    paid: list[int] = []

    @tool(effect="once")
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        await asyncio.sleep(0)
        return "paid"

    agent = scripted(say(ToolCall("p1", "pay", {"amount": 5})), "done", tools=[pay])
    store = SqliteConversations(tmp_path / "talks.db")
    async with serving(create_app(agent, conversations=store)) as client:
        order = {"task": "?", "run_id": "r", "conversation": "c"}
        answers = await asyncio.gather(*(client.post("/runs", json=order) for _ in range(5)))
    store.close()
    assert [answer.json()["output"] for answer in answers] == ["done"] * 5
    assert paid == [5]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (GuardrailError("x"), 422),
        (ModelRefusedError("x"), 422),
        (BudgetExceededError("x"), 422),
        (LoopDetectedError("x"), 422),
        (ReplayMismatchError("x"), 422),
        (ApprovalExpiredError("x"), 409),
        (ConfigError("x"), 400),
        (ModelTransportError("x"), 502),
        (ValueError("x"), 500),
    ],
)
def test_the_status_of_a_failed_run(error: Exception, status: int) -> None:
    assert status_of(error) == status


def test_the_words_of_an_error_have_no_secret_and_an_end() -> None:
    assert error_text(ValueError("no key sk-proj-abcdefghijklmnopqrstuvwxyz0123")).startswith("no key [")
    assert error_text(ValueError("x " * 400)) == "x " * 250


def test_the_runs_of_a_conversation_are_found_by_their_ids() -> None:
    thread = thread_of("ann", "c")
    assert (len(thread), thread == thread_of("ann", "c")) == (24, True)
    assert len({thread, thread_of("bob", "c"), thread_of("ann", "d"), thread_of("", "c")}) == 4
    assert new_run_id("ann", "c").startswith(f"{thread}-")
    assert new_run_id("ann", "c") != new_run_id("ann", "c")
    assert "-" not in new_run_id("ann", None)


async def test_a_conversation_belongs_to_its_owner_in_this_process_or_another() -> None:
    store = MemoryConversations()
    assert ConversationDirectory(store, 100).open("ann", None) is None
    mine = ConversationDirectory(store, 100).open("ann", "c")
    await mine.extend(Message(Role.USER, "hello"))
    for _ in range(2):
        talks = ConversationDirectory(store, 100)
        assert await talks.open("bob", "c").read() == ()
        assert [message.text for message in await talks.open("ann", "c").read()] == ["hello"]
        assert talks.open("", "open").id == "open"


class Report(BaseModel):
    """A typed answer."""

    city: str
    at: datetime


REPORT = '{"city":"Bern","at":"2026-01-01T00:00:00Z"}'


@pytest.mark.parametrize("is_durable", [False, True], ids=["plain", "durable"])
async def test_a_typed_answer_is_json(is_durable: bool, tmp_path: Path) -> None:
    agent: Any = scripted(REPORT, output_type=Report, tools=[])
    if is_durable:
        agent = DurableAgent(agent, "typed", database_url=database_in(tmp_path), version="v1")
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "go"}]}
    chat = {"id": "c", "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "go"}]}]}

    def rpc(method: str) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}

    async with serving(create_app(agent)) as client:
        whole = await client.post("/runs", json={"task": "go"})
        task = (await client.post("/a2a", json=rpc("SendMessage"))).json()["result"]["task"]
        sent = [frame.data for frame in await read(client, "POST", "/a2a", json=rpc("SendStreamingMessage"))]
        page = [frame.data for frame in await read(client, "POST", "/ai-sdk", json=chat)]
        events = [frame.data for frame in await read(client, "POST", "/runs/stream", json={"task": "go"})]
    value = json.loads(REPORT)
    assert (whole.status_code, whole.json()["output"]) == (200, value)
    assert task["artifacts"][0]["parts"][0]["data"] == value
    updates = [one["result"]["artifactUpdate"] for one in sent if "artifactUpdate" in one["result"]]
    assert updates[-1]["artifact"]["parts"][0]["data"] == value
    assert {"type": "data-output", "data": value} in page
    assert json.loads(events[-1]["output"]) == value


def responded(model_cost: float, *, scope: str = "") -> ModelResponded:
    response = LlmResponse("x", usage=Usage(1_000_000, 1_000_000))
    return ModelResponded("r", 1, 2, 0.0, response, 1.0, cost=model_cost, scope=scope)


@pytest.mark.parametrize(
    ("prices", "costs", "cost"),
    [
        ({"m": Price(1, 2)}, [0.0], 3.0),
        ({"m": Price(1, 2)}, [9.0, 9.0], 6.0),
        ({"other": Price(1, 2)}, [0.5, 0.25], 0.75),
        (None, [0.5, 0.0], 0.5),
        (None, [0.0], None),
        (None, [], None),
    ],
)
def test_what_a_run_costs(prices: Any, costs: list[float], cost: float | None) -> None:
    meter = CostMeter(prices)
    meter.add(RunStarted("r", 0, 0, 0.0, "x", "m", ()))
    for one in costs:
        meter.add(responded(one))
    assert meter.cost(cast("Any", SimpleNamespace(cost=None))) == cost


def test_each_agent_of_a_run_costs_what_its_model_costs() -> None:
    meter = CostMeter({"m": Price(1, 0), "n": Price(10, 0)})
    meter.add(RunStarted("r", 0, 0, 0.0, "x", "m", ()))
    meter.add(RunStarted("r", 0, 0, 0.0, "x", "n", (), scope="below"))
    meter.add(responded(0.0, scope="below"))
    meter.add(HandedOff("r", 1, 3, 0.0, "a", "b", model="n"))
    meter.add(responded(0.0))
    assert meter.cost(cast("Any", SimpleNamespace(cost=7))) == 20.0
    assert CostMeter(None).cost(cast("Any", SimpleNamespace(cost=7))) == 7


async def test_a_stream_goes_on_where_a_client_was() -> None:
    """A client whose connection broke sends its request again, with the number of the last event."""
    order = {"task": "?", "run_id": "r", "stay": True}
    async with serving(create_app(scripted(WEATHER, "sunny"))) as client:
        first = await read(client, "POST", "/runs/stream", json=order, most=4)
        rest = await read(client, "POST", "/runs/stream", json=order, after=first[-1].id)
        whole = await read(client, "GET", "/runs/r/events")
    assert [frame.id for frame in [*first, *rest]] == [frame.id for frame in whole]


async def test_an_identity_owns_its_runs_and_its_roles_reach_the_deps() -> None:
    def authorize(request: Any) -> Identity:
        return Identity(request.headers["x-user"], roles=("teller",))

    @tool
    async def roles(ctx: ToolContext[Identity]) -> str:
        """The caller's roles."""
        return f"{ctx.deps.id} is a {ctx.deps.roles[0]}"

    agent = scripted(say(ToolCall("c", "roles", {})), "done", tools=[roles])
    app = create_app(agent, authorize=authorize, deps=lambda request: request.state.identity)
    async with serving(app) as client:
        sent = await client.post("/runs", json={"task": "?", "run_id": "r"}, headers={"x-user": "ann"})
        assert sent.status_code == 200
        events = await read(client, "GET", "/runs/r/events", headers={"x-user": "ann"})
        assert (await client.get("/runs/r/events", headers={"x-user": "bob"})).status_code == 404
    assert "ann is a teller" in [frame.data.get("value") for frame in events]
