"""The pieces of the viewer, each on its own: questions of a page, files of recordings, marks and scores."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.trace.runs import NOON, run
from wesichain.core import (
    Event,
    LlmResponse,
    ModelResponded,
    RunStarted,
    StepFailed,
    StepStarted,
    Usage,
    to_json,
)
from wesichain.core.events import HandedOff
from wesichain.core.internal import Price
from wesichain.durable import DurableRuns
from wesichain.evals import Result
from wesichain.policy import cost_of_events
from wesichain.trace import Recorder
from wesichain.web.all_runs import AllRuns
from wesichain.web.digests import digest
from wesichain.web.marks import Mark, Marks, Scores
from wesichain.web.run_store import Filter, RunStore, place_at, place_of, read_page, time_of
from wesichain.web.workbench import _event_lines

# --- questions of a page -----------------------------------------------------------------------------


# --- recordings --------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """Three runs: of 10, 20 and 30 seconds, at costs of 1, 2 and none that is known."""
    with Recorder(tmp_path) as recorder:
        for number, model in enumerate(["m", "m", "unknown"]):
            at = NOON + 100 * number
            events = run(f"run-{number}", 1 + number, at=at)
            first, last = events[0], events[-1]
            assert isinstance(first, RunStarted)
            last = replace(last, at=at + 10 * (number + 1))
            for event in (replace(first, model=model), *events[1:-1], last):
                recorder.emit(event)
    return RunStore(tmp_path, prices={"m": Price(1.0, 0.0)})


def ids(store: RunStore, **wanted: Any) -> str:
    found, _ = store.page_of(Filter(**wanted))
    return " ".join(one.run_id.removeprefix("run-") for one in found)


def test_recordings_are_filtered_at_both_sides_of_a_limit(store: RunStore) -> None:
    assert ids(store) == "2 1 0"
    assert (ids(store, since=NOON + 100), ids(store, since=NOON + 100.5)) == ("2 1", "2")
    assert (ids(store, until=NOON + 100), ids(store, until=NOON + 100.5)) == ("0", "1 0")
    assert (ids(store, least_seconds=20), ids(store, least_seconds=20.5)) == ("2 1", "2")
    costs = [store.digests.of(one.path, one.size) for one in store.runs()]
    cheap, dear = sorted(digest.cost for digest in costs if digest is not None and digest.cost is not None)
    assert (ids(store, least_cost=dear), ids(store, least_cost=dear * 1.01)) == ("1", "")
    assert (ids(store, most_cost=cheap), ids(store, most_cost=cheap * 0.99)) == ("0", "")
    assert ids(store, status="completed") == "2 1 0"
    assert ids(store, status="live") == ""
    tool = next(iter({name for digest in costs if digest is not None for name in digest.tools}))
    assert (ids(store, tool=tool), ids(store, tool="nothing")) == ("2 1 0", "")
    store.marks.put(Mark("run-1", good=True))
    assert (ids(store, mark="good"), ids(store, mark="none")) == ("1", "2 0")


def test_pages_of_recordings(store: RunStore) -> None:
    first, following = store.page_of(Filter(), limit=2)
    assert [one.run_id for one in first] == ["run-2", "run-1"]
    assert following == place_of(first[-1])
    second, end = store.page_of(Filter(), limit=2, before=following)
    assert ([one.run_id for one in second], end) == (["run-0"], None)
    assert store.page_of(Filter(), limit=3)[1] is None
    place = place_of(first[-1])
    assert time_of(place) == NOON + 100
    assert place_at(NOON + 100) > place.partition("Z-")[0] > place_at(NOON + 99.999)


def test_a_run_without_an_end_is_live_while_its_file_is_fresh(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.emit(run("r")[0])
    store = RunStore(tmp_path)
    (found,) = store.runs()
    assert store.status(found) == "live"
    old = time.time() - 121
    os.utime(found.path, (old, old))
    assert store.status(found) == "unfinished"
    found.path.unlink()
    assert store.status(found) == "unfinished"


def test_what_a_model_was_asked_counts_for_the_model_that_was_asked(tmp_path: Path) -> None:
    """In a run inside the run, and after a handoff, too."""

    def responded(scope: str = "") -> ModelResponded:
        return ModelResponded("r", 1, 0, 0.0, LlmResponse("x", usage=Usage(1_000_000, 5)), 7.0, scope=scope)

    events: list[Event] = [
        RunStarted("r", 0, 0, NOON, "x", "first"),
        RunStarted("r", 0, 0, NOON, "x", "inner", scope="below"),
        responded(),
        responded("below"),
        HandedOff("r", 1, 0, 0.0, "a", "b", model="second"),
        responded(),
        StepStarted("r", 2, 0, 0.0),
        StepStarted("r", 2, 0, 0.0, scope="below"),
        StepFailed("r", 2, 0, 0.0, "LlmError", "busy", "retry", scope="below"),
    ]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(f"{to_json(event)}\n" for event in events))
    prices = {"first": Price(1, 0), "inner": Price(10, 0), "second": Price(100, 0)}
    found = digest(path, prices)
    assert (found.cost, cost_of_events(events, prices)) == (111.0, 111.0)
    nameless = HandedOff("r", 3, 0, 0.0, "b", "c")  # as an older version wrote it
    assert cost_of_events([*events, nameless, responded()], prices) == 211.0
    assert found.tokens == dict.fromkeys(("first", "inner", "second"), (1_000_000, 5))
    assert {name: [ok for _, ok in timed] for name, timed in found.models.items()} == {
        "first": [True],
        "inner": [True, False],
        "second": [True],
    }
    assert (found.steps, dict(found.faults)) == (2, {"LlmError": 1})


def test_a_page_of_a_file_has_whole_lines_and_says_what_is_wrong(tmp_path: Path) -> None:
    events = [to_json(event) for event in run("r", 1)]
    dropped = '{"kind": "recording_dropped", "events": 3, "reason": "too many"}'
    lines = ['{"kind": "recording"}', *events[:2], dropped, "not JSON", "", '{"kind": "recording_ended"}']
    path = tmp_path / "r.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines) + events[2])
    page = read_page(path)
    assert [line.decode() for _, line in page.events] == events[:2]
    assert (page.is_last, page.is_ended) == (True, True)
    assert page.problems[0] == "3 events were not recorded: too many"
    assert page.problems[1].startswith("9 bytes before byte ")
    assert len(page.problems) == 2
    first = read_page(path, limit=1)
    assert (len(first.events), first.is_last, first.is_ended) == (1, False, False)
    rest = read_page(path, cursor=first.cursor)
    assert [line.decode() for _, line in rest.events] == events[1:2]
    with path.open("a") as file:
        file.write("\n")
    grown = read_page(path, cursor=page.cursor)
    assert ([line.decode() for _, line in grown.events], grown.is_ended) == (events[2:3], False)


async def test_a_list_goes_on_after_a_run_that_is_named_and_no_other(store: RunStore) -> None:
    runs = AllRuns(store)
    shown, following = await runs.list(limit=1)
    assert ([one.run_id for one in shown], following is not None) == (["run-2"], True)
    for name in ("run-2", following):
        after, _ = await runs.list(after=name)
        assert [one.run_id for one in after] == ["run-1", "run-0"]
    with pytest.raises(Exception, match="there is no run 'nobody' for the list to continue after"):
        await runs.list(after="nobody")
    page = json.loads(await runs.page(shown[0]))
    assert (page["run"]["run_id"], page["next"], len(page["events"])) == ("run-2", None, len(run("r", 3)))


async def test_events_of_a_database_that_cannot_be_read_end_with_the_problem(tmp_path: Path) -> None:
    database = DurableRuns(f"sqlite:///{tmp_path / 'none.db'}")
    frames = [frame async for frame in _event_lines(database, "r", 0)]
    assert frames[0].startswith(b'event: problem\ndata: {"error":"there is no database ')
    assert frames[1:] == [b"event: end\ndata: {}\n\n"]


# --- marks and scores --------------------------------------------------------------------------------


def test_a_mark_is_read_again_when_its_file_has_changed(tmp_path: Path) -> None:
    mine, others = Marks(tmp_path / "labels.jsonl"), Marks(tmp_path / "labels.jsonl")
    assert mine.all() == {}
    mine.put(Mark("a", good=True, why="well done"))
    assert others.of("a") == Mark("a", good=True, why="well done")
    others.put(Mark("a", good=False))
    others.put(Mark("b", good=True))
    assert mine.all() == {"a": Mark("a", good=False), "b": Mark("b", good=True)}
    with mine.path.open("a") as file:
        file.write("torn")
    mine.remove("a")
    assert others.all() == {"b": Mark("b", good=True)}
    assert (mine.path.stat().st_mode & 0o777) == 0o600


def test_scores_are_read_as_they_come_and_anew_from_another_file(tmp_path: Path) -> None:
    scores = Scores(tmp_path / "scores.jsonl")
    first, second = (Result(f"case {name}", name, 1, "completed", usage=Usage(1, 1)) for name in ("a", "b"))
    assert scores.of("a") is None
    scores.path.write_text(f"{to_json(first)}\nnot ours\n{to_json(second)}\n")
    assert (scores.of("a"), scores.of("b")) == (first, second)
    changed = replace(first, status="failed")
    with scores.path.open("a") as file:
        file.write(f"{to_json(changed)}\n")
    assert scores.of("a") == changed
    scores.path.write_text(f"{to_json(second)}\n")
    assert (scores.of("a"), scores.of("b")) == (None, second)
    scores.path.unlink()
    assert scores.of("b") is None
