"""Handoffs: one run, one log, one budget, and the agent that acts now with what is its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agent.kit import ADD, add, boom, call, check_events, echo, kinds, say
from tests.conftest import ROOT
from tests.warm import python
from wesichain import Agent, Handoff, RunContext, ToolContext
from wesichain.agent import Approve, ApproveWith, Completed, Failed, Interrupted, replay
from wesichain.context import Window
from wesichain.core import (
    Message,
    Role,
    TextDelta,
    ToolDispatched,
    from_json,
    to_json,
)
from wesichain.errors import (
    AgentError,
    BudgetExceededError,
    ConfigError,
    DuplicateToolError,
    ReplayMismatchError,
    RunFailedError,
    RunInterruptedError,
)
from wesichain.middleware import InputGuard, Middleware
from wesichain.policy import Budget, FailFast
from wesichain.testing import ScriptedLlm, StreamingScriptedLlm
from wesichain.tools import CancellationToken, DynamicTools, Finish, tool
from wesichain.trace import Recorder, diff, find_run, load


@tool(approval=True)
async def refund(amount: int) -> str:
    """Give money back."""
    return f"refunded {amount}"


def to(name: str, **args: Any) -> Any:
    return call(f"transfer_to_{name}", args, id=f"to-{name}")


def agent(name: str, *replies: Any, **options: Any) -> Agent[Any]:
    options.setdefault("instructions", f"You are {name}.")
    return Agent(ScriptedLlm(replies, model=f"model-{name}"), name=name, **options)


def desk(*billing: Any, first: Any = None, **options: Any) -> Agent[Any]:
    """A first agent that hands over to one for bills."""
    other = agent(
        "billing", *(billing or ["You owe 20."]), tools=[add, refund], description="Knows bills.", **options
    )
    return agent("triage", first or say(to("billing")), tools=[echo], handoffs=[other])


def requests(made: Agent[Any]) -> Any:
    llm: Any = made.runtime.llm
    return llm.requests


def other_of(first: Agent[Any], name: str = "billing") -> Any:
    return first.runtime.transfers[f"transfer_to_{name}"].handoff.agent


def replayed(outcome: Any, made: Agent[Any]) -> Any:
    recording: Any = outcome
    return asyncio.run(replay(recording, made))


# --- one run ---------------------------------------------------------------------------------------


def test_the_other_agent_sees_all_but_the_first_ones_instructions() -> None:
    first = desk()
    result = first.run_sync(
        "What do I owe?", history=[Message(Role.USER, "hi"), Message(Role.ASSISTANT, "hello")]
    )
    (request,) = requests(other_of(first))
    assert [(message.role.value, message.text) for message in request.messages] == [
        ("system", "You are billing."),
        ("user", "hi"),
        ("assistant", "hello"),
        ("user", "What do I owe?"),
        ("assistant", ""),
        ("tool", "Handed over to 'billing', who goes on from here."),
    ]
    assert request.model == "model-billing"
    assert [spec.name for spec in request.tools] == ["add", "refund"]
    assert not any(message.role is Role.SYSTEM for message in (*result.messages, *result.new_messages))
    assert result.new_messages[0].text == "What do I owe?"


def test_the_tool_tells_when_to_hand_over() -> None:
    one, two = agent("one", description="Knows one."), agent("Front desk 2")
    specs = agent("first", handoffs=[one, Handoff(two, description="For the rest.")]).runtime.offered()
    assert [(spec.name, spec.description) for spec in specs] == [
        ("transfer_to_one", "Hand over to 'one', who takes the conversation on. Knows one."),
        (
            "transfer_to_Front_desk_2",
            "Hand over to 'Front desk 2', who takes the conversation on. For the rest.",
        ),
    ]


def test_other_calls_of_the_reply_are_finished_first_and_one_transfer_is_made() -> None:
    billing, travel = agent("billing", "done"), agent("travel", "never")
    reply = say(call("echo", {"text": "x"}), to("billing"), to("travel"), ADD)
    first = agent("triage", reply, tools=[echo, add], handoffs=[billing, travel])
    result = first.run_sync("q")
    assert (result.agent, requests(travel)) == ("billing", [])
    told = {message.tool_call_id: message.text for message in result.messages if message.role is Role.TOOL}
    assert (told["echo-id"], told["add-id"]) == ("x", "3")
    assert told["to-travel"].startswith("[NOT RUN] a run is handed over once")
    errors = [message.tool_call_id for message in result.messages if message.is_error]
    assert errors == ["to-travel"]
    assert [e.call.name for e in result.events if isinstance(e, ToolDispatched)] == [
        "echo",
        "transfer_to_billing",
        "add",
    ]
    again = agent("triage", tools=[echo, add], handoffs=[agent("billing"), agent("travel")])
    assert replayed(result.outcome, again).events == result.events


def test_a_tool_that_finishes_the_run_wins() -> None:
    @tool
    async def stop() -> Finish[str]:
        """Stop."""
        return Finish("stopped")

    first = agent("triage", say(to("billing"), call("stop")), tools=[stop], handoffs=[agent("billing")])
    assert first.run_sync("q").output == "stopped"


def test_two_agents_hand_over_to_each_other_within_one_budget() -> None:
    one = agent("one", *[say(call("transfer_to_two", id=f"a{n}")) for n in range(9)], budget=Budget(steps=5))
    two = agent("two", *[say(call("transfer_to_one", id=f"b{n}")) for n in range(9)], handoffs=[one])
    one.add_handoff(two)
    with pytest.raises(RunFailedError) as raised:
        one.run_sync("q")
    outcome = raised.value.outcome
    assert isinstance(outcome.error, BudgetExceededError)
    assert (len(requests(one)), len(requests(two)), outcome.spent.steps) == (3, 2, 5)
    for request in (*requests(one), *requests(two)):
        assert sum(message.role is Role.SYSTEM for message in request.messages) == 1
        assert request.messages[0].text == f"You are {request.model.removeprefix('model-')}."


def test_the_budget_is_that_of_the_run_and_each_model_has_its_price() -> None:
    prices = {"model-triage": (1.0, 1.0), "model-billing": (100.0, 100.0)}
    first = desk(say(content="done"), first=say(to("billing")))
    result = first.run_sync("q", budget=Budget(cost=1.0, prices=prices))
    assert result.outcome.spent.cost == pytest.approx((5 * 1 + 5 * 100) / 1e6)
    with pytest.raises(ConfigError, match="prices of 'model-billing'"):
        desk().run_sync("q", budget=Budget(cost=1.0, prices={"model-triage": (1.0, 1.0)}))


def test_deps_cancellation_and_names_are_those_of_the_run() -> None:
    seen: list[Any] = []

    @tool
    async def look(ctx: ToolContext[str]) -> str:
        """Look."""
        seen.append((ctx.deps, ctx.agent, ctx.run_id, ctx.scope))
        return "seen"

    def instructions(ctx: RunContext[str]) -> str:
        seen.append((ctx.deps, ctx.agent, ctx.run_id, len(ctx.messages)))
        return f"You serve {ctx.deps}."

    other = agent("billing", say(call("look")), "done", tools=[look], instructions=instructions)
    result = agent("triage", say(to("billing")), handoffs=[other]).run_sync("q", deps="ann", run_id="r1")
    assert seen == [("ann", "billing", "r1", 4), ("ann", "billing", "r1", ())]
    assert requests(other)[0].messages[0].text == "You serve ann."
    assert result.outcome.run_id == "r1"


# --- what is the agent's own ------------------------------------------------------------------------


def test_policy_middleware_views_and_checks_are_those_of_the_present_agent() -> None:
    log: list[str] = []

    class Seen(Middleware):
        def __init__(self, name: str) -> None:
            self.name = name

        async def wrap_model(self, ctx: Any, request: Any, call_next: Any) -> Any:
            log.append(f"{self.name} model {ctx.agent}")
            return await call_next(request)

        async def wrap_tool(self, ctx: Any, call: Any, call_next: Any) -> Any:
            log.append(f"{self.name} tool {call.name}")
            return await call_next(call)

    def polite(output: str) -> str:
        if "please" not in output:
            raise ValueError("say please")
        return output

    @tool
    async def page() -> str:
        """A long page."""
        return "x" * 4_000

    other = agent(
        "billing",
        say(call("page")),
        *("no", "yes, please"),
        tools=[page],
        middleware=[Seen("b")],
        output_checks=[polite],
        context=[Window(600)],
    )
    first = agent("triage", say(to("billing")), middleware=[Seen("a")], handoffs=[other], policy=FailFast())
    result = first.run_sync("q")
    assert result.output == "yes, please"
    assert log == [
        "a model triage",
        "a tool transfer_to_billing",
        *["b model billing", "b tool page"],
        *["b model billing"] * 2,
    ]
    assert "ContextReduced" in kinds(result.events)
    assert sum(len(message.text) for message in requests(other)[-1].messages) < 3_000
    strict = agent("billing", say(call("boom")), tools=[boom], policy=FailFast())
    with pytest.raises(RunFailedError, match="no reason"):
        agent("triage", say(to("billing")), handoffs=[strict]).run_sync("q")


def test_a_run_that_comes_back_is_inside_the_guard_of_the_agent_that_began_it_all_the_time() -> None:
    asked: list[str] = []

    def check(task: str) -> bool:
        asked.append(task)
        return "bad" not in task

    guarded = agent("triage", say(to("billing")), "done", middleware=[InputGuard(check)])
    billing = agent("billing", say(to("triage")), handoffs=[guarded])
    guarded.add_handoff(billing)
    assert guarded.run_sync("q").agent == "triage"  # handed back to the one that it stands around
    assert asked == ["q"]
    with pytest.raises(RunFailedError):
        guarded.run_sync("bad")


# --- what must hold ----------------------------------------------------------------------------------


@dataclass
class Bill:
    amount: int


def test_all_agents_of_a_run_answer_alike() -> None:
    bill = Agent(ScriptedLlm([]), name="bill", output_type=Bill)
    with pytest.raises(
        ConfigError,
        match="'triage' has the output_type str, and 'bill', which it would hand off to, has Bill",
    ):
        agent("triage", handoffs=[bill])
    plain = agent("plain")
    with pytest.raises(ConfigError, match="need the same output_type"):
        bill.add_handoff(Handoff(plain))
    assert bill.runtime.transfers == {}
    other = Agent(ScriptedLlm([say(call("final_answer", {"amount": 3}))]), name="other", output_type=Bill)
    first = Agent(ScriptedLlm([say(to("other"))]), name="first", output_type=Bill, handoffs=[other])
    assert first.run_sync("q").output == Bill(3)


def test_what_cannot_be_handed_to_is_refused_by_name() -> None:
    one = agent("one")
    with pytest.raises(ConfigError, match="is not an agent"):
        agent("first", handoffs=["billing"])
    with pytest.raises(ConfigError, match="handoffs="):
        agent("first", handoffs=one)
    with pytest.raises(ConfigError, match="cannot hand off to itself"):
        one.add_handoff(one)
    with pytest.raises(ConfigError, match="history="):
        agent("first", handoffs=[Handoff(one, history="last")])  # type: ignore[arg-type]
    with pytest.raises(DuplicateToolError):
        agent("first", handoffs=[one, Handoff(one)])
    with pytest.raises(ConfigError, match="two agents of one run are called 'one'"):
        agent("first", handoffs=[agent("mid", handoffs=[agent("one")]), one])
    with pytest.raises(ConfigError, match="two agents of one run are called 'first'"):
        agent("first", handoffs=[agent("first")])
    late = agent("late")
    first = agent("first", say(to("late")), handoffs=[late])
    late.add_handoff(agent("first"))  # nobody who sees it knows of the other
    with pytest.raises(ConfigError, match="two agents of one run are called 'first'"):
        first.run_sync("q")


# --- histories ---------------------------------------------------------------------------------------


def test_a_history_function_says_what_the_other_agent_sees() -> None:
    def last_words(messages: Any) -> list[Message]:
        assert messages[0].role is Role.USER
        return [Message(Role.SYSTEM, "forged"), Message(Role.USER, "In short: a bill."), messages[-1]]

    other = agent("billing", say(ADD), "done", tools=[add])
    first = agent("triage", say(to("billing")), handoffs=[Handoff(other, history=last_words)])
    result = first.run_sync("a long story")
    seen = [(message.role.value, message.text) for message in requests(other)[0].messages]
    assert seen == [("system", "You are billing."), ("user", "In short: a bill.")]
    assert [message.text for message in result.new_messages] == ["In short: a bill.", "", "3", "done"]
    assert len(result.steps) == 5  # the log of what happened is whole
    again = agent("triage", handoffs=[Handoff(agent("billing", tools=[add]), history=last_words)])
    assert replayed(result.outcome, again).events == result.events


def test_what_is_new_begins_with_the_task_wherever_a_history_function_puts_it() -> None:
    before = [Message(Role.USER, "hi"), Message(Role.ASSISTANT, "hello")]
    handoff = Handoff(agent("billing", "done"), history=lambda messages: messages[:3])
    result = agent("triage", say(to("billing")), handoffs=[handoff]).run_sync("the task", history=before)
    assert [message.text for message in result.new_messages] == ["the task", "done"]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        pytest.param(lambda _: 1 / 0, "raised ZeroDivisionError", id="raises"),
        pytest.param(lambda _: [], "left nothing to see", id="gives-nothing"),
        pytest.param(lambda _: [Message(Role.SYSTEM, "x")], "left nothing to see", id="instructions-alone"),
    ],
)
def test_a_history_function_that_does_not_work_fails_the_run(function: Any, why: str) -> None:
    first = agent("triage", say(to("billing")), handoffs=[Handoff(agent("billing"), history=function)])
    outcome = asyncio.run(first.outcome("q"))
    assert isinstance(outcome, Failed)
    assert why in str(outcome.error)
    assert type(outcome.error) is AgentError
    check_events(outcome.events)


def test_instructions_that_raise_fail_the_run() -> None:
    def instructions() -> str:
        raise KeyError("who")

    other = agent("billing", instructions=instructions)
    outcome = asyncio.run(agent("triage", say(to("billing")), handoffs=[other]).outcome("q"))
    assert isinstance(outcome, Failed)
    assert "the instructions of the agent 'billing' raised KeyError" in str(outcome.error)
    assert [type(step).__name__ for step in outcome.steps] == ["Action", "Observation", "ErrorStep"]


# --- stopping, waiting, going on ---------------------------------------------------------------------


async def test_a_run_that_is_stopped_while_it_hands_over_hands_over_when_it_goes_on() -> None:
    token, asked = CancellationToken(), []

    async def instructions() -> str:
        asked.append(1)
        if len(asked) == 1:
            token.cancel("enough")
            await asyncio.sleep(60)
        return "You are billing."

    other = agent("billing", "done", instructions=instructions)
    first = agent("triage", say(to("billing")), handoffs=[other])
    outcome = await first.outcome("q", cancellation=token)
    assert isinstance(outcome, Interrupted)
    assert (outcome.reason, outcome.info.agent, outcome.info.opened_by) == ("enough", "triage", "")
    kind: Any = Interrupted
    result = await first.resume(from_json(kind, to_json(outcome)))
    assert (result.output, result.agent, len(requests(first))) == ("done", "billing", 1)
    assert kinds(result.events)[:2] == ["RunStarted", "HandedOff"]


PROGRAM = """
import asyncio, json, sys
from tests.agent.test_handoffs import desk
from wesichain.agent import ApproveWith, Interrupted
from wesichain.core import from_json

saved = from_json(Interrupted, sys.stdin.read())
result = asyncio.run(desk("Refunded.").resume(saved, {item.token: ApproveWith({"amount": 7}) for item in saved.pending}))
told = [message.text for message in result.messages if message.role.value == "tool"]
print(json.dumps({"output": result.output, "agent": result.agent, "told": told, "steps": result.outcome.step}))
"""


def waiting_for_approval() -> Interrupted[Any]:
    first = desk(say(call("refund", {"amount": 5})))
    with pytest.raises(RunInterruptedError) as raised:
        first.run_sync("Give me my money back")
    outcome: Interrupted[Any] = raised.value.outcome
    return outcome


def test_an_approval_in_the_other_agent_is_given_in_another_process() -> None:
    outcome = waiting_for_approval()
    assert [item.call.name for item in outcome.pending] == ["refund"]
    assert (outcome.info.agent, outcome.info.opened_by) == ("billing", "triage")
    done = subprocess.run(
        [*python(), "-c", PROGRAM],
        input=to_json(outcome),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    told = ["Handed over to 'billing', who goes on from here.", "refunded 7"]
    assert answer == {"output": "Refunded.", "agent": "billing", "told": told, "steps": 3}


def test_an_agent_that_hands_over_no_more_cannot_go_on_for_another() -> None:
    outcome = waiting_for_approval()
    with pytest.raises(ConfigError, match="handed off to the agent 'billing', which 'triage' does not know"):
        asyncio.run(agent("triage").resume(outcome, {outcome.pending[0].token: Approve()}))
    other = agent("triage", handoffs=[agent("travel")])
    with pytest.raises(ConfigError, match="does not know: it hands off to 'travel'"):
        asyncio.run(other.resume(outcome, {outcome.pending[0].token: Approve()}))
    result = asyncio.run(
        agent("billing", "ok", tools=[add, refund]).resume(outcome, {outcome.pending[0].token: Approve()})
    )
    assert (result.output, result.agent) == ("ok", "billing")


def test_approved_arguments_are_those_of_the_present_agents_tool() -> None:
    @tool(name="refund", approval=True)
    async def other_refund(order: str) -> str:
        """Of the first agent, with other parameters."""
        return order

    billing = agent("billing", say(call("refund", {"amount": 5})), "ok", tools=[refund])
    first = agent("triage", say(to("billing")), tools=[other_refund], handoffs=[billing])
    outcome = asyncio.run(first.outcome("q"))
    assert isinstance(outcome, Interrupted)
    token = outcome.pending[0].token
    for args in ({"amount": "lots"}, {"order": "of the first agent"}):
        (waiting,) = outcome.pending
        decided = replace(waiting, call=replace(waiting.call, args=args))
        assert "- amount: " in str(first.runtime.refusal_of(decided))
        with pytest.raises(ConfigError, match=r"the approved arguments do not fit: [^\n]*\n- amount: "):
            asyncio.run(first.resume(outcome, {token: ApproveWith(args)}))
    result = asyncio.run(first.resume(outcome, {token: ApproveWith({"amount": 9})}))
    assert "refunded 9" in [message.text for message in result.messages]


def test_approved_arguments_may_be_those_of_a_tool_that_a_function_returns() -> None:
    @tool(name="refund", approval=True)
    async def other_refund(order: str) -> str:
        """Of the first agent, with other parameters."""
        return order

    billing = agent(
        "billing", say(call("refund", {"amount": 5})), "ok", tools=[DynamicTools(lambda: [refund])]
    )
    first = agent("triage", say(to("billing")), tools=[other_refund], handoffs=[billing])
    outcome = asyncio.run(first.outcome("q"))
    assert isinstance(outcome, Interrupted)
    decisions = {outcome.pending[0].token: ApproveWith({"amount": 9})}
    result = asyncio.run(first.resume(outcome, decisions))
    assert "refunded 9" in [message.text for message in result.messages]


def test_wrong_arguments_for_a_tool_of_another_agent_are_named() -> None:
    first = desk(say(call("refund", {"amount": 5})))
    outcome = asyncio.run(first.outcome("q"))
    assert isinstance(outcome, Interrupted)
    with pytest.raises(ConfigError, match="- amount: expected an integer"):
        asyncio.run(first.resume(outcome, {outcome.pending[0].token: ApproveWith({"amount": "lots"})}))


def test_an_agent_as_a_tool_hands_over_and_waits() -> None:
    def tree() -> Agent[Any]:
        inner = desk(say(call("refund", {"amount": 5})), "Refunded.")
        return agent("top", say(call("triage", {"task": "refund"})), "All done.", tools=[inner.as_tool()])

    top = tree()
    outcome = asyncio.run(top.outcome("q"))
    assert isinstance(outcome, Interrupted)
    (pending,) = outcome.pending
    assert (pending.scope, pending.call.name) == (("top",), "refund")
    kind: Any = Interrupted
    saved = from_json(kind, to_json(outcome))
    fresh = agent("top", "All done.", tools=[desk("Refunded.").as_tool()])
    result = asyncio.run(fresh.resume(saved, {pending.token: Approve()}))
    assert (result.output, result.agent) == ("All done.", "top")
    assert result.sources[0].value == "Refunded."
    assert result.outcome.spent.steps == 5  # two of the top, three below
    again = replayed(result.outcome, tree())
    assert [*again.events] == [*outcome.events, *result.events]


# --- the log -----------------------------------------------------------------------------------------


def test_a_recording_is_replayed_and_compared(tmp_path: Path) -> None:
    first = desk(say(ADD), "You owe 3.")
    result = asyncio.run(first.run("q", events=Recorder(tmp_path), run_id="r1"))
    recording = load(find_run(tmp_path, "r1"))
    again = asyncio.run(replay(recording, desk()))
    assert isinstance(again, Completed)
    assert (again.output, again.info.agent) == ("You owe 3.", "billing")
    assert diff(recording, [*again.events]) == []
    shown = recording.requests()
    assert [(one.model, [spec.name for spec in one.tools]) for one in shown] == [
        ("model-triage", ["echo", "transfer_to_billing"]),
        *[("model-billing", ["add", "refund"])] * 2,
    ]
    assert [one.messages for one in shown[1:]] == [tuple(one.messages) for one in requests(other_of(first))]
    assert diff(recording, [*desk("You owe 9.").run_sync("q").events])
    with pytest.raises(ReplayMismatchError, match="instructions of 'billing'"):
        asyncio.run(replay(recording, desk(instructions="You are another.")))
    gone = agent("billing", description="Knows bills.")
    with pytest.raises(ReplayMismatchError):
        asyncio.run(replay(recording, agent("triage", tools=[echo], handoffs=[gone])))
    assert result.outcome.text == again.text


def test_replay_goes_live_behind_the_handoff() -> None:
    result = desk(say(ADD), "You owe 3.").run_sync("q")
    recording: Any = result.outcome
    outcome = asyncio.run(replay(recording, desk("You owe 4."), from_step=3))
    assert isinstance(outcome, Completed)
    assert (outcome.output, outcome.info.agent) == ("You owe 4.", "billing")


async def test_a_stream_and_steps_go_on_as_the_other_agent() -> None:
    def made() -> Agent[Any]:
        other = Agent(StreamingScriptedLlm([say(ADD), "You owe 3."]), tools=[add], name="billing")
        return agent("triage", say(to("billing")), handoffs=[other])

    async with made().stream("q") as run:
        text = "".join([event.text async for event in run if isinstance(event, TextDelta)])
    assert (text, run.result.agent) == ("You owe 3.", "billing")
    async with made().iterate("q") as steps:
        phases = [(type(phase).__name__, phase.info.agent) async for phase in steps]
    assert phases[:4] == [
        ("Thinking", "triage"),
        ("Acting", "triage"),
        ("Thinking", "billing"),
        ("Acting", "billing"),
    ]
    async with made().iterate("q") as steps:
        for _ in range(4):
            await steps.step()
    assert isinstance(steps.outcome, Interrupted)  # left, as the other agent
    assert steps.outcome.info.agent == "billing"


def test_the_last_words_are_those_that_the_present_agent_can_see() -> None:
    other = agent("billing", say(ADD), tools=[add])
    handoff = Handoff(other, history=lambda messages: messages[:1])
    reply = say(to("billing"), content="I hand over")
    first = agent("triage", reply, handoffs=[handoff], on_limit="partial", budget=Budget(steps=1))
    assert first.run_sync("q").output == ""
    first = agent("triage", reply, handoffs=[other], on_limit="partial", budget=Budget(steps=1))
    assert first.run_sync("q").output == "I hand over"


def test_a_run_with_another_model_knows_a_handoff_that_was_added_since() -> None:
    """An agent keeps a copy of itself for each model that runs were told: it learns of the handoff too."""
    told = ScriptedLlm(["as I was", say(call("transfer_to_desk", {}))], model="told")
    triage = Agent(ScriptedLlm([], model="own"), name="triage")
    desk = Agent(ScriptedLlm(["at the desk"], model="desk"), name="desk")
    assert asyncio.run(triage.run("hello", model=told)).output == "as I was"
    triage.add_handoff(desk)
    result = asyncio.run(triage.run("help", model=told))
    assert (result.output, result.agent) == ("at the desk", "desk")


# --- deps -------------------------------------------------------------------------------------------


class Ledger:
    pass


class Diary:
    pass


class Both(Ledger, Diary):
    pass


def accountants(*, replies: Any = None) -> Agent[Any]:
    """Three agents in a circle; the last one needs a ledger, and the first one a diary."""
    second = agent("second", say(to("third")), tools=[add])
    third = agent("third", say(content="booked"), deps_type=Ledger)
    second.add_handoff(third)
    first = agent("first", *(replies or [say(to("second"))]), deps_type=Diary, handoffs=[second])
    third.add_handoff(first)
    return first


@pytest.mark.parametrize(
    ("deps", "why"),
    [
        (Diary(), "'third' needs deps of type Ledger, and was given Diary; a run of 'first' may be handed"),
        (Ledger(), "'first' needs deps of type Diary, and was given Ledger"),
        (None, "'first' needs deps of type Diary: pass deps= to the run"),
    ],
)
async def test_deps_suit_every_agent_that_a_run_may_be_handed_to(deps: Any, why: str) -> None:
    first = accountants(replies=[say(content="no need")])
    with pytest.raises(ConfigError, match=why):
        await first.run("q", deps=deps)
    model: Any = first.runtime.llm
    assert model.requests == [], "before anything is asked"


async def test_deps_that_suit_all_are_everybodys_also_where_one_says_nothing(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        result = await accountants().run("q", deps=Both(), events=recorder)
    assert (result.output, result.agent) == ("booked", "third")
    silent = agent("silent", say(to("third")), handoffs=[agent("third", say(content="x"), deps_type=Ledger)])
    with pytest.raises(
        ConfigError, match=r"'third' needs deps of type Ledger: pass deps= to the run; a run of"
    ):
        await silent.run("q")
    again = await replay(load(find_run(tmp_path, result.outcome.run_id)), accountants())
    assert isinstance(again, Completed), "a replay runs no tool, and does without deps"


async def test_deps_of_a_run_below_are_checked_for_its_own_team() -> None:
    inner = agent(
        "inner", say(to("third")), handoffs=[agent("third", say(content="booked"), deps_type=Ledger)]
    )
    outer = agent("outer", say(call("inner", {"task": "x"}, id="i")), "done", tools=[inner.as_tool()])
    assert (await outer.run("q", deps=Ledger())).output == "done"
    other = agent("outer", say(call("inner", {"task": "x"}, id="i")), "done", tools=[inner.as_tool()])
    with pytest.raises(ConfigError, match="'third' needs deps of type Ledger, and was given Diary"):
        await other.run("q", deps=Diary())
