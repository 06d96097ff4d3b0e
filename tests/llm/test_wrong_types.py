"""Null, or a value of a wrong type, at every place of a sound reply: a response or an `LlmError`, for every API.

A response that is returned has the types that it declares: it survives JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from wesichain.core import LlmResponse, from_json, to_json
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

HERE = Endpoint("host", "m", key_variable="KEY")
WRONG: list[Any] = [None, True, -1, 1.5, 10**30, "", "odd", [], [None], [["odd"]], {}, {"odd": [None]}]
MISSING = object()
Named = tuple[str, Any]  # the name of an event, and its data
PNG = "iVBORw0KGgo="

CHAT_USAGE = {
    "prompt_tokens": 3,
    "completion_tokens": 2,
    "prompt_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
CHAT_CALL = {
    "id": "c",
    "type": "function",
    "index": 0,
    "function": {"name": "f", "arguments": '{"a": 1}'},
    "extra_content": {"google": {"thought_signature": "s"}},
}
CHAT_MESSAGE = {
    "role": "assistant",
    "content": [{"type": "text", "text": "hello"}, {"type": "thinking", "thinking": [{"text": "hm"}]}],
    "reasoning": "because",
    "reasoning_content": "why",
    "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "hm"}],
    "refusal": "no",
    "annotations": [
        {"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 2}}
    ],
    "tool_calls": [CHAT_CALL],
}
CHAT = {
    "id": "x",
    "model": "m",
    "choices": [{"index": 0, "message": CHAT_MESSAGE, "finish_reason": "tool_calls"}],
    "usage": CHAT_USAGE,
}
CHAT_STREAM: list[Named] = [
    ("", {"model": "m", "choices": [{"index": 0, "delta": CHAT_MESSAGE}]}),
    (
        "",
        {
            "choices": [
                {"index": 0, "delta": {**CHAT_MESSAGE, "tool_calls": [{**CHAT_CALL, "index": 1, "id": "d"}]}}
            ]
        },
    ),
    ("", {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": CHAT_USAGE}),
    ("", "[DONE]"),
]
RESPONSE_ITEMS = [
    {
        "type": "reasoning",
        "id": "r",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "content": [{"type": "reasoning_text", "text": "hm"}],
        "encrypted_content": "s",
    },
    {
        "type": "message",
        "role": "assistant",
        "content": [
            {
                "type": "output_text",
                "text": "hello",
                "annotations": [
                    {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 2}
                ],
            },
            {"type": "refusal", "refusal": "no"},
        ],
    },
    {"type": "function_call", "id": "f", "call_id": "c", "name": "f", "arguments": '{"a": 1}'},
    {"type": "image_generation_call", "id": "i", "result": PNG},
    {"type": "computer_call", "id": "cc", "call_id": "c9", "name": "x"},
    {"type": "computer_call_output", "call_id": "c9", "approval_request_id": "c9"},
]
RESPONSE = {
    "id": "x",
    "model": "m",
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
    "error": None,
    "output": RESPONSE_ITEMS,
    "usage": {
        "input_tokens": 3,
        "output_tokens": 2,
        "input_tokens_details": {"cached_tokens": 1},
        "output_tokens_details": {"reasoning_tokens": 1},
    },
}
RESPONSE_STREAM: list[Named] = [
    ("", {"type": "response.created", "response": {"model": "m", "id": "x"}}),
    ("", {"type": "response.output_text.delta", "output_index": 1, "delta": "hello"}),
    ("", {"type": "response.output_item.added", "output_index": 2, "item": RESPONSE_ITEMS[2]}),
    ("", {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"a": 1}'}),
    *(
        ("", {"type": "response.output_item.done", "output_index": place, "item": item})
        for place, item in enumerate(RESPONSE_ITEMS)
    ),
    ("", {"type": "response.completed", "response": {**RESPONSE, "status": "completed", "output": []}}),
]
MESSAGE_USAGE = {
    "input_tokens": 3,
    "output_tokens": 2,
    "cache_read_input_tokens": 1,
    "cache_creation_input_tokens": 1,
    "output_tokens_details": {"thinking_tokens": 1},
}
MESSAGE_CITATION = {
    "type": "char_location",
    "cited_text": "he",
    "document_title": "t",
    "file_id": "f",
    "start_char_index": 0,
    "end_char_index": 2,
}
MESSAGE = {
    "id": "x",
    "model": "m",
    "type": "message",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "hello", "citations": [MESSAGE_CITATION]},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
    ],
    "stop_reason": "refusal",
    "stop_details": {"explanation": "no"},
    "usage": MESSAGE_USAGE,
}
MESSAGE_STREAM: list[Named] = [
    (
        "message_start",
        {"type": "message_start", "message": {"id": "x", "model": "m", "usage": MESSAGE_USAGE}},
    ),
    *(
        ("", event)
        for event in (
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "thinking", "thinking": ""},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "thinking_delta", "thinking": "hm"},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "signature_delta", "signature": "s"},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "signature_delta", "signature": "t"},
            },
            {"type": "content_block_stop", "index": 0},
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "text", "text": "he", "citations": None},
            },
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "llo"}},
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "citations_delta", "citation": MESSAGE_CITATION},
            },
            {
                "type": "content_block_start",
                "index": 2,
                "content_block": {"type": "tool_use", "id": "c", "name": "f", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": 2,
                "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'},
            },
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use", "stop_details": {"explanation": "no"}},
                "usage": MESSAGE_USAGE,
            },
            {"type": "message_stop"},
        )
    ),
]
GEMINI_PARTS = [
    {"text": "hm", "thought": True, "thoughtSignature": "s"},
    {"text": "hel"},
    {"text": "lo", "thoughtSignature": "s"},
    {"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}, "thoughtSignature": "s"},
    {"inlineData": {"mimeType": "image/png", "data": PNG}},
    {"executableCode": {"language": "PYTHON", "code": "1"}},
]
GEMINI = {
    "modelVersion": "m",
    "promptFeedback": {"blockReason": None},
    "candidates": [
        {
            "content": {"role": "model", "parts": GEMINI_PARTS},
            "finishReason": "STOP",
            "finishMessage": "done",
            "continuationToken": "t",
            "groundingMetadata": {
                "groundingChunks": [{"web": {"uri": "u", "title": "t", "domain": "d"}}],
                "groundingSupports": [
                    {
                        "segment": {"startIndex": 0, "endIndex": 2, "text": "he"},
                        "groundingChunkIndices": [0],
                    }
                ],
            },
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 3,
        "toolUsePromptTokenCount": 1,
        "candidatesTokenCount": 2,
        "thoughtsTokenCount": 1,
        "cachedContentTokenCount": 1,
    },
}
GEMINI_STREAM: list[Named] = [
    ("", {"candidates": [{"content": {"parts": [part]}}], "usageMetadata": {"promptTokenCount": 3}})
    for part in GEMINI_PARTS
] + [("", GEMINI)]
CONVERSE_USAGE = {"inputTokens": 3, "outputTokens": 2, "cacheReadInputTokens": 1, "cacheWriteInputTokens": 1}
CONVERSE_CITATION = {
    "title": "t",
    "source": "s",
    "sourceContent": [{"text": "he"}],
    "location": {"web": {"url": "u", "domain": "d"}, "documentChar": {"start": 0, "end": 2}},
}
CONVERSE = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
                {"text": "hello"},
                {"citationsContent": {"content": [{"text": "he"}], "citations": [CONVERSE_CITATION]}},
                {"toolUse": {"toolUseId": "c", "name": "f", "input": {"a": 1}}},
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": CONVERSE_USAGE,
}
CONVERSE_STREAM: list[Named] = [
    ("messageStart", {"role": "assistant"}),
    *(
        ("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})
        for index, delta in (
            (0, {"reasoningContent": {"text": "hm"}}),
            (0, {"reasoningContent": {"signature": "s"}}),
            (0, {"reasoningContent": {"redactedContent": "AA=="}}),
            (1, {"text": "hel"}),
            (1, {"text": "lo"}),
            (1, {"citation": CONVERSE_CITATION}),
        )
    ),
    ("contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "c", "name": "f"}}}),
    ("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": '{"a": 1}'}}}),
    ("contentBlockStop", {"contentBlockIndex": 2}),
    ("messageStop", {"stopReason": "tool_use"}),
    ("metadata", {"usage": CONVERSE_USAGE}),
]


def changed(sound: Any) -> Iterator[tuple[str, Any]]:
    """The value with a wrong value, or nothing, at one of its places; and where."""
    for wrong in WRONG:
        yield f" = {wrong!r}", wrong
    if isinstance(sound, dict):
        for key, value in sound.items():
            yield f".{key} missing", {each: other for each, other in sound.items() if each != key}
            for where, other in changed(value):
                yield f".{key}{where}", {**sound, key: other}
    elif isinstance(sound, list):
        for place, value in enumerate(sound):
            for where, other in changed(value):
                yield f"[{place}]{where}", [*sound[:place], other, *sound[place + 1 :]]


def read(reply: Reply, *, body: Any = MISSING, events: list[Named] | None = None) -> LlmResponse:
    if body is not MISSING:
        reply.feed_body(json.loads(json.dumps(body)))  # a copy
    for name, data in events or ():
        list(reply.feed(SseEvent(data if isinstance(data, str) else json.dumps(data), name)))
    return reply.response()


def fault(reply: Reply, **given: Any) -> str | None:
    """What is wrong with the reading of a reply; None if it is a response or an `LlmError`."""
    try:
        response = read(reply, **given)
        assert from_json(LlmResponse, to_json(response)) == response, "the response does not survive JSON"
    except LlmError as error:
        return None if str(error).isprintable() else f"unprintable: {error}"
    except Exception as error:  # all others are what is looked for
        return f"{type(error).__name__}: {error}"
    return None


READERS = [
    pytest.param(ChatReply, CHAT, CHAT_STREAM, id="chat"),
    pytest.param(ResponseReply, RESPONSE, RESPONSE_STREAM, id="responses"),
    pytest.param(MessageReply, MESSAGE, MESSAGE_STREAM, id="messages"),
    pytest.param(GeminiReply, GEMINI, GEMINI_STREAM, id="gemini"),
    pytest.param(ConverseReply, CONVERSE, CONVERSE_STREAM, id="converse"),
]


@pytest.mark.parametrize(("kind", "body", "events"), READERS)
def test_the_sound_replies_are_read(kind: type[Reply], body: Any, events: list[Named]) -> None:
    """The places that are changed below are places that are read."""
    whole, streamed = (
        read(kind(ToolNames(()), HERE), body=body),
        read(kind(ToolNames(()), HERE), events=events),
    )
    for response in (whole, streamed):
        assert response.content.startswith("hello")
        call = response.tool_calls[0]
        assert (call.id, call.name, call.args) == ("c", "f", {"a": 1})
        assert response.reasoning
        assert response.citations
        assert response.usage.input_tokens >= 3


@pytest.mark.parametrize(("kind", "body", "events"), READERS)
def test_a_wrong_type_anywhere_in_a_body(kind: type[Reply], body: Any, events: list[Named]) -> None:
    faults = [
        f"{where}: {why}"
        for where, wrong in changed(body)
        if (why := fault(kind(ToolNames(()), HERE), body=wrong)) is not None
    ]
    assert faults == []


@pytest.mark.parametrize(("kind", "body", "events"), READERS)
def test_a_wrong_type_anywhere_in_a_stream(kind: type[Reply], body: Any, events: list[Named]) -> None:
    faults = []
    for place, (name, data) in enumerate(events):
        for where, wrong in () if isinstance(data, str) else changed(data):
            given = [*events[:place], (name, wrong), *events[place + 1 :]]
            if (why := fault(kind(ToolNames(()), HERE), events=given)) is not None:
                faults.append(f"event {place}{where}: {why}")
    assert faults == []


ERROR = {
    "error": {
        "message": "no",
        "detail": "no",
        "type": "invalid_request_error",
        "code": "odd",
        "status": "INVALID_ARGUMENT",
        "param": "temperature",
        "details": [{"@type": "RetryInfo", "retryDelay": "3s"}],
    }
}


def test_a_wrong_type_anywhere_in_an_error() -> None:
    for sound in (ERROR, [ERROR], ERROR["error"]):
        for _, wrong in changed(sound):
            error = HERE.refused(400, json.dumps(wrong), headers={"retry-after": "odd"}, now=0.0)
            assert str(error).startswith("host answered 400")
            assert isinstance(HERE.reported(wrong), LlmError)
