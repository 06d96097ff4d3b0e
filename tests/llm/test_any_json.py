"""Whatever a server sends, a reply is a response or an `LlmError`, for every API alike."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.llm.wires import BedrockWire, ChatWire, GeminiWire, MessagesWire, ResponsesWire
from wesichain.core import ToolCall, to_json
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
@draws(10)
def test_any_body(kind: type[Reply], bodies: Any, data: st.DataObject) -> None:
    body = data.draw(bodies)
    for given_body in (body, {"content": [body, body]}, {"choices": [{"message": body}]}, {"output": [body]}):
        with suppress(LlmError):
            reply = kind(ToolNames(()), HERE)
            reply.feed_body(given_body)
            to_json(reply.response())


@each_api
@given(data=st.data())
@draws(10)
def test_any_events(kind: type[Reply], bodies: Any, data: st.DataObject) -> None:
    reply = kind(ToolNames(()), HERE)
    names = st.sampled_from(
        ["", "error", "contentBlockStart", "contentBlockDelta", "messageStop", "metadata"]
    )
    with suppress(LlmError):
        for body in data.draw(st.lists(bodies, max_size=4)):
            for event in (body, {"choices": [{"delta": body}]}, {"contentBlockIndex": 0, "delta": body}):
                list(reply.feed(SseEvent(json.dumps(event), data.draw(names))))
        to_json(reply.response())


def test_a_converse_reply_is_over_when_both_its_end_and_its_cost_have_come() -> None:
    reply = ConverseReply(ToolNames(()), HERE)
    for name, body, is_over in (
        ("messageStart", {"role": "assistant"}, False),
        ("metadata", {"usage": {}}, False),
        ("messageStop", {"stopReason": "end_turn"}, False),
        ("metadata", {"usage": {"inputTokens": 3}}, True),
    ):
        assert [*reply.feed(SseEvent(json.dumps(body), name))] == []
        assert reply.is_over is is_over
    assert reply.response().usage.input_tokens == 3
