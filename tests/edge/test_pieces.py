"""The pieces of the edge, each on its own: the gate, bodies, event logs and streams, costs, values of protocols."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tests.trace.runs import run as some_run
from tests.virtual_time import in_virtual_time
from wesichain import Agent
from wesichain.agent import MemoryConversations
from wesichain.core import (
    Audio,
    Document,
    Event,
    HandedOff,
    Image,
    LlmResponse,
    Message,
    ModelResponded,
    Role,
    RunStarted,
    StepStarted,
    Text,
    TextDelta,
    ToolCall,
    Usage,
)
from wesichain.core.internal import Approve, PendingCall, Price
from wesichain.edge import Limits, create_app
from wesichain.edge.a2a import _exact, _integer_if_equal
from wesichain.edge.bodies import (
    checked_conversation,
    checked_run_id,
    decisions_of,
    last_event_id,
    read_object,
    settings_of,
    task_of,
    text_of,
)
from wesichain.edge.event_log import EventLog, EventsExpiredError
from wesichain.edge.event_stream import EventStream, event_frames
from wesichain.edge.gate import Gate
from wesichain.edge.parts import PartReader, ReasoningPiece, StepBegan, TextPiece, frontend_tools, task_with
from wesichain.edge.runs import (
    CostMeter,
    Order,
    Talks,
    missing_decisions,
    new_run_id,
    status_of,
    thread_of,
    words_of,
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
)
from wesichain.testing import FunctionLlm

# --- the gate ----------------------------------------------------------------------------------------

Headers = Sequence[tuple[str, str]]
ADDED = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await Response("hello", headers={"cache-control": "max-age=5"})(scope, receive, send)


def gate(
    app: Any = hello, *, connections: int = 2, cors: Sequence[str] = (), hosts: Sequence[str] = ()
) -> Gate:
    return Gate(app, limits=Limits(connections=connections), cors=cors, hosts=hosts)


def scope_of(headers: Headers, method: str = "GET", kind: str = "http") -> dict[str, Any]:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    return {"type": kind, "method": method, "path": "/", "headers": raw, "query_string": b""}


async def through(app: Gate, headers: Headers, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope_of(headers, method), cast("Any", None), send)
    got = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], got, sent[1]["body"]


async def test_every_answer_has_the_headers_that_guard_it_and_keeps_its_own() -> None:
    status, headers, body = await through(gate(), [("host", "desk")])
    assert (status, body) == (200, b"hello")
    assert headers.items() >= {**ADDED, "cache-control": "max-age=5"}.items()
    assert not [name for name in headers if name == "vary" or name.startswith("access-control")]


@pytest.mark.parametrize(
    ("headers", "status", "says"),
    [
        ([("host", "desk")], 200, ""),
        ([("host", "DESK:8000")], 200, ""),
        ([("host", "other")], 400, "this host is not served here"),
        ([("host", "desk"), ("host", "desk")], 400, "this host is not served here"),
        ([], 400, "this host is not served here"),
        ([("host", "desk"), ("origin", "http://desk")], 200, ""),
        ([("host", "desk"), ("origin", "https://DESK")], 200, ""),
        ([("host", "desk:1"), ("origin", "https://desk:2")], 403, "requests of this origin are refused"),
        ([("host", "desk"), ("origin", "null")], 403, "requests of this origin are refused"),
        ([("host", "desk"), ("origin", "https://page")], 200, ""),
        ([("host", "desk"), ("origin", "https://page"), ("origin", "https://page")], 403, "name it in cors="),
    ],
)
async def test_who_is_let_in(headers: Headers, status: int, says: str) -> None:
    got, answered, body = await through(gate(cors=["https://page"], hosts=["Desk"]), headers)
    assert (got, says.encode() in body) == (status, True)
    assert answered["vary"] == "origin"
    is_page = ("origin", "https://page") in headers and status == 200
    allowed = {name: value for name, value in answered.items() if name.startswith("access-control")}
    assert allowed == (
        {
            "access-control-allow-origin": "https://page",
            "access-control-allow-credentials": "true",
            "access-control-expose-headers": "x-run-id, x-vercel-ai-ui-message-stream",
        }
        if is_page
        else {}
    )


@pytest.mark.parametrize(("origin", "status"), [("https://page", 204), ("http://desk", 200)])
async def test_a_page_that_is_named_is_told_what_it_may_send(origin: str, status: int) -> None:
    headers = [("host", "desk"), ("origin", origin)]
    got, answered, _ = await through(gate(cors=["https://page"]), headers, "OPTIONS")
    assert got == status
    assert (answered.get("access-control-max-age"), answered.get("access-control-allow-methods")) == (
        ("600", "GET, POST") if status == 204 else (None, None)
    )


async def test_as_many_requests_at_once_as_the_limit_says() -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        await go_on.wait()
        await hello(scope, receive, send)

    app = gate(slow, connections=1)
    first = asyncio.create_task(through(app, [("host", "desk")]))
    await entered.wait()
    status, headers, body = await through(app, [("host", "desk")])
    assert (status, headers["retry-after"]) == (503, "1")
    assert b"too many requests at once; try again" in body
    go_on.set()
    assert (await first)[0] == 200
    assert (await through(app, [("host", "desk")]))[0] == 200, "its place is free again"


async def test_what_is_no_request_passes() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    await gate(app, hosts=["desk"])(scope_of([], kind="lifespan"), cast("Any", None), cast("Any", None))
    assert seen == ["lifespan"]


# --- bodies ------------------------------------------------------------------------------------------

JSON = ("content-type", "application/json")


async def posted(body: bytes, *headers: tuple[str, str], limits: Limits | None = None) -> Any:
    chunks = [body[:4], body[4:]]

    async def receive() -> Any:
        if limits is not None and limits.body_seconds < 1:
            await asyncio.sleep(limits.body_seconds * 2)
        if not chunks:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

    request = Request(scope_of(headers, "POST"), receive)
    return await read_object(request, limits or Limits(body=16))


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON ; charset=UTF-8", 'application/json; charset="utf-8"']
)
async def test_a_body_of_json(kind: str) -> None:
    assert await posted(b'{"a":      "bc"}', ("content-type", kind), ("content-length", "16")) == {"a": "bc"}


@pytest.mark.parametrize(
    ("body", "headers", "status", "says"),
    [
        (b"{}", [], 415, "send JSON with the content type application/json"),
        (b"{}", [("content-type", "text/json")], 415, "send JSON with the content type application/json"),
        (b"{}", [("content-type", "application/json; charset=latin-1")], 415, "send JSON with the content"),
        (b"{}", [JSON, ("content-encoding", "gzip")], 415, "send the body without a content encoding"),
        (b"{}", [JSON, ("content-length", "two")], 400, "the content length is not a number"),
        (b"{}", [JSON, ("content-length", "²")], 400, "the content length is not a number"),
        (b"{}", [JSON, ("content-length", "1" * 20)], 400, "the content length is not a number"),
        (b"{}", [JSON, ("content-length", "1" * 19)], 413, "a body has at most 16 bytes"),
        (b"{}", [JSON, ("content-length", "17")], 413, "a body has at most 16 bytes"),
        (b'{"a":       "bc"}', [JSON], 413, "a body has at most 16 bytes"),
        (b"{", [JSON], 400, "the body is not JSON: "),
        (b'{"a": "\xff"}', [JSON], 400, "the body is not JSON: "),
        (b"[1]", [JSON], 400, "the body is not a JSON object"),
    ],
)
async def test_a_body_that_is_refused(body: bytes, headers: Headers, status: int, says: str) -> None:
    raw = [(name, value.encode().decode("latin-1")) for name, value in headers]
    with pytest.raises(HTTPException) as refused:
        await posted(body, *raw)
    assert refused.value.status_code == status
    assert refused.value.detail.startswith(says)


async def test_a_body_that_does_not_arrive() -> None:
    with pytest.raises(HTTPException, match=r"408: the body did not arrive in 0\.01 seconds"):
        await posted(b"{}", JSON, limits=Limits(body_seconds=0.01))

    async def leave() -> Any:
        return {"type": "http.disconnect"}

    with pytest.raises(HTTPException, match="400: the connection closed before the end of the body"):
        await read_object(Request(scope_of([JSON], "POST"), leave), Limits())


@pytest.mark.parametrize(
    ("read", "given", "found"),
    [
        (lambda value: text_of({"name": value}, "name"), "x", "x"),
        (lambda value: text_of({"name": value}, "name"), None, None),
        (lambda value: text_of({"name": value}, "name"), 1, "400: 'name' has to be a text"),
        (task_of, " go ", " go "),
        (task_of, " ", '400: send {"task": "..."}'),
        (task_of, 1, '400: send {"task": "..."}'),
        (checked_run_id, "r" * 128, "r" * 128),
        (checked_run_id, "r" * 129, "400: a run id has letters, digits and _ . : @ - (128 at most)"),
        (checked_run_id, "", "400: a run id has letters, digits and _ . : @ - (128 at most)"),
        (checked_conversation, None, None),
        (checked_conversation, "ü" * 256, "ü" * 256),
        (checked_conversation, "c" * 257, "400: the id of a conversation has 1 to 256 characters"),
        (checked_conversation, "", "400: the id of a conversation has 1 to 256 characters"),
        (checked_conversation, "a\x1fb", "400: the id of a conversation has 1 to 256 characters"),
        (decisions_of, {"t": {"kind": "approve"}}, {"t": Approve()}),
        (decisions_of, {"t": {"kind": "maybe"}}, "400: a decision is {token: {kind}}"),
        (decisions_of, {}, "400: send a decision for each token"),
        (settings_of, None, None),
        (settings_of, [], "400: 'settings' has to be an object of model settings, without 'extra'"),
        (settings_of, {"extra": {}}, "400: 'settings' has to be an object of model settings"),
        (settings_of, {"warmth": 1}, "400: the settings are not valid: "),
        (settings_of, {"temperature": "hot"}, "400: the settings are not valid: "),
    ],
)
def test_a_field_of_a_body(read: Any, given: Any, found: Any) -> None:
    if isinstance(found, str) and found.startswith("400"):
        with pytest.raises(HTTPException) as refused:
            read(given)
        assert str(refused.value).startswith(found)
    else:
        assert read(given) == found


@pytest.mark.parametrize(
    ("given", "number"),
    [("", 0), (" 12 ", 12), ("9" * 18, 10**18 - 1), ("9" * 19, None), ("-1", None), ("²", None), ("x", None)],
)
def test_the_number_that_a_reader_comes_back_with(given: str, number: int | None) -> None:
    request = Request({"type": "http", "headers": [(b"last-event-id", given.encode("latin-1"))]})
    if number is None:
        with pytest.raises(HTTPException, match="400: Last-Event-ID has to be the number of an event"):
            last_event_id(request)
    else:
        assert last_event_id(request) == number


@pytest.mark.parametrize("name", Limits.__slots__)
def test_a_limit_is_above_zero(name: str) -> None:
    assert getattr(Limits(**{name: 1}), name) == 1
    with pytest.raises(ConfigError, match=f"Limits\\({name}=0\\) must be above zero"):
        Limits(**{name: 0})


# --- event logs and streams --------------------------------------------------------------------------


def numbered(count: int) -> list[Event]:
    return [replace(event, seq=number) for number, event in enumerate(some_run("r", count), start=1)]


async def test_readers_of_a_log_end_when_it_is_closed_and_wait_when_it_is_opened_again() -> None:
    log, events = EventLog(most=100, patience=1.0), numbered(2)
    assert log.last_seq == 0
    for event in events[:3]:
        await log.append(event)
    assert log.last_seq == 3
    reader = log.follow(1)
    assert [event.seq for event in await anext(reader)] == [2, 3]
    following = asyncio.ensure_future(anext(reader, None))
    await asyncio.sleep(0)
    log.close()
    assert await following is None, "nobody works on the run"
    log.open(for_reader=False)
    again = log.follow(3)
    following = asyncio.ensure_future(anext(again, None))
    await asyncio.sleep(0)
    assert not following.done()
    await log.append(events[3])
    assert [event.seq for event in cast("Any", await following)] == [4]
    log.close()
    assert await anext(again, None) is None


@in_virtual_time
async def test_a_log_waits_for_the_reader_that_is_about_to_come_and_for_no_other() -> None:
    clock = asyncio.get_running_loop().time
    for is_expected in (True, False):
        log = EventLog(most=8, patience=5.0)
        log.open(for_reader=is_expected)
        began = clock()
        for event in numbered(6)[:12]:
            await log.append(event)
        assert round(clock() - began) == (5 if is_expected else 0)
        with pytest.raises(
            EventsExpiredError, match="the events after 0 are gone: the oldest that is kept is 4"
        ):
            log.follow(0)
        with pytest.raises(EventsExpiredError):
            log.follow(2)
        reader = log.follow(3)
        assert [event.seq for event in await anext(reader)] == [*range(4, 13)]


@in_virtual_time
async def test_a_reader_who_has_come_is_the_one_that_was_expected() -> None:
    log, clock = EventLog(most=8, patience=5.0), asyncio.get_running_loop().time
    log.open(for_reader=True)
    reader, seen, began = log.follow(0), 0, clock()
    for event in numbered(12)[:30]:
        await log.append(event)
        seen += len(await anext(reader))
    assert (seen, round(clock() - began)) == (30, 0)


class Client:
    """A run without a client yet, and what is sent to one."""

    def __init__(self) -> None:
        self.joined = 0
        self.frames: list[tuple[float, bytes]] = []
        self.left = asyncio.Event()
        self.is_stalled = False

    def join(self) -> None:
        self.joined += 1

    def leave(self) -> None:
        self.joined -= 1

    async def receive(self) -> Any:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            if self.is_stalled:
                await asyncio.sleep(1000)
            self.frames.append((round(asyncio.get_running_loop().time()), message["body"]))

    async def read(self, frames: AsyncIterator[bytes], **options: Any) -> float:
        """The time at which the stream has ended for this client."""
        stream = EventStream(cast("Any", self), frames, write_seconds=40, **options)
        await stream({"type": "http"}, self.receive, self.send)
        assert self.joined == 0
        return round(asyncio.get_running_loop().time())


async def slow_frames(*seconds: float) -> AsyncIterator[bytes]:
    for pause in seconds:
        await asyncio.sleep(pause)
        yield b"frame"


@in_virtual_time
async def test_a_silent_stream_pings_four_times_in_the_time_that_a_client_has() -> None:
    client = Client()
    assert await client.read(slow_frames(45)) == 45
    assert client.frames == [
        (10, b": ping\n\n"),
        (20, b": ping\n\n"),
        (30, b": ping\n\n"),
        (40, b": ping\n\n"),
        (45, b"frame"),
        (45, b""),
    ]


@in_virtual_time
async def test_a_client_who_reads_nothing_is_left_and_one_who_leaves_is_not_waited_for() -> None:
    stalled, gone = Client(), Client()
    stalled.is_stalled = True
    assert 40 <= await stalled.read(slow_frames(0, 0)) <= 50
    began = asyncio.get_running_loop().time()
    asyncio.get_running_loop().call_later(5, gone.left.set)
    assert await gone.read(slow_frames(1, 100)) == round(began + 5)
    assert [frame for _, frame in gone.frames] == [b"frame"]


async def test_a_stream_says_what_it_is_and_has_no_length() -> None:
    stream = EventStream(cast("Any", Client()), slow_frames(), write_seconds=1, headers={"x-run-id": "r"})
    assert dict(stream.headers) == {
        "x-accel-buffering": "no",
        "x-run-id": "r",
        "content-type": "text/event-stream; charset=utf-8",
    }


async def test_the_frame_of_an_event_has_its_number_where_one_can_come_back_to_it() -> None:
    async def batches() -> AsyncIterator[Sequence[Event]]:
        yield numbered(1)[:2]

    run: Any = SimpleNamespace(number=lambda event: event.seq if event.seq == 1 else None)
    (frame,) = [one async for one in event_frames(run, batches())]
    first, second = frame.decode().strip().split("\n\n")
    assert first.startswith('id: 1\ndata: {"kind":"run_started"')
    assert second.startswith("data: {")


# --- runs, costs and errors --------------------------------------------------------------------------


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
    assert words_of(ValueError("no key sk-proj-abcdefghijklmnopqrstuvwxyz0123")).startswith("no key [")
    assert words_of(ValueError("x " * 400)) == "x " * 250


def test_which_decisions_are_missing() -> None:
    pending = [PendingCall(ToolCall(name, name, {}), name) for name in "ab"]
    assert missing_decisions([], {}) == "the run does not wait for a decision"
    assert missing_decisions(pending, {"c": Approve()}) == "no call of this run waits for one of these tokens"
    assert missing_decisions(pending, {"a": Approve()}) == "decide on all calls at once; missing: b"
    assert missing_decisions(pending, {}) == "decide on all calls at once; missing: a, b"
    assert missing_decisions(pending, {"a": Approve(), "b": Approve()}) is None


def test_the_runs_of_a_conversation_are_found_by_their_ids() -> None:
    thread = thread_of("ann", "c")
    assert (len(thread), thread == thread_of("ann", "c")) == (24, True)
    assert len({thread, thread_of("bob", "c"), thread_of("ann", "d"), thread_of("", "c")}) == 4
    assert new_run_id("ann", "c").startswith(f"{thread}-")
    assert new_run_id("ann", "c") != new_run_id("ann", "c")
    assert "-" not in new_run_id("ann", None)


async def test_a_conversation_belongs_to_who_began_it_in_this_process_or_another() -> None:
    store = MemoryConversations()
    assert await Talks(store, 100).open("ann", None) is None
    mine = await Talks(store, 100).open("ann", "c")
    assert mine.id == "c\x1fann"
    await mine.extend(Message(Role.USER, "hello"))
    for _ in range(2):
        talks = Talks(store, 100)
        with pytest.raises(HTTPException, match="404: there is no such conversation"):
            await talks.open("bob", "c")
        assert (await talks.open("ann", "c")).id == "c\x1fann"
        assert (await talks.open("", "open")).id == "open"


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


# --- values of the protocols -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "sent"),
    [(5, 5), (2.5, 2.5), (2**60, 2**60), (2**53 + 1, "9007199254740993"), (10**400, "1" + "0" * 400)],
)
def test_a_number_that_no_float_has_is_sent_as_text(number: float, sent: Any) -> None:
    assert _exact(number) == sent


@pytest.mark.parametrize(("number", "found"), [(5.0, 5), (-0.5, -0.5), (1e20, 10**20)])
def test_a_float_that_is_an_integer_is_read_as_one(number: float, found: Any) -> None:
    assert (_integer_if_equal(number), type(_integer_if_equal(number))) == (found, type(found))


PIXEL = b64encode(b"\x89PNG\r\n\x1a\n").decode()


@pytest.mark.parametrize(
    ("media", "part"),
    [
        ("image/png", Image(b"\x89PNG\r\n\x1a\n", media_type="image/png")),
        ("audio/wav", Audio(b"\x89PNG\r\n\x1a\n", "audio/wav")),
        ("application/pdf", Document(b"\x89PNG\r\n\x1a\n", media_type="application/pdf")),
    ],
)
def test_a_file_is_the_part_that_its_type_says(media: str, part: Any) -> None:
    assert task_with("look", [(media, PIXEL)]) == (Text("look"), part)
    assert task_with(" ", [(media, PIXEL)]) == (part,)
    assert task_with("look", []) == "look"
    with pytest.raises(HTTPException, match="400: a file of the message cannot be read: "):
        task_with("look", [(media, "no base64!")])


def test_the_tools_that_a_page_brings_are_bounded() -> None:
    tool = ("t", "x" * 30_000, None)
    (made,) = frontend_tools([tool])
    assert (made.external, len(made.spec.description)) == (True, 20_000)
    assert made.spec.parameters == {"type": "object", "properties": {}}
    assert frontend_tools([("t", None, None)])[0].spec.description == "t"
    many = [(f"t{number}", "", None) for number in range(129)]
    assert len(frontend_tools(many[:128])) == 128
    for given, says in [
        (many, "a client brings at most 128 tools"),
        ([(5, "", None)], "a tool has a name and a description"),
        ([("t", 5, None)], "a tool has a name and a description"),
        ([("t", "", {"type": "array"})], ""),
    ]:
        with pytest.raises(HTTPException) as refused:
            frontend_tools(cast("Any", given))
        assert refused.value.status_code == 400
        assert says in refused.value.detail


@pytest.mark.parametrize("is_streamed", [True, False])
def test_the_text_of_a_step_is_shown_once(is_streamed: bool) -> None:
    reader = PartReader()
    response = LlmResponse("hello", reasoning="hm")
    events: list[Event] = [
        StepStarted("r", 1, 1, 0.0),
        TextDelta("r", 1, 2, 0.0, "hello" if is_streamed else ""),
    ]
    events += [ModelResponded("r", 1, 3, 0.0, response, 1.0), StepStarted("r", 2, 4, 0.0, scope="below")]
    found = [part for event in events for part in reader.of(event)]
    said = [TextPiece(1, "hello"), ReasoningPiece(1, "hm")]
    assert found == [StepBegan(1), *(said if is_streamed else said[::-1])]


async def test_an_app_that_ends_cancels_the_runs_of_this_process() -> None:
    async def reply(_: Any) -> str:
        await asyncio.Event().wait()
        return "never"

    app = create_app(Agent(FunctionLlm(reply)), protocols=False)
    async with app.router.lifespan_context(app):
        run = await app.state.runs.keeper(None).start(Order("r", "", "go", stay=True))
        assert await run.now() is None
    end = await run.now()
    assert end is not None, "its end is waited for"
    assert (end.state, end.outcome.reason) == ("cancelled", "the service ends")
