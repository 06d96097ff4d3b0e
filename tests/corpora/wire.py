"""Bodies as the providers' servers write them, of our own words: whole, cut, refused and odd.

The form is that of the corpora `wire_responses.jsonl` and `wire_derived.jsonl`: a body, and what it comes to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.llm.wires import ChatWire, MessagesWire, ResponsesWire
from wesichain.core import ToolCall, Usage
from wesichain.testing import ProviderReply

Row = dict[str, Any]
WIRES: dict[str, ChatWire | MessagesWire | ResponsesWire] = {
    "openai-chat": ChatWire(),
    "anthropic": MessagesWire(),
    "openai-responses": ResponsesWire(),
}

TIDES = ToolCall("call_1", "tides", {"port": "Brest", "days": [1, 2], "note": 'a "spring" tide 🌊'})
BARE = ToolCall("call_2", "berths", {})

# what is said, and how the provider says that it ended
SPOKEN = {
    "text": ProviderReply("The tide is six metres high.", usage=Usage(21, 7)),
    "no words": ProviderReply(calls=(TIDES,), finish="tool_calls", usage=Usage(30, 12)),
    "words and a call": ProviderReply("I look it up.", calls=(TIDES,), finish="tool_calls"),
    "two calls": ProviderReply(calls=(TIDES, BARE), finish="tool_calls"),
    "other alphabets": ProviderReply("満潮は六メートルです。\n\tŁódź — ñ", usage=Usage(1, 1)),
    "marks of the wire": ProviderReply('data: {"type": "ping"}\n\nevent: done\r\n[DONE]'),
    "cut by length": ProviderReply("The tide is", finish="length"),
    "long": ProviderReply("wave " * 600, usage=Usage(5, 600)),
}


def rows() -> Iterator[Row]:
    for number, row in enumerate([*replies(), *odd(), *cut(), *errors()], 1):
        yield {"id": f"own-{number:03}", "headers": {}, "tags": [], "status": 200, **row}


def replies() -> Iterator[Row]:
    """Each reply in each format, whole and streamed."""
    for form, wire in WIRES.items():
        for spoken in SPOKEN.values():
            expected = {
                "content": spoken.text,
                "tool_calls": [
                    {"id": call.id, "name": call.name, "args": call.args} for call in spoken.calls
                ],
                "finish_reason": spoken.finish,
                "finish_reason_raw": spoken.finish,
                "usage": {
                    "input_tokens": spoken.usage.input_tokens,
                    "output_tokens": spoken.usage.output_tokens,
                },
            }
            for transport in ("json", "sse"):
                body = wire.write(spoken, stream=transport == "sse").decode()
                yield {"format": form, "transport": transport, "body": body, "expected": expected}


def chat(message: Row, finish: str | None = "stop", **more: Any) -> str:
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more})


def call(arguments: str) -> Row:
    return {"id": "call_1", "type": "function", "function": {"name": "tides", "arguments": arguments}}


def comes_to(content: str = "", *calls: Row, finish: str = "stop", spent: tuple[int, int] = (0, 0)) -> Row:
    usage = {"input_tokens": spent[0], "output_tokens": spent[1]}
    return {"content": content, "tool_calls": list(calls), "finish_reason": finish, "usage": usage}


def odd() -> Iterator[Row]:
    """What servers send that is not by the book, and what it means all the same."""
    one = {"id": "call_1", "name": "tides", "args": {"port": "Brest"}}
    good = '{"port": "Brest"}'
    for body, expected in (
        (chat({"content": None, "tool_calls": [call(good)]}), comes_to("", one)),  # a call, and "stop"
        (chat({"content": "six"}, None), comes_to("six")),
        (chat({"content": "six"}, ""), comes_to("six")),
        (chat({"content": "six"}, "surprise"), comes_to("six")),
        (" " * 4000 + chat({"content": "six"}), comes_to("six")),
        (chat({"content": [{"type": "text", "text": "six"}]}), comes_to("six")),
        (chat({"content": "six"}, usage=None), comes_to("six")),
        (chat({"content": "six"}, usage={"prompt_tokens": 4, "completion_tokens": 2}), comes_to("six", spent=(4, 2))),
        (chat({"content": "x"}, "content_filter"), comes_to("x", finish="content_filter")),
        (
            chat({"content": "", "tool_calls": [call('{"port": Brest')]}, "tool_calls"),
            comes_to("", {**one, "args": {"__invalid_json__": '{"port": Brest'}}, finish="tool_calls"),
        ),
    ):  # fmt: skip
        yield {"format": "openai-chat", "transport": "json", "body": body, "expected": expected}
    yield {
        "format": "anthropic",
        "transport": "json",
        "body": json.dumps({"type": "message", "content": [], "stop_reason": "end_turn", "usage": {"input_tokens": 2, "output_tokens": 0}}),
        "expected": comes_to("", spent=(2, 0)),
    }  # fmt: skip
    local = {"message": {"role": "assistant", "content": "six"}, "done": True, "done_reason": "stop"}
    yield {
        "format": "ollama-native",
        "transport": "json",
        "body": json.dumps(local),
        "expected": comes_to("six"),
    }


def cut(share: int = 3) -> Iterator[Row]:
    """Streams whose connection closes before the end was said, at several places; and arguments cut by length."""
    for form, wire in WIRES.items():
        events = wire.write(SPOKEN["words and a call"], stream=True).decode().split("\n\n")[:-1]
        told = len(events) - {"openai-chat": 3, "anthropic": 2, "openai-responses": 1}[form]
        for kept in sorted({1, told // share, told}):
            body = "".join(f"{event}\n\n" for event in events[:kept])
            yield {
                "format": form,
                "transport": "sse",
                "body": body,
                "expected": {"outcome": "incomplete_stream"},
            }
    begun = {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **call('{"port": "Br')}]}}]}
    ended = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in (begun, ended)) + "data: [DONE]\n\n"
    expected = {"outcome": "truncated_tool_call", "finish_reason": "length"}
    yield {"format": "openai-chat", "transport": "sse", "body": body, "expected": expected}


def errors() -> Iterator[Row]:
    """Refusals and failures of servers: what may be tried again, and how long to wait."""
    said = json.dumps({"error": {"message": "not so", "type": "made_up", "code": None}})
    for status, headers, body, again, wait in (
        (400, {}, said, False, None),
        (401, {}, said, False, None),
        (403, {}, said, False, None),
        (404, {}, json.dumps({"detail": "nothing here"}), False, None),
        (422, {}, said, False, None),
        (408, {}, "", True, None),
        (409, {}, said, True, None),
        (429, {"retry-after": "20"}, said, True, 20),
        (429, {"retry-after": "0.5"}, said, True, 0.5),
        (429, {}, said, True, None),
        (500, {}, said, True, None),
        (502, {"content-type": "text/html"}, "<html><h1>502</h1></html>", True, None),
        (503, {"retry-after": "60"}, said, True, 60),
        (504, {}, "", True, None),
    ):
        expected = {"outcome": "http_error", "retryable": again, "wait_seconds": wait}
        yield {"format": "error", "transport": "json", "status": status, "headers": headers, "body": body, "expected": expected}  # fmt: skip
    busy = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "later"}})
    expected = {"outcome": "http_error", "retryable": True, "wait_seconds": None}
    yield {"format": "anthropic", "transport": "json", "status": 529, "body": busy, "expected": expected}
