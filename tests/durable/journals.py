"""Runs on a journal in memory: killed after any of its steps, a run goes on with those that were kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from wesichain.agent import AgentRuntime, Outcome
from wesichain.durable.journal.durable_effects import DurableEffects
from wesichain.durable.journal.step_journal import StepJournal
from wesichain.testing import FakeClock


async def run_on_journal(
    runtime: AgentRuntime[Any], recorded: Mapping[str, str] | None = None
) -> tuple[Outcome[Any], dict[str, str]]:
    """The outcome of a run that finds these steps recorded, and the steps that are recorded then."""
    texts = dict(recorded or {})

    async def step(name: str, act: Any) -> str:
        texts[name] = await act()
        return texts[name]

    journal = StepJournal(recorded or {}, step, clock=FakeClock(), at=0.0)
    outcome = await runtime.run("q", run_id="r", effects=partial(DurableEffects, journal), clock=journal)
    return outcome, texts


def first_of(texts: Mapping[str, str], kept: int) -> dict[str, str]:
    """The first so many steps."""
    return dict([*texts.items()][:kept])
