"""A limit of a run above that a run inside a call meets: a durable run ends by it as a plain one does."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import pytest

from tests.agent.kit import call, say
from tests.agent.test_inner_runs import endless, gathered, hidden, in_order, office
from tests.draws import sampled
from tests.durable.journals import first_of, run_on_journal
from tests.durable.test_agent import served, turns
from wesichain.agent import Agent, Approve, Failed, Outcome
from wesichain.core import LlmRequest, LlmResponse, Role
from wesichain.durable import DurableAgent
from wesichain.errors import RunInterruptedError
from wesichain.policy import Budget, FailFast
from wesichain.testing import FakeClock, FunctionLlm
from wesichain.tools import Finish, ToolContext, tool


def boss(letters: Any, depth: int, llm: Any = None, **options: Any) -> Agent[Any, str]:
    """An agent that calls the tool, or has another agent call it."""
    desk = Agent(office([letters]).llm, tools=[letters], name="desk", policy=FailFast())
    inner, name = (letters, "letters") if depth == 1 else (desk.as_tool(), "desk")
    return Agent(llm or office([inner], name=name).llm, tools=[inner], policy=FailFast(), **options)


def readers(ways: Any, number: int) -> Any:
    @tool
    async def letters(ctx: ToolContext) -> str:
        """Have them read."""
        runs = [endless().run(str(n), parent=ctx) for n in range(number)]
        try:
            await ways(runs)
        finally:
            for run in runs:
                run.close()
        return "read"

    return letters


def seen(outcome: Outcome[Any]) -> tuple[Any, ...]:
    error = vars(outcome.error) if isinstance(outcome, Failed) else {}
    kept = {name: value for name, value in error.items() if name != "owner"}
    events = [(event.kind, event.scope, getattr(event, "decision", "")) for event in outcome.events]
    return type(outcome), getattr(outcome, "text", ""), kept, outcome.spent.steps, events


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("ways", "on_limit", "depth"),
    sampled([*product((in_order, gathered, hidden), ("fail", "answer"), (1, 2))], 2),
)
async def test_killed_after_any_step_it_ends_as_a_plain_run(ways: Any, on_limit: Any, depth: int) -> None:
    for number, steps in ((1, 4), (2, 6)):

        def program(number: int = number, steps: int = steps) -> Any:
            options: dict[str, Any] = {"budget": Budget(steps=steps), "on_limit": on_limit}
            return boss(readers(ways, number), depth, **options).runtime

        plain = await program().run("q", run_id="r", clock=FakeClock())
        whole, texts = await run_on_journal(program())
        assert seen(whole) == seen(plain)
        for kept in range(len(texts) + 1):
            again, _ = await run_on_journal(program(), first_of(texts, kept))
            assert seen(again) == seen(plain), [*texts][:kept]


@pytest.mark.sampled
@pytest.mark.parametrize("depth", sampled([1, 2], 1))
async def test_met_beside_a_run_that_waits_it_ends_the_run_in_another_process(url: str, depth: int) -> None:
    """Resumed, and then taken over by a third process that finds the call recorded."""
    last_word = asyncio.Event()

    @tool(effect="once", approval=True)
    async def pay() -> Finish[str]:
        """Pay."""
        return Finish("paid")

    def durable(*, is_stuck: bool = False) -> DurableAgent[str]:
        payer = Agent(turns(say(call("pay"))), tools=[pay], name="payer")

        @tool
        async def letters(ctx: ToolContext) -> str:
            """Have one read, and the other pay."""
            runs = [payer.run("pay", parent=ctx), endless().run("read", parent=ctx)]
            ended = await asyncio.gather(*runs, return_exceptions=True)
            raise next(one for one in ended if isinstance(one, BaseException))

        async def reply(request: LlmRequest) -> LlmResponse:
            if not any(message.role is Role.TOOL for message in request.messages):
                return say(call("letters")) if depth == 1 else say(call("desk", {"task": "t"}))
            last_word.set()
            if is_stuck:
                await asyncio.Event().wait()
            return LlmResponse("done")

        agent = boss(letters, depth, FunctionLlm(reply), budget=Budget(steps=6), on_limit="answer")
        return DurableAgent(agent, "boss", database_url=url)

    async with durable() as first:
        with pytest.raises(RunInterruptedError):
            await first.run("go", run_id="r")
        (waiting,) = await first.pending("r")
        await first.approve("r", waiting.token, Approve())
    async with durable(is_stuck=True) as second:
        resuming = asyncio.create_task(second.resume("r"))
        await asyncio.wait_for(last_word.wait(), 30)
        await second.close(grace=0.0)
        resuming.cancel()
    async with durable() as third, served(third):
        outcome: Any = await third.outcome("r", timeout=30)
    assert (outcome.text, outcome.stopped_by) == ("done", "steps")
