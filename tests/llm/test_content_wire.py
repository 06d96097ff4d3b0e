"""Parts on the wires: none is dropped in silence, and what was sent stays as it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core import values
from wesichain.core import LlmRequest, Message, Part, Role, Text, ToolCall, from_json, to_json
from wesichain.core.internal import turn_of
from wesichain.llm.anthropic.message_reply import MessageReply
from wesichain.llm.anthropic.wire import to_wire as to_messages
from wesichain.llm.bedrock.wire import to_converse
from wesichain.llm.calls import ToolNames
from wesichain.llm.google.wire import to_config, to_contents
from wesichain.llm.openai.items import to_items
from wesichain.llm.openai.wire import to_wire as to_chat
from wesichain.llm.supported_settings import supported
from wesichain.llm.transport.faults import Endpoint


def request_of(*messages: Message) -> LlmRequest:
    return LlmRequest("m", messages)


def chat(request: LlmRequest, omitted: list[str], **more: Any) -> dict[str, Any]:
    names = ToolNames.of(request)
    return to_chat(request, names, model="m", options={}, stream=False, omitted=omitted, **more)


def responses(request: LlmRequest, omitted: list[str]) -> dict[str, Any]:
    names = ToolNames.of(request)
    return to_items(request, names, model="m", options={}, stream=False, reasons=False, omitted=omitted)


def messages(request: LlmRequest, omitted: list[str], **more: Any) -> dict[str, Any]:
    names = ToolNames.of(request)
    return to_messages(
        request, names, model="m", max_tokens=9, options={}, stream=False, omitted=omitted, **more
    )


def gemini(request: LlmRequest, omitted: list[str]) -> dict[str, Any]:
    names = ToolNames.of(request)
    return {"contents": to_contents(request.messages, names, omitted), **to_config(request, names, {})}


def converse(request: LlmRequest, omitted: list[str]) -> dict[str, Any]:
    more: Any = {"max_tokens": None, "options": {}, "caching": False, "omitted": omitted}
    return to_converse(request, ToolNames.of(request), support=supported("bedrock", "m"), **more)


WIRES = [chat, responses, messages, gemini, converse]
each_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: str(wire.__name__))


@each_wire
@given(st.lists(values.part, max_size=4))
def test_nothing_is_dropped_in_silence(wire: Any, parts: list[Part]) -> None:
    """Every part is on the wire: its text, its bytes, its address, or a line that was told."""
    omitted: list[str] = []
    call = ToolCall("c1", "look", {})
    body = to_json(
        wire(
            request_of(
                Message(Role.USER, "Look."),
                Message(Role.ASSISTANT, "", tool_calls=(call,)),
                Message(Role.TOOL, tuple(parts), "c1"),
            ),
            omitted,
        )
    )
    lines = 0
    for part in parts:
        if isinstance(part, Text):
            is_left_out = wire is converse and not part.text.strip()  # Converse refuses blank texts
            assert is_left_out or to_json(part.text)[1:-1] in body
        elif not ((part.data and part.base64 in body) or (part.url and to_json(part.url)[1:-1] in body)):
            lines += 1
    assert len(omitted) >= lines
    assert all(to_json(line)[1:-1] in body for line in omitted)


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "signed"}
REDACTED = {"type": "redacted_thinking", "data": "secret"}
SECOND = {"type": "thinking", "thinking": "and", "signature": "too"}
USE = [
    {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}},
    {"type": "tool_use", "id": "2", "name": "g", "input": {}},
]
TEXT = {"type": "text", "text": "Look."}


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param([THOUGHT, TEXT, *USE], id="a-thought-first"),
        pytest.param([THOUGHT, REDACTED, USE[0], SECOND, TEXT, USE[1]], id="thoughts-between-calls"),
        pytest.param([TEXT, *USE], id="no-thought-at-all"),
        pytest.param([THOUGHT], id="a-thought-alone"),
    ],
)
def test_signed_blocks_go_back_unchanged_and_in_their_place(blocks: list[dict[str, Any]]) -> None:
    reading = MessageReply(ToolNames(()), Endpoint("host", "m", key_variable="K"))
    reading.feed_body({"content": blocks})
    reply = reading.response()
    turn = from_json(Message, to_json(turn_of(reply)))
    assert messages(request_of(turn), [])["messages"][0]["content"] == blocks
