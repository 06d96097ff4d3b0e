"""Chat completions by hand: a message read, and deltas put together, without a server."""

from __future__ import annotations

import json
from typing import Any

from wesichain.core import LlmResponse, StreamItem
from wesichain.llm.calls import ToolNames
from wesichain.llm.openai.chat_reply import ChatReply
from wesichain.llm.transport.faults import Endpoint
from wesichain.llm.transport.sse import SseEvent

HERE = Endpoint("host", "m", key_variable="OPENAI_API_KEY")


def read(message: dict[str, Any], names: ToolNames | None = None, **choice: Any) -> LlmResponse:
    body = {"choices": [{"index": 0, "message": message, **choice}]}
    return ChatReply(names or ToolNames(()), HERE).read(body)


def streamed(*deltas: dict[str, Any]) -> tuple[list[StreamItem], LlmResponse]:
    reply = ChatReply(ToolNames(["files.read"]), HERE)
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events = [*(json.dumps(chunk) for chunk in chunks), "[DONE]"]
    items = [item for event in events for item in reply.take(SseEvent(event))]
    return items, reply.whole()


def call(**fields: Any) -> dict[str, Any]:
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    return {"function": function, **fields}
