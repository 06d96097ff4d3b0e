"""A run that only a recorder follows: its events are found in its own log, where most were never made."""

from __future__ import annotations

import gc
import re
import weakref
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core import values
from tests.draws import draws
from tests.trace.runs import NOON, run
from wesichain import Agent, tool
from wesichain.agent import Approve, Interrupted
from wesichain.core import (
    Event,
    ModelResponded,
    StepFailed,
    StepStarted,
    TextDelta,
    ToolCompleted,
    ToolDispatched,
)
from wesichain.core.events import AgentEvent, ToolProgress
from wesichain.core.internal import events_in, forms_in, forms_to_jsonl, to_jsonl
from wesichain.testing import FakeClock, ScriptedLlm, StreamingScriptedLlm, calls
from wesichain.trace import CollectingSink, Recorder, Recording, list_runs, load
from wesichain.trace.recordings.lines import Unwritten

KINDS = get_args(AgentEvent)  # those of graphs are never kept as tuples
USUAL = [StepStarted, ModelResponded, ToolDispatched, ToolCompleted, StepFailed, ToolProgress]


def entry(event: Event) -> tuple[Any, ...]:
    """The event as the log of a run keeps it."""
    own = [field.name for field in fields(event) if field.name not in ("run_id", "seq") and not field.kw_only]
    return (type(event), *(getattr(event, name) for name in own))


def outside_of_graphs(kind: Any) -> dict[str, Any]:
    """The fields that an entry of a run's own log does not have: those of runs inside others, and of graphs."""
    return {field.name: "" for field in fields(kind) if field.kw_only}


def only(folder: Path) -> Path:
    (path,) = folder.glob("*.jsonl")
    return path


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
@draws(4)
@given(data=st.data())
def test_an_entry_stands_for_its_event(kind: Any, data: st.DataObject) -> None:
    event = replace(data.draw(values.of(kind)), run_id="r", seq=8, **outside_of_graphs(kind))
    assert events_in([entry(event)], "r", 7) == [event]
    assert forms_to_jsonl(forms_in([entry(event)], "r", 7)) == to_jsonl([event])


@draws(12)
@given(
    middle=st.lists(st.one_of([values.of(kind) for kind in USUAL]), max_size=6),
    told=st.sets(st.integers(0, 6)),
    before=st.integers(0, 3),
    pieces=st.sets(st.integers(0, 6)),
)
def test_what_is_found_in_a_log_is_written_as_if_it_had_been_told(
    tmp_path_factory: pytest.TempPathFactory,
    middle: list[Event],
    told: set[int],
    before: int,
    pieces: set[int],
) -> None:
    first, *_, last = run()
    events = [
        replace(event, run_id="run-1", seq=number, **outside_of_graphs(type(event)))
        for number, event in enumerate([first, *middle, last], before + 1)
    ]
    emitted, found = tmp_path_factory.mktemp("emitted"), tmp_path_factory.mktemp("found")
    recorder = Recorder(emitted)
    for event in events:
        recorder.emit(event)

    log: list[Any] = []
    hear, note = Recorder(found).run_listeners("run-1", log, before)
    assert note is None
    for place, event in enumerate(events):
        is_heard = place in told or event in (events[0], events[-1])
        log.append(event if is_heard else entry(event))
        if is_heard:
            hear(event)
    assert only(found).read_bytes() == only(emitted).read_bytes()

    with_pieces = tmp_path_factory.mktemp("pieces")
    streamed: list[Any] = []
    numbered: list[Event] = []
    hear, _ = Recorder(with_pieces).run_listeners("run-1", streamed, before)
    for place, event in enumerate(events):
        numbered.append(replace(event, seq=before + len(streamed) + 1))
        streamed.append(numbered[-1] if place in (0, len(events) - 1) else entry(event))
        if place in (0, len(events) - 1):
            hear(numbered[-1])
        elif place in pieces:
            streamed.append(TextDelta("run-1", 1, before + len(streamed) + 1, NOON, "piece"))
            hear(streamed[-1])
    kept = Recorder(tmp_path_factory.mktemp("numbered"))
    for event in numbered:
        kept.emit(event)
    assert only(with_pieces).read_bytes() == only(kept.folder).read_bytes()


def test_a_recorder_that_was_closed_goes_on_behind_what_it_has_written(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    log: list[Any] = []
    hear, _ = recorder.run_listeners("run-1", log, -1)  # the first of `run` is number 0
    first, *rest, last = run()
    log.append(first)
    hear(first)
    log += map(entry, rest[:3])
    recorder.close()
    log += map(entry, rest[3:])
    log.append(last)
    hear(last)
    assert load(only(tmp_path)).events == tuple(run())


async def test_the_log_of_a_run_that_is_over_is_let_go(tmp_path: Path) -> None:
    class Log(list[Any]):
        __slots__ = ("__weakref__",)

    recorder, log = Recorder(tmp_path), Log()
    hear, _ = recorder.run_listeners("run-1", log, -1)  # the first of `run` is number 0
    for event in (run()[0], run()[-1]):
        log.append(event)
        hear(event)
    seen = weakref.ref(log)
    del log, hear
    gc.collect()
    assert seen() is None  # although the loop has not come round yet


def test_an_entry_without_json_is_counted(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    log: list[Any] = [run()[0]]
    hear, _ = recorder.run_listeners("run-1", log, -1)  # the first of `run` is number 0
    hear(log[0])
    odd: Any = object()
    done = next(event for event in run() if event.kind == "tool_completed")
    log += [entry(event) for event in run()[1:-1]]
    log[run().index(done)] = entry(replace(done, value=odd))
    log.append(run()[-1])
    hear(log[-1])
    recording = load(only(tmp_path))
    assert recording.events == tuple(event for event in run() if event != done)
    assert recording.problems
    assert "tool_completed has no JSON" in recording.problems[0]
    assert recorder.dropped == 1


def test_secrets_in_a_log_are_taken_out(tmp_path: Path) -> None:
    log: list[Any] = [run()[0]]
    hear, _ = Recorder(tmp_path).run_listeners("run-1", log, -1)
    hear(log[0])
    secret = "sk-ant-api03-0123456789abcdef"
    log += [
        entry(replace(event, value={"said": secret}) if isinstance(event, ToolCompleted) else event)
        for event in run()[1:-1]
    ]
    log.append(run()[-1])
    hear(log[-1])
    assert secret not in only(tmp_path).read_text(encoding="utf-8")
    assert [event.kind for event in load(only(tmp_path)).events] == [event.kind for event in run()]


# --- real runs -----------------------------------------------------------------------------------


@tool
def look(city: str) -> dict[str, str]:
    """Look at the sky."""
    return {"sky": "clear", "city": city}


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def found(folder: Path) -> Recording:
    (summary,) = list_runs(folder)
    return load(summary.path)


LOOKS = [calls(("look", {"city": f"c{number}"}), content=f"I look {number}.") for number in range(70)]


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(lambda: ScriptedLlm([*LOOKS, "fine"]), id="whole"),
        pytest.param(lambda: StreamingScriptedLlm([*LOOKS[:3], "fine"]), id="in-pieces"),
        pytest.param(lambda: ScriptedLlm([calls(("nope", {})), *LOOKS[:2], "fine"]), id="a-fault"),
    ],
)
async def test_a_run_alone_with_its_recorder_has_the_recording_of_one_with_company(
    model: Any, tmp_path: Path
) -> None:
    files: list[bytes] = []
    for folder, company in ((tmp_path / "alone", ()), (tmp_path / "with", (CollectingSink(),))):
        agent = Agent(model(), tools=[look], clock=FakeClock(), new_id=lambda: "run-1", loop_guard=None)
        stream = isinstance(model(), StreamingScriptedLlm)
        outcome = await agent.outcome("How is it?", events=[Recorder(folder), *company], stream=stream)
        whole = tuple(event for event in outcome.events if not isinstance(event, TextDelta))
        assert found(folder).events == whole
        files.append(re.sub(rb'"duration_ms":[^,}]+', b"", only(folder).read_bytes()))
    assert files[0] == files[1]


async def test_a_run_that_waits_and_one_inside_another_are_recorded_whole(tmp_path: Path) -> None:
    inner = Agent(ScriptedLlm([*LOOKS[:2], "clear"]), tools=[look], name="scout")
    model = ScriptedLlm([calls(("scout", {"task": "look"})), calls(("pay", {"amount": 3})), "done"])
    agent = Agent(model, tools=[inner.as_tool(), pay], events=Recorder(tmp_path))
    waiting = await agent.outcome("Pay if it is clear.")
    assert isinstance(waiting, Interrupted)
    done = await agent.resume(waiting, {call.token: Approve() for call in waiting.pending})
    assert done.output == "done"
    recording = found(tmp_path)
    assert recording.events == (*waiting.events, *done.events)
    assert recording.complete
    assert len(recording.scopes) == 2


@pytest.mark.parametrize(("wants_pieces", "written"), [(False, [1]), (True, [0, 1])])
def test_a_piece_that_nobody_was_told_of_yet_is_written_where_pieces_are(
    wants_pieces: bool, written: list[int]
) -> None:
    log: list[Any] = [
        TextDelta("run-1", 1, 0, 1.0, "so far"),
        StepStarted("run-1", 2, 1, 2.0, (), follows=True),
    ]
    unwritten = Unwritten("run-1", log, -1, wants_pieces=wants_pieces)
    assert [event.seq for event in unwritten.take().events()] == written
    assert len(log) == 2  # it stays in the log of the run


async def test_a_recorder_of_pieces_has_them_all_in_their_places(tmp_path: Path) -> None:
    agent = Agent(StreamingScriptedLlm([*LOOKS[:3], "fine"]), tools=[look])
    outcome = await agent.outcome("How is it?", events=Recorder(tmp_path, deltas=True), stream=True)
    assert any(isinstance(event, TextDelta) for event in outcome.events)
    assert found(tmp_path).events == outcome.events
