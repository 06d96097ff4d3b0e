"""Middleware in durable runs: what is in the journal is told and paid for again, and nothing is done twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.kit import ADD, add, say
from tests.durable.journals import first_of, run_on_journal
from wesichain.agent import AgentRuntime, Completed
from wesichain.middleware import Middleware
from wesichain.testing import FakeClock, ScriptedLlm

pytestmark = pytest.mark.quick


class Twice(Middleware):
    async def wrap_model(self, ctx: Any, request: Any, call_next: Any) -> Any:
        await call_next(request)
        return await call_next(request)


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
async def test_a_run_that_was_killed_goes_on_to_the_same_end(kept: int) -> None:
    replies = [say(ADD), say(ADD), say(content="3"), say(content="three")]

    def runtime(left: list[Any]) -> AgentRuntime[str]:
        return AgentRuntime(ScriptedLlm(left), [add], clock=FakeClock(), middleware=[Twice()])

    whole, texts = await run_on_journal(runtime(replies))
    assert isinstance(whole, Completed)
    assert whole.spent.steps == 4
    rest = replies if kept == 0 else replies[2:] if kept < 3 else []
    again: Any = (await run_on_journal(runtime(rest), first_of(texts, kept)))[0]
    assert (again.output, again.spent.steps, again.usage) == (whole.output, 4, whole.usage)
    assert [type(event) for event in again.events] == [type(event) for event in whole.events]
