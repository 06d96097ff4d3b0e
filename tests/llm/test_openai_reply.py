"""Chat completions: replies in, whole and in pieces, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.llm.chat_kit import HERE, call, read, streamed
from wesichain.core import (
    LlmResponse,
    TextChunk,
    ToolCall,
    ToolCallChunk,
    Usage,
)
from wesichain.errors import LlmError, LlmRejectedError, LlmResponseError, LlmTransportError
from wesichain.llm.calls import ToolNames, read_args
from wesichain.llm.openai.chat_reply import ChatReply
from wesichain.llm.transport.sse import SseEvent


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param({"content": "hi"}, LlmResponse("hi"), id="text"),
        pytest.param({"content": None}, LlmResponse(""), id="nothing"),
        pytest.param({"content": [{"type": "text", "text": "a"}, "b"]}, LlmResponse("ab"), id="list-shaped"),
        pytest.param(
            {"content": [{"type": "thinking", "thinking": [{"text": "hm"}]}, {"text": "4"}]},
            LlmResponse("4", reasoning="hm"),
            id="thoughts-in-a-list",
        ),
        pytest.param({"content": "4", "reasoning": "hm"}, LlmResponse("4", reasoning="hm"), id="reasoning"),
        pytest.param(
            {"content": "4", "reasoning": "hm", "reasoning_content": "hm"},
            LlmResponse("4", reasoning="hm", opaque={"openai": {"message": {"reasoning_content": "hm"}}}),
            id="reasoning-given-twice-is-told-once",
        ),
        pytest.param(
            {"content": None, "refusal": "No."},
            LlmResponse("", finish_reason="refusal", opaque={"refusal": "No."}),
            id="a-refusal-is-no-content-and-is-kept",
        ),
        pytest.param(
            {"tool_calls": [call(id="1", name="f", arguments="")]},
            LlmResponse(tool_calls=(ToolCall("1", "f", {}),), finish_reason="tool_calls"),
            id="no-arguments-are-an-empty-object",
        ),
        pytest.param(
            {"tool_calls": [call(id="1", name="f", arguments='{"a":')]},
            LlmResponse(tool_calls=(ToolCall("1", "f", '{"a":'),), finish_reason="tool_calls"),
            id="text-that-is-not-json-stays-text",
        ),
        pytest.param(
            {"tool_calls": [call(id="1", name="f", arguments='{"a": 1, "a": 2}')]},
            LlmResponse(tool_calls=(ToolCall("1", "f", '{"a": 1, "a": 2}'),), finish_reason="tool_calls"),
            id="a-key-given-twice-is-not-json",
        ),
        pytest.param(
            {"tool_calls": [call(id="1", name="f", arguments={"a": 1})]},
            LlmResponse(tool_calls=(ToolCall("1", "f", {"a": 1}),), finish_reason="tool_calls"),
            id="arguments-that-are-an-object-already",
        ),
        pytest.param(
            {"tool_calls": [call(name="f"), call(id="x", name="g"), call(id="x", name="h")]},
            LlmResponse(
                tool_calls=(ToolCall("", "f", {}), ToolCall("x", "g", {}), ToolCall("x", "h", {})),
                finish_reason="tool_calls",
            ),
            id="missing-and-duplicate-ids-are-passed-on",
        ),
    ],
)
def test_a_message_is_read(message: dict[str, Any], expected: LlmResponse) -> None:
    assert read(message) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("content_filter", "content_filter"),
        ("error", "error"),
        ("eos", "stop"),
        ("", "stop"),
        (None, "stop"),
        (7, "stop"),
    ],
)
def test_finish_reasons(raw: object, expected: str) -> None:
    assert read({"content": "hi"}, finish_reason=raw).finish_reason == expected


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        pytest.param(
            [
                call(index=0, id="1", name="files_read"),
                call(index=0, arguments='{"a"'),
                call(index=0, arguments=":1}"),
            ],
            [("1", "files.read", {"a": 1})],
            id="one-call-in-pieces",
        ),
        pytest.param(
            [
                call(index=0, id="1", name="f", arguments='{"a":1'),
                call(index=1, id="2", name="g", arguments='{"b":2'),
                call(index=0, arguments="}"),
                call(index=1, arguments="}"),
            ],
            [("1", "f", {"a": 1}), ("2", "g", {"b": 2})],
            id="two-calls-interleaved",
        ),
        pytest.param(
            [call(index=None, id="1", name="f", arguments="{}"), call(id="2", name="g", arguments="{}")],
            [("1", "f", {}), ("2", "g", {})],
            id="no-index-but-another-id",
        ),
        pytest.param(
            [call(name="f", arguments="{}"), call(name="f", arguments="{}")],
            [("", "f", {}), ("", "f", {})],
            id="neither-index-nor-id",
        ),
        pytest.param(
            [
                call(index=0, id="1", name="f", arguments="{}"),
                call(index=0, id="2", name="g", arguments="{}"),
            ],
            [("1", "f", {}), ("2", "g", {})],
            id="the-same-index-for-another-id",
        ),
        pytest.param(
            [call(index=0, id="1", name="f", arguments="{"), call(index=0, id="1", name="f", arguments="}")],
            [("1", "f", {})],
            id="id-and-name-said-again",
        ),
        pytest.param(
            [
                call(index=5, id="x", name="f", arguments="{}"),
                call(index=9, id="x", name="f", arguments="{}"),
            ],
            [("x", "f", {}), ("x", "f", {})],
            id="duplicate-ids-at-other-indices",
        ),
    ],
)
def test_pieces_of_calls_are_put_together(
    deltas: list[dict[str, Any]], calls: list[tuple[str, str, Any]]
) -> None:
    items, response = streamed(*({"tool_calls": [delta]} for delta in deltas))
    assert [(made.id, made.name, made.args) for made in response.tool_calls] == calls
    chunks = [item for item in items if isinstance(item, ToolCallChunk)]
    for place, (call_id, name, args) in enumerate(calls):
        mine = [chunk for chunk in chunks if chunk.index == place]
        assert "".join(chunk.id for chunk in mine) == call_id
        assert "".join(chunk.name for chunk in mine) == name
        assert read_args("".join(chunk.args for chunk in mine)) == args


def test_text_and_reasoning_come_in_pieces() -> None:
    items, response = streamed({"reasoning_content": "h"}, {"reasoning_content": "m"}, {"content": "4"}, {})
    assert items == [TextChunk("4")]
    assert (response.content, response.reasoning) == ("4", "hm")


def test_usage_is_the_last_one_told() -> None:
    reply = ChatReply(ToolNames(()), HERE)
    for tokens in (1, 2, 3):
        usage = {"prompt_tokens": 10, "completion_tokens": tokens}
        list(reply.take(SseEvent(json.dumps({"choices": [{"delta": {}}], "usage": usage}))))
    list(reply.take(SseEvent("[DONE]")))
    assert reply.whole().usage == Usage(10, 3)


@pytest.mark.parametrize(
    ("event", "kind", "retryable"),
    [
        pytest.param(
            {"error": {"message": "no", "type": "invalid_request_error"}}, LlmRejectedError, False, id="type"
        ),
        pytest.param(
            {"error": {"message": "no", "code": 502}}, LlmTransportError, True, id="a-status-as-code"
        ),
        pytest.param(
            {"error": {"message": "no", "status_code": 400}}, LlmRejectedError, False, id="a-status"
        ),
        pytest.param(
            {"error": {"code": "rate_limit_exceeded"}}, LlmTransportError, True, id="a-name-as-code"
        ),
        pytest.param({"error": {"code": "insufficient_quota"}}, LlmTransportError, False, id="no-quota"),
        pytest.param(
            {"error": {"code": "rate_limit_exceeded", "type": "invalid_request_error"}},
            LlmTransportError,
            True,
            id="the-code-tells-more-than-the-type",
        ),
        pytest.param({"error": "overloaded"}, LlmTransportError, True, id="a-bare-text"),
    ],
)
def test_an_error_inside_a_reply_is_an_error(event: Any, kind: type[LlmError], retryable: bool) -> None:
    with pytest.raises(kind) as streaming:
        list(ChatReply(ToolNames(()), HERE).take(SseEvent(json.dumps(event))))
    with pytest.raises(kind) as asking:
        ChatReply(ToolNames(()), HERE).read(event)
    assert streaming.value.retryable is asking.value.retryable is retryable


def test_an_error_event_needs_no_error_field() -> None:
    with pytest.raises(LlmTransportError, match="upstream died"):
        list(ChatReply(ToolNames(()), HERE).take(SseEvent('{"message": "upstream died"}', "error")))


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([], id="nothing-at-all"),
        pytest.param([{"choices": [{"delta": {"content": "hi"}}]}], id="no-end-marker"),
        pytest.param(
            [{"choices": [{"delta": {}, "finish_reason": "stop"}]}], id="a-finish-reason-is-no-end-marker"
        ),
        pytest.param(["[DONE]"], id="an-end-marker-without-a-reply"),
    ],
)
def test_a_stream_that_is_not_whole_is_an_error(events: list[Any]) -> None:
    reply = ChatReply(ToolNames(()), HERE)
    for event in events:
        list(reply.take(SseEvent(event if isinstance(event, str) else json.dumps(event))))
    with pytest.raises(LlmResponseError) as caught:
        reply.whole()
    assert caught.value.retryable
