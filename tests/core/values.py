"""Strategies for the values of the core: what hypothesis draws from."""

from __future__ import annotations

from hypothesis import strategies as st

from wesichain.core import (
    Action,
    Audio,
    CheckpointSaved,
    ContentOmitted,
    Document,
    ErrorStep,
    FinalAnswer,
    Image,
    LlmRequest,
    LlmResponse,
    Message,
    ModelResponded,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    Observation,
    PendingCall,
    Role,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    Text,
    TextChunk,
    TextDelta,
    Thought,
    ToolCall,
    ToolCallChunk,
    ToolCompleted,
    ToolDispatched,
    ToolSpec,
    Usage,
)

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
message = st.builds(
    Message, st.sampled_from(Role), content, st.none() | text, call_tuple, text, json_value, st.booleans()
)
message_tuple = st.lists(message, max_size=3).map(tuple)
schema = st.dictionaries(text, json_value, max_size=3).map(lambda extra: {**extra, "type": "object"})
spec = st.builds(ToolSpec, text, text, schema)
spec_tuple = st.lists(spec, max_size=2).map(tuple)
request = st.builds(LlmRequest, text, message_tuple, spec_tuple, st.none() | schema)
finish = st.sampled_from(["stop", "tool_calls", "length", "content_filter", "refusal", "pause", "error"])
text_tuple = st.lists(text, max_size=2).map(tuple)
response = st.builds(LlmResponse, text, call_tuple, usage, finish, text, json_value, part_tuple, text_tuple)
chunk = st.builds(TextChunk, text) | st.builds(ToolCallChunk, st.integers(0, 9), text, text, text)
step = st.one_of(
    st.builds(Thought, text),
    st.builds(Action, call),
    st.builds(Observation, json_value, st.none() | text, part_tuple),
    st.builds(FinalAnswer, text),
    st.builds(ErrorStep, text),
)
pending = st.builds(PendingCall, call, text, st.none() | number)
_header = (text, st.integers(0, 99), st.integers(0, 10**6), number)
event = st.one_of(
    st.builds(RunStarted, *_header, text, text, spec_tuple, st.booleans(), parts=part_tuple, scope=text),
    st.builds(StepStarted, *_header, message_tuple, scope=text),
    st.builds(TextDelta, *_header, text, scope=text),
    st.builds(ModelResponded, *_header, response, number, scope=text),
    st.builds(ToolDispatched, *_header, call, scope=text),
    st.builds(ToolCompleted, *_header, text, text, json_value, number, part_tuple, scope=text),
    st.builds(ContentOmitted, *_header, text, text_tuple, scope=text),
    st.builds(StepFailed, *_header, text, text, text, st.none() | text, st.none() | text, number, scope=text),
    st.builds(RunCompleted, *_header, json_value, usage, scope=text),
    st.builds(RunFailed, *_header, text, text, usage, scope=text),
    st.builds(RunInterrupted, *_header, text, usage, st.lists(pending, max_size=2).map(tuple), scope=text),
    st.builds(NodeStarted, *_header, text, scope=text),
    st.builds(NodeCompleted, *_header, text, number, st.lists(text, max_size=2).map(tuple), scope=text),
    st.builds(NodeFailed, *_header, text, text, text, scope=text),
    st.builds(CheckpointSaved, *_header, text, scope=text),
)
