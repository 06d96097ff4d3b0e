"""What comes in: the gate that every request passes, and the bodies that are read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from wesichain.core.internal import Approve
from wesichain.edge import Limits
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
from wesichain.edge.gate import Gate
from wesichain.errors import (
    ConfigError,
)

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
        ([("host", "desk:1"), ("origin", "https://desk:2")], 403, "requests from this origin are refused"),
        ([("host", "desk"), ("origin", "null")], 403, "requests from this origin are refused"),
        ([("host", "desk"), ("origin", "https://page")], 200, ""),
        ([("host", "desk"), ("origin", "https://page"), ("origin", "https://page")], 403, "add it to cors="),
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


async def test_as_many_requests_at_once_as_the_limit_says() -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        assert not entered.is_set(), "it is one too many"
        entered.set()
        await go_on.wait()
        await hello(scope, receive, send)

    app = gate(slow, connections=1)
    for _ in range(2):  # the place is free again, and it is one
        entered.clear()
        go_on.clear()
        first = asyncio.create_task(through(app, [("host", "desk")]))
        await entered.wait()
        status, headers, body = await through(app, [("host", "desk")])
        assert (status, headers["retry-after"]) == (503, "1")
        assert b"too many requests at once; try again" in body
        go_on.set()
        assert (await first)[0] == 200


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
        (lambda value: text_of({"name": value}, "name"), 1, "400: 'name' must be a text"),
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
        (settings_of, [], "400: 'settings' must be an object of model settings, without 'extra'"),
        (settings_of, {"extra": {}}, "400: 'settings' must be an object of model settings"),
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
        with pytest.raises(HTTPException, match="400: Last-Event-ID must be the number of an event"):
            last_event_id(request)
    else:
        assert last_event_id(request) == number


@pytest.mark.parametrize("name", Limits.__struct_fields__)
def test_a_limit_is_above_zero(name: str) -> None:
    assert getattr(Limits(**{name: 1}), name) == 1
    with pytest.raises(ConfigError, match=f"Limits\\({name}=0\\) must be above zero"):
        Limits(**{name: 0})
