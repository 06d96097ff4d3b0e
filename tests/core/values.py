"""Strategies for the values of the core: what hypothesis draws from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from wesichain.core import (
    Action,
    Audio,
    Citation,
    Document,
    ErrorStep,
    Event,
    FinalAnswer,
    Image,
    JsonValue,
    LlmRequest,
    LlmResponse,
    Message,
    Observation,
    Part,
    Role,
    Text,
    TextChunk,
    Thought,
    ToolCall,
    ToolCallChunk,
    ToolSpec,
    Usage,
)
from wesichain.core.internal import Approve, ApproveWith, Provide, Refuse

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
number = st.floats(allow_nan=False, allow_infinity=False)
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | number | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=8,
)
count = st.integers(0, 10**9)
usage = st.builds(Usage, count, count, count, count, count)
PNG = b"\x89PNG\r\n\x1a\n"
some_bytes = st.binary(min_size=1, max_size=20)
address = text.map(lambda tail: "https://example.org/" + "".join(tail.split()))
part = st.one_of(
    st.builds(Text, text),
    st.builds(Image, some_bytes, media_type=st.sampled_from(["image/png", "image/x-odd"])),
    st.builds(Image, url=address, media_type=st.just("image/jpeg")),
    st.builds(Document, some_bytes, media_type=st.just("application/pdf"), name=text),
    st.builds(Document, url=address, name=text),
    st.builds(Audio, some_bytes, st.just("audio/wav")),
)
part_tuple = st.lists(part, max_size=3).map(tuple)
content = text | part_tuple
call = st.builds(ToolCall, text, text, json_value)
call_tuple = st.lists(call, max_size=3).map(tuple)
citation = st.builds(
    Citation, *[st.none() | text] * 4, st.none() | st.integers(0, 99), st.none() | st.integers(0, 99)
)
cited = st.lists(citation, max_size=2).map(tuple)
message = st.builds(
    Message,
    st.sampled_from(Role),
    content,
    st.none() | text,
    call_tuple,
    text,
    json_value,
    st.booleans(),
    cited,
)
message_tuple = st.lists(message, max_size=3).map(tuple)
schema = st.dictionaries(text, json_value, max_size=3).map(lambda extra: {**extra, "type": "object"})
spec = st.builds(ToolSpec, text, text, schema)
spec_tuple = st.lists(spec, max_size=2).map(tuple)
request = st.builds(LlmRequest, text, message_tuple, spec_tuple, st.none() | schema)
finish = st.sampled_from(["stop", "tool_calls", "length", "content_filter", "refusal", "pause", "error"])
text_tuple = st.lists(text, max_size=2).map(tuple)
response = st.builds(
    LlmResponse, text, call_tuple, usage, finish, text, json_value, part_tuple, text_tuple, cited
)
chunk = st.builds(TextChunk, text) | st.builds(ToolCallChunk, st.integers(0, 9), text, text, text)
step = st.one_of(
    st.builds(Thought, text),
    st.builds(Action, call),
    st.builds(Observation, json_value, st.none() | text, part_tuple),
    st.builds(FinalAnswer, text),
    st.builds(ErrorStep, text),
)
decision = st.one_of(
    st.just(Approve()),
    st.builds(ApproveWith, json_value),
    st.builds(Refuse, text),
    st.builds(Provide, json_value),
)
_KNOWN: dict[Any, st.SearchStrategy[Any]] = {
    str: text,
    int: count,
    float: number,
    bool: st.booleans(),
    type(None): st.none(),
    JsonValue: json_value,
    Any: json_value,
    Part: part,
    Usage: usage,
    ToolSpec: spec,
    Message: message,
    LlmResponse: response,
}


def of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of any type that a field of the core has: a new event is in the laws as soon as it is there."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in _KNOWN:
        return _KNOWN[hint]
    if origin in (Union, UnionType):
        return st.one_of([of(arg) for arg in args])
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple:
        return st.lists(of(args[0]), max_size=2).map(tuple)
    if origin in (dict, Mapping):
        return st.dictionaries(text, of(args[1]), max_size=2)
    hints = get_type_hints(hint)
    of_fields = st.fixed_dictionaries({field.name: of(hints[field.name]) for field in fields(hint)})
    return of_fields.map(lambda given: hint(**given))


event = st.one_of([of(kind) for kind in get_args(Event)])
