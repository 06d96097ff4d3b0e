"""Chat completions from the server's side: what our own client writes is read back as it was meant."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests import expected
from wesichain.core import (
    LlmRequest,
    LlmResponse,
    Message,
    ModelSettings,
    Role,
    ToolCall,
    ToolSpec,
    Usage,
    to_json,
)
from wesichain.errors import CodecError, ToolDefinitionError
from wesichain.llm import FinishReason
from wesichain.llm.calls import ToolNames
from wesichain.llm.local.chat import ReplyWriter, parse_request
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
    asked = parse_request(json.dumps(wire).encode())
    assert asked is not None
    assert asked.request == replace(request, settings=ModelSettings(max_tokens=9))
    assert (asked.stream, asked.include_usage) == (stream, stream)


OFFERED = [{"type": "function", "function": {"name": "a", "parameters": SCHEMA}}]
CALL = {"id": "c", "function": {"name": "a", "arguments": "{1"}}
FORM = {"type": "json_schema", "json_schema": {"schema": SCHEMA}}
EVERY_FORM = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"text": "a"}, {"text": "b"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL, {"function": {"name": "a"}}]},
    {"role": "tool", "content": "1", "tool_call_id": "c"},
]
BODIES: list[Any] = [
    {"temperature": 0.5, "top_p": 0.9, "seed": 3},
    {"top_k": 5, "min_p": 0.1},
    {"tool_choice": "required"},
    {"tool_choice": {"type": "function", "function": {"name": "a"}}},
    {"temperature": "hot"},
    {"n": 2},
    {"tools": [1]},
    {"tools": [{"function": {}}]},
    {"tool_choice": {"function": {"name": "b"}}},
    {"messages": [1]},
    {"messages": [{"role": "judge"}]},
    {"messages": [{"role": "assistant", "tool_calls": [1]}]},
    {"tools": []},
    {"tools": "a"},
    {"tool_choice": "none"},
    {"messages": "a"},
    {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
    {"messages": [{"role": "user", "content": ["text"]}]},
    {"messages": EVERY_FORM, "model": "m", "stop": "END", "n": 1, "response_format": FORM, "max_completion_tokens": 5, "max_tokens": 6},
    {"stream": True, "stream_options": {"include_usage": True}},
    {"response_format": None},
    *({"response_format": {"type": kind}} for kind in ("text", "json_object")),
    {"response_format": {"type": "json_object", "schema": SCHEMA}},
]  # fmt: skip


def read_body(given: dict[str, Any]) -> object:
    """What is asked for; nothing where the server has to answer itself; or the refusal."""
    try:
        asked = parse_request(json.dumps({"messages": [], "tools": OFFERED, **given}).encode())
    except CodecError as error:
        return f"{type(error).__name__}: {error}"
    return None if asked is None else [json.loads(to_json(asked.request)), asked.stream, asked.include_usage]


def test_bodies_are_read_as_they_were() -> None:
    lines = (f"{json.dumps(given)}: {json.dumps(read_body(given))}" for given in BODIES)
    expected.check(Path(__file__).with_name("whole_bodies.txt"), lines)
    assert parse_request(b"[]") is None


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
    written, endpoint = ReplyWriter("m"), Endpoint("here", "m", key_variable="K", key="k")
    names = ToolNames.of(LlmRequest("m", ()))
    whole = ChatReply(names, endpoint)
    whole.feed_body(json.loads(written.body(reply)))
    size = max(1, len(content) // pieces)
    events = [written.text(content[at : at + size]) for at in range(0, len(content), size)]
    events += written.end(reply, usage=True)
    streamed = ChatReply(names, endpoint)
    for event in events:
        for _ in streamed.feed(SseEvent(event.decode().removeprefix("data: ").strip())):
            pass
    for read in (whole.response(), streamed.response()):
        assert (read.content, read.usage, read.finish_reason) == (content, reply.usage, finish)
        assert [(call.name, call.args) for call in read.tool_calls] == [(c.name, c.args) for c in made]
        assert len({call.id for call in read.tool_calls}) == len(made)
    assert events[-1] == b"data: [DONE]\n\n"
    assert streamed.is_over


FIELDS = ["role", "content", "tool_calls", "function", "name", "arguments", "type", "text", "parameters"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "user", "tool", "text", "none"]),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), one, max_size=4),
    max_leaves=12,
)


@given(tools=JSON, messages=JSON, choice=JSON, form=JSON, stop=st.sampled_from([None, "a", ["a"]]))
def test_whatever_comes_is_read_passed_on_or_refused(
    tools: Any, messages: Any, choice: Any, form: Any, stop: Any
) -> None:
    body = {"tools": tools, "messages": messages, "tool_choice": choice, "response_format": form}
    asked = None
    with suppress(CodecError, ToolDefinitionError):
        asked = parse_request(json.dumps({**body, "stop": stop}).encode())
    assert asked is None or asked.request.tools
