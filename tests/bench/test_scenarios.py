"""The scenarios do what they say, and what is measured of them is what they do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench.scenarios import SCENARIOS, Scenario, find, measure, peak_memory, percentile

STEPS = {
    "short": 1,
    "hop": 2,
    "chain10": 11,
    "chain100": 101,
    "chain1000": 1001,
    "malformed": 3,
    "concurrent100": 200,
    "graph-chain": 20,
    "graph-fan-out": 51,
    "checkpoints": 50,
    "playbook": 3,
    "parser": 4,
    "import": 1,
}


def test_all_gated_scenarios_are_in_the_table() -> None:
    assert [scenario.name for scenario in SCENARIOS if scenario.gated] == list(STEPS)
    assert find("concurrent10000").gated is False


@pytest.mark.parametrize("name", STEPS)
async def test_a_scenario_takes_the_steps_it_should(name: str, tmp_path: Path) -> None:
    scenario = find(name)
    assert await scenario.run(scenario.setup(tmp_path)) == STEPS[name]


def test_an_unknown_name_says_which_there_are() -> None:
    with pytest.raises(SystemExit, match="no scenario 'hops'; there are short, hop"):
        find("hops")


async def fine(_: object) -> int:
    return 7


async def test_a_run_is_measured() -> None:
    figures = await measure(Scenario("fine", "", lambda _: None, fine), None, repeat=5, memory=False)
    assert (figures.runs, figures.steps, figures.errors) == (5, 7, 0)
    assert 0 <= figures.p50 <= figures.p95


async def test_a_run_that_raises_is_counted_and_the_others_go_on() -> None:
    turns = iter(range(100))

    async def moody(_: object) -> int:
        if next(turns) % 2:
            raise RuntimeError("not today")
        return 1

    figures = await measure(Scenario("moody", "", lambda _: None, moody), None, repeat=9, memory=False)
    assert (figures.errors, figures.error) == (5, "RuntimeError: not today")
    assert figures.steps == 1


async def test_memory_counts_what_a_run_holds_and_what_it_leaves_behind() -> None:
    kept: list[bytes] = []

    async def tidy(_: object) -> int:
        return len(bytes(100_000))

    async def leaky(_: object) -> int:
        kept.append(bytes(40_000))
        return len(bytes(100_000))

    tidy_peak, leaky_peak = [
        await peak_memory(Scenario("", "", lambda _: None, run), None, runs=5) for run in (tidy, leaky)
    ]
    assert 100_000 <= tidy_peak < 110_000
    assert 290_000 <= leaky_peak < 320_000


@pytest.mark.parametrize(
    ("samples", "q", "expected"),
    [
        pytest.param([3.0, 1.0, 2.0], 0.5, 2.0, id="the middle of three"),
        pytest.param([float(n) for n in range(1, 101)], 0.95, 95.0, id="95 of a hundred"),
        pytest.param([5.0], 0.95, 5.0, id="the only one"),
    ],
)
def test_percentile(samples: list[float], q: float, expected: float) -> None:
    assert percentile(samples, q) == expected


@pytest.mark.slow
def test_a_scenario_is_run_by_name_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "bench.scenarios", "hop", "--repeat", "3", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    figures = json.loads(done.stdout)
    assert (figures["name"], figures["runs"], figures["steps"], figures["errors"]) == ("hop", 3, 2, 0)
    assert figures["peak"] > 0
