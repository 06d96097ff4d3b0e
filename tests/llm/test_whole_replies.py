"""The whole response that each client reads, and all pieces of a stream: the same replies in the words of each API.

`whole_replies.txt` has a line for each. `odd_replies.jsonl` has bodies, or the events of streams (a pair is the name of an event
and its data), of one API each, with all that is odd in them, and what each gives. `WRITE_EXPECTED` writes both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import expected
from tests.llm.wires import BedrockWire, ChatWire, GeminiWire, MessagesWire, ResponsesWire
from wesichain.core import LlmRequest, Message, Role, ToolCall, ToolSpec, Usage, to_json
from wesichain.errors import LlmError
from wesichain.llm.anthropic.message_reply import MessageReply
from wesichain.llm.bedrock.converse_reply import ConverseReply
from wesichain.llm.calls import ToolNames
from wesichain.llm.google.gemini_reply import GeminiReply
from wesichain.llm.openai.chat_reply import ChatReply
from wesichain.llm.openai.response_reply import ResponseReply
from wesichain.llm.transport.faults import Endpoint
from wesichain.llm.transport.sse import SseEvent
from wesichain.testing import Answer, ProviderReply

REPLIES = Path(__file__).with_name("whole_replies.txt")
ODD = Path(__file__).with_name("odd_replies.jsonl")
WIRES: list[Any] = [ChatWire(), ResponsesWire(), MessagesWire(), GeminiWire(), BedrockWire()]
TOOLS = tuple(ToolSpec(name, "", {"type": "object", "properties": {}}) for name in ("files.read", "list"))
REQUEST = LlmRequest("m", (Message(Role.USER, "hi"),), TOOLS)
CALLS = (ToolCall("c1", "files.read", {"path": "a"}), ToolCall("c2", "list", {}))
USAGE = Usage(100, 20, 30, 10, 5)
SAID: dict[str, ProviderReply] = {
    "text": ProviderReply("Hello there.", usage=USAGE),
    "calls": ProviderReply("Wait.", calls=CALLS, finish="tool_calls", usage=USAGE),
    "thought": ProviderReply("Yes.", thought="hm", signature="sig", usage=USAGE),
    "thought and calls": ProviderReply("", calls=CALLS, finish="tool_calls", thought="hm", signature="sig"),
    "cut": ProviderReply("Hello", finish="length", usage=USAGE),
    "filtered": ProviderReply("Hello", finish="content_filter"),
    "refused": ProviderReply("No.", finish="refusal"),
    "unknown end": ProviderReply("Hello", finish="length", reason="tired"),
    "nothing": ProviderReply(""),
}


async def read(llm: Any, *, stream: bool) -> list[Any]:
    """The items of a reply, or its error."""
    try:
        return [item async for item in llm.stream(REQUEST)] if stream else [await llm.complete(REQUEST)]
    except LlmError as error:
        return [type(error).__name__, str(error), error.retryable]


def cases(wire: Any) -> Iterator[tuple[str, bool, bytes]]:
    """Every reply as a wire writes it: its name, whether it is streamed, and its bytes."""
    for name, said in SAID.items():
        for stream in (False, True):
            body = wire.write(said, stream=stream)
            yield f"{name}, {'streamed' if stream else 'asked'}", stream, body
            if stream and name in ("text", "calls"):
                yield f"{name}, cut off", stream, body[: len(body) // 2]


async def test_replies_are_read_as_they_were() -> None:
    found = []
    for wire in WIRES:
        asked = [*cases(wire)]
        kinds = ({"content-type": "text/event-stream" if one[1] else "application/json"} for one in asked)
        answers = [Answer(200, body, kind) for (_, _, body), kind in zip(asked, kinds, strict=True)]
        async with wire.serve(*answers) as server, wire.client(server.url, retries=0) as llm:
            for name, stream, _ in asked:
                told = json.dumps(json.loads(to_json(await read(llm, stream=stream))))
                found.append(f"{type(wire).__name__}, {name}: {told.replace(server.url[7:], 'HOST')}")
    expected.check(REPLIES, found)


READERS: dict[str, Any] = {
    "chat": ChatReply,
    "responses": ResponseReply,
    "messages": MessageReply,
    "gemini": GeminiReply,
    "converse": ConverseReply,
}


def gives(row: dict[str, Any]) -> list[Any]:
    """The pieces of a stream and its response; the response to a body; or the error."""
    own = {"is_own": True} if "own" in row else {}
    reader = READERS[row["api"]](ToolNames(["files.read"]), Endpoint("host", "m", key_variable="KEY"), **own)
    items: list[Any] = []
    try:
        if "body" in row:
            reader.feed_body(row["body"])
            return [reader.response()]
        for event in row["events"]:
            name, data = event if isinstance(event, list) and len(event) == 2 else ("", event)
            items += reader.feed(SseEvent(data if isinstance(data, str) else json.dumps(data), name))
        return [*items, reader.response()]
    except LlmError as error:
        return [*items, type(error).__name__, str(error), error.retryable]


def test_odd_replies_are_read_as_they_were() -> None:
    rows = [json.loads(line) for line in ODD.read_text(encoding="utf-8").splitlines()]
    told = [row | {"gives": json.loads(to_json(gives(row)))} for row in rows]
    expected.check(ODD, (json.dumps(row, ensure_ascii=False) for row in told))
