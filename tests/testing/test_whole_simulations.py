"""Whole simulated runs: the faults of a seed, what tools did, and every event with its time.

A kept violation is a seed and the names of places, so both have to stay what they are, in every process.
Each run is in `whole_simulations/` (see `tests/expected.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import expected
from tests.testing import test_simulation
from tests.testing.samples import orders, refunds, research, support, trips
from wesichain.core import Event
from wesichain.testing import Faults, Trace, simulate_sync
from wesichain.testing.simulation.loop import EPOCH
from wesichain.testing.simulation.simulate import simulated

FILES = Path(__file__).parent / "whole_simulations"
SEEDS = {
    "orders": (orders.scenario, (10, 18, 20)),
    "refunds": (refunds.scenario, (4, 9, 36)),
    "research": (research.scenario, (7, 10)),
    "support": (support.scenario, (25, 34)),
    "trips": (trips.scenario, (9, 18)),
}
REPORTS = "reports"


def lines_of(trace: Trace) -> Iterator[str]:
    spent = trace.spent
    yield (
        f"seed {trace.seed}, {trace.processes} processes, {len(trace.possible)} possible faults, {spent.steps} steps, "
        f"{spent.seconds:.3f} s: {type(trace.outcome).__name__} {trace.error or ''}".rstrip()
    )
    yield from (f"  fault after {fault.after} events: {fault}" for fault in trace.faults)
    for tool in trace.effects:
        for one in trace.effects[tool]:
            yield (
                f"  {one.tool} {one.args} {one.call_id} key {one.key}, attempt {one.attempt}, process {one.process}, "
                f"at {one.at - EPOCH:.3f}: {one.ended}"
            )
    yield from (f"    {_line(event)}" for event in trace.events)


def _line(event: Event) -> str:
    about: Any = event
    named = ("decision", "message", "reason", "duration_ms", "output", "value", "node", "call_id")
    words = [f"{name}={_plain(getattr(about, name))}" for name in named if getattr(about, name, None)]
    return " ".join([f"{event.at - EPOCH:.3f}", event.scope or "-", str(event.step_id), event.kind, *words])


def _plain(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, float) else repr(value)


def whole(name: str) -> str:
    if name == REPORTS:
        return _reports()
    make, seeds = SEEDS[name]
    lines: list[str] = []
    for seed in seeds:
        with simulated(make(), seed, Faults()) as trace:
            lines += lines_of(trace)
    return "\n".join(lines) + "\n"


def no_mail_is_sent(trace: Trace) -> None:
    if "mail" in trace.effects:
        raise AssertionError  # as a bare `assert` does, which pytest would give words


SIMULATED: tuple[tuple[range, dict[str, Any]], ...] = (
    (range(30), {}),
    (range(3), {"faults": Faults.none()}),
    (range(3), {"faults": Faults.none(), "invariants": [no_mail_is_sent]}),
)


def _reports() -> str:
    """What is said of violations, and the tests that keep them."""
    parts: list[str] = []
    for seeds, options in SIMULATED:
        report = simulate_sync(test_simulation.KEPT, seeds=seeds, **options)
        parts += [str(report), str(report.to_plain()), *(one.test() for one in report.violations)]
    return "\n".join(parts) + "\n"


@pytest.mark.parametrize("name", [*SEEDS, REPORTS])
def test_a_seed_is_the_run_that_it_was(name: str) -> None:
    expected.check(FILES / f"{name}.txt", whole(name))
