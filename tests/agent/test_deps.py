"""The caller's world: deps in tools, instructions, approval rules, nested agents; and never in a log."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

import pytest
from typing_extensions import override

from tests.agent.kit import call, say
from wesichain.agent import Agent, Approve, Interrupted, replay
from wesichain.core import LlmRequest, LlmResponse, Role, ToolCall
from wesichain.errors import ConfigError, ToolFailedError
from wesichain.middleware import CallModel, Middleware
from wesichain.policy import Budget, FailFast, PolicyDecision, Retry, RunView
from wesichain.testing import ScriptedLlm
from wesichain.tools import RunContext, ToolContext, tool
from wesichain.trace import Recorder, load

if TYPE_CHECKING:
    from wesichain.tools import RunContext as CheckedContext


@dataclass
class Desk:
    customer: str
    limit: int = 10


class Open(Protocol):
    customer: str


class Row(TypedDict):
    a: int


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


@tool(approval=too_much)
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


def test_a_rule_sees_them_and_a_resume_is_given_them_anew() -> None:
    script: list[Any] = [say(call("pay", {"amount": 5})), say(call("pay", {"amount": 50}, id="2")), "x"]
    agent = Agent(ScriptedLlm(script), tools=[pay])
    outcome = asyncio.run(agent.outcome("pay", deps=Desk("Ann")))
    assert isinstance(outcome, Interrupted)
    assert [item.call.args for item in outcome.pending] == [{"amount": 50}]
    done = asyncio.run(agent.resume(outcome, {outcome.pending[0].token: Approve()}, deps=Desk("Ann")))
    assert "Ann paid 50" in [message.text for message in done.messages]


def test_they_are_written_nowhere(tmp_path: Path) -> None:
    agent = Agent(ScriptedLlm([say(call("scope_of")), "x"]), tools=[scope_of], events=Recorder(tmp_path))
    agent.run_sync("q", deps=Desk("Canary-7731"))
    assert "Canary-7731" not in "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())


def test_instructions_may_name_types_that_only_a_type_checker_imports() -> None:
    def instructions(ctx: CheckedContext[Desk]) -> str:
        return f"You serve {ctx.deps.customer}."

    llm = ScriptedLlm(["x"])
    Agent(llm, deps_type=Desk, instructions=instructions).run_sync("q", deps=Desk("Ann"))
    assert llm.requests[0].messages[0].content == "You serve Ann."


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


class TestDeclared:
    """`deps_type`: what the deps of a run have to be."""

    def agent(self, **options: Any) -> Agent[Desk, str]:
        return Agent(ScriptedLlm([say(call("whoami")), "x"]), deps_type=Desk, tools=[whoami], **options)

    async def test_the_right_ones_pass_at_every_door(self) -> None:
        class FrontDesk(Desk):
            pass

        await self.agent().run("q", deps=Desk("Ann"))
        async with self.agent().stream("q", deps=FrontDesk("Ann")) as stream:
            async for _ in stream:
                pass
        assert stream.result.output == "x"
        async with self.agent().iterate("q", deps=Desk("Ann")) as steps:
            async for _ in steps:
                pass

    @pytest.mark.parametrize("instructions", [None, instructions])
    @pytest.mark.parametrize("given", ["Ann", 5, {"customer": "Ann"}])
    def test_others_are_refused_by_name_before_anybody_is_asked(self, given: Any, instructions: Any) -> None:
        llm = ScriptedLlm(["x"])
        agent: Agent[Any, str] = Agent(llm, deps_type=Desk, instructions=instructions, name="desk")
        with pytest.raises(
            ConfigError, match=f"'desk' needs deps of type Desk, and was given {type(given).__name__}"
        ):
            agent.run_sync("q", deps=given)
        with pytest.raises(ConfigError, match="'desk' needs deps of type Desk: pass deps="):
            agent.run_sync("q")
        assert llm.requests == []

    def test_a_resume_needs_them_too(self) -> None:
        script: list[Any] = [say(call("pay", {"amount": 50})), "x"]
        agent = Agent(ScriptedLlm(script), deps_type=Desk, tools=[pay])
        outcome = asyncio.run(agent.outcome("pay", deps=Desk("Ann")))
        assert isinstance(outcome, Interrupted)
        decisions = {outcome.pending[0].token: Approve()}
        with pytest.raises(ConfigError, match="pass deps="):
            asyncio.run(agent.resume(outcome, decisions))
        result = asyncio.run(agent.resume(outcome, decisions, deps=Desk("Ann")))  # the token was not used up
        assert "Ann paid 50" in [message.text for message in result.messages]

    def test_those_of_the_caller_are_checked_below(self) -> None:
        inner = Agent(ScriptedLlm(["x"]), deps_type=Desk, name="inner")
        outer = Agent(ScriptedLlm([say(call("inner", {"task": "t"})), "x"]), tools=[inner.as_tool()])
        with pytest.raises(ConfigError, match="'inner' needs deps of type Desk, and was given str"):
            outer.run_sync("q", deps="Ann")

    def test_a_replay_runs_no_tool_and_does_without(self, tmp_path: Path) -> None:
        live = self.agent(events=Recorder(tmp_path)).run_sync("q", deps=Desk("Ann"))
        recording = load(next(tmp_path.glob("*.jsonl")))
        again = asyncio.run(replay(recording, self.agent()))
        assert [*again.messages] == [*live.outcome.messages]
        with pytest.raises(ConfigError, match="pass deps="):
            asyncio.run(replay(recording, self.agent(), 1))

    @pytest.mark.parametrize(
        ("declared", "right", "wrong"),
        [
            pytest.param(dict[str, int], {"a": 1}, [1], id="generic"),
            pytest.param(Desk | None, None, 5, id="optional"),
            pytest.param(Desk | None, Desk("Ann"), 5, id="optional-given"),
            pytest.param(Open, Desk("Ann"), None, id="protocol"),
            pytest.param(Row, {"a": 1}, None, id="typed-dict"),
        ],
    )
    def test_what_python_can_tell_is_told(self, declared: Any, right: Any, wrong: Any) -> None:
        agent: Agent[Any, str] = Agent(ScriptedLlm(["x"]), deps_type=declared)
        assert agent.run_sync("q", deps=right).output == "x"
        with pytest.raises(ConfigError, match="needs deps of type"):
            agent.run_sync("q", deps=wrong)

    def test_a_value_is_no_type(self) -> None:
        with pytest.raises(ConfigError, match="deps_type=5: use a type"):
            Agent(ScriptedLlm([]), deps_type=5)  # type: ignore[call-overload]


# --- a context knows its fields when somebody looks, whenever that is ---------------------------------


def told(ctx: RunContext[Any]) -> dict[str, Any]:
    return {one.name: getattr(ctx, one.name) for one in fields(ctx)}


async def test_a_context_that_nobody_has_looked_at_is_a_whole_value() -> None:
    kept: list[RunContext[Desk]] = []

    class Keep(Middleware[Desk]):
        @override
        async def wrap_model(
            self, ctx: RunContext[Desk], request: LlmRequest, call_next: CallModel
        ) -> LlmResponse:
            kept.append(ctx)
            return await call_next(request)

    @tool
    async def keep(ctx: ToolContext[Desk]) -> str:
        """Keep it."""
        kept.append(ctx)
        kept.append(replace(ctx, agent="another"))
        return "kept"

    desk = Desk("Ada")
    agent = Agent(ScriptedLlm([say(call("keep")), "y"]), tools=[keep], middleware=[Keep()], name="clerk")
    result = await agent.run("q", deps=desk, run_id="r1")
    first, used, other, second = kept
    assert result.output == "y"
    assert [ctx.step_id for ctx in kept] == [1, 1, 1, 2]
    for ctx in (first, used, second):
        assert told(ctx) == told(ctx), "the same at every look"
        assert copy.copy(ctx) == ctx
        assert repr(ctx).startswith(f"{type(ctx).__name__}(correlation_id='r1', step_id=")
        assert (ctx.run_id, ctx.agent, ctx.scope) == ("r1", "clerk", ())
        assert ctx.deps is desk
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = ctx.nothing  # type: ignore[attr-defined]  # the point of the test
    assert isinstance(used, ToolContext)
    assert (used.call_id, used.attempt, used.idempotency_key) == ("keep-id", 1, "r1:1:keep-id")
    assert (other.agent, other.run_id) == ("another", "r1")
    assert [len(first.messages), len(second.messages)] == [1, 3]


class Again(FailFast):
    """Has a tool that failed run again."""

    @override
    def on_tool_error(self, state: RunView, error: ToolFailedError) -> PolicyDecision:
        return Retry()


@pytest.mark.parametrize("looks_before", [True, False])
async def test_a_call_that_was_given_up_is_cancelled_whenever_it_looks(looks_before: bool) -> None:
    """Eight at a time, each in its second attempt when the first looks at its token, in a thread."""
    seen: list[tuple[int, bool]] = []
    free = asyncio.Event()

    @tool(timeout=0.05, effect="idempotent")
    async def slow(number: int, ctx: ToolContext) -> int:
        """Outlive the first attempt."""
        if ctx.attempt == 1:
            assert not looks_before or not ctx.cancellation.cancelled
            late.append(asyncio.create_task(look(ctx)))
            await asyncio.sleep(30)
        assert not ctx.cancellation.cancelled
        return number

    async def look(ctx: ToolContext) -> None:
        await free.wait()
        seen.append((ctx.attempt, await asyncio.to_thread(lambda: ctx.cancellation.cancelled)))

    late: list[asyncio.Task[None]] = []
    calls = [ToolCall(f"c{number}", "slow", {"number": number}) for number in range(8)]
    budget = Budget(steps=100)
    agent = Agent(ScriptedLlm([say(*calls), "y"]), tools=[slow], policy=Again(), budget=budget)
    result = await agent.run("q")
    free.set()
    await asyncio.gather(*late)
    assert result.output == "y"
    assert seen == [(1, True)] * 8
