"""All scenarios, by name."""

from __future__ import annotations

from .agents import AGENTS
from .graphs import GRAPHS
from .rooms import ROOMS
from .scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (*AGENTS, *GRAPHS, *ROOMS)


def find(name: str) -> Scenario:
    for scenario in SCENARIOS:
        if scenario.name == name:
            return scenario
    raise SystemExit(f"there is no scenario {name!r}; there are {', '.join(s.name for s in SCENARIOS)}")
