"""Where two runs part."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.trace.runs import NOON, events, run
from wesichain.core import (
    Event,
    Image,
    ModelResponded,
    RunCompleted,
    RunInterrupted,
    TextDelta,
    ToolCall,
    ToolCompleted,
    Usage,
)
from wesichain.core.internal import PendingCall
from wesichain.trace import Recorder, Recording, compare, diff


def test_a_run_and_another_of_the_same_task_are_the_same() -> None:
    later = [replace(event, at=event.at + 99, seq=event.seq + 7) for event in run("other", 3)]
    assert diff(run("one", 3), later) == []
    assert diff(Recording("one", tuple(run("one", 3))), Recording("other", tuple(later))) == []


def test_a_run_may_be_named_by_its_file(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        for event in run("one", 3):
            recorder.emit(event)
    (path,) = tmp_path.iterdir()
    assert diff(path, str(path)) == diff(path, run("one", 3)) == []


@draws(15)
@given(st.lists(events(), max_size=6))
def test_a_run_is_the_same_as_itself(some: list[Event]) -> None:
    assert diff(some, some) == []


@draws(15)
@given(st.lists(events(), max_size=6), st.lists(events(), max_size=6))
def test_differences_are_the_same_from_both_sides(left: list[Event], right: list[Event]) -> None:
    assert bool(diff(left, right)) == bool(diff(right, left))


def test_durations_tokens_of_approval_and_pieces_of_replies_are_not_compared() -> None:
    call = ToolCall("c", "t", {})
    left: list[Event] = [
        ToolCompleted("r", 1, 1, NOON, "c", "t", 1, 5.0),
        TextDelta("r", 1, 2, NOON, "a"),
        RunInterrupted("r", 1, 2, NOON, "x", Usage(), (PendingCall(call, "one", 1.0),)),
    ]
    right: list[Event] = [
        ToolCompleted("r", 1, 1, NOON, "c", "t", 1, 9.0),
        RunInterrupted("r", 1, 2, NOON, "x", Usage(), (PendingCall(call, "two", 2.0),)),
    ]
    assert diff(left, right) == []


def test_ids_of_calls_are_compared_by_their_order() -> None:
    assert diff(run("a", 2), run("b", 2)) == []
    swapped = run("a", 2)
    assert isinstance(swapped[8], ToolCompleted)
    swapped[8] = replace(swapped[8], call_id="call-a-1")
    assert [change.path for change in diff(run("a", 2), swapped)[0].changes] == ["call_id"]


def test_the_first_difference_is_where_they_part() -> None:
    differences = diff(run("a", 2, city="Paris"), run("b", 2, city="Rome"))
    first = differences[0]
    assert first.step_id == 1
    assert isinstance(first.left, ModelResponded)
    assert str(first) == 'step 1: model_responded\n  response.tool_calls[0].args.city: "Paris" -> "Rome"'


def test_keys_of_arguments_are_compared_whatever_they_are_called() -> None:
    for key in ("at", "seq", "run_id", "duration_ms", "id", "call_id", "expires_at"):
        (difference,) = diff(told({key: 1}), told({key: 2}))
        assert [change.path for change in difference.changes] == [f"value.{key}"]


def test_both_sides_are_compared_redacted() -> None:
    secret = ToolCompleted("r", 1, 1, NOON, "c", "t", "password=hunter2", 1.0)
    recorded = replace(secret, value="password=[redacted:secret]")
    assert diff([secret], [recorded]) == []
    assert "hunter2" not in str(diff([secret], [replace(secret, value="x")])[0])


def test_an_event_that_only_one_run_has() -> None:
    left, right = run("a", 3), run("a", 3)
    del right[5:9]
    differences = diff(left, right)
    gone = [difference.left for difference in differences if difference.right is None]
    assert gone == left[5:9]
    assert str(differences[0]) == "step 2: step_started only in the first run"
    assert "only in the second run" in str(diff(right, left)[0])


def test_another_end() -> None:
    end = RunCompleted("run-1", 3, 9, NOON, {"a": [1, {"b": None}]}, Usage(100, 10))
    other = [*run()[:-1], end]
    (difference,) = diff(run(), other)
    assert isinstance(difference.right, RunCompleted)
    assert str(difference.changes[0]) == 'output: "Clear skies." -> {"a":[1,{"b":null}]}'


def test_lists_and_long_values_are_readable() -> None:
    (difference,) = diff(told({"a": [1, 2], "b": "x" * 500}), told({"a": [1, 3, 4]}))
    assert [(change.path, change.right) for change in difference.changes] == [
        ("value.a[1]", 3),
        ("value.a[2]", 4),
        ("value.b", None),
    ]
    assert len(str(difference)) < 400
    assert "\x1b" not in str(diff(told("\x1b[2J"), told("b"))[0])


def told(value: Any, **options: Any) -> list[Event]:
    return [ToolCompleted("r", 1, 1, NOON, "c", "t", value, 1.0, **options)]


@pytest.mark.parametrize(("length", "shown"), [(118, f'"{"x" * 118}"'), (119, f'"{"x" * 119}…')])
def test_a_long_value_is_cut(length: int, shown: str) -> None:
    (difference,) = diff(told("x" * length), told("y"))
    assert str(difference.changes[0]) == f'value: {shown} -> "y"'


def test_bytes_are_compared_by_their_hash() -> None:
    one, two = (told("v", parts=(Image(data=data, media_type="image/png"),)) for data in (b"a", b"b"))
    assert diff(one, one) == []
    (difference,) = diff(one, two)
    assert [(change.path, change.left) for change in difference.changes] == [
        ("parts[0].data", sha256(b"a").hexdigest())
    ]


def test_a_difference_in_a_run_inside_says_where() -> None:
    (difference,) = diff(told(1, scope="c1"), told(2, scope="c1"))
    assert str(difference) == "step 1 of c1: tool_completed\n  value: 1 -> 2"


def test_more_events_than_are_aligned_are_compared_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = [*told(0), *told(1), *told(2)], [*told(0), *told(2)]
    assert [str(each) for each in diff(ours, theirs)] == ["step 1: tool_completed only in the first run"]
    monkeypatch.setattr(compare, "_ALIGNED", 2)  # those behind what both begin with
    assert [str(each) for each in diff(ours, theirs)] == ["step 1: tool_completed only in the first run"]
    monkeypatch.setattr(compare, "_ALIGNED", 1)
    assert [str(each) for each in diff(ours, theirs)] == [
        "step 1: tool_completed\n  value: 1 -> 2",
        "step 1: tool_completed only in the first run",
    ]
