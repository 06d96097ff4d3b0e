"""Subagents: one tool that runs other agents, with one account, one log and one set of questions."""

from __future__ import annotations

from typing import Any

import pytest

from wesichain import Agent, Budget, tool
from wesichain.agent import Completed, Failed, Interrupted
from wesichain.core import ToolCall, from_json, to_json
from wesichain.core.internal import Approve, Refuse
from wesichain.errors import ConfigError
from wesichain.kit import Subagents
from wesichain.testing import ScriptedLlm

SENT: list[str] = []


@tool(effect="once", approval=True)
def send(to: str) -> str:
    """Send a letter."""
    SENT.append(to)
    return f"sent to {to}"


def _delegate(call_id: str, agent: str, task: str) -> ToolCall:
    return ToolCall(call_id, "delegate", {"agent": agent, "task": task})


def _agents(writer: list[Any], clerk: list[Any]) -> tuple[dict[str, Agent], list[ScriptedLlm]]:
    llms = [ScriptedLlm(writer), ScriptedLlm(clerk)]
    made = {
        "writer": Agent(llms[0], name="writer", description="Writes."),
        "clerk": Agent(llms[1], tools=[send], name="clerk", description="Sends."),
    }
    return made, llms


async def test_a_task_is_a_run_with_a_context_of_its_own_and_one_account() -> None:
    agents, llms = _agents(["a poem"], [])
    llm = ScriptedLlm([_delegate("d1", "writer", "write a poem"), "done"])
    outcome = await Agent(llm, capabilities=[Subagents(agents)]).outcome("the secret task")
    assert isinstance(outcome, Completed)
    assert outcome.spent.steps == 3
    assert [message.text for message in llms[0].requests[0].messages] == ["write a poem"]
    assert llm.requests[1].messages[-1].text == "a poem"
    assert {event.scope for event in outcome.events} == {"", "d1"}


@pytest.mark.parametrize("effect", ["once", "idempotent", "pure"])
@pytest.mark.parametrize(("decision", "sent"), [(Approve(), ["ann"]), (Refuse("no"), [])])
async def test_questions_go_up_and_decisions_down_whatever_the_effect(
    effect: Any, decision: Any, sent: Any
) -> None:
    SENT.clear()
    clerk = [ToolCall("s1", "send", {"to": "ann"}), "settled"]
    script: list[Any] = [[_delegate("d1", "writer", "write"), _delegate("d2", "clerk", "send it")], "done"]
    agents, _ = _agents(["a poem"], clerk)
    first = Agent(ScriptedLlm(script), capabilities=[Subagents(agents, effect=effect)])
    outcome = await first.outcome("go")
    assert isinstance(outcome, Interrupted)
    (pending,) = outcome.pending
    assert (pending.call.name, pending.scope) == ("send", ("agent",))

    stored = from_json(Interrupted, to_json(outcome))
    agents, llms = _agents([], clerk[1:])  # the writer has answered, and is not asked again
    second = Agent(ScriptedLlm(script[1:]), capabilities=[Subagents(agents, effect=effect)])
    result = await second.resume(stored, {pending.token: decision})
    assert result.output == "done"
    assert sent == SENT
    assert llms[0].requests == []
    assert result.outcome.spent.steps == 5


async def test_the_budget_of_the_run_above_bounds_them() -> None:
    agents, llms = _agents(["never"], [])
    outer = Agent(
        ScriptedLlm([_delegate("d1", "writer", "write")]),
        capabilities=[Subagents(agents)],
        budget=Budget(steps=1),
    )
    outcome = await outer.outcome("go")
    assert isinstance(outcome, Failed)
    assert llms[0].requests == []


@pytest.mark.parametrize(
    ("agents", "said"),
    [
        pytest.param({}, "at least one agent", id="nothing"),
        pytest.param([], "at least one agent", id="a-list"),
        pytest.param({"a b": Agent(ScriptedLlm([]))}, "'a b' is not a name", id="a-name-with-a-space"),
        pytest.param({7: Agent(ScriptedLlm([]))}, "7 is not a name", id="a-name-that-is-no-text"),
        pytest.param({"a": "agent"}, "'a' is str; use an Agent", id="a-text-for-an-agent"),
    ],
)
def test_what_are_no_agents_is_refused(agents: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"Subagents.*{said}"):
        Subagents(agents)
