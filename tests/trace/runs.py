"""Runs as events, for the tests of this room: small ones by hand, any by hypothesis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from wesichain.core import (
    Event,
    JsonValue,
    LlmResponse,
    Message,
    ModelResponded,
    Role,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    TextDelta,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
    ToolSpec,
    Usage,
)
from wesichain.core.events import Decided
from wesichain.core.internal import (
    Approve,
    ApproveWith,
    CheckpointSaved,
    NodeCompleted,
    NodeFailed,
    NodeStarted,
    PendingCall,
    Refuse,
    is_secret_name,
    may_be_secret_name,
)
from wesichain.trace.redaction.rules import find_secrets

NOON = 1_767_268_800.25
SPEC = ToolSpec(
    "weather", "The weather of a day.", {"type": "object", "properties": {"city": {"type": "string"}}}
)


def hops(run_id: str, count: int, *, scope: str = "", seq: int = 1, city: str = "Paris") -> Iterator[Event]:
    """The steps of a run: a thought, a call and a result each; then the answer."""
    new: tuple[Message, ...] = (Message(Role.USER, "How is the weather?"),)
    for step in range(1, count + 1):
        at = NOON + step
        call = ToolCall(f"call-{run_id}-{step}", "weather", {"city": city, "day": step})
        said = f"I look at day {step}."
        yield StepStarted(run_id, step, seq, at, new, scope=scope)
        reply = LlmResponse(said, (call,), Usage(100, 10), "tool_calls")
        yield ModelResponded(run_id, step, seq + 1, at + 0.5, reply, 500.0, scope=scope)
        yield ToolDispatched(run_id, step, seq + 2, at + 0.6, call, scope=scope)
        value: JsonValue = {"sky": "clear", "day": step}
        yield ToolCompleted(run_id, step, seq + 3, at + 0.7, call.id, "weather", value, 100.0, scope=scope)
        new = (
            Message(Role.ASSISTANT, said, tool_calls=(call,)),
            Message(Role.TOOL, f'{{"sky":"clear","day":{step}}}', call.id),
        )
        seq += 4
    last = count + 1
    yield StepStarted(run_id, last, seq, NOON + last, new, scope=scope)
    reply = LlmResponse("Clear skies.", (), Usage(200, 5))
    yield ModelResponded(run_id, last, seq + 1, NOON + last + 0.5, reply, 500.0, scope=scope)


def run(run_id: str = "run-1", count: int = 2, *, at: float = NOON, city: str = "Paris") -> list[Event]:
    """A whole run that completes."""
    start = RunStarted(run_id, 0, 0, at, "How is the weather?", "scripted", (SPEC,))
    steps = list(hops(run_id, count, city=city))
    end = RunCompleted(run_id, count + 1, len(steps) + 1, NOON + count + 2, "Clear skies.", Usage(100, 10))
    return [start, *steps, end]


# --- any event, by hypothesis ---------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(
    lambda text: not (is_secret_name(text) or may_be_secret_name(text) or find_secrets(text, ()))
)
ids = st.text("abc-123", min_size=1, max_size=8)
times = st.floats(0, 4e9, allow_nan=False)
numbers = st.integers(0, 10**9)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
calls = st.builds(ToolCall, ids, texts, json_values)
usages = st.builds(Usage, numbers, numbers)
messages = st.builds(
    Message,
    st.sampled_from(Role),
    texts,
    st.none() | ids,
    st.lists(calls, max_size=2).map(tuple),
    texts,
    json_values,
)
replies = st.builds(
    LlmResponse,
    texts,
    st.lists(calls, max_size=2).map(tuple),
    usages,
    st.sampled_from(["stop", "tool_calls", "length", "content_filter", "error"]),
    texts,
    json_values,
)
specs = st.builds(
    ToolSpec,
    ids,
    texts,
    st.dictionaries(texts, json_values, max_size=2).map(lambda d: {**d, "type": "object"}),
)
pending = st.builds(PendingCall, calls, ids, st.none() | times)


decided = st.builds(
    Decided,
    ids,
    texts,
    st.just(Approve()) | st.builds(ApproveWith, json_values) | st.builds(Refuse, texts),
)


def events(
    run_id: st.SearchStrategy[str] = ids, scope: st.SearchStrategy[str] | None = None
) -> st.SearchStrategy[Event]:
    head = (run_id, numbers, numbers, times)
    tail = {"scope": scope if scope is not None else st.just("") | ids}
    return st.one_of(
        st.builds(
            RunStarted,
            *head,
            texts,
            texts,
            st.lists(specs, max_size=2).map(tuple),
            st.booleans(),
            st.lists(decided, max_size=2).map(tuple),
            **tail,
        ),
        st.builds(StepStarted, *head, st.lists(messages, max_size=3).map(tuple), **tail),
        st.builds(TextDelta, *head, texts, **tail),
        st.builds(ModelResponded, *head, replies, times, **tail),
        st.builds(ToolDispatched, *head, calls, **tail),
        st.builds(ToolCompleted, *head, ids, texts, json_values, times, **tail),
        st.builds(StepFailed, *head, texts, texts, texts, st.none() | ids, st.none() | texts, times, **tail),
        st.builds(RunCompleted, *head, json_values, usages, **tail),
        st.builds(RunFailed, *head, texts, texts, usages, **tail),
        st.builds(RunInterrupted, *head, texts, usages, st.lists(pending, max_size=2).map(tuple), **tail),
        st.builds(NodeStarted, *head, node=texts, **tail),
        st.builds(NodeCompleted, *head, times, st.lists(texts, max_size=2).map(tuple), node=texts, **tail),
        st.builds(NodeFailed, *head, texts, texts, node=texts, **tail),
        st.builds(CheckpointSaved, *head, ids, **tail),
    )
