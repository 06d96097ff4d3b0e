"""The caller's world: deps in tools, instructions, approval rules, nested agents; and never in a log."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.agent.kit import call, say
from wesichain.agent import Agent, Approve, Interrupted
from wesichain.core import Role, ToolCompleted
from wesichain.testing import ScriptedLlm
from wesichain.tools import RunContext, ToolContext, tool
from wesichain.trace import Recorder


@dataclass
class Desk:
    customer: str
    limit: int = 10


@tool
async def whoami(ctx: ToolContext[Desk]) -> str:
    """Say who is asking."""
    return ctx.deps.customer


@tool
def scope_of(ctx: RunContext[Desk]) -> list[str]:
    """The agents above."""
    return [*ctx.scope, ctx.agent]


def too_much(ctx: RunContext[Desk], args: Any) -> bool:
    return bool(args["amount"] > ctx.deps.limit)


@tool(approval=too_much)  # type: ignore[arg-type]  # a rule of the context and the arguments
async def pay(amount: int, ctx: ToolContext[Desk]) -> str:
    """Pay."""
    return f"{ctx.deps.customer} paid {amount}"


def instructions(ctx: RunContext[Desk]) -> str:
    return f"You serve {ctx.deps.customer}."


def test_tools_and_instructions_see_them() -> None:
    llm = ScriptedLlm([say(call("whoami")), "x"] * 2)
    agent = Agent(llm, tools=[whoami], instructions=instructions)
    for name in ("Ann", "Bob"):  # one agent serves every request
        result = agent.run_sync("who?", deps=Desk(name))
        assert [message.text for message in result.messages if message.role is Role.TOOL] == [name]
    assert [request.messages[0].text for request in llm.requests[::2]] == ["You serve Ann.", "You serve Bob."]


def test_eight_at_a_time_each_with_its_own() -> None:
    async def main() -> list[str]:
        def one(n: int) -> Any:
            agent = Agent(ScriptedLlm([say(call("whoami")), "x"]), tools=[whoami])
            return agent.run("who?", deps=Desk(f"c{n}"))

        results = await asyncio.gather(*(one(n) for n in range(8)))
        return [
            message.text for result in results for message in result.messages if message.role is Role.TOOL
        ]

    assert asyncio.run(main()) == [f"c{n}" for n in range(8)]


def test_a_rule_sees_them_and_a_resume_is_given_them_anew() -> None:
    script: list[Any] = [say(call("pay", {"amount": 5})), say(call("pay", {"amount": 50}, id="2")), "x"]
    agent = Agent(ScriptedLlm(script), tools=[pay])
    outcome = asyncio.run(agent.outcome("pay", deps=Desk("Ann")))
    assert isinstance(outcome, Interrupted)
    assert [item.call.args for item in outcome.pending] == [{"amount": 50}]
    done = asyncio.run(agent.resume(outcome, {outcome.pending[0].token: Approve()}, deps=Desk("Ann")))
    assert "Ann paid 50" in [message.text for message in done.messages]


def test_an_agent_as_a_tool_is_given_the_caller_s() -> None:
    inner = Agent(
        ScriptedLlm([say(call("whoami"), call("scope_of")), "x"]), tools=[whoami, scope_of], name="low"
    )
    llm = ScriptedLlm([say(call("low", {"task": "t"})), "x"])
    agent = Agent(llm, tools=[inner.as_tool()], name="top")
    result = agent.run_sync("q", deps=Desk("Ann"))
    told = [event.value for event in result.events if isinstance(event, ToolCompleted) and event.scope]
    assert told == ["Ann", ["top", "low"]]


def test_they_are_written_nowhere(tmp_path: Path) -> None:
    agent = Agent(ScriptedLlm([say(call("scope_of")), "x"]), tools=[scope_of], events=Recorder(tmp_path))
    agent.run_sync("q", deps=Desk("Canary-7731"))
    assert "Canary-7731" not in "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())


def test_instructions_are_the_agent_s_and_not_the_history_s() -> None:
    llm = ScriptedLlm(["a", "b", "c"])
    turns = iter(["one", "two", "three"])
    agent = Agent(llm, instructions=lambda: f"Turn {next(turns)}.")
    history: Any = ()
    for _ in range(3):
        history = agent.run_sync("q", history=history).messages
        assert not [message for message in history if message.role is Role.SYSTEM]
    systems = [message.text for message in llm.requests[-1].messages if message.role is Role.SYSTEM]
    assert systems == ["Turn three."]
