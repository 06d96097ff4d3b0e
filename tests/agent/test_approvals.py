"""Approvals: a call waits for a person, whose word is bound to exactly that call."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.agent.kit import ADD, add, call, check_events, failed_with, kinds, say
from wesichain.agent import (
    Agent,
    AgentRuntime,
    Approve,
    ApproveWith,
    Completed,
    Interrupted,
    Outcome,
    Refuse,
)
from wesichain.core import Message, Observation, Role, from_json, to_json
from wesichain.errors import ConfigError, LoopDetectedError
from wesichain.testing import FakeClock, ScriptedLlm
from wesichain.tools import tool


class Deletions:
    """A tool with an effect that can be counted."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def tool(self, **options: Any) -> Any:
        @tool(**{"approval": True, **options})
        async def delete(path: str) -> str:
            """Delete a file."""
            self.paths.append(path)
            return f"deleted {path}"

        return delete


def waiting(effects: Deletions, *replies: Any, **options: Any) -> tuple[AgentRuntime[str], Interrupted[str]]:
    script = replies or (say(ADD, call("delete", {"path": "a"})), "done")
    runtime = AgentRuntime(ScriptedLlm(script), [add, effects.tool()], clock=FakeClock(), **options)
    outcome = asyncio.run(runtime.run("q"))
    assert isinstance(outcome, Interrupted)
    check_events(outcome.events)
    return runtime, outcome


def test_a_call_waits_before_anything_of_its_batch_has_run() -> None:
    effects = Deletions()
    _, outcome = waiting(effects)
    assert outcome.reason == "approval"
    (pending,) = outcome.pending
    assert (pending.call.name, pending.call.args) == ("delete", {"path": "a"})
    assert effects.paths == []
    assert "ToolDispatched" not in kinds(outcome.events)


@pytest.mark.parametrize(
    ("decision", "deleted", "observed"),
    [
        pytest.param(Approve(), ["a"], "deleted a", id="approved"),
        pytest.param(ApproveWith({"path": "b"}), ["b"], "deleted b", id="approved-with-other-arguments"),
        pytest.param(Refuse("too risky"), [], "too risky", id="refused-with-a-reason"),
    ],
)
@pytest.mark.parametrize("stored", [False, True], ids=["in-memory", "through-json"])
def test_the_decision_is_carried_out(decision: Any, deleted: list[str], observed: str, stored: bool) -> None:
    effects = Deletions()
    runtime, outcome = waiting(effects)
    if stored:
        text = to_json(outcome)
        outcome = from_json(Interrupted, text)
        assert to_json(outcome) == text
    resumed = asyncio.run(runtime.resume(outcome, {outcome.pending[0].token: decision}))
    assert isinstance(resumed, Completed)
    assert effects.paths == deleted
    results = [step.value for step in resumed.steps if isinstance(step, Observation)]
    assert results[0] == 3
    assert observed in str(results[1])
    check_events(resumed.events)


@pytest.mark.parametrize(
    ("decision", "deleted"),
    [
        pytest.param(Approve(), ["a"], id="approved"),
        pytest.param(Refuse("no"), [], id="refused"),
        pytest.param(ApproveWith({"path": "b"}), ["b"], id="changed"),
    ],
)
@pytest.mark.parametrize("approval", [False, lambda args: False], ids=["no-approval", "a-rule-that-allows"])
def test_a_decision_holds_in_a_program_that_would_not_ask_any_more(
    approval: Any, decision: Any, deleted: list[str]
) -> None:
    effects = Deletions()
    _, outcome = waiting(effects)
    newer = AgentRuntime(ScriptedLlm(["done"]), [add, effects.tool(approval=approval)], clock=FakeClock())
    read = from_json(Interrupted, to_json(outcome))
    resumed = asyncio.run(newer.resume(read, {read.pending[0].token: decision}))
    assert isinstance(resumed, Completed)
    assert effects.paths == deleted


def test_a_token_works_once() -> None:
    effects = Deletions()
    runtime, outcome = waiting(effects)
    decisions = {outcome.pending[0].token: Approve()}
    with pytest.raises(ConfigError, match="unknown provider"):
        asyncio.run(runtime.resume(outcome, decisions, model="nobody:x"))  # it is not used by this
    asyncio.run(runtime.resume(outcome, decisions))
    with pytest.raises(ConfigError, match="used already"):
        asyncio.run(runtime.resume(outcome, decisions))
    assert effects.paths == ["a"]


def test_a_token_is_bound_to_the_arguments() -> None:
    tokens = set()
    for path in ("a", "b"):
        _, outcome = waiting(Deletions(), say(call("delete", {"path": path})), "x", new_id=lambda: "same-run")
        tokens.add(outcome.pending[0].token)
    assert len(tokens) == 2


def test_a_call_changed_after_the_approval_waits_again() -> None:
    effects = Deletions()
    runtime, outcome = waiting(effects)
    assert outcome.unfinished is not None
    forged_call = replace(outcome.pending[0].call, args={"path": "/etc"})
    calls = (outcome.unfinished.reply.tool_calls[0], forged_call)
    forged = replace(outcome.unfinished, reply=replace(outcome.unfinished.reply, tool_calls=calls))
    text = to_json(outcome).replace(to_json(outcome.unfinished), to_json(forged))
    read = from_json(Interrupted, text)
    again = asyncio.run(runtime.resume(read, {read.pending[0].token: Approve()}))
    assert isinstance(again, Interrupted)
    assert effects.paths == []


@pytest.mark.parametrize("given", [Approve(), [Approve()], True], ids=repr)
def test_decisions_are_given_by_token(given: Any) -> None:
    runtime, outcome = waiting(Deletions())
    with pytest.raises(ConfigError, match="for its token"):
        asyncio.run(runtime.resume(outcome, given))


@pytest.mark.parametrize("outcome", [None, "run-1"])
def test_only_an_interrupted_run_can_go_on(outcome: Any) -> None:
    runtime, _ = waiting(Deletions())
    with pytest.raises(ConfigError, match="needs the Interrupted outcome of a run"):
        asyncio.run(runtime.resume(outcome))


def test_a_run_that_goes_on_takes_no_history() -> None:
    """It would have been taken and left unread."""
    effects = Deletions()
    runtime, outcome = waiting(effects)
    options: Any = {"history": [Message(Role.USER, "before")]}
    with pytest.raises(ConfigError, match="has its history already; leave history= out"):
        asyncio.run(runtime.resume(outcome, {outcome.pending[0].token: Approve()}, **options))
    assert effects.paths == []


def test_changed_arguments_of_a_run_below_are_refused_before_anything_goes_on() -> None:
    effects, looks = Deletions(), list[int]()

    @tool
    async def look(a: int) -> int:
        """Look."""
        looks.append(a)
        return a

    child = Agent(
        ScriptedLlm([say(call("delete", {"path": "a"})), "deleted"]), tools=[effects.tool()], name="child"
    )
    replies: list[Any] = [say(call("child", {"task": "go"}), call("look", {"a": 1})), "done"]
    agent = Agent(ScriptedLlm(replies), tools=[child.as_tool(), look], tool_concurrency=1)
    outcome = asyncio.run(agent.outcome("q"))
    assert isinstance(outcome, Interrupted)
    stored: Interrupted[str] = from_json(Interrupted, to_json(outcome))
    (pending,) = stored.pending
    with pytest.raises(ConfigError, match=r"do not fit.*path: is required"):
        asyncio.run(agent.resume(stored, {pending.token: ApproveWith({"file": 1})}))
    assert (effects.paths, looks) == ([], [])
    asyncio.run(agent.resume(stored, {pending.token: ApproveWith({"path": "b"})}))
    assert (effects.paths, looks) == (["b"], [1])


def test_a_rule_that_raises_is_told_and_nothing_runs() -> None:
    effects = Deletions()

    @tool(approval=lambda args: bool(args["no such"]))
    async def delete(path: str) -> str:
        """Delete a file."""
        effects.paths.append(path)
        return "deleted"

    runtime = AgentRuntime(ScriptedLlm([say(call("delete", {"path": "a"})), "done"]), [delete])
    with pytest.raises(ConfigError, match="the approval rule of tool 'delete' raised KeyError"):
        asyncio.run(runtime.run("q"))
    assert effects.paths == []


def test_a_parameter_of_a_rule_that_has_a_default_is_its_own() -> None:
    @tool(approval=lambda args, limit=10: args["amount"] > limit)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    model = ScriptedLlm([say(call("pay", {"amount": 5})), "done"])
    assert isinstance(asyncio.run(AgentRuntime(model, [pay]).run("q")), Completed)


def test_a_rule_decides_which_calls_wait() -> None:
    @tool(approval=lambda args: args["amount"] > 100)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    runtime = AgentRuntime(
        ScriptedLlm([say(call("pay", {"amount": 5})), say(call("pay", {"amount": 500})), "x"]), [pay]
    )
    outcome = asyncio.run(runtime.run("q"))
    assert isinstance(outcome, Interrupted)
    assert [item.call.args for item in outcome.pending] == [{"amount": 500}]
    assert Observation("paid 5", "pay-id") in outcome.steps


def test_calls_that_wait_for_a_person_count_as_repeated() -> None:
    effects = Deletions()
    same = [say(call("delete", {"path": "a"})) for _ in range(9)]
    runtime, first = waiting(effects, *same)
    outcome: Outcome[str] = first
    told: list[str] = []
    approvals = 0
    while isinstance(outcome, Interrupted):
        approvals += 1
        (pending,) = outcome.pending
        stored: Interrupted[str] = from_json(Interrupted, to_json(outcome))  # the note travels along
        outcome = asyncio.run(runtime.resume(stored, {pending.token: Approve()}))
        told = [message.text for message in outcome.messages if message.role is Role.USER]
    failed_with(outcome, LoopDetectedError)
    assert approvals == 4
    assert len(told) == 2, "the question, and that it repeats itself"
