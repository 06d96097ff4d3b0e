"""Citations: the sources that a model names, of every provider, streamed or not, as one value."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from tests.core.values import json_value
from wesichain.core import Citation, LlmRequest, LlmResponse, Message, Role, from_json, to_json
from wesichain.core.internal import turn_of
from wesichain.llm import citations
from wesichain.llm.anthropic.message_reply import MessageReply
from wesichain.llm.calls import ToolNames
from wesichain.llm.foreign_text import ForeignText
from wesichain.llm.google.gemini_reply import GeminiReply
from wesichain.llm.openai.chat_reply import ChatReply
from wesichain.llm.openai.response_reply import ResponseReply
from wesichain.llm.react_text import TextReAct
from wesichain.llm.react_text.reasoning import ReasoningStyle
from wesichain.llm.transport.faults import Endpoint
from wesichain.llm.transport.sse import SseEvent
from wesichain.testing import ScriptedLlm

AT = Endpoint("host", "m", key_variable="K")
NAMES = ToolNames([])
URL = Citation(url="https://a.org", title="A", start=0, end=5)


def streamed(reply: Any, *events: Any) -> LlmResponse:
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        for _ in reply.take(SseEvent(data)):
            pass
    whole: LlmResponse = reply.whole()
    return whole


NOTE = {"start_index": 0, "end_index": 5, "title": "A", "url": "https://a.org"}


@pytest.mark.parametrize("stream", [False, True])
def test_chat_completions(stream: bool) -> None:
    message = {"content": "hello", "annotations": [{"type": "url_citation", "url_citation": NOTE}]}
    if stream:
        pieces = [{"choices": [{"index": 0, "delta": message, "finish_reason": "stop"}]}, "[DONE]"]
        reply = streamed(ChatReply(NAMES, AT), *pieces)
    else:
        reply = ChatReply(NAMES, AT).read({"choices": [{"index": 0, "message": message}]})
    assert reply.citations == (URL,)


@pytest.mark.parametrize("stream", [False, True])
def test_responses_count_places_in_the_whole_answer(stream: bool) -> None:
    file = {"type": "file_citation", "file_id": "f1", "filename": "a.pdf", "index": 3}
    parts = [
        {"type": "output_text", "text": "hello", "annotations": [{"type": "url_citation", **NOTE}]},
        {"type": "output_text", "text": "again", "annotations": [{"type": "url_citation", **NOTE}, file]},
    ]
    body = {"status": "completed", "output": [{"type": "message", "content": parts}]}
    if stream:
        reply = streamed(ResponseReply(NAMES, AT), {"type": "response.completed", "response": body})
    else:
        reply = ResponseReply(NAMES, AT).read(body)
    second = Citation(url="https://a.org", title="A", start=5, end=10)
    assert reply.citations == (URL, second, Citation(title="a.pdf", source="f1"))


WEB = {"type": "web_search_result_location", "cited_text": "It is.", "url": "https://a.org", "title": "A"}
CHARS = {"type": "char_location", "cited_text": "So.", "document_title": "D", "start_char_index": 3, "end_char_index": 6}  # fmt: skip
SEARCH = {"type": "search_result_location", "cited_text": "Yes.", "source": "kb/1", "title": "S"}


@pytest.mark.parametrize("stream", [False, True])
def test_anthropic(stream: bool) -> None:
    notes = [WEB, CHARS, SEARCH]
    if stream:
        reply = streamed(
            MessageReply(NAMES, AT),
            {"type": "message_start", "message": {}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "", "citations": []}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}},
            *({"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": note}} for note in notes),
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
        )  # fmt: skip
    else:
        body = {"content": [{"type": "text", "text": "hello", "citations": notes}], "stop_reason": "end_turn"}
        reply = MessageReply(NAMES, AT).read(body)
    assert reply.content == "hello"
    assert reply.citations == (
        Citation("It is.", url="https://a.org", title="A"),
        Citation("So.", title="D", start=3, end=6),
        Citation("Yes.", title="S", source="kb/1"),
    )


GROUNDING: dict[str, Any] = {
    "groundingChunks": [{"web": {"uri": "https://a.org", "title": "A"}}, {"web": {"uri": "https://b.org"}}],
    "groundingSupports": [
        {"segment": {"endIndex": 6, "text": "höllo"}, "groundingChunkIndices": [0, 1, 9]},
    ],
}


@pytest.mark.parametrize("stream", [False, True])
def test_gemini_counts_bytes_and_we_count_characters(stream: bool) -> None:
    content: dict[str, Any] = {"content": {"parts": [{"text": "höllo"}]}}
    end = {"finishReason": "STOP", "groundingMetadata": GROUNDING}
    if stream:
        reply = streamed(GeminiReply(NAMES, AT), {"candidates": [content]}, {"candidates": [end]})
    else:
        reply = GeminiReply(NAMES, AT).read({"candidates": [content | end]})
    assert reply.citations == (
        Citation("höllo", url="https://a.org", title="A", start=0, end=5),
        Citation("höllo", url="https://b.org", start=0, end=5),
    )


def test_sources_without_a_segment_are_named_too() -> None:
    chunks = {"groundingChunks": [{"retrievedContext": {"uri": "gs://x", "title": "X"}}]}
    assert citations.of_grounding(chunks, "") == (Citation(url="gs://x", title="X"),)


def test_bedrock() -> None:
    notes = [
        {
            "title": "D",
            "sourceContent": [{"text": "So."}],
            "location": {"documentChar": {"start": 3, "end": 6}},
        },
        {"title": "W", "location": {"web": {"url": "https://a.org", "domain": "a.org"}}},
    ]
    blocks: list[dict[str, Any]] = [
        {"text": "no"},
        {"citationsContent": {"content": [{"text": "hello"}], "citations": notes}},
    ]
    assert citations.of_converse(blocks) == (
        Citation("So.", title="D", start=3, end=6),
        Citation(url="https://a.org", title="W", source="a.org"),
    )


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
    reply = ForeignText((), ReasoningStyle()).read(LlmResponse(text, citations=(CITED,)))
    assert reply.content[slice(reply.citations[0].start, reply.citations[0].end)] == "Paris"
    in_the_thought = replace(CITED, start=7, end=9)
    reply = ForeignText((), ReasoningStyle()).read(LlmResponse(text, citations=(in_the_thought,)))
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
