"""Simulation of durable agents: processes that share a SQLite database die, and the next one takes over."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.agent import trees
from tests.testing.samples import orders, vouchers
from tests.testing.test_simulation import check_tree, digest_of, tree_scenario
from wesichain.agent import Completed
from wesichain.durable import DurableAgent, DurableGraph
from wesichain.errors import ConfigError
from wesichain.testing import Fault, Faults, Scenario, simulate_sync
from wesichain.testing.simulation import simulated


@pytest.mark.parametrize("mistake", vouchers.MISTAKES)
def test_a_planted_mistake_is_found_and_shrunk(tmp_path: Path, mistake: str) -> None:
    scenario = vouchers.scenario(tmp_path, mistake)
    for first in range(0, 16, 2):
        report = simulate_sync(scenario, seeds=range(first, first + 2), faults=Faults.none(crash=0.04))
        if report.violations:
            break
    (violation,) = report.violations
    assert violation.invariant == vouchers.MISTAKES[mistake][0]
    assert {fault.kind for fault in violation.faults} == {"crash"}
    assert len(violation.faults) <= 3


def test_a_sound_agent_raises_no_alarm_and_meets_every_fault(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    scenario = vouchers.scenario(tmp_path)
    for seed in range(15):
        with simulated(scenario, seed, Faults()) as trace:
            assert trace.error is None, trace.error
            for invariant in scenario.invariants:
                invariant(trace)
            assert [event.seq for event in trace.events] == [*range(1, len(trace.events) + 1)]
            seen.update(fault.kind for fault in trace.faults)
            seen[f"{trace.processes} processes"] += 1
            seen["completed"] += isinstance(trace.outcome, Completed)
    assert {"crash", "cancel", "tool_late", "model_errs", "person_late"} <= {*seen}
    assert seen["3 processes"]
    assert seen["completed"] > 5


def test_a_seed_is_the_same_run_again(tmp_path: Path) -> None:
    scenario = vouchers.scenario(tmp_path)
    for seed in (3, 14):
        assert len({digest_of(scenario, seed) for _ in range(3)}) == 1


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(slice(None, None, 8), id="some"),
        pytest.param(slice(None), id="all", marks=pytest.mark.slow),
    ],
)
def test_it_comes_to_the_same_end_wherever_its_process_dies(tmp_path: Path, part: slice) -> None:
    """At events, inside and after tools, before and after calls of the database."""
    scenario = vouchers.scenario(tmp_path)
    with simulated(scenario, 5, Faults.none()) as trace:
        places = [fault.at for fault in trace.possible if fault.kind == "crash"]
    for place in places[part]:
        with simulated(scenario, 5, Faults(only=(Fault("crash", place),))) as trace:
            assert trace.error is None, place
            assert (trace.processes, len(trace.faults)) == (2, 1), place
            assert isinstance(trace.outcome, Completed), place
            assert len(trace.world.vouchers) == 1, place
            if "is unknown" in str(trace.events):  # it had begun, and nobody knows whether it was done
                assert len(trace.world.mails) <= 1, place
            else:
                assert trace.outcome.text == "Your voucher is in the mail.", place
                assert len(trace.world.mails) == 1, place


def test_random_trees_hold_their_laws_in_durable_runs(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    before = trees.WORLD
    for seed in range(14):
        url = f"sqlite:///{tmp_path / str(seed)}.db"
        scenario = tree_scenario(seed, partial(DurableAgent, name="tree", database_url=url))
        with simulated(scenario, seed, Faults()) as trace:
            seen += check_tree(trace)
    trees.WORLD = before
    assert {"crash", "cancel", "tool_raises", "3 processes"} <= {*seen}
    assert seen["nested"] > 2


def test_a_durable_graph_is_simulated_as_a_graph() -> None:
    graph: Any = DurableGraph(orders.make({})(orders.Company()))
    report = simulate_sync(Scenario(lambda: graph, {"number": "A7"}), seeds=[0])
    assert isinstance(report.violations[0].error, ConfigError)
    assert "an Agent, a DurableAgent or a Graph" in report.violations[0].message
