"""Lines: the same JSON as the codec's, made in another way."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given

from tests.trace.runs import SPEC, events
from wesichain.core import Event, RunCompleted, RunStarted, ToolSpec, Usage, from_json, parse_json, to_plain
from wesichain.errors import CodecError
from wesichain.trace.recordings.lines import line


@given(events())
def test_a_line_says_what_the_codec_says(event: Event) -> None:
    written = line(event)
    assert b"\n" not in written
    assert parse_json(written) == to_plain(event)
    assert from_json(Event, written) == event


def test_a_schema_behind_a_proxy() -> None:
    spec = ToolSpec("t", "d", MappingProxyType(dict(SPEC.parameters)))
    written = line(RunStarted("r", 0, 0, 0.0, "q", "m", (spec,)))
    assert parse_json(written)["tools"][0]["parameters"] == SPEC.parameters


@pytest.mark.parametrize(
    "value", ["\ud800", {"a": {1, 2}}, {"a": object()}], ids=["half a letter", "a set", "an object"]
)
def test_what_has_no_json_is_an_error(value: Any) -> None:
    if isinstance(value, dict) and isinstance(value["a"], set):
        assert line(RunCompleted("r", 1, 1, 0.0, value, Usage()))  # a set is written as a list
        return
    with pytest.raises(CodecError):
        line(RunCompleted("r", 1, 1, 0.0, value, Usage()))
