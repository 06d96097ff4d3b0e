"""Simulation of durable agents and graphs: processes that share a SQLite database die, and the next one takes over."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copy
from tempfile import mkdtemp
from typing import Any

import pytest

from tests.agent import trees
from tests.draws import chosen, sampled
from tests.durable.databases import database_in
from tests.testing.samples import orders, vouchers
from tests.testing.test_simulation import check_tree, tree_scenario
from wesichain.agent import Completed, Interrupted
from wesichain.durable import DurableAgent, DurableGraph
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.testing import Fault, Faults, Scenario, simulate_sync
from wesichain.testing.simulation.simulate import simulated


# The seeds of the planted mistakes are the first that find them: looking for them costs seconds.
@pytest.mark.sampled
@pytest.mark.parametrize(("mistake", "seed"), sampled([*zip(vouchers.MISTAKES, (14, 2), strict=True)], 1))
def test_a_planted_mistake_is_found_and_shrunk(tmp_path: Path, mistake: str, seed: int) -> None:
    scenario = vouchers.scenario(tmp_path, mistake)
    report = simulate_sync(scenario, seeds=[seed], faults=Faults.none(crash=0.04))
    (violation,) = report.violations
    assert violation.invariant == vouchers.MISTAKES[mistake][0]
    assert {fault.kind for fault in violation.faults} == {"crash"}
    assert len(violation.faults) <= 3


MEETING = (2, 8, 9, 10)  # seeds that meet the faults which are looked for, in three processes


def test_a_sound_agent_raises_no_alarm_and_meets_every_fault(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    scenario = vouchers.scenario(tmp_path)
    for seed in [*MEETING, *chosen(range(1_000), 1)]:
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
    assert seen["completed"] > 1


@pytest.mark.sampled
def test_it_comes_to_the_same_end_wherever_its_process_dies(tmp_path: Path) -> None:
    """At events, inside and after tools, before and after calls of the database."""
    scenario = vouchers.scenario(tmp_path)
    with simulated(scenario, 5, Faults.none()) as trace:
        places = [fault.at for fault in trace.possible if fault.kind == "crash"]
    assert "while it waited for an answer" in places
    for place in sampled(places, 2):
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


def test_an_answer_after_its_question_has_expired_is_refused(tmp_path: Path) -> None:
    scenario = vouchers.scenario(tmp_path, approval_ttl=60.0)
    late = Fault("person_late", "answer to c1 mail")
    with simulated(scenario, 1, Faults(only=(late,))) as trace:
        assert (trace.error, trace.faults) == (None, (late,))
        assert isinstance(trace.outcome, Interrupted)
        assert trace.world.mails == []


def test_random_trees_hold_their_laws_in_durable_runs(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    before = trees.WORLD
    for seed in (3, 7, 8, 12, *chosen(range(200), 1)):
        url = database_in(tmp_path, f"{seed}.db")
        scenario = tree_scenario(seed, partial(DurableAgent, name="tree", database_url=url))
        with simulated(scenario, seed, Faults()) as trace:
            seen += check_tree(trace)
    trees.WORLD = before
    assert {"crash", "cancel", "tool_raises", "3 processes"} <= {*seen}
    assert seen["nested"] > 1


# --- durable graphs --------------------------------------------------------------------------------------


def order_desk(folder: Path, mistake: str | None = None) -> Scenario:
    """The desk of orders as a durable graph; each run has a database and a file of checkpoints of its own."""
    make_graph = orders.make(orders.MISTAKES[mistake][1] if mistake else {})
    empty = folder / "runs.db"
    vouchers.make_tables(empty)

    def make(company: orders.Company) -> DurableGraph[Any]:
        return DurableGraph(make_graph(company), context=lambda: company, database_url=company.database_url)

    def world() -> orders.Company:
        own = Path(mkdtemp(dir=folder))
        url = f"sqlite:///{copy(empty, own)}"
        return orders.Company(SqliteCheckpointer(own / "graph.db"), database_url=url)

    return replace(orders.scenario(), agent=make, world=world)


def test_a_sound_durable_graph_raises_no_alarm_and_meets_every_fault(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    scenario = order_desk(tmp_path)
    for seed in (4, 6, 11, 22, *chosen(range(1_000), 1)):
        with simulated(scenario, seed, Faults()) as trace:
            assert trace.error is None, trace.error
            for invariant in scenario.invariants:
                invariant(trace)
            seen.update(fault.kind for fault in trace.faults)
            seen[f"{trace.processes} processes"] += 1
            seen["ended"] += trace.outcome is not None and not trace.outcome.next
    assert {"crash", "cancel", "node_raises", "node_hangs", "node_late", "person_late"} <= {*seen}
    assert seen["3 processes"]
    assert seen["ended"]


@pytest.mark.sampled
def test_a_durable_graph_comes_to_the_same_end_wherever_its_process_dies(tmp_path: Path) -> None:
    scenario = order_desk(tmp_path)
    with simulated(scenario, 3, Faults.none()) as trace:
        ended = trace.outcome.values
        places = [fault.at for fault in trace.possible if fault.kind == "crash"]
    assert ended["shipped"] == "yes"
    for place in sampled(places, 2):
        with simulated(scenario, 3, Faults(only=(Fault("crash", place),))) as trace:
            assert trace.error is None, place
            assert (trace.processes, len(trace.faults)) == (2, 1), place
            assert trace.outcome.values == ended, place
            assert (len(trace.world.charges), len(trace.world.parcels)) == (1, 1), place


@pytest.mark.sampled
@pytest.mark.parametrize(("mistake", "seed"), sampled([*zip(orders.MISTAKES, (25, 30, 24), strict=True)], 1))
def test_a_planted_mistake_of_a_durable_graph_is_found_and_shrunk(
    tmp_path: Path, mistake: str, seed: int
) -> None:
    scenario, expected = order_desk(tmp_path, mistake), orders.MISTAKES[mistake][0]
    (violation,) = simulate_sync(scenario, seeds=[seed]).violations
    assert violation.invariant == expected
    assert len(violation.faults) <= 1
