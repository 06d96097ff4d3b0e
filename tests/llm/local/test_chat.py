"""Chat completions from the server's side: what our own client writes is read back as it was meant."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wesichain.core import (
    FinishReason,
    LlmRequest,
    LlmResponse,
    Message,
    ModelSettings,
    Role,
    ToolCall,
    ToolSpec,
    Usage,
)
from wesichain.errors import CodecError, ToolDefinitionError
from wesichain.llm.calls import ToolNames
from wesichain.llm.local.chat import Written, fault, read_asked
from wesichain.llm.openai.chat_reply import ChatReply
from wesichain.llm.openai.wire import to_wire
from wesichain.llm.transport.faults import Endpoint
from wesichain.llm.transport.sse import SseEvent

NAMES = st.from_regex(r"[a-z_][a-z0-9_-]{0,20}", fullmatch=True)
TEXTS = st.text(max_size=20)
ARGS = st.dictionaries(NAMES, st.none() | st.booleans() | st.integers(-99, 99) | TEXTS, max_size=3)
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOLS = st.lists(NAMES, min_size=1, max_size=3, unique=True).map(
    lambda names: tuple(ToolSpec(name, "Does.", SCHEMA) for name in names)
)
TURNS = st.lists(
    st.builds(lambda text: (Message(Role.USER, text),), TEXTS)
    | st.builds(lambda text: (Message(Role.SYSTEM, text),), TEXTS)
    | st.builds(
        lambda name, args, result: (
            Message(Role.ASSISTANT, "", tool_calls=(ToolCall("c1", name, args),)),
            Message(Role.TOOL, result, "c1"),
        ),
        NAMES,
        ARGS,
        TEXTS,
    ),
    max_size=4,
).map(lambda turns: tuple(message for turn in turns for message in turn))


@given(messages=TURNS, tools=TOOLS, schema=st.none() | st.just(SCHEMA), stream=st.booleans())
def test_a_request_is_read_back_as_it_was_written(
    messages: tuple[Message, ...], tools: tuple[ToolSpec, ...], schema: dict[str, Any] | None, stream: bool
) -> None:
    request = LlmRequest("m", messages, tools, schema, stop=("\nEnd",))
    wire = to_wire(request, ToolNames.of(request), model="m", options={"max_tokens": 9}, stream=stream)
    asked = read_asked(json.dumps(wire).encode())
    assert asked is not None
    assert asked.request == replace(request, settings=ModelSettings(max_tokens=9))
    assert (asked.streams, asked.tells_usage) == (stream, stream)


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ({"temperature": 0.5, "top_p": 0.9, "seed": 3}, ModelSettings(temperature=0.5, top_p=0.9, seed=3)),
        ({"top_k": 5, "min_p": 0.1}, ModelSettings(extra={"top_k": 5, "min_p": 0.1})),
        ({"tool_choice": "required"}, ModelSettings(tool_choice="required")),
        (
            {"tool_choice": {"type": "function", "function": {"name": "a"}}},
            ModelSettings(tool_choice="required"),
        ),
    ],
    ids=str,
)
def test_the_settings_of_a_request_are_read(given: dict[str, Any], settings: ModelSettings) -> None:
    asked = read_asked(json.dumps({"messages": [], "tools": OFFERED, **given}).encode())
    assert asked is not None
    assert asked.request.settings == settings


OFFERED = [{"type": "function", "function": {"name": "a", "parameters": SCHEMA}}]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"temperature": "hot"}, "temperature"),
        ({"n": 2}, "n: one choice at a time where tools are offered"),
        ({"tools": [1]}, "tools: each is {'type': 'function', 'function': {...}}"),
        ({"tools": [{"function": {}}]}, "a function has no name"),
        ({"tool_choice": {"function": {"name": "b"}}}, "tool_choice: no tool named 'b' is offered"),
        ({"messages": [1]}, "messages: each is an object with a role"),
        ({"messages": [{"role": "judge"}]}, "messages: no such role: 'judge'"),
        ({"messages": [{"role": "assistant", "tool_calls": [1]}]}, "a function has no name"),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_refused_in_words(given: dict[str, Any], words: str) -> None:
    with pytest.raises(CodecError, match=re.escape(words)):
        read_asked(json.dumps({"messages": [], "tools": OFFERED, **given}).encode())


@pytest.mark.parametrize(
    "given",
    [
        {"tools": []},
        {"tools": "a"},
        {"tool_choice": "none"},
        {"messages": "a"},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        {"messages": [{"role": "user", "content": ["text"]}]},
    ],
    ids=str,
)
def test_a_request_without_tools_or_of_more_than_text_is_the_server_s(given: dict[str, Any]) -> None:
    assert read_asked(json.dumps({"messages": [], "tools": OFFERED, **given}).encode()) is None
    assert read_asked(b"[]") is None


def test_messages_in_all_their_forms_are_read() -> None:
    call = {"id": "c", "function": {"name": "a", "arguments": "{1"}}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"text": "a"}, {"text": "b"}]},
        {"role": "assistant", "content": None, "tool_calls": [call, {"function": {"name": "a"}}]},
        {"role": "tool", "content": "1", "tool_call_id": "c"},
    ]
    form = {"type": "json_schema", "json_schema": {"schema": SCHEMA}}
    more = {"model": "m", "stop": "END", "stream": True, "stream_options": {"include_usage": True}}
    body = {"messages": messages, "tools": OFFERED, "response_format": form, "n": 1, **more}
    asked = read_asked(json.dumps({**body, "max_completion_tokens": 5, "max_tokens": 6}).encode())
    assert asked is not None
    assert asked.request == LlmRequest(
        "m",
        (
            Message(Role.SYSTEM, "Be brief."),
            Message(Role.USER, "a\nb"),
            Message(Role.ASSISTANT, "", tool_calls=(ToolCall("c", "a", "{1"), ToolCall("", "a", {}))),
            Message(Role.TOOL, "1", "c"),
        ),
        (ToolSpec("a", "", SCHEMA),),
        SCHEMA,
        stop=("END",),
        settings=ModelSettings(max_tokens=5),
    )
    assert (asked.streams, asked.tells_usage) == (True, True)


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "json_object", "schema": SCHEMA}, SCHEMA),
    ],
)
def test_the_form_of_the_answer_is_read(form: Any, schema: Any) -> None:
    asked = read_asked(json.dumps({"messages": [], "tools": OFFERED, "response_format": form}).encode())
    assert asked is not None
    assert (asked.request.output_schema, asked.streams, asked.tells_usage) == (schema, False, False)


def test_a_reply_is_written_as_openai_does() -> None:
    reply = LlmResponse("hi", (ToolCall("1", "a", {"b": 2}),), Usage(7, 3), "tool_calls")
    written = Written("m", id="chatcmpl-0123456789abcdef", created=9)
    head = {"id": "chatcmpl-0123456789abcdef", "created": 9, "model": "m"}
    function = {"name": "a", "arguments": '{"b":2}'}
    call = {"id": "call_0123456789abcdef_1", "type": "function", "function": function}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    message = {"role": "assistant", "content": "hi", "tool_calls": [call]}
    assert json.loads(written.whole(reply)) == {
        **head,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": usage,
    }
    assert json.loads(written.whole(LlmResponse("")))["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
    }

    def chunk(delta: Any, finish: Any = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**head, "object": "chat.completion.chunk", "choices": [choice]}

    events = [written.piece("hi"), *written.last(reply, usage=True)]
    assert [json.loads(event.removeprefix(b"data: ")) for event in events[:-1]] == [
        chunk({"role": "assistant", "content": "hi"}),
        chunk({"role": "assistant", "tool_calls": [{"index": 0, **call}]}),
        chunk({}, "tool_calls"),
        {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage},
    ]
    assert events[-1] == b"data: [DONE]\n\n"
    assert [*written.last(reply, usage=False)] == [*events[1:3], events[-1]]


@pytest.mark.parametrize(("status", "kind"), [(499, "invalid_request_error"), (500, "server_error")])
def test_a_fault_is_written_as_openai_does(status: int, kind: str) -> None:
    assert json.loads(fault(status, "so")) == {"error": {"code": status, "message": "so", "type": kind}}


@given(
    content=TEXTS,
    calls=st.lists(st.tuples(NAMES, ARGS), max_size=3),
    pieces=st.integers(1, 5),
)
def test_a_reply_is_read_back_as_it_was_meant(
    content: str, calls: list[tuple[str, dict[str, Any]]], pieces: int
) -> None:
    made = tuple(ToolCall(f"call_{n}", name, args) for n, (name, args) in enumerate(calls))
    finish: FinishReason = "tool_calls" if made else "stop"
    reply = LlmResponse(content, made, Usage(7, 3), finish)
    written, endpoint = Written("m"), Endpoint("here", "m", key_variable="K", key="k")
    names = ToolNames.of(LlmRequest("m", ()))
    whole = ChatReply(names, endpoint).read(json.loads(written.whole(reply)))
    size = max(1, len(content) // pieces)
    events = [written.piece(content[at : at + size]) for at in range(0, len(content), size)]
    events += written.last(reply, usage=True)
    streamed = ChatReply(names, endpoint)
    for event in events:
        for _ in streamed.take(SseEvent(event.decode().removeprefix("data: ").strip())):
            pass
    for read in (whole, streamed.whole()):
        assert (read.content, read.usage, read.finish_reason) == (content, reply.usage, finish)
        assert [(call.name, call.args) for call in read.tool_calls] == [(c.name, c.args) for c in made]
        assert len({call.id for call in read.tool_calls}) == len(made)
    assert events[-1] == b"data: [DONE]\n\n"
    assert streamed.is_over


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "user", "tool", "text", "none"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "type",
                    "text",
                    "parameters",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(tools=JSON, messages=JSON, choice=JSON, form=JSON, stop=st.sampled_from([None, "a", ["a"]]))
def test_whatever_comes_is_read_passed_on_or_refused(
    tools: Any, messages: Any, choice: Any, form: Any, stop: Any
) -> None:
    body = {"tools": tools, "messages": messages, "tool_choice": choice, "response_format": form}
    asked = None
    with suppress(CodecError, ToolDefinitionError):
        asked = read_asked(json.dumps({**body, "stop": stop}).encode())
    assert asked is None or asked.request.tools
