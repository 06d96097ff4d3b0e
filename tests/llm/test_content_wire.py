"""Parts on the wires: what each provider is sent for a picture, a document, a sound, and for what it cannot take."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core import values
from wesichain.core import (
    Audio,
    Document,
    Image,
    LlmRequest,
    Message,
    Part,
    Role,
    Text,
    ToolCall,
    ToolSpec,
    to_json,
)
from wesichain.llm.anthropic.wire import to_wire as to_messages
from wesichain.llm.bedrock.wire import to_converse
from wesichain.llm.calls import ToolNames
from wesichain.llm.google.wire import to_config, to_contents
from wesichain.llm.openai.items import to_items
from wesichain.llm.openai.wire import to_wire as to_chat
from wesichain.llm.supported_settings import supported

PNG = b"\x89PNG\r\n\x1a\n...."
PICTURE = Image(PNG)
DATA_URL = f"data:image/png;base64,{PICTURE.base64}"
PDF = Document(b"%PDF-1.7", name="plan.pdf")
WAV = Audio(b"RIFF\x00\x00\x00\x00WAVE", "audio/wav")
NOTES = Document(b"buy milk", name="notes.txt")


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

TABLE: list[Any] = [
    pytest.param(chat, PICTURE, {"type": "image_url", "image_url": {"url": DATA_URL}}, id="chat-image"),
    pytest.param(
        chat, Image(url="https://a.b/c.png"), {"type": "image_url", "image_url": {"url": "https://a.b/c.png"}},
        id="chat-image-address",
    ),
    pytest.param(
        chat, PDF,
        {"type": "file", "file": {"filename": "plan.pdf", "file_data": f"data:application/pdf;base64,{PDF.base64}"}},
        id="chat-pdf",
    ),
    pytest.param(chat, NOTES, {"type": "text", "text": "notes.txt:\nbuy milk"}, id="chat-text-document"),
    pytest.param(
        chat, WAV, {"type": "input_audio", "input_audio": {"data": WAV.base64, "format": "wav"}}, id="chat-sound"
    ),
    pytest.param(responses, PICTURE, {"type": "input_image", "image_url": DATA_URL}, id="responses-image"),
    pytest.param(
        responses, Document(url="https://a.b/c.pdf"), {"type": "input_file", "file_url": "https://a.b/c.pdf"},
        id="responses-document-address",
    ),
    pytest.param(
        messages, PICTURE,
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE.base64}},
        id="anthropic-image",
    ),
    pytest.param(
        messages, PDF,
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF.base64},
         "title": "plan.pdf"},
        id="anthropic-pdf",
    ),
    pytest.param(
        messages, NOTES,
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "buy milk"},
         "title": "notes.txt"},
        id="anthropic-text-document",
    ),
    pytest.param(gemini, PICTURE, {"inlineData": {"mimeType": "image/png", "data": PICTURE.base64}}, id="gemini-image"),
    pytest.param(
        gemini, Image(url="https://a.b/c.png"), {"fileData": {"fileUri": "https://a.b/c.png", "mimeType": "image/png"}},
        id="gemini-image-address",
    ),
    pytest.param(gemini, WAV, {"inlineData": {"mimeType": "audio/wav", "data": WAV.base64}}, id="gemini-sound"),
    pytest.param(
        responses, PDF,
        {"type": "input_file", "filename": "plan.pdf", "file_data": f"data:application/pdf;base64,{PDF.base64}"},
        id="responses-pdf",
    ),
    pytest.param(responses, NOTES, {"type": "input_text", "text": "notes.txt:\nbuy milk"}, id="responses-text-document"),
    pytest.param(converse, PICTURE, {"image": {"format": "png", "source": {"bytes": PICTURE.base64}}}, id="bedrock-image"),
    pytest.param(
        converse, PDF, {"document": {"format": "pdf", "name": "plan-pdf", "source": {"bytes": PDF.base64}}}, id="bedrock-pdf"
    ),
    pytest.param(converse, NOTES, {"text": "notes.txt:\nbuy milk"}, id="bedrock-text-document"),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "part", "block"), TABLE)
def test_a_part_is_sent_as_the_provider_wants_it(wire: Any, part: Part, block: dict[str, Any]) -> None:
    omitted: list[str] = []
    body = wire(request_of(Message(Role.USER, (Text("Look."), part))), omitted)
    assert to_json(block) in to_json(body)
    assert omitted == []


@pytest.mark.parametrize(
    ("wire", "part", "why"),
    [
        pytest.param(chat, Document(url="https://a.b/c.pdf"), "give the bytes", id="chat-document-address"),
        *(
            pytest.param(wire, given, "PDF and text", id=f"{wire.__name__}-{given.media_type}")
            for wire in (chat, responses, messages, converse)
            for given in (
                Document(b"PK\x03", media_type="application/zip"),
                Document(b"\xff", media_type="text/plain"),
            )
        ),
        pytest.param(converse, WAV, "no audio", id="bedrock-sound"),
        pytest.param(converse, Image(url="https://a.b/c.png"), "give the bytes", id="bedrock-address"),
        pytest.param(converse, Image(b"BM", media_type="image/bmp"), "JPEG, PNG", id="bedrock-bmp"),
        pytest.param(chat, Audio(b"fLaC"), "WAV and MP3", id="chat-flac"),
        pytest.param(responses, WAV, "no audio", id="responses-sound"),
        pytest.param(messages, WAV, "no audio", id="anthropic-sound"),
        pytest.param(messages, Image(b"BM", media_type="image/bmp"), "JPEG, PNG", id="anthropic-bmp"),
        pytest.param(gemini, Image(url="https://a.b/c"), "media_type=", id="gemini-unknown-type"),
        *(
            pytest.param(wire, Image(url="sha256:" + "0" * 64), "not here", id=f"{wire.__name__}-lost-bytes")
            for wire in WIRES
        ),
    ],
)
def test_what_cannot_be_sent_is_a_line(wire: Any, part: Part, why: str) -> None:
    omitted: list[str] = []
    body = wire(request_of(Message(Role.USER, (Text("Look."), part))), omitted)
    assert why in omitted[0]
    assert omitted[0].startswith("[left out: ")
    assert to_json(omitted[0]) in to_json(body)


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
            assert to_json(part.text)[1:-1] in body
        elif not ((part.data and part.base64 in body) or (part.url and to_json(part.url)[1:-1] in body)):
            lines += 1
    assert len(omitted) >= lines
    assert all(to_json(line)[1:-1] in body for line in omitted)


@each_wire
def test_instructions_words_and_the_form_of_the_answer_are_sent(wire: Any) -> None:
    schema = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    said = [(Role.SYSTEM, "Be brief."), (Role.SYSTEM, ""), (Role.SYSTEM, "Be kind."), (Role.USER, "One?")]
    history = [Message(role, text) for role, text in [*said, (Role.ASSISTANT, "Yes."), (Role.USER, "Two?")]]
    body = to_json(wire(LlmRequest("m", tuple(history), output_schema=schema), []))
    joined = to_json("Be brief.\n\nBe kind.")[1:-1]
    assert (joined in body) is (wire is not chat)
    assert all(body.count(to_json(text)) == 1 for text in ("One?", "Yes.", "Two?"))
    assert "total" in body
    assert (
        wire(LlmRequest("m", (Message(Role.USER, "hi"),)), [])
        .keys()
        .isdisjoint(
            {"instructions", "system", "system_instruction", "text", "response_format", "output_config"}
        )
    )


class TestAResultWithAPicture:
    history = (
        Message(Role.USER, "Look."),
        Message(Role.ASSISTANT, "", tool_calls=(ToolCall("c1", "a", {}), ToolCall("c2", "b", {}))),
        Message(Role.TOOL, (Text("one"), PICTURE), "c1"),
        Message(Role.TOOL, "two", "c2"),
        Message(Role.USER, "And?"),
    )

    def test_chat_shows_it_after_the_results_that_stand_in_a_row(self) -> None:
        roles = [message["role"] for message in chat(request_of(*self.history), [])["messages"]]
        assert roles == ["user", "assistant", "tool", "tool", "user", "user"]
        body = chat(request_of(*self.history), [])["messages"]
        assert body[2]["content"] == "one\n[1 part(s) of this result follow in the next message]"
        assert body[4]["content"][0]["text"] == "From the result of call c1:"

    def test_anthropic_and_responses_take_it_in_its_place(self) -> None:
        turn = messages(request_of(*self.history), [])["messages"][2]["content"]
        assert [block["type"] for block in turn] == ["tool_result", "tool_result", "text"]
        assert [block["type"] for block in turn[0]["content"]] == ["text", "image"]
        output = responses(request_of(*self.history), [])["input"][3]["output"]
        assert [block["type"] for block in output] == ["input_text", "input_image"]

    def test_gemini_keeps_the_results_together(self) -> None:
        contents = gemini(request_of(*self.history), [])["contents"]
        assert [[next(iter(part)) for part in one["parts"]] for one in contents] == [
            ["text"],
            ["functionCall", "functionCall"],
            ["functionResponse", "functionResponse"],
            ["text", "inlineData"],
            ["text"],
        ]


class TestAFailedTool:
    failed = (
        Message(Role.USER, "hi"),
        Message(Role.ASSISTANT, "", tool_calls=(ToolCall("c1", "a", {}),)),
        Message(Role.TOOL, "no such file", "c1", is_error=True),
    )

    def test_anthropic_is_told(self) -> None:
        block = messages(request_of(*self.failed), [])["messages"][-1]["content"][0]
        assert block["is_error"] is True
        sound = [*self.failed[:2], Message(Role.TOOL, "ok", "c1")]
        assert "is_error" not in messages(request_of(*sound), [])["messages"][-1]["content"][0]

    def test_gemini_is_told(self) -> None:
        part = gemini(request_of(*self.failed), [])["contents"][-1]["parts"][0]
        assert part["functionResponse"]["response"] == {"error": "no such file"}


class TestCaching:
    def marks(self, body: dict[str, Any]) -> int:
        return json.dumps(body).count("cache_control")

    def test_instructions_and_the_last_two_turns_are_marked(self) -> None:
        history = [Message(Role.SYSTEM, "Be brief."), Message(Role.USER, "hi")]
        for step in range(6):
            history.append(Message(Role.ASSISTANT, "", tool_calls=(ToolCall(f"c{step}", "a", {}),)))
            history.append(Message(Role.TOOL, "x", f"c{step}"))
        body = messages(request_of(*history), [], caching=True)
        assert self.marks(body) == 3, "of the four that a request may have"
        assert "cache_control" in body["system"][0]
        marked = [at for at, turn in enumerate(body["messages"]) if self.marks({"": turn})]
        assert marked == [10, 12]

    def test_without_instructions_the_tools_are(self) -> None:
        tool = ToolSpec("a", "A.", {"type": "object", "properties": {}})
        request = LlmRequest("m", (Message(Role.USER, "hi"),), (tool, ToolSpec("b", "B.", tool.parameters)))
        body = messages(request, [], caching=True)
        assert ["cache_control" in tool for tool in body["tools"]] == [False, True]

    def test_marks_can_be_left_out(self) -> None:
        assert self.marks(messages(request_of(Message(Role.USER, "hi")), [])) == 0

    def test_a_request_is_a_prefix_of_the_next_up_to_its_mark(self) -> None:
        """What a cache needs: the bytes before the mark of one request stand in the next one too."""
        first = [Message(Role.USER, "hi")]
        second = [
            *first, Message(Role.ASSISTANT, "", tool_calls=(ToolCall("c", "a", {}),)), Message(Role.TOOL, "x", "c")
        ]  # fmt: skip
        then, now = (messages(request_of(*some), [], caching=True)["messages"] for some in (first, second))
        assert now[: len(then)] == then


class TestStrict:
    closed: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }

    def test_it_is_asked_for_where_it_can_be_kept(self) -> None:
        free = {**self.closed, "additionalProperties": True}
        tools = (ToolSpec("a", "A.", {**self.closed, "required": []}), ToolSpec("b", "B.", free))
        request = LlmRequest("m", (Message(Role.USER, "hi"),), tools, output_schema=self.closed)
        body = chat(request, [], strict=True)
        assert [tool["function"].get("strict") for tool in body["tools"]] == [True, None]
        assert body["response_format"]["json_schema"]["strict"] is True
        assert '"strict"' not in to_json(chat(request, []))
        assert [tool["strict"] for tool in responses(request, [])["tools"]] == [True, False]
