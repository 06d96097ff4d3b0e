"""Middleware in durable runs: what is in the journal is told and paid for again, and nothing is done twice."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.agent.kit import ADD, add, say
from wesichain.agent import AgentRuntime, Completed
from wesichain.durable.journal import DurableEffects, StepJournal
from wesichain.middleware import Middleware
from wesichain.testing import FakeClock, ScriptedLlm

pytestmark = pytest.mark.quick


class Twice(Middleware):
    async def wrap_model(self, ctx: Any, request: Any, call_next: Any) -> Any:
        await call_next(request)
        return await call_next(request)


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
async def test_a_run_that_was_killed_goes_on_to_the_same_end(kept: int) -> None:
    texts: dict[str, str] = {}

    async def step(name: str, act: Any, *_: Any) -> str:
        texts[name] = await act()
        return texts[name]

    replies = [say(ADD), say(ADD), say(content="3"), say(content="three")]

    async def run(llm: ScriptedLlm, recorded: dict[str, str]) -> Any:
        journal = StepJournal(recorded, step, clock=FakeClock(), at=0.0)
        agent = AgentRuntime(llm, [add], clock=FakeClock(), middleware=[Twice()])
        return await agent.run("q", run_id="r", effects=partial(DurableEffects, journal), clock=journal)

    whole = await run(ScriptedLlm(replies), {})
    assert isinstance(whole, Completed)
    assert whole.spent.steps == 4
    left = dict(list(texts.items())[:kept])
    rest = ScriptedLlm(replies[:] if kept == 0 else replies[2:] if kept < 3 else [])
    again = await run(rest, left)
    assert (again.output, again.spent.steps, again.usage) == (whole.output, 4, whole.usage)
    assert [type(event) for event in again.events] == [type(event) for event in whole.events]
