"""Figures and page come out of recorded results as they should."""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.fire.faults import FAULTS, GAVE_UP, GOOD
from bench.fire.run import verdict
from bench.peers.report.costs import headline
from bench.peers.report.estimate import estimate
from bench.peers.report.figures import ratio, rows_of
from bench.peers.report.page import (
    BEGIN,
    DOCS,
    END,
    WITH_FIGURES,
    compose,
    draw,
    write_figures,
    write_page,
)
from bench.peers.report.plots import spread
from bench.peers.results import RESULTS, Cell, Entry, Fact, Results, load, save
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws

SAMPLES = st.lists(st.floats(min_value=1e-9, max_value=1e9), min_size=1, max_size=30)


@draws(20)
@given(SAMPLES)
def test_the_median_lies_within_its_interval(samples: list[float]) -> None:
    found = estimate(samples)
    assert found.low <= found.median <= found.high
    assert found.median == statistics.median(samples)
    assert {found.low, found.high} <= set(samples)


@pytest.mark.parametrize(
    ("count", "cut"),
    [
        pytest.param(1, 0, id="one sample is its own interval"),
        pytest.param(5, 0, id="five samples give their range"),
        pytest.param(7, 0, id="seven need their range for 95 percent"),
        pytest.param(9, 1, id="nine can spare one at either end"),
        pytest.param(20, 5, id="twenty can spare five"),
    ],
)
def test_the_interval_is_as_narrow_as_its_confidence_allows(count: int, cut: int) -> None:
    found = estimate([float(number) for number in range(count)])
    assert (found.low, found.high) == (cut, count - 1 - cut)


@draws(20)
@given(st.lists(st.floats(min_value=0, max_value=400), max_size=20).map(sorted))
def test_labels_keep_clear_of_each_other(places: list[float]) -> None:
    moved = spread(places, gap=15, first=0, last=440)
    assert len(moved) == len(places)
    assert all(after - before >= 14.8 for before, after in itertools.pairwise(moved))
    assert all(0 <= place <= 440 for place in moved)


def entry(title: str, *, scale: float, rounds: int = 3) -> Entry:
    """A contestant whose every figure is `scale` times the yardstick's; a later round is 10 % dearer."""

    def facts(weather: float) -> dict[str, Fact]:
        cpu = {"short": 1e-6, "hop": 15e-6, "malformed": 30e-6, "chain10": 150e-6, "chain100": 1500e-6}
        cpu |= {"sync": 60e-6, "sync10": 600e-6, "sync100": 6000e-6}
        found: dict[str, Fact] = {
            name: {
                "cpu": value * scale * weather,
                "peak": 3e7,
                "spared": scale < 100,
                "in_thread": scale < 100,
            }
            for name, value in cpu.items()
        }
        if scale == 2:  # ours alone has the setting
            quick: dict[str, Fact] = {
                name.replace("sync", "quick"): {
                    **found[name],
                    "cpu": found[name]["cpu"] / 4,
                    "in_thread": False,
                }
                for name in ("sync", "sync10", "sync100")
            }
            found |= quick
        found["chain1000"] = {"cpu": 15000e-6 * scale * weather, "peak": 4e7, "spared": True}
        found["concurrent"] = {"cpu": 20e-6 * scale * weather, "bytes": 4000 * scale}
        found["import"] = found["pydantic"] = {"cpu": 0.05 * weather}
        return found

    return {
        "title": title,
        "version": "1.0",
        "statement": "import it",
        "note": "as it comes.",
        "quick": "blocking=False" if scale == 2 else "",
        "best": "retries=9",
        "rounds": [facts(1 + number / 10) for number in range(rounds)],
    }


@pytest.fixture
def recorded() -> Results:
    peer = entry("Peer", scale=100)
    for facts in peer["rounds"]:
        facts["chain1000"] = {"error": "RecursionError: too deep"}
    missing: Entry = {"title": "missing", "version": "", "statement": "", "note": "", "rounds": []}
    return {
        "date": "2026-01-01",
        "python": "3.11.7",
        "platform": "Linux aarch64",
        "cores": 2,
        "concurrent": 1000,
        "contestants": {
            "peer": peer,
            "wesichain": entry("Wesichain", scale=2),
            "handwritten": entry("hand-written loop", scale=1),
            "missing": missing | {"unavailable": "cannot be installed: no such wheel"},
        },
        "graph": {
            "version": "9.9",
            "rows": [
                {
                    "shape": "chain",
                    "size": 100,
                    "is_async": is_async,
                    "store": "SQLite" if is_async else "",
                    "wesichain": [1e-6, 2e-6],
                    "langgraph": [2e-5, 4e-5],
                }
                for is_async in (False, True)
            ],
            "stored": 1.5,
        },
        "fire": {
            "peer": {
                "json-once": {"ended": "text", "detail": "", "seconds": 0.1, "requests": 1},
                "json-always": {"ended": "status", "detail": "status ERROR", "seconds": 0.1, "requests": 2},
                "endless": {"ended": "running", "detail": "", "seconds": 30.0, "requests": 259},
                "429-once": {"ended": "text", "detail": "All is well.", "seconds": 1.0, "requests": 2},
                "429-always": {"ended": "exception", "detail": "Busy", "seconds": 2.0, "requests": 3},
                "500-always": {"ended": "text", "detail": GAVE_UP, "seconds": 2.0, "requests": 4},
            },
            "peer+best": {
                "json-once": {"ended": "text", "detail": GOOD, "seconds": 0.1, "requests": 2},
            },
        },
    }


def test_ratios_are_taken_round_by_round(recorded: Results) -> None:
    yardstick, ours, peer, _ = rows_of(recorded)
    found = ratio(ours, yardstick, "late")
    assert found is not None
    assert [found.low, found.high] == pytest.approx([2, 2])
    assert ratio(peer, yardstick, "late") is None


def test_the_page_says_what_was_found(recorded: Results, tmp_path: Path) -> None:
    write_page(recorded, tmp_path)
    page = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    for expected in (
        "**Wesichain** | 1.0 | 2.2 µs",
        "Peer, chain1000: RecursionError: too deep",
        "missing: cannot be installed: no such wheel",
        "malformed arguments: they were not checked",
        "**silent**: empty<br><sub>1 request</sub>",
        "`status ERROR`<br>",
        "**still running**<br><sub>259 requests</sub>",
        "recovered<br><sub>2 requests</sub>",
        "`Busy`<br>",
        "| Peer | 1 | 2 | 1 | 1 | 1 |",
        "| Peer, best settings | 1 | 0 | 0 | 0 | 0 |",
        "- Peer: retries=9",
        "“I could not finish.”<br><sub>4 requests</sub>",
        "- A run with one call, async tools: 33 µs, 2.00 times the hand-written loop.",
        "- A run with one call, sync tools: 132 µs, 2.00 times the hand-written loop. The cheapest of the others, Peer, takes 6.6 ms",
        "| **Wesichain** | a thread | 132 µs",
        "| **Wesichain**, `blocking=False` | the loop's thread | 33 µs<br><sub>30 µs to 36 µs</sub> | 0.50 |",
        "| Peer | the loop's thread | 6.6 ms",
        "LangGraph 9.9",
        "| a chain of 100 nodes, sync | 1.5 µs<br><sub>1 µs to 2 µs</sub> | 30 µs<br><sub>20 µs to 40 µs</sub> | 20 |",
        "| a chain of 100 nodes, async, SQLite | 1.5 µs",
        "a chat of 200 turns takes 1.50 times its text",
    ):
        assert expected in page
    drawings = sorted(path.name for path in (tmp_path / "benchmarks").iterdir())
    assert drawings == ["import.svg", "memory.svg", "one-hop.svg", "per-hop.svg"]
    for name in drawings:
        assert f"(benchmarks/{name})" in page
        ElementTree.parse(tmp_path / "benchmarks" / name)


def test_a_chain_that_was_stopped_gives_a_lower_bound(recorded: Results, tmp_path: Path) -> None:
    for facts in recorded["contestants"]["peer"]["rounds"]:
        facts["chain1000"] = {"error": "stopped after 20 s of CPU", "stopped": 20.0}
    write_page(recorded, tmp_path)
    page = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert "| > 22.1 ms | > 1,337 |" in page
    assert "stopped after 20 s of CPU" in page
    assert "Where it says “>”" in page
    assert "Peer, chain1000" not in page


def test_the_results_file_keeps_everything(recorded: Results, tmp_path: Path) -> None:
    path = tmp_path / "results" / "peers.json"
    save(recorded, path)
    assert load(path) == recorded


def test_who_takes_sync_tools_alone_is_no_rival_in_async_ones(recorded: Results, tmp_path: Path) -> None:
    recorded["contestants"]["peer"]["blocking"] = True
    write_page(recorded, tmp_path)
    page = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert "| Peer † |" in page
    assert "† Its tools are sync functions alone" in page
    assert "async tools: 33 µs" not in page
    assert "sync tools: 132 µs" in page


@pytest.mark.parametrize(
    ("ended", "detail", "forever", "comes_to"),
    [
        pytest.param("text", GOOD, False, "recovered", id="the right answer"),
        pytest.param("text", GOOD, True, "silent", id="a good answer where there can be none"),
        pytest.param("text", "", True, "silent", id="nothing, and no sign"),
        pytest.param("text", GAVE_UP, True, "words", id="words that say so look like no success"),
        pytest.param("status", "limit_turns", True, "visible", id="a status"),
        pytest.param("exception", "TimeoutError", False, "visible", id="an exception"),
        pytest.param("running", "", True, "running", id="no end"),
    ],
)
def test_silent_is_what_looks_like_success(ended: str, detail: str, forever: bool, comes_to: str) -> None:
    fault = next(fault for fault in FAULTS if fault.forever is forever)
    cell: Cell = {"ended": ended, "detail": detail, "seconds": 0.0, "requests": 1}
    assert verdict(fault, cell) == comes_to


def test_a_page_is_changed_between_its_marks_alone(recorded: Results, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    write_figures(recorded, [readme])
    assert readme.read_text(encoding="utf-8") == f"before\n{BEGIN}\n{headline(recorded)}\n{END}\nafter\n"
    assert "| **Wesichain** | 33 µs | 132 µs | 33 µs | 132 µs |" in headline(recorded)
    assert "| the cheapest of 1 others | 1.65 ms (Peer) | 6.6 ms (Peer) |" in headline(recorded)


def test_the_pages_say_what_was_measured() -> None:
    """The committed pages and drawings have the figures of the committed results."""
    found = load(RESULTS)
    rows = rows_of(found)
    assert (DOCS / "benchmarks.md").read_text(encoding="utf-8") == compose(found, rows)
    for name, drawing in draw(rows).items():
        assert (DOCS / "benchmarks" / f"{name}.svg").read_text(encoding="utf-8") == drawing
    for page in WITH_FIGURES:
        assert f"{BEGIN}\n{headline(found)}\n{END}" in page.read_text(encoding="utf-8")
