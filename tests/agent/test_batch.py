"""The calls of one reply: what is kept of them, which begin, and which decisions and limits reach them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import override

from tests.agent.kit import ADD, add, call, check_events, say
from tests.agent.test_tree import Canceller, Effects, stored
from wesichain.agent import Agent, AgentRuntime, Approve, Completed, Failed, Interrupted, replay
from wesichain.agent.options import RunOptions
from wesichain.core import Role, RunInterrupted, StepFailed, ToolDispatched
from wesichain.core.internal import field
from wesichain.errors import ToolFailedError
from wesichain.policy import Budget, ObserveErrors, PolicyDecision, Recovery, Retry, RunView
from wesichain.testing import FakeClock, FunctionLlm, ScriptedLlm
from wesichain.tools import CancellationToken, ToolContext, tool

PATIENCE = 10.0  # seconds after which a run hangs


def asking(effects: Effects, name: str, *, questions: int = 1) -> Agent[Any, str]:
    """An agent that asks before it pays, so many times."""
    script = [say(call("pay", id=f"p{n}")) for n in range(questions)]
    pay = effects.tool("pay", approval=True)
    return Agent(ScriptedLlm([*script, f"{name} paid"]), tools=[pay], name=name, loop_guard=None)


async def test_a_call_whose_inner_run_goes_on_is_the_same_attempt_and_spends_nothing() -> None:
    effects = Effects()
    agent = Agent(
        ScriptedLlm([say(call("inner", {"task": "t"})), "x"]), tools=[asking(effects, "inner").as_tool()]
    )
    held = await agent.outcome("q", run_id="r")
    assert isinstance(held, Interrupted)
    outcome = await agent.runtime.resume(stored(held), {held.pending[0].token: Approve()})
    begun = [
        event.attempt
        for event in (*held.events, *outcome.events)
        if isinstance(event, ToolDispatched) and event.call_id == "inner-id"
    ]
    assert begun == [1, 1]
    assert outcome.spent.tool_calls == 2
    assert effects.keys == ["r:inner-id/inner~1:1:p0"]


async def test_calls_that_run_may_end_when_no_more_may_begin() -> None:
    effects = Effects()
    llm = ScriptedLlm([say(*[call("act", {"n": n}, id=f"c{n}") for n in range(3)])])
    act = effects.tool("act", seconds=0.02)
    runtime = AgentRuntime(llm, [act], tool_concurrency=3, budget=Budget(tool_calls=2))
    outcome = await runtime.run("q")
    assert isinstance(outcome, Failed)
    assert effects.done == {"act": 2}
    told = [message.text for message in outcome.messages if message.role is Role.TOOL]
    assert told[:2] == ["act done"] * 2
    check_events(outcome.events)


async def test_in_order_a_call_behind_one_that_waits_has_not_begun() -> None:
    effects = Effects()
    llm = ScriptedLlm([say(call("inner", {"task": "t"}), call("mail")), "x"])
    tools = [asking(effects, "inner").as_tool(), effects.tool("mail")]
    agent = Agent(llm, tools=tools, tool_concurrency=1)
    held = stored(await agent.outcome("q"))
    assert effects.done == {}
    outcome = await agent.runtime.resume(held, {held.pending[0].token: Approve()})
    assert isinstance(outcome, Completed)
    assert list(effects.done) == ["pay", "mail"]


async def test_a_cancel_of_the_token_given_is_heard_two_levels_down() -> None:
    token = CancellationToken()

    async def reply(_: Any) -> Any:
        asyncio.get_running_loop().call_soon(token.cancel, "enough")
        await asyncio.sleep(60)

    low = Agent(FunctionLlm(reply), name="low")
    middle = Agent(ScriptedLlm([say(call("low", {"task": "t"}))]), tools=[low.as_tool()], name="middle")
    agent = Agent(ScriptedLlm([say(call("middle", {"task": "t"}))]), tools=[middle.as_tool()])
    outcome = await asyncio.wait_for(agent.outcome("q", cancellation=token), PATIENCE)
    assert isinstance(outcome, Interrupted)
    told = [event.reason for event in outcome.events if isinstance(event, RunInterrupted)]
    assert told == ["enough"] * 3, "each run has the time to end by itself"


async def test_after_a_stop_a_call_that_waits_for_its_turn_does_not_begin() -> None:
    effects, token = Effects(), CancellationToken()

    async def hang(_: Any) -> Any:
        asyncio.get_running_loop().call_soon(token.cancel, "enough")
        await asyncio.sleep(PATIENCE)

    inner = Agent(FunctionLlm(hang), name="inner").as_tool()
    turns = [call("inner", {"task": "t"}, id="a"), call("inner", {"task": "t"}, id="b"), call("act")]
    agent = Agent(ScriptedLlm([say(*turns)]), tools=[inner, effects.tool("act")], tool_concurrency=2)
    outcome = await agent.outcome("q", cancellation=token)
    assert isinstance(outcome, Interrupted)
    begun = [event.call_id for event in outcome.events if isinstance(event, ToolDispatched)]
    assert (begun, effects.done) == (["a", "b"], {})


async def test_a_cancel_wins_over_a_limit_that_a_call_beside_it_has_met() -> None:
    token = CancellationToken()

    @tool
    async def act(n: int) -> str:
        """Act."""
        token.cancel("enough")
        return "done"

    llm = ScriptedLlm([say(*[call("act", {"n": n}, id=f"c{n}") for n in range(2)])])
    runtime = AgentRuntime(llm, [act], tool_concurrency=2, budget=Budget(tool_calls=1))
    outcome = await runtime.run("q", cancellation=token)
    assert isinstance(outcome, Interrupted), "it can be resumed with a larger budget"
    check_events(outcome.events)


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_after_a_cancel_at_the_end_of_its_pause_a_call_is_not_made_again(concurrency: int) -> None:
    token, begun = CancellationToken(), list[int]()

    class CancellingClock(FakeClock):
        @override
        async def sleep(self, seconds: float) -> None:
            token.cancel("enough")

    @tool(effect="pure")
    async def act(n: int) -> str:
        """Act."""
        begun.append(n)
        raise ValueError("down")

    llm = ScriptedLlm([say(*[call("act", {"n": n}, id=f"c{n}") for n in range(2)])])
    policy = Recovery({ValueError: Retry(delay=1.0)})
    runtime = AgentRuntime(llm, [act], tool_concurrency=concurrency, policy=policy, clock=CancellingClock())
    outcome = await runtime.run("q", cancellation=token)
    assert isinstance(outcome, Interrupted)
    assert begun == [*range(concurrency)], "each once"
    check_events(outcome.events)


async def test_a_child_whose_task_is_cancelled_with_its_parent_s_is_kept() -> None:
    effects = Effects()

    @tool
    async def hang(ctx: ToolContext) -> str:
        """Hangs until its run is cut off; the next time it does not."""
        if ctx.attempt == 1:
            task.cancel()
            await asyncio.sleep(30)
        return "went on"

    llm = ScriptedLlm([say(call("act")), say(call("hang")), "done"])
    inner = Agent(llm, tools=[effects.tool("act", effect="once"), hang], name="inner")
    agent = Agent(ScriptedLlm([say(call("inner", {"task": "t"})), "x"]), tools=[inner.as_tool()])
    drive = agent.runtime.open("q")
    task = asyncio.ensure_future(drive.run_to_end())
    with pytest.raises(asyncio.CancelledError):
        await task
    held = stored(drive.outcome)
    assert held.unfinished is not None
    assert [child.agent for child in held.unfinished.children] == ["inner"]
    outcome = await agent.runtime.reopen(held, {}, RunOptions()).run_to_end()
    assert isinstance(outcome, Completed)
    assert (effects.done, len(llm.requests)) == ({"act": 1}, 3)


def pair(effects: Effects, *, questions: int) -> list[Agent[Any, str]]:
    return [asking(effects, "ann", questions=questions), asking(effects, "bob")]


BOTH = say(call("ann", {"task": "t"}), call("bob", {"task": "t"}))


async def test_a_decision_is_kept_until_its_call_has_come_to_it() -> None:
    effects, token = Effects(), CancellationToken()
    three = [asking(effects, name) for name in ("ann", "bob", "cleo")]
    llm = ScriptedLlm([say(*[call(one.name, {"task": "t"}) for one in three]), "x"])
    agent = Agent(llm, tools=[one.as_tool() for one in three], tool_concurrency=2)
    held = stored(await agent.outcome("q"))
    assert len(held.pending) == 3
    decisions: Any = {item.token: Approve() for item in held.pending}
    sink = Canceller(ToolDispatched, token.cancel)  # before the third has its place
    held = stored(await agent.runtime.resume(held, decisions, cancellation=token, events=sink))
    assert held.pending == ()
    outcome = await agent.runtime.resume(held)
    assert isinstance(outcome, Completed), outcome
    assert effects.done == {"pay": 3}


async def test_a_question_that_was_decided_is_not_asked_again_while_its_call_waits() -> None:
    effects = Effects()
    below = [one.as_tool() for one in pair(effects, questions=2)]
    llm = ScriptedLlm([BOTH, "x"])
    held = stored(await Agent(llm, tools=below, tool_concurrency=2).outcome("q"))
    in_order = Agent(llm, tools=below, tool_concurrency=1).runtime  # goes on where less is done at once
    decisions: Any = {item.token: Approve() for item in held.pending}
    held = stored(await in_order.reopen(held, decisions, RunOptions()).run_to_end())
    assert effects.done == {"pay": 1}
    assert [(item.scope, item.call.id) for item in held.pending] == [(("agent",), "p1")]
    outcome = await in_order.reopen(held, {held.pending[0].token: Approve()}, RunOptions()).run_to_end()
    assert isinstance(outcome, Completed), outcome
    assert effects.done == {"pay": 3}


class Noted(ObserveErrors):
    """Tells the model of every fault, and remembers them."""

    seen: list[str] = field(default_factory=list[str])

    def on_tool_error(self, state: RunView, error: ToolFailedError) -> PolicyDecision:
        self.seen.append(str(error))
        return super().on_tool_error(state, error)


async def test_a_limit_that_a_child_meets_is_nobody_s_fault() -> None:
    inner = Agent(FunctionLlm(lambda _: say(ADD)), tools=[add], name="inner", loop_guard=None)
    policy: Any = Noted()
    llm = ScriptedLlm([say(call("inner", {"task": "t"})), "x"])
    agent = Agent(llm, tools=[inner.as_tool()], budget=Budget(4), policy=policy)
    outcome = await agent.outcome("q")
    assert isinstance(outcome, Failed)
    assert policy.seen == [], "no policy was asked"
    (end,) = [event for event in outcome.events if isinstance(event, StepFailed) and not event.scope]
    assert (end.call_id, end.decision) == ("inner-id", "limit")
    as_before = [
        replace(event, decision="fail") if isinstance(event, StepFailed) and not event.scope else event
        for event in outcome.events
    ]
    recorded: Any = SimpleNamespace(run_id=outcome.run_id, events=as_before)
    replayed = await replay(recorded, agent)
    assert [type(event) for event in replayed.events] == [type(event) for event in outcome.events]
