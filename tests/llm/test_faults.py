"""Faults: each refusal, silence and broken reply of a provider as one whole line, and whether to try again."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests import expected
from wesichain.core.internal import register_secret
from wesichain.errors import LlmError, LlmRejectedError, LlmResponseError, LlmTransportError
from wesichain.llm.bedrock.frames import FrameScanner
from wesichain.llm.transport.faults import Endpoint, retry_after
from wesichain.llm.transport.http import HttpTransport, ProviderRoute, Scanner
from wesichain.llm.transport.retry_limits import RetryLimits
from wesichain.llm.transport.sse import SseScanner

NOW = 1_700_000_000.0
AT = Endpoint("api.test", model="m", key_variable="THE_KEY", key="sk-secret")


class Client:
    """The owner of the key."""


@pytest.fixture(autouse=True)
def client() -> Client:
    client = Client()
    register_secret("sk-secret", owner=client)
    return client


CHANGE = "the request was not accepted: change it"
LATER = "the provider is overloaded or failing: try again later"
QUOTA = "the quota is used up: check the plan and the billing"
SHORTEN = "the conversation is too long for the model: shorten it"
MODEL = "check the model's name ('m') and base_url"
SLOWER = "it allows fewer requests: wait, or use a RateLimiter"
NO_EYES = "the model does not accept such content: leave it out, or set traits=LlmTraits(images=False)"
FINAL = "redirects are not followed, to protect the key: set base_url to the final address"


def coded(code: str, message: str = "So it is") -> str:
    return json.dumps({"error": {"message": message, "code": code}})


REFUSALS = [
    # status, body, retryable, the line behind "api.test answered "
    (300, "{}", False, f"300; {FINAL}"),
    (399, "{}", False, f"399; {FINAL}"),
    (400, "{}", False, f"400; {CHANGE}"),
    (400, coded("model_not_found"), False, f"400: So it is; {MODEL}"),
    (400, coded("context_length_exceeded"), False, f"400: So it is; {SHORTEN}"),
    (400, coded("content_filter"), False, "400: So it is; its content filter rejected the prompt: rephrase it"),
    (401, coded("invalid_api_key"), False, "401: So it is; check the key: THE_KEY or api_key="),
    (402, "{}", False, f"402; {QUOTA}"),
    (403, "{}", False, "403; check that the key may use 'm'"),
    (404, "{}", False, f"404; {MODEL}"),
    (404, "  <html>It works!</html>", False, f"404: an HTML page; {MODEL}"),
    (408, "{}", True, f"408; {LATER}"),
    (409, "{}", True, f"409; {LATER}"),
    (413, "{}", False, f"413; {SHORTEN}"),
    (422, "{}", False, f"422; {CHANGE}"),
    (425, "{}", True, f"425; {LATER}"),
    (429, "{}", True, f"429; {SLOWER}"),
    (429, coded("insufficient_quota"), False, f"429: So it is; {QUOTA}"),
    (499, "{}", False, f"499; {CHANGE}"),
    (500, "{}", True, f"500; {LATER}"),
    (500, coded("", "Image input is not supported"), False, f"500: Image input is not supported; {NO_EYES}"),
    (503, "", True, f"503; {LATER}"),
    (418, '[{"error": {"detail": "in a list"}}]', False, f"418: in a list; {CHANGE}"),
    (418, "[]", False, f"418; {CHANGE}"),
    (418, "[1]", False, f"418; {CHANGE}"),
    (418, '{"error": "as a text"}', False, f"418: as a text; {CHANGE}"),
    (418, '{"msg": "at the top"}', False, f"418: at the top; {CHANGE}"),
    (418, '{"message": 1, "detail": "the first text"}', False, f"418: the first text; {CHANGE}"),
    (418, '{"error": {}, "message": "beside it"}', False, f"418: beside it; {CHANGE}"),
    (418, "no JSON:\x1b\nsk-secret", False, f"418: no JSON: [redacted:registered]; {CHANGE}"),
    (418, "x" * 301, False, f"418: {'x' * 300}; {CHANGE}"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "retryable", "line"), REFUSALS)
def test_a_refusal_is_one_line_that_says_what_to_do(
    status: int, body: str, retryable: bool, line: str
) -> None:
    error = AT.refused(status, body, headers={}, now=NOW)
    assert str(error) == f"api.test answered {line}"
    kind = LlmTransportError if retryable or status == 429 else LlmRejectedError
    assert (type(error), error.retryable) == (kind, retryable)
    assert error.retry_after is None


@pytest.mark.parametrize(
    ("endpoint", "advice"),
    [
        (
            Endpoint("h", model="m", key_variable="THE_KEY"),
            "no key was sent, as THE_KEY is for its own host only: pass api_key=",
        ),
        (
            Endpoint("h", model="m", key_variable="THE_KEY", key="k", is_borrowed=True),
            "check the key of the client that was passed as client=",
        ),
    ],
)
def test_a_refused_key_is_looked_for_where_it_came_from(endpoint: Endpoint, advice: str) -> None:
    assert str(endpoint.refused(401, "", headers={}, now=NOW)) == f"h answered 401; {advice}"


@pytest.mark.parametrize(
    ("status", "verdict", "retryable"),
    [(400, "true", True), (500, "false", False), (500, "maybe", True), (400, "maybe", False)],
)
def test_the_provider_knows_better_whether_to_ask_again(status: int, verdict: str, retryable: bool) -> None:
    error = AT.refused(status, "", headers={"x-should-retry": verdict}, now=NOW)
    assert error.retryable is retryable


DETAILS = {"error": {"details": [1, {"retryDelay": 3}, {"retryDelay": "34s"}]}}


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        pytest.param({"retry-after": "1.5"}, "", 1.5, id="seconds"),
        pytest.param({"retry-after": formatdate(NOW + 3, usegmt=True)}, "", 3.0, id="an-http-date"),
        pytest.param({"retry-after": "Tue, 14 Nov 2023 22:13:23"}, "", 3.0, id="a-date-without-a-zone"),
        pytest.param({"retry-after": formatdate(NOW, usegmt=True)}, "", 0.0, id="now"),
        pytest.param({"retry-after": formatdate(NOW - 1, usegmt=True)}, "", None, id="the-past"),
        pytest.param({"retry-after-ms": "250", "retry-after": "9"}, "", 0.25, id="milliseconds-win"),
        pytest.param({"retry-after": "0"}, "", 0.0, id="at-once"),
        pytest.param({"retry-after": "soon"}, "", None, id="nonsense"),
        pytest.param({"retry-after": "-5"}, "", None, id="a-negative-one"),
        pytest.param({"retry-after": "nan"}, "", None, id="no-number"),
        pytest.param({}, json.dumps(DETAILS), 34.0, id="in-the-details-of-google"),
        pytest.param({"retry-after": "0"}, json.dumps(DETAILS), 0.0, id="a-header-wins"),
        pytest.param({}, '{"error": {"details": "none"}}', None, id="details-that-are-none"),
    ],
)
def test_the_wait_that_a_provider_asks_for(headers: dict[str, str], body: str, seconds: float | None) -> None:
    error = AT.refused(429, body, headers=headers, now=NOW)
    assert error.retry_after == seconds
    assert body or retry_after(headers, now=NOW) == seconds


def unreadable(scanner: Scanner) -> LlmError:
    with pytest.raises(LlmResponseError) as caught:
        scanner.feed(b"\xff" * 31 + b"\n")
    return caught.value


REPORTED: list[Any] = [
    "as a text",
    None,
    {"message": "a", "type": "invalid_request_error"},
    {"message": "a", "code": "b", "type": "rate_limit_error"},
    *({"code": code} for code in (399, 400, 599, 600)),
    {"code": 500, "status_code": 404},
    {"type": "overloaded_error"},
]


def test_what_a_reply_says_of_itself_and_what_breaks_is_a_line() -> None:
    """In `whole_faults.txt`; what breaks is worth another try."""
    broken = {
        "unreachable": AT.unreachable(OSError("no route\nto sk-secret")),
        "unreachable, no words": AT.unreachable(OSError()),
        "overdue": AT.overdue(2.5),
        "silent": AT.silent(2.5),
        "cut": AT.cut(),
        "cut, no words": AT.cut(OSError()),
        "cut, so": AT.cut(OSError("so")),
        "unreadable": AT.unreadable("an\nempty body"),
        "no UTF-8": unreadable(SseScanner()),
        "no event stream": unreadable(FrameScanner()),
    }
    assert all(error.retryable for error in broken.values())
    told = {json.dumps(error): AT.reported(error) for error in REPORTED} | broken
    found = (f"{name}: {type(error).__name__} {error.retryable} {error}" for name, error in told.items())
    expected.check(Path(__file__).with_name("whole_faults.txt"), found)


async def nothing() -> AsyncGenerator[bytes]:
    yield b""


@pytest.mark.parametrize(
    ("content", "line"),
    [
        pytest.param(b"no tea", f"418: no tea; {CHANGE}", id="read"),
        pytest.param(nothing(), f"418; {CHANGE}", id="not-read"),
    ],
)
async def test_a_refusal_that_a_client_of_ones_own_has_raised_is_told_with_what_was_read(
    content: Any, line: str
) -> None:
    response = httpx2.Response(418, content=content)
    fault = httpx2.HTTPStatusError("no", request=httpx2.Request("POST", "http://h"), response=response)

    async def post(*_: object) -> httpx2.Response:
        raise fault

    transport = HttpTransport(
        lambda _: ProviderRoute(AT, post, httpx2.HTTPError),
        key=None,
        limits=RetryLimits(retries=0),
        max_bytes=1,
        scanner=SseScanner,
        is_borrowed=True,
    )
    with pytest.raises(LlmRejectedError) as caught:
        [item async for item in transport.send({}, lambda _: pytest.fail("no reply"), stream=False)]
    assert str(caught.value) == f"api.test answered {line}"
