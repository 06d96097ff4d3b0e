"""Citations: the sources that a model names, of every provider, streamed or not, as one value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given

from tests.core.values import json_value
from wesichain.core import Citation, LlmRequest, LlmResponse, Message, Role, from_json, to_json
from wesichain.core.internal import turn_of
from wesichain.llm import citations
from wesichain.llm.calls import ToolNames
from wesichain.llm.react_text import TextReAct
from wesichain.llm.react_text.chat import ChatText
from wesichain.llm.transport.faults import Endpoint
from wesichain.testing import ScriptedLlm

AT = Endpoint("host", "m", key_variable="K")
NAMES = ToolNames([])
URL = Citation(url="https://a.org", title="A", start=0, end=5)


@given(json_value)
def test_whatever_a_server_puts_there_is_read_or_passed_over(value: Any) -> None:
    citations.of_chat(value)
    citations.of_response([{"type": "message", "content": value}])
    citations.of_response([{"type": "message", "content": [{"type": "output_text", "annotations": value}]}])
    citations.of_blocks([{"type": "text", "citations": value}])
    citations.of_grounding({"groundingChunks": value, "groundingSupports": value}, "text")
    citations.of_converse([{"citationsContent": value}, {"citationsContent": {"citations": value}}])


def test_they_go_with_the_message_and_are_read_as_they_were_written() -> None:
    message = turn_of(LlmResponse("hello", citations=(URL,)))
    assert message == Message(Role.ASSISTANT, "hello", citations=(URL,))
    assert from_json(Message, to_json(message)) == message
    assert "citations" not in to_json(Message(Role.ASSISTANT, "hello"))


CITED = Citation(url="https://a.example", start=17, end=22)


def test_they_are_counted_anew_where_reasoning_is_moved_out_of_the_text() -> None:
    text = "<think>hm</think>Paris is big."
    reply = ChatText().read(LlmResponse(text, citations=(CITED,)))
    assert reply.content[slice(reply.citations[0].start, reply.citations[0].end)] == "Paris"
    in_the_thought = replace(CITED, start=7, end=9)
    reply = ChatText().read(LlmResponse(text, citations=(in_the_thought,)))
    assert reply.citations == (replace(CITED, start=None, end=None),)


async def test_they_are_counted_anew_in_the_answer_of_a_text_model() -> None:
    text = "Thought: I know.\nFinal Answer: Paris is big."
    at = text.index("Paris")
    said = LlmResponse(text, citations=(replace(CITED, start=at, end=at + 5),))
    reply = await TextReAct(ScriptedLlm([said])).complete(LlmRequest("m", (Message(Role.USER, "?"),)))
    assert (reply.content, reply.citations) == ("Paris is big.", (replace(CITED, start=0, end=5),))


def test_a_citation_outside_of_the_answer_has_no_place_there() -> None:
    unplaced = Citation(url="https://b.org")
    found = citations.within([URL, unplaced, Citation(start=2, end=8)], "0123456789", "23456789")
    assert found == (replace(URL, start=None, end=None), unplaced, Citation(start=0, end=6))
    assert citations.within([Citation(start=8, end=10)], "0123456789", "89") == (Citation(start=0, end=2),)
    assert citations.within([Citation(start=0, end=2)], "01", "01") == (Citation(start=0, end=2),)
    assert citations.within([URL], "0123456789", "x") == (replace(URL, start=None, end=None),)
