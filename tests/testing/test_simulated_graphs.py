"""Simulation of graphs: a process dies at any event or write, and another resumes the thread."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.draws import chosen
from tests.testing.samples import orders
from tests.testing.test_simulation import digest_of
from wesichain import Agent
from wesichain.errors import ConfigError
from wesichain.graph import GraphBuilder
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.testing import Fault, Faults, FunctionLlm, Scenario, Trace, simulate_sync
from wesichain.testing.simulation.simulate import simulated

# A graph that is cancelled between the making of a node's task and its first step drops the node's coroutine.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine 'NodeRun:RuntimeWarning")


@pytest.mark.parametrize("mistake", orders.MISTAKES)
def test_a_planted_mistake_is_found_and_shrunk(mistake: str) -> None:
    broken = orders.MISTAKES[mistake][0]
    for first in range(0, 300, 10):
        report = simulate_sync(orders.scenario(mistake), seeds=range(first, first + 10))
        if found := [one for one in report.violations if one.invariant == broken]:
            assert len(found[0].faults) <= 1
            return
    pytest.fail(f"{broken} was not broken in 300 seeds")


def test_a_sound_graph_raises_no_alarm_and_meets_every_fault() -> None:
    seen: Counter[str] = Counter()
    scenario = orders.scenario()
    for seed in range(40):
        with simulated(scenario, seed, Faults()) as trace:
            assert trace.error is None, trace.error
            for invariant in scenario.invariants:
                invariant(trace)
            seen.update(fault.kind for fault in trace.faults)
            seen["ended"] += trace.outcome is not None and not trace.outcome.next
            seen[f"{trace.processes} processes"] += 1
    assert {"crash", "cancel", "person_late", "person_twice", "person_never"} <= {*seen}
    assert {"node_raises", "node_hangs", "node_late"} <= {*seen}
    assert seen["3 processes"]
    assert seen["ended"] > 16


@pytest.mark.parametrize(
    ("fault", "mistake", "charges", "is_shipped"),
    [
        pytest.param(Fault("node_raises", "node charge"), None, 1, True, id="raises-and-is-tried-again"),
        pytest.param(Fault("node_hangs", "node charge"), None, 1, True, id="hangs-and-is-tried-again"),
        pytest.param(Fault("node_late", "node charge"), None, 1, True, id="works-and-is-late"),
        pytest.param(
            Fault("node_late", "node charge"), "charges whenever it is run", 2, True, id="works-twice"
        ),
        pytest.param(Fault("node_raises", "node ship"), None, 1, False, id="raises-and-the-graph-fails"),
    ],
)
def test_a_fault_of_a_node_does_what_it_says(
    fault: Fault, mistake: str | None, charges: int, is_shipped: bool
) -> None:
    with simulated(orders.scenario(mistake), 3, Faults(only=(fault,))) as trace:
        assert trace.error is None
        assert [*trace.faults] == [fault]
        assert len(trace.world.charges) == charges
        assert bool(trace.world.parcels) is is_shipped


def test_nodes_of_a_graph_inside_have_faults_and_a_sync_node_can_raise() -> None:
    def inner(state: orders.Order) -> orders.Order:
        return {"reserved": "yes"}

    def make(company: orders.Company) -> Any:
        part = GraphBuilder(orders.Order).add_node("inner", inner).set_entry("inner").build()
        outer = GraphBuilder(orders.Order).add_node("part", part).set_entry("part")
        return outer.build(company.checkpoints)

    scenario = Scenario(make, {"number": "A7"}, world=orders.Company)
    with simulated(scenario, 0, Faults.none()) as trace:
        assert trace.outcome.values["reserved"] == "yes"
        assert [one for one in trace.possible if one.at.startswith("node")] == [
            Fault("node_raises", "node part/inner")
        ]
    with simulated(scenario, 0, Faults(only=(Fault("node_raises", "node part/inner"),))) as trace:
        assert "reserved" not in trace.outcome.values


def test_an_agent_in_a_graph_has_faults_at_its_models_and_tools_alone() -> None:
    def make(company: orders.Company) -> Any:
        builder: Any = GraphBuilder(dict)
        agent = Agent(FunctionLlm(lambda request: "hello"))
        return builder.add_node("ask", agent).set_entry("ask").build(company.checkpoints)

    scenario = Scenario(make, {"input": "?"}, world=orders.Company)
    with simulated(scenario, 0, Faults(only=(Fault("model_errs", "model call of top"),))) as trace:
        assert trace.outcome.values["output"] == "hello", "it is asked again"
        assert not [one for one in trace.possible if one.at.startswith("node")]
    assert digest_of(scenario, 0) == digest_of(scenario, 0)


def places() -> list[str]:
    """Every place of a run without faults at which its process can die."""
    with simulated(orders.scenario(), 3, Faults.none()) as trace:
        return [fault.at for fault in trace.possible if fault.kind == "crash"]


def ends(trace: Trace) -> None:
    assert trace.outcome is not None
    assert not trace.outcome.next, trace.outcome
    assert trace.outcome.values == {
        "number": "A7", "reserved": "yes", "charged": "yes", "signed": "signed", "shipped": "yes"
    }  # fmt: skip


def test_it_comes_to_the_same_end_wherever_its_process_dies() -> None:
    scenario = orders.scenario()
    assert {"checkpoint, before the write", "checkpoint, after the write"} <= {*places()}
    for place in places():
        with simulated(scenario, 3, Faults(only=(Fault("crash", place),))) as trace:
            assert trace.error is None, place
            ends(trace)
            for invariant in scenario.invariants:
                invariant(trace)
            assert (trace.processes, len(trace.faults)) == (2, 1), place


def test_the_thread_is_on_sqlite(tmp_path: Path) -> None:
    number = iter(range(1_000))

    def world() -> orders.Company:
        return orders.Company(SqliteCheckpointer(tmp_path / f"{next(number)}.db"))

    report = simulate_sync(orders.scenario(world=world), seeds=chosen(range(1_000), 6))
    assert report.ok, str(report)
    assert digest_of(orders.scenario(world=world), 7) == digest_of(orders.scenario(), 7)


def test_a_graph_needs_a_checkpointer() -> None:
    def make(world: Any) -> Any:
        return orders.make({})(orders.Company(checkpoints=None))

    report = simulate_sync(Scenario(make, {"number": "A7"}), seeds=[0])
    assert isinstance(report.violations[0].error, ConfigError)
    assert "no checkpointer" in report.violations[0].message
