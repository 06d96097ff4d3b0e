"""Laws that planted mutants break (`python -m tests.mutants`) and that no other test states."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agent.kit import ADD, add, call, check_events, failed_with, say
from tests.agent.test_tree import DOWN, PRICES, Canceller, Effects, priced, stored
from wesichain.agent import (
    Agent,
    AgentRuntime,
    Approve,
    Completed,
    Failed,
    Interrupted,
    replay,
)
from wesichain.agent.options import RunOptions
from wesichain.core import (
    ModelResponded,
    Role,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    StepFailed,
    StepStarted,
    ToolDispatched,
)
from wesichain.core.internal import field
from wesichain.errors import (
    BudgetExceededError,
    ToolExecutionError,
    ToolFailedError,
    ToolTimeoutError,
)
from wesichain.policy import (
    Budget,
    FailFast,
    ObserveErrors,
    PolicyDecision,
    Recovery,
    Retry,
    RunView,
    SelfCorrect,
)
from wesichain.testing import FunctionLlm, ScriptedLlm
from wesichain.tools import CancellationToken, ToolContext, tool

FREELY = Recovery({Exception: Retry(consume_budget=False)}, limit=99)
PATIENCE = 10.0  # seconds after which a run hangs


def asking(effects: Effects, name: str, *, questions: int = 1) -> Agent[Any, str]:
    """An agent that asks before it pays, so many times."""
    script = [say(call("pay", id=f"p{n}")) for n in range(questions)]
    pay = effects.tool("pay", approval=True)
    return Agent(ScriptedLlm([*script, f"{name} paid"]), tools=[pay], name=name, loop_guard=None)


async def replayed(outcome: Any, agent: Agent[Any, str], events: Sequence[Any] = ()) -> Any:
    recording: Any = SimpleNamespace(events=[*(events or outcome.events)], run_id=outcome.run_id)
    return await replay(recording, agent)


# --- identity -----------------------------------------------------------------------------------------


async def test_another_attempt_is_another_scope_and_other_keys() -> None:
    effects = Effects()
    script: list[Any] = [say(call("act")), DOWN, say(call("act")), "fine"]
    inner = Agent(ScriptedLlm(script), tools=[effects.tool("act")], name="inner", policy=FailFast())
    agent = Agent(
        ScriptedLlm([say(call("inner", {"task": "t"})), "x"]),
        tools=[inner.as_tool(effect="idempotent")],
        policy=Recovery({ToolFailedError: Retry()}),
    )
    outcome = await agent.outcome("q", run_id="r")
    assert isinstance(outcome, Completed)
    scopes = [event.scope for event in outcome.events if isinstance(event, StepStarted) and event.scope]
    assert scopes == ["inner-id"] * 2 + ["inner-id#2"] * 2
    assert effects.keys == ["r:1:inner-id:1:act-id", "r:1:inner-id#2:1:act-id"]


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
    assert effects.keys == ["r:1:inner-id:1:p0"]


# --- results are kept ------------------------------------------------------------------------------------


async def test_a_result_that_arrives_with_the_cancel_is_kept() -> None:
    @tool
    async def last_deed() -> str:
        """Ends as its run is cut off."""
        task.cancel()
        return "done"

    runtime = AgentRuntime(ScriptedLlm([say(call("last_deed")), "x"]), [last_deed])
    drive = runtime.open("q", cancellation=CancellationToken())
    task = asyncio.ensure_future(drive.run_to_end())
    with pytest.raises(asyncio.CancelledError):
        await task
    held = stored(drive.outcome)
    assert "done" in [message.text for message in held.messages]
    assert isinstance(await runtime.resume(held), Completed)


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


# --- what is given back -----------------------------------------------------------------------------------


@pytest.mark.parametrize("free", [False, True], ids=["for-a-step", "for-nothing"])
async def test_a_model_call_that_is_cut_off_costs_what_it_cost(free: bool) -> None:
    token = CancellationToken()
    asked: list[int] = []

    async def reply(_: Any) -> Any:
        asked.append(1)
        if free and len(asked) == 1:
            raise DOWN
        if not token.cancelled:
            token.cancel("enough")
            await asyncio.sleep(30)
        return "whole"

    runtime = AgentRuntime(FunctionLlm(reply), policy=FREELY)
    held = stored(await runtime.run("q", cancellation=token))
    assert (held.spent.steps, held.spent.free_retries) == (int(free), int(free))
    outcome = await runtime.resume(held)
    assert isinstance(outcome, Completed)
    assert (outcome.spent.steps, outcome.spent.free_retries) == (1, int(free))


# --- cancelling -------------------------------------------------------------------------------------------


async def test_a_task_whose_cancel_is_over_can_run_an_agent() -> None:
    async def survive() -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(30)
        return await AgentRuntime(ScriptedLlm([say(ADD), "3"]), [add]).run("q")

    assert isinstance(await asyncio.ensure_future(survive()), Completed)


async def test_a_cancel_that_is_raised_nowhere_interrupts_the_run() -> None:
    sink = Canceller(ModelResponded, lambda: task.cancel())  # behind the last wait of the run
    drive = AgentRuntime(ScriptedLlm(["the answer"]), events=sink).open("q")
    task = asyncio.ensure_future(drive.run_to_end())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(drive.outcome, Interrupted)


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


# --- questions --------------------------------------------------------------------------------------------


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


# --- limits above -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("resource", ["steps", "tool_calls", "seconds"])
async def test_a_limit_above_ends_the_child_whatever_its_on_limit_says(resource: str) -> None:
    async def reply(_: Any) -> Any:
        await asyncio.sleep(30 if resource == "seconds" else 0)
        return say(ADD, content="so far")

    inner = Agent(FunctionLlm(reply), tools=[add], name="inner", loop_guard=None, on_limit="partial")
    limits: dict[str, Any] = {resource: 0.1 if resource == "seconds" else 3}
    llm = ScriptedLlm([say(call("inner", {"task": "t"})), "x"])
    outcome = await Agent(llm, tools=[inner.as_tool()], budget=Budget(**limits)).outcome("q")
    assert isinstance(outcome, Failed), outcome
    assert isinstance(outcome.error, BudgetExceededError)
    assert outcome.error.resource == resource
    ends = [event for event in outcome.events if isinstance(event, RunCompleted | RunFailed)]
    assert [type(event) for event in ends] == [RunFailed, RunFailed], "the child did not answer"


async def test_a_limit_two_levels_above_ends_the_lowest_run() -> None:
    roomy: dict[str, Any] = {"budget": Budget(50), "loop_guard": None}
    low = Agent(FunctionLlm(lambda _: say(ADD)), tools=[add], name="low", **roomy)
    llm = ScriptedLlm([say(call("low", {"task": "t"})), "x"])
    middle = Agent(llm, tools=[low.as_tool()], name="middle", **roomy)
    llm = ScriptedLlm([say(call("middle", {"task": "t"})), "x"])
    outcome = await Agent(llm, tools=[middle.as_tool()], budget=Budget(5)).outcome("q")
    assert isinstance(outcome, Failed)
    assert outcome.spent.steps == 5


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


# --- side by side, and the policy -------------------------------------------------------------------------


async def test_mistakes_are_forgiven_as_long_as_they_are_not_in_a_row() -> None:
    bad = say(call("nope"))
    policy = SelfCorrect(attempts=2)
    script: list[Any] = [bad, bad, say(ADD), bad, bad, say(ADD), "x"]
    outcome = await AgentRuntime(ScriptedLlm(script), [add], policy=policy).run("q")
    assert isinstance(outcome, Completed)
    llm = ScriptedLlm([say(ADD), bad, bad, bad, "x"])
    assert isinstance(await AgentRuntime(llm, [add], policy=policy).run("q"), Failed)
    assert len(llm.requests) == 4


async def test_a_row_of_recovery_is_used_up_by_what_the_tool_raised() -> None:
    tries: list[int] = []

    @tool
    async def unsteady() -> str:
        """Never works."""
        tries.append(1)
        raise ConnectionError("gone")

    policy = Recovery({ToolExecutionError: Retry()}, limit=2)
    llm = ScriptedLlm([say(call("unsteady"))])
    outcome = await AgentRuntime(llm, [unsteady], policy=policy, exclude_after=None).run("q")
    failed_with(outcome, ToolFailedError)
    assert len(tries) == 3


async def test_a_run_that_outlives_its_call_is_told_no_more() -> None:
    inner = Agent(ScriptedLlm(["late"]), name="inner")
    left: list[Any] = []
    over = asyncio.Event()

    @tool
    async def leave(ctx: ToolContext) -> str:
        """Leaves something behind."""

        async def later() -> None:
            await over.wait()
            await inner.outcome("t", parent=ctx)

        left.append(asyncio.ensure_future(later()))
        return "left"

    @tool
    async def look() -> str:
        """Sees to it that what was left goes on."""
        over.set()
        await asyncio.wait(left, timeout=PATIENCE)
        return "it has ended"

    agent = Agent(ScriptedLlm([say(call("leave")), say(call("look")), "x"]), tools=[leave, look])
    outcome = await agent.outcome("q")
    assert left[0].done()
    assert [event for event in outcome.events if event.scope] == []
    check_events(outcome.events)


async def test_what_a_run_spends_after_its_call_is_its_own() -> None:
    """The step of a model call that was cut off is given back to the run, and no more to the run above."""
    asked = asyncio.Event()

    async def hang(_: Any) -> str:
        asked.set()
        await asyncio.Event().wait()
        return "never"

    inner = Agent(FunctionLlm(hang), name="inner")
    left: list[Any] = []

    @tool
    async def leave(ctx: ToolContext) -> str:
        """Leaves a run behind."""
        left.append(asyncio.ensure_future(inner.outcome("t", parent=ctx)))
        await asked.wait()
        return "left"

    @tool
    async def look() -> str:
        """Waits for the run."""
        ended = await asyncio.wait_for(left[0], PATIENCE)
        return f"{ended.spent.steps} steps"

    agent = Agent(ScriptedLlm([say(call("leave")), say(call("look")), "x"]), tools=[leave, look])
    outcome = await agent.outcome("q")
    assert "0 steps" in [message.text for message in outcome.messages]
    assert outcome.spent.steps == 3 + 1, "what its log has: it ended with the step of the run inside"
    assert (await replayed(outcome, agent)).spent.steps == outcome.spent.steps


# --- replay -----------------------------------------------------------------------------------------------


async def test_a_replay_charges_what_a_tool_ran_at_its_own_price() -> None:
    inner = Agent(priced([DOWN, "three"], "inner"), name="inner", policy=FREELY)

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Ask the other one."""
        return (await inner.run("t", parent=ctx)).output

    def program() -> Agent[Any, str]:
        llm = priced([say(call("delegate")), "x"], "outer")
        return Agent(llm, tools=[delegate], budget=Budget(cost=50.0, prices=PRICES))

    outcome = await program().outcome("q")
    assert outcome.spent.cost == pytest.approx(10.2)
    assert (outcome.spent.steps, outcome.state.iteration_count) == (3, 2)
    again = await replayed(outcome, program())
    assert (again.spent.steps, again.spent.cost) == (outcome.spent.steps, pytest.approx(outcome.spent.cost))


async def test_a_replay_begins_calls_in_the_order_in_which_they_began() -> None:
    tries: list[str] = []
    began, ended = asyncio.Event(), asyncio.Event()

    @tool(timeout=0.02)
    async def patient(ctx: ToolContext) -> str:
        """Is too slow, and is tried again some time later."""
        tries.append("patient")
        if ctx.attempt == 1:
            await asyncio.sleep(30)
        ended.set()
        return "in time"

    @tool
    async def hasty(ctx: ToolContext) -> str:
        """Fails after that, and is tried again at once."""
        tries.append("hasty")
        if ctx.attempt == 1:
            await began.wait()
            raise ValueError("again")
        return "at last"

    @tool
    async def long() -> str:
        """Has the place of the first while the first waits, until all is over."""
        tries.append("long")
        began.set()
        await ended.wait()
        return "over"

    def program() -> Agent[Any, str]:
        return Agent(
            ScriptedLlm([say(call("patient"), call("hasty"), call("long")), "x"]),
            tools=[patient, hasty, long],
            policy=Recovery({ToolTimeoutError: Retry(delay=0.3), ToolExecutionError: Retry()}),
            tool_concurrency=2,
        )

    outcome = await program().outcome("q")
    assert isinstance(outcome, Completed)
    assert tries == ["patient", "hasty", "long", "hasty", "patient"]
    again = await replayed(outcome, program())
    assert list(again.events) == list(outcome.events)
