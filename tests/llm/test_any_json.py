"""Whatever a server sends, a reply is a response or an `LlmError`, for every API alike."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.llm.wires import BedrockWire, ChatWire, GeminiWire, MessagesWire, ResponsesWire
from wesichain.core import Image, ToolCall, to_json
from wesichain.errors import LlmError
from wesichain.llm.anthropic.message_reply import MessageReply
from wesichain.llm.bedrock.converse_reply import ConverseReply
from wesichain.llm.calls import ToolNames
from wesichain.llm.google.gemini_reply import GeminiReply
from wesichain.llm.openai.chat_reply import ChatReply
from wesichain.llm.openai.response_reply import ResponseReply
from wesichain.llm.transport.faults import Endpoint
from wesichain.llm.transport.http import Reply
from wesichain.llm.transport.sse import SseEvent
from wesichain.testing import ProviderReply

HERE = Endpoint("host", "m", key_variable="KEY")
SPOKEN = ProviderReply("hello", (ToolCall("c", "f", {"a": 1}),), "thought", "signed", finish="tool_calls")


def soup(fields: Sequence[str]) -> st.SearchStrategy[Any]:
    """JSON that is almost what an adapter expects: its own field names, around anything."""
    scalars = st.none() | st.booleans() | st.integers(-2, 600) | st.text(max_size=5) | st.sampled_from(fields)
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(fields), inner, max_size=6)
        ),
        max_leaves=40,
    )


def words(wire: Any) -> list[str]:
    """The words of an API: the names and texts in a reply that has everything."""
    written = wire.write(SPOKEN, stream=False) + wire.write(SPOKEN, stream=True) + b'"error", "citations"'
    return sorted({word.decode() for word in re.findall(rb'[":]([A-Za-z_.]{2,40})', written)})


def each_reply(kind: type[Reply], wire: Any) -> Any:
    return pytest.param(kind, soup(words(wire)), id=kind.__name__)


each_api = pytest.mark.parametrize(
    ("kind", "bodies"),
    [
        each_reply(ChatReply, ChatWire()),
        each_reply(ResponseReply, ResponsesWire()),
        each_reply(MessageReply, MessagesWire()),
        each_reply(ConverseReply, BedrockWire()),
        each_reply(GeminiReply, GeminiWire()),
    ],
)


@each_api
@given(data=st.data())
@draws(15)
def test_any_body(kind: type[Reply], bodies: Any, data: st.DataObject) -> None:
    body = data.draw(bodies)
    for given_body in (body, {"content": [body, body]}, {"choices": [{"message": body}]}, {"output": [body]}):
        with suppress(LlmError):
            to_json(kind(ToolNames(()), HERE).read(given_body))


@each_api
@given(data=st.data())
@draws(15)
def test_any_events(kind: type[Reply], bodies: Any, data: st.DataObject) -> None:
    reply = kind(ToolNames(()), HERE)
    names = st.sampled_from(
        ["", "error", "contentBlockStart", "contentBlockDelta", "messageStop", "metadata"]
    )
    with suppress(LlmError):
        for body in data.draw(st.lists(bodies, max_size=4)):
            for event in (body, {"choices": [{"delta": body}]}, {"contentBlockIndex": 0, "delta": body}):
                list(reply.take(SseEvent(json.dumps(event), data.draw(names))))
        to_json(reply.whole())


THROTTLED = {"message": "Too many requests", "type": "rate_limit_error"}


@pytest.mark.parametrize(
    ("kind", "event", "words"),
    [
        pytest.param(MessageReply, {"type": "content_block_start", "index": 0}, "without its content", id="no-block"),
        pytest.param(
            MessageReply, {"type": "content_block_start", "content_block": {}}, "without its content", id="no-place"
        ),
        pytest.param(
            MessageReply, {"type": "content_block_delta", "index": 0, "delta": {}}, "a piece of no", id="no-beginning"
        ),
        pytest.param(MessageReply, {"type": "error", "error": THROTTLED}, "429: Too many", id="messages-error"),
        pytest.param(ResponseReply, {"type": "error", "error": THROTTLED}, "429: Too many", id="responses-error"),
        pytest.param(ResponseReply, {**THROTTLED, "type": "error", "code": 429}, "429: Too many", id="error-itself"),
        pytest.param(GeminiReply, {"error": {**THROTTLED, "code": 429}}, "429: Too many", id="gemini-error"),
        pytest.param(ConverseReply, {}, "a piece of no content block", id="converse-no-block"),
        pytest.param(ChatReply, [1], "an event that is not an object", id="no-object"),
    ],
)  # fmt: skip
def test_an_event_that_is_none_is_named(kind: type[Reply], event: Any, words: str) -> None:
    name = "contentBlockDelta" if kind is ConverseReply else ""
    with pytest.raises(LlmError, match=words):
        list(kind(ToolNames(()), HERE).take(SseEvent(json.dumps(event), name)))


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        pytest.param(ConverseReply, THROTTLED, "429: Too many", id="converse-error"),
        pytest.param(ConverseReply, {"output": {}}, "not a reply of Converse", id="converse"),
        pytest.param(ConverseReply, [], "not a reply of Converse", id="converse-list"),
        pytest.param(MessageReply, {"error": THROTTLED}, "429: Too many", id="messages-error"),
        pytest.param(MessageReply, {"content": "hi"}, "not a message", id="messages"),
        pytest.param(ResponseReply, {"error": THROTTLED}, "429: Too many", id="responses-error"),
        pytest.param(ResponseReply, {"output": "hi"}, "not a response", id="responses"),
        pytest.param(ResponseReply, {"output": [], "status": "failed"}, "the response is failed", id="failed"),
        pytest.param(GeminiReply, [], "not a reply of Gemini", id="gemini"),
        pytest.param(GeminiReply, {}, "no candidate in it", id="gemini-nothing"),
        pytest.param(
            GeminiReply, {"candidates": [{"content": {"parts": [{"text": "hi"}]}}]}, "was cut off", id="gemini-cut"
        ),
    ],
)  # fmt: skip
def test_a_body_that_is_none_is_named(kind: type[Reply], body: Any, words: str) -> None:
    with pytest.raises(LlmError, match=words):
        kind(ToolNames(()), HERE).read(body)


PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
DRAWN = {"type": "image_generation_call", "result": b64encode(PNG).decode()}
SIGNED = [
    {"text": "a", "thoughtSignature": "s"},
    {"text": "b"},
    {"text": "c"},
    {"text": "t", "thought": True},
]


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        pytest.param(ResponseReply, {"output": [DRAWN]}, {"parts": (Image(PNG),)}, id="a-picture"),
        pytest.param(ResponseReply, {"output": [{**DRAWN, "result": "A"}]}, {"parts": ()}, id="no-base64"),
        pytest.param(ResponseReply, {"output": [{**DRAWN, "result": "AAAA"}]}, {"parts": ()}, id="no-picture"),
        pytest.param(
            GeminiReply, {"promptFeedback": {"blockReason": "SAFETY"}}, {"finish_reason": "content_filter"}, id="blocked"
        ),
        pytest.param(
            ResponseReply, {"output": [], "status": "incomplete"}, {"finish_reason": "length"}, id="cut-without-a-reason"
        ),
        pytest.param(
            GeminiReply,
            {"candidates": [{"finishReason": "STOP", "content": {"parts": [*SIGNED, {"inlineData": 1}]}}]},
            {
                "content": "abc",
                "reasoning": "t",
                "opaque": {"google": [SIGNED[0], {"text": "bc"}, SIGNED[3]]},
            },
            id="a-signature-ends-a-text",
        ),
        pytest.param(
            ChatReply,
            {"choices": [{"message": {"reasoning_details": [
                1,
                {"type": "t", "index": 0, "text": "a"},
                {"type": "t", "index": 0, "text": "b", "signature": "s", "id": None},
                {"type": "t", "index": 1, "text": "c"},
                {"type": "e", "index": 1, "data": "d"},
            ]}}]},
            {"opaque": {"openai": {"message": {"reasoning_details": [
                {"type": "t", "index": 0, "text": "ab", "signature": "s"},
                {"type": "t", "index": 1, "text": "c"},
                {"type": "e", "index": 1, "data": "d"},
            ]}}}},
            id="details-that-go-on",
        ),
    ],
)  # fmt: skip
def test_what_a_reply_has_beside_text(kind: type[Reply], body: Any, expected: dict[str, Any]) -> None:
    found = kind(ToolNames(()), HERE).read(body)
    assert {name: getattr(found, name) for name in expected} == expected


def test_events_that_say_nothing_are_passed_over() -> None:
    assert [*ResponseReply(ToolNames(()), HERE).take(SseEvent(" [DONE]"))] == []
    event = SseEvent('{"contentBlockIndex": 0, "start": {}}', "contentBlockStart")
    assert [*ConverseReply(ToolNames(()), HERE).take(event)] == []


def test_a_picture_that_is_none_is_left_out() -> None:
    drawn = {"inlineData": {"mimeType": "image/png", "data": "%"}}
    candidate = {"content": {"parts": [drawn, {"text": "hello"}]}, "finishReason": "STOP"}
    reply = GeminiReply(ToolNames(()), HERE).read({"candidates": [candidate]})
    assert (reply.content, reply.parts) == ("hello", ())


def test_a_converse_reply_is_over_when_both_its_end_and_its_cost_have_come() -> None:
    reply = ConverseReply(ToolNames(()), HERE)
    for name, body, is_over in (
        ("messageStart", {"role": "assistant"}, False),
        ("metadata", {"usage": {}}, False),
        ("messageStop", {"stopReason": "end_turn"}, False),
        ("metadata", {"usage": {"inputTokens": 3}}, True),
    ):
        assert [*reply.take(SseEvent(json.dumps(body), name))] == []
        assert reply.is_over is is_over
    assert reply.whole().usage.input_tokens == 3
