"""The gate does not cry wolf, and does not sleep: thousands of runs over measured noise, with fixed seeds."""

from __future__ import annotations

import pytest
from bench.gate.judge import Verdict
from bench.gate.simulate import read_noise, share
from bench.scenarios import SCENARIOS

NOISE = read_noise()
RUNS = 2_000


def test_the_noise_of_every_gated_scenario_was_measured() -> None:
    assert set(NOISE) == {scenario.name for scenario in SCENARIOS if scenario.gated}
    assert min(map(len, NOISE.values())) >= 10


def test_identical_code_is_blocked_at_most_once_in_200_runs() -> None:
    assert share(NOISE, Verdict.BLOCKED, runs=RUNS, seed=0) <= 1 / 200


@pytest.mark.parametrize("name", list(NOISE))
def test_a_slowdown_of_15_percent_is_caught(name: str) -> None:
    assert share(NOISE, Verdict.BLOCKED, runs=200, loss={name: 1.15}) >= 0.9
