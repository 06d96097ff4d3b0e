"""Lines: the JSON of events, as the codec writes it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.trace.runs import SPEC, events
from wesichain.core import (
    Event,
    LlmResponse,
    ModelResponded,
    RunCompleted,
    RunStarted,
    StepFailed,
    ToolSpec,
    Usage,
    from_json,
    to_json,
)
from wesichain.core.events import ContextReduced
from wesichain.core.internal import parse_json, to_jsonl, to_lines, to_plain
from wesichain.errors import CodecError


def line(event: Event) -> bytes:
    (written,) = to_lines((event,))
    return written


@draws(20)
@given(events())
def test_a_line_says_what_the_codec_says(event: Event) -> None:
    written = line(event)
    assert b"\n" not in written
    assert parse_json(written) == to_plain(event)
    assert from_json(Event, written) == event


@draws(20)
@given(st.lists(events(), max_size=4))
def test_many_lines_are_those_of_each(several: list[Event]) -> None:
    assert to_jsonl(several) == b"".join(line(event) + b"\n" for event in several)


@pytest.mark.parametrize(
    "value", [[{"kind": "x"}, {"kind": "y"}], '},{"kind":"', [{}, {"kind": "run_started"}]]
)
def test_a_value_that_looks_like_two_lines_is_within_one(value: Any) -> None:
    ends = [RunCompleted("r", 1, seq, 0.0, value, Usage()) for seq in range(3)]
    assert [from_json(Event, each) for each in to_jsonl(ends).splitlines()] == ends


def test_what_is_empty_is_left_out_whichever_object_it_is() -> None:
    nothing, none = float("0"), Usage(0, 0)
    told = [
        ModelResponded("r", 1, 1, 0.0, LlmResponse("".join(()), usage=none), 0.5, nothing),
        ContextReduced("r", 1, 2, 0.0, "view", cost=nothing, usage=none),
        StepFailed("r", 1, 3, 0.0, "E", "m", "fail", duration_ms=nothing),
    ]
    assert to_lines(told) == [to_json(event).encode() for event in told]
    assert not any(word in line for line in to_lines(told) for word in (b"cost", b"scope", b'_ms":0.0'))


def test_keys_of_data_that_are_no_texts_are_written_as_the_codec_writes_them() -> None:
    end = RunCompleted("r", 1, 1, 0.0, {1: {None: {True: 2.5}}}, Usage())  # type: ignore[dict-item]  # not JSON
    assert parse_json(line(end)) == to_plain(end)


def test_a_schema_behind_a_proxy() -> None:
    spec = ToolSpec("t", "d", MappingProxyType(dict(SPEC.parameters)))
    written = line(RunStarted("r", 0, 0, 0.0, "q", "m", (spec,)))
    assert parse_json(written)["tools"][0]["parameters"] == SPEC.parameters


@pytest.mark.parametrize(("value", "nearest"), [({1}, [1]), (float("nan"), None), (float("inf"), None)])
def test_a_log_has_what_comes_nearest_where_json_lacks_it(value: Any, nearest: Any) -> None:
    end = RunCompleted("r", 1, 1, 0.0, {"a": value}, Usage())
    assert parse_json(line(end))["output"] == {"a": nearest}
    with pytest.raises(CodecError):
        to_json(end)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_lacks_is_refused_wherever_it_stands(number: float) -> None:
    with pytest.raises(CodecError):
        to_json(RunCompleted("r", 1, 1, number, "NaN", Usage()))
    assert from_json(Event, to_json(RunCompleted("r", 1, 1, 0.0, "NaN, Infinity", Usage())))
