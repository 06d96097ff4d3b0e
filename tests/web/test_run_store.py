"""The folder of recordings as the viewer reads it: filters, pages of runs and of events, runs under way."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tests.trace.runs import NOON, run
from wesichain.core import to_json
from wesichain.trace import Recorder
from wesichain.web.marks import Mark
from wesichain.web.run_store import Filter, RunStore, place_at, place_of, read_page, time_of


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


def test_a_page_without_a_filter_reads_no_other_recordings(store: RunStore) -> None:
    store.page_of(Filter(), limit=1)
    assert len(store._known) == 2, "the page, and whether there is a next one"
    store.page_of(Filter(search="x"), limit=1)
    assert len(store._known) == 3
    store.runs()[0].path.unlink()
    store.read_ahead()
    assert len(store._known) == 2, "of the files that are there"


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
