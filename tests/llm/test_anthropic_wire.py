"""The messages API: requests out and replies in, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wesichain.core import (
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    StreamItem,
    TextChunk,
    ToolCall,
    ToolCallChunk,
    ToolSpec,
    Usage,
    from_json,
    to_json,
)
from wesichain.errors import LlmError, LlmRejectedError, LlmResponseError, LlmTransportError
from wesichain.llm.anthropic.message_reply import MessageReply
from wesichain.llm.anthropic.wire import to_wire
from wesichain.llm.calls import ToolNames
from wesichain.llm.transport.faults import Endpoint
from wesichain.llm.transport.sse import SseEvent

HERE = Endpoint("host", "m", key_variable="ANTHROPIC_API_KEY")
EMPTY = {"type": "object", "properties": {}}
READ = ToolSpec("files.read", "Read a file.", EMPTY)
CALLS = (ToolCall("1", "files.read", {"path": "a"}), ToolCall("2", "files.read", {"path": "b"}))


def wire(*messages: Message, tools: tuple[ToolSpec, ...] = (), **settings: Any) -> dict[str, Any]:
    request = LlmRequest(
        "ignored", messages, tools, settings.pop("output_schema", None), settings.pop("stop", ())
    )
    settings = {"max_tokens": 100, "options": {}, "stream": False, **settings}
    body = to_wire(request, ToolNames.of(request), model="m", **settings)
    plain: dict[str, Any] = json.loads(to_json(body))
    return plain


def read(*blocks: dict[str, Any], stop: str | None = None, names: ToolNames | None = None) -> LlmResponse:
    body = {"content": list(blocks), "stop_reason": stop, "usage": {"input_tokens": 3, "output_tokens": 2}}
    return MessageReply(names or ToolNames(()), HERE).read(body)


def streamed(*events: dict[str, Any], names: ToolNames | None = None) -> tuple[list[StreamItem], LlmResponse]:
    reply = MessageReply(names or ToolNames(()), HERE)
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 3}}}
    everything = [start, *events, {"type": "message_stop"}]
    items = [item for event in everything for item in reply.take(SseEvent(json.dumps(event)))]
    return items, reply.whole()


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, type: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type, **fields}}


def test_a_second_message_begins_anew() -> None:
    again = {"type": "message_start", "message": {"usage": {"input_tokens": 5}}}
    said = delta(0, "text_delta", text="one"), delta(1, "text_delta", text="two")
    stops = {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}
    _, reply = streamed(start(0, type="text"), said[0], stops, again, start(1, type="text"), said[1])
    assert (reply.content, reply.finish_reason, reply.usage.input_tokens) == ("two", "stop", 5)


# --- requests ------------------------------------------------------------------------------------


def test_an_output_schema_joins_the_options() -> None:
    body = wire(output_schema=EMPTY, options={"output_config": {"effort": "low"}, "top_k": 5}, stream=True)
    assert body["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": EMPTY}}
    assert (body["top_k"], body["stream"]) == (5, True)


def test_arguments_that_are_no_object_go_back_as_one() -> None:
    message = Message(Role.ASSISTANT, tool_calls=(ToolCall("1", "f", '{"a'),))
    (block,) = wire(message)["messages"][0]["content"]
    assert block["input"] == {"malformed_arguments": '{"a'}


def test_ids_of_another_provider_are_made_legal_alike() -> None:
    asked = Message(Role.ASSISTANT, tool_calls=(ToolCall("functions.f:0", "f", {}),))
    body = wire(asked, Message(Role.TOOL, "x", tool_call_id="functions.f:0"))
    (use,), (result,) = (turn["content"] for turn in body["messages"])
    assert use["id"] == result["tool_use_id"] == "functions_f_0"


def test_a_call_without_an_id_is_never_sent() -> None:
    with pytest.raises(LlmRejectedError, match="without an id"):
        wire(Message(Role.ASSISTANT, tool_calls=(ToolCall("", "f", {}),)))


# --- replies -------------------------------------------------------------------------------------


def test_a_message_is_read() -> None:
    response = read(
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "a"},
        {"type": "server_tool_use", "id": "srv", "name": "search", "input": {}},
        {"type": "text", "text": "b"},
        {"type": "tool_use", "id": "1", "name": "files_read", "input": {"path": "a"}},
        {"type": "tool_use", "name": "g"},
        stop="tool_use",
        names=ToolNames(["files.read"]),
    )
    assert (response.content, response.reasoning, response.finish_reason) == ("ab", "hm", "tool_calls")
    assert response.tool_calls == (ToolCall("1", "files.read", {"path": "a"}), ToolCall("", "g", {}))
    assert response.usage == Usage(3, 2)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        (None, "stop"),
    ],
)
def test_finish_reasons(raw: str | None, expected: str) -> None:
    assert read({"type": "text", "text": "hi"}, stop=raw).finish_reason == expected


def test_an_unknown_finish_reason_is_an_error_that_names_it() -> None:
    with pytest.raises(LlmResponseError, match="'to_be_invented'"):
        read({"type": "text", "text": "hi"}, stop="to_be_invented")


def test_a_stream_is_put_together() -> None:
    items, response = streamed(
        start(0, type="text", text=""),
        delta(0, "text_delta", text="Let me "),
        {"type": "ping"},
        delta(0, "text_delta", text="look."),
        {"type": "content_block_stop", "index": 0},
        start(1, type="tool_use", id="1", name="files_read", input={}),
        delta(1, "input_json_delta", partial_json='{"path"'),
        delta(1, "input_json_delta", partial_json=': "a"}'),
        start(2, type="tool_use", id="2", name="g", input={}),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        names=ToolNames(["files.read"]),
    )
    assert items == [
        TextChunk("Let me "),
        TextChunk("look."),
        ToolCallChunk(0, id="1", name="files.read"),
        ToolCallChunk(0, args='{"path"'),
        ToolCallChunk(0, args=': "a"}'),
        ToolCallChunk(1, id="2", name="g"),
    ]
    assert response == LlmResponse(
        "Let me look.",
        (ToolCall("1", "files.read", {"path": "a"}), ToolCall("2", "g", {})),
        Usage(3, 9),
        "tool_calls",
    )


def test_arguments_that_are_cut_stay_text() -> None:
    _, response = streamed(
        start(0, type="tool_use", id="1", name="f", input={}),
        delta(0, "input_json_delta", partial_json='{"path": "a'),
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
    )
    assert response.tool_calls == (ToolCall("1", "f", '{"path": "a'),)
    assert response.finish_reason == "length"


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, LlmTransportError, True),
        ({"type": "api_error", "message": "Internal"}, LlmTransportError, True),
        ({"type": "rate_limit_error", "message": "Slow down"}, LlmTransportError, True),
        ({"type": "invalid_request_error", "message": "No"}, LlmRejectedError, False),
        ({"type": "authentication_error", "message": "No"}, LlmRejectedError, False),
        (None, LlmTransportError, True),
    ],
)
def test_an_error_inside_a_reply_is_an_error(error: Any, kind: type[LlmError], retryable: bool) -> None:
    with pytest.raises(kind) as caught:
        streamed({"type": "error", "error": error})
    assert caught.value.retryable is retryable


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([], id="nothing-at-all"),
        pytest.param([{"type": "message_start"}], id="no-end-marker"),
        pytest.param([{"type": "message_stop"}], id="an-end-marker-without-a-message"),
    ],
)
def test_a_stream_that_is_not_whole_is_an_error(events: list[Any]) -> None:
    reply = MessageReply(ToolNames(()), HERE)
    for event in events:
        list(reply.take(SseEvent(json.dumps(event))))
    with pytest.raises(LlmResponseError) as caught:
        reply.whole()
    assert caught.value.retryable


def test_a_refusal_keeps_its_explanation() -> None:
    end = {"stop_reason": "refusal", "stop_details": {"explanation": "Not that."}}
    whole = MessageReply(ToolNames(()), HERE).read({"content": [], **end})
    _, pieced = streamed({"type": "message_delta", "delta": end})
    assert whole.opaque == pieced.opaque == {"refusal": "Not that."}
    assert whole.finish_reason == pieced.finish_reason == "refusal"


# --- signed thoughts -----------------------------------------------------------------------------

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "signed"}
REDACTED = {"type": "redacted_thinking", "data": "secret"}
SECOND = {"type": "thinking", "thinking": "and", "signature": "too"}
USE = [
    {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}},
    {"type": "tool_use", "id": "2", "name": "g", "input": {}},
]
TEXT = {"type": "text", "text": "Look."}


def sent_back(response: LlmResponse, **changes: Any) -> list[dict[str, Any]]:
    fields = {"tool_calls": response.tool_calls, "opaque": response.opaque, **changes}
    message = from_json(Message, to_json(Message(Role.ASSISTANT, response.content, **fields)))
    turns = wire(message)["messages"]
    blocks: list[dict[str, Any]] = turns[0]["content"] if turns else []
    return blocks


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param([THOUGHT, TEXT, *USE], id="a-thought-first"),
        pytest.param([THOUGHT, REDACTED, USE[0], SECOND, TEXT, USE[1]], id="thoughts-between-calls"),
        pytest.param([REDACTED, TEXT], id="a-redacted-thought"),
        pytest.param([TEXT, *USE], id="no-thought-at-all"),
        pytest.param([THOUGHT], id="a-thought-alone"),
    ],
)
def test_signed_blocks_go_back_unchanged_and_in_their_place(blocks: list[dict[str, Any]]) -> None:
    assert sent_back(read(*blocks)) == blocks


def test_streamed_thoughts_go_back_as_signed() -> None:
    _, response = streamed(
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="h"),
        delta(0, "thinking_delta", thinking="m"),
        delta(0, "signature_delta", signature="signed"),
        start(1, **REDACTED),
        start(2, type="tool_use", id="1", name="f", input={}),
        delta(2, "input_json_delta", partial_json='{"a": 1}'),
    )
    assert response.reasoning == "hm"
    assert sent_back(response) == [THOUGHT, REDACTED, USE[0]]


def test_calls_that_the_runtime_repaired_go_back_repaired() -> None:
    repaired = (ToolCall("new-1", "f", {"a": 1}), ToolCall("new-2", "g", {}), ToolCall("new-3", "h", {}))
    blocks = sent_back(read(THOUGHT, *USE), tool_calls=repaired)
    assert [block.get("id") for block in blocks] == [None, "new-1", "new-2", "new-3"]


def test_what_another_provider_signed_is_not_sent() -> None:
    assert sent_back(read(TEXT), opaque={"openai": {"message": {"reasoning_content": "hm"}}}) == [TEXT]
