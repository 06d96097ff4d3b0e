"""How runs end: `Finish`, cancels, the program's own end, faults of middleware, and what is logged."""

from __future__ import annotations

import asyncio
import inspect
import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agent.kit import call, say
from tests.agent.test_inner_runs import reread
from wesichain import ModelSettings
from wesichain.agent import Agent, AgentRuntime, Approve, Completed, Failed, Interrupted, replay
from wesichain.core import (
    LlmRequest,
    LlmResponse,
    RunInterrupted,
    RunStarted,
    TextChunk,
    TextDelta,
    ToolCompleted,
    Usage,
    to_json,
)
from wesichain.errors import (
    BudgetExceededError,
    ConfigError,
    GuardrailError,
    RunFailedError,
    RunInterruptedError,
)
from wesichain.middleware import Middleware, OutputGuard
from wesichain.policy import Budget, FailFast, Interrupt, N, Reprompt, SelfCorrect
from wesichain.testing import FakeClock, FunctionLlm, ScriptedLlm
from wesichain.tools import CancellationToken, Finish, RunContext, ToolContext, tool
from wesichain.trace import CollectingSink


class Till:
    """A tool that pays once and ends the run."""

    def __init__(self) -> None:
        self.paid = 0

    def tool(self, value: Any = "paid") -> Any:
        @tool(effect="once")
        async def pay() -> Finish[Any]:
            """Pay."""
            self.paid += 1
            return Finish(value)

        return pay


async def test_a_finish_beside_a_call_that_waits_is_not_forgotten() -> None:
    till = Till()

    @tool(approval=True)
    async def ask() -> str:
        """Ask first."""
        return "asked"

    child = Agent(
        FunctionLlm(lambda request: LlmResponse("fine") if len(request.messages) > 1 else say(call("ask"))),
        tools=[ask],
        name="child",
    )
    both = say(call("pay", id="1"), call("child", {"task": "t"}, id="2"))
    agent = Agent(ScriptedLlm([both, "never asked"]), tools=[till.tool(), child.as_tool()])
    waiting = reread(await agent.outcome("q"))
    resumed = await agent.runtime.resume(waiting, {item.token: Approve() for item in waiting.pending})
    assert isinstance(resumed, Completed), resumed
    assert (resumed.output, till.paid) == ("paid", 1)


async def test_a_finish_of_the_wrong_type_leaves_no_call_without_its_result() -> None:
    till = Till()
    agent = AgentRuntime(
        ScriptedLlm([say(call("pay"))]), [till.tool("no number")], output_type=int, policy=FailFast()
    )
    outcome = await agent.run("q")
    assert isinstance(outcome, Failed), outcome
    asked = [one.id for message in outcome.messages for one in message.tool_calls]
    answered = [message.tool_call_id for message in outcome.messages if message.tool_call_id]
    assert asked == answered


async def test_a_cancel_in_a_tools_first_stretch_interrupts_the_run() -> None:
    @tool
    async def leave() -> str:
        """Cancel the task that runs it, before it waits for anything."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "never"

    sink = CollectingSink()
    runtime = AgentRuntime(ScriptedLlm([say(call("leave")), "x"]), [leave], policy=FailFast(), events=sink)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(runtime.run("q"))
    assert isinstance(sink.events[-1], RunInterrupted), sink.events[-1]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_the_end_of_the_program_leaves_a_terminal_event(error: type[BaseException]) -> None:
    async def reply(request: LlmRequest) -> LlmResponse:
        raise error("now")

    sink = CollectingSink()
    agent = Agent(FunctionLlm(reply), events=sink)
    with pytest.raises(error):
        asyncio.run(agent.run("q"))
    assert isinstance(sink.events[-1], RunInterrupted), sink.events


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_end_of_the_program_inside_middleware_leaves_one_too(
    moment: str, error: type[BaseException]
) -> None:
    class Ends(Middleware):
        async def wrap_run(self, ctx: Any, task: Any, call_next: Any) -> Any:
            if moment == "after":
                await call_next(task)
            raise error("now")

    sink = CollectingSink()
    agent = Agent(ScriptedLlm(["done"]), events=sink, middleware=[Ends()])
    with pytest.raises(error):
        asyncio.run(agent.run("q"))
    assert isinstance(sink.events[-1], RunInterrupted), sink.events
    assert error.__name__ in sink.events[-1].reason


class Broken(Middleware):
    def __init__(self, method: str) -> None:
        self._method = method

    async def wrap_run(self, ctx: Any, task: Any, call_next: Any) -> Any:
        outcome = await call_next(task)
        if self._method == "wrap_run":
            raise KeyError("a bug")
        return outcome

    async def wrap_model(self, ctx: Any, request: Any, call_next: Any) -> Any:
        reply = await call_next(request)
        if self._method == "wrap_model":
            raise KeyError("a bug")
        return reply

    async def wrap_tool(self, ctx: Any, call: Any, call_next: Any) -> Any:
        result = await call_next(call)
        if self._method == "wrap_tool":
            raise KeyError("a bug")
        return result


@pytest.mark.parametrize("method", ["wrap_run", "wrap_model", "wrap_tool"])
async def test_an_exception_in_middleware_names_it_and_is_not_retried(method: str) -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    llm = ScriptedLlm([say(call("look")), "done"] * 4)
    agent = Agent(llm, tools=[look], middleware=[Middleware(), Broken(method)])
    outcome = await agent.outcome("q")
    assert isinstance(outcome, Failed), outcome
    assert f"Broken.{method}" in str(outcome.error)
    assert isinstance(outcome.error.__cause__, KeyError)
    assert len(llm.requests) == {"wrap_run": 2, "wrap_model": 1, "wrap_tool": 1}[method]


async def test_what_a_tool_did_not_mean_to_raise_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def look() -> str:
        """Look."""
        return undefined  # type: ignore[name-defined,no-any-return]  # noqa: F821  # the bug

    with caplog.at_level(logging.WARNING, "wesichain.tools"):
        outcome = await Agent(ScriptedLlm([say(call("look")), "done"]), tools=[look]).outcome("q")
    assert isinstance(outcome, Completed)
    (record,) = caplog.records
    assert record.name == "wesichain.tools"
    assert record.exc_info is not None
    assert record.exc_info[0] is NameError


async def test_a_task_group_whose_runs_wait_has_nothing_to_be_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    inner = Agent(FunctionLlm(lambda request: say(call("pay"))), tools=[pay], name="inner")

    @tool
    async def both(ctx: ToolContext) -> str:
        """Run two."""
        async with asyncio.TaskGroup() as group:
            for task in "ab":
                group.create_task(inner.run(task, parent=ctx))
        return "done"

    with caplog.at_level(logging.WARNING, "wesichain.tools"):
        outcome = await Agent(ScriptedLlm([say(call("both"))]), tools=[both]).outcome("q")
    assert isinstance(outcome, Interrupted)
    assert caplog.records == []


async def test_a_duration_comes_from_the_clock_that_was_handed_in() -> None:
    clock = FakeClock()

    @tool
    async def look() -> str:
        """Look, for three seconds."""
        clock.advance(3.0)
        return "seen"

    outcome = await Agent(ScriptedLlm([say(call("look")), "done"]), tools=[look], clock=clock).outcome("q")
    (completed,) = [event for event in outcome.events if isinstance(event, ToolCompleted)]
    assert completed.duration_ms == pytest.approx(3000)


async def test_instructions_and_advice_of_every_depth_come_back_from_the_log() -> None:
    """What a function said then is what a replay shows the model, with other deps and another playbook."""
    days = iter(["Monday", "Tuesday", "Wednesday", "Thursday"])

    def instructions(ctx: RunContext[Any]) -> str:
        return f"Today is {next(days)}, {ctx.deps}."

    def build(deps: Any) -> Agent[Any, str]:
        child = Agent(ScriptedLlm(["found"]), name="child", instructions=instructions)
        return Agent(
            ScriptedLlm([say(call("child", {"task": "t"})), "done"]),
            tools=[child.as_tool()],
            instructions=instructions,
        )

    outcome = await build("ann").outcome("q", deps="ann")
    recording: Any = outcome
    again = await replay(recording, build("bob"))
    assert [*again.messages] == [*outcome.messages]


async def test_approval_rules_are_not_asked_in_a_replay() -> None:
    def rule(ctx: RunContext[Any], args: Any) -> bool:
        asked: int = args["n"]
        return asked > int(ctx.deps["limit"])

    @tool(approval=rule)
    async def pay(n: int) -> str:
        """Pay."""
        return f"paid {n}"

    agent = Agent(ScriptedLlm([say(call("pay", {"n": 1})), "done"] * 2), tools=[pay])
    outcome = await agent.outcome("q", deps={"limit": 5})
    assert isinstance(outcome, Completed)
    recording: Any = outcome
    assert isinstance(await replay(recording, agent), Completed)


# --- streams -----------------------------------------------------------------------------------------


class Words:
    """A model that streams so many words."""

    model = "words"

    def __init__(self, count: int, text: str = "word ") -> None:
        self._count, self._text = count, text
        self.said = 0

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return LlmResponse(self._text * self._count)

    async def stream(self, request: LlmRequest) -> Any:
        for _ in range(self._count):
            self.said += 1
            yield TextChunk(self._text)
            await asyncio.sleep(0)
        yield LlmResponse(self._text * self._count)


async def read(agent: Agent[Any, str], **options: Any) -> None:
    """Read a stream to its end."""
    async with agent.stream("q", **options) as run:
        async for _ in run:
            pass


async def test_a_slow_reader_slows_the_run() -> None:
    model = Words(2_000)
    async with Agent(model).stream("q") as run:
        read = 0
        async for _ in run:
            read += 1
            for _ in range(20):
                await asyncio.sleep(0)  # the run could go on meanwhile
            if read == 20:
                assert model.said < 200
                break


async def test_a_failed_run_raises_out_of_its_stream_and_an_interrupted_one_ends_it() -> None:
    async def broken(request: LlmRequest) -> LlmResponse:
        raise ValueError("no")

    with pytest.raises(RunFailedError):
        await read(Agent(FunctionLlm(broken), policy=FailFast()))

    @tool(approval=True)
    async def ask() -> str:
        """Ask first."""
        return "asked"

    async with Agent(ScriptedLlm([say(call("ask")), "done"]), tools=[ask]).stream("q") as run:
        async for _ in run:
            pass
        assert isinstance(run.outcome, Interrupted)
        with pytest.raises(RunInterruptedError):
            _ = run.result


@pytest.mark.parametrize("stream", ["hold", "pass"])
@pytest.mark.parametrize("is_refused", [True, False])
async def test_an_output_guard_holds_what_it_has_not_checked(stream: Any, is_refused: bool) -> None:
    guard = OutputGuard(lambda answer: not is_refused, stream=stream)
    agent = Agent(Words(3, "4111 "), middleware=[guard])
    sink = CollectingSink()
    if is_refused:
        with pytest.raises(RunFailedError) as caught:
            await read(agent, events=sink)
        assert isinstance(caught.value.__cause__, GuardrailError)
    else:
        await read(agent, events=sink)
    deltas = [event.text for event in sink.events if isinstance(event, TextDelta)]
    assert deltas == ([] if stream == "hold" and is_refused else ["4111 "] * 3)


class Corrected:
    """A model that streams a wrong answer, and then a right one."""

    model = "corrected"

    def __init__(self) -> None:
        self._answers = iter(["wrong", "right"])

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return LlmResponse(next(self._answers))

    async def stream(self, request: LlmRequest) -> Any:
        text = next(self._answers)
        yield TextChunk(text)
        yield LlmResponse(text)


async def test_pieces_of_a_wrong_answer_are_not_emitted_with_the_right_one() -> None:
    def check(answer: str) -> str:
        if answer == "wrong":
            raise ValueError("another one")
        return answer

    sink = CollectingSink()
    guard = OutputGuard(lambda answer: True)
    await read(Agent(Corrected(), middleware=[guard], output_checks=[check]), events=sink)
    assert [event.text for event in sink.events if isinstance(event, TextDelta)] == ["right"]


class CutAfter:
    """A sink that cancels the run at the first event of a kind."""

    def __init__(self, kind: type, token: CancellationToken) -> None:
        self._kind, self._token = kind, token

    def emit(self, event: Any) -> None:
        if isinstance(event, self._kind):
            self._token.cancel("cut")


@pytest.mark.parametrize("how", ["finish", "handoff"])
async def test_a_call_whose_run_is_interrupted_after_it_again_and_again_is_no_loop(how: str) -> None:
    @tool(effect="once")
    async def pay() -> Any:
        """Pay."""
        return Finish("paid")

    second = FunctionLlm(lambda request: request.messages[-1].text)
    other = Agent(second, name="other")
    llm = ScriptedLlm([say(call("pay" if how == "finish" else "transfer_to_other"))])
    agent = Agent(llm, tools=[pay], handoffs=[other])
    token = CancellationToken()
    outcome = await agent.outcome("q", cancellation=token, events=CutAfter(ToolCompleted, token))
    for _ in range(5):
        token = CancellationToken()
        cut: Any = {"cancellation": token, "events": CutAfter(RunStarted, token)}
        outcome = await agent.runtime.resume(reread(outcome), **cut)
    ended = await agent.runtime.resume(reread(outcome))
    assert isinstance(ended, Completed), ended
    assert not any("NOTE" in message.text for message in ended.messages)


class InterruptFirst(FailFast):
    """A policy that interrupts the run at the first fault, and returns the second to the model."""

    def on_model_error(self, state: Any, error: Any) -> Any:
        return Interrupt() if state.faults(type(error)) == 1 else Reprompt(N(9))


async def test_a_result_that_is_no_answer_is_kept_where_the_policy_interrupts_the_run() -> None:
    till = Till()
    llm = ScriptedLlm([say(call("pay")), say(call("final_answer", {"value": 7}))])
    agent: Any = Agent(llm, tools=[till.tool()], output_type=int, policy=InterruptFirst())
    outcome: Any = await agent.outcome("q")
    assert outcome.reason.startswith("the policy stopped the run")
    ended: Any = await agent.runtime.resume(reread(outcome))
    assert (ended.output, till.paid) == (7, 1)


@tool
async def look() -> str:
    """Look."""
    return "the same"


@tool(approval=True)
async def enter() -> str:
    """Enter."""
    return "inside"


# Twice to the same result, and then a tool that is not there: all that a tally counts of a run.
LOOKS = [say(call("look", id="1")), say(call("look", id="2")), say(call("listen", id="3")), say(content="so")]


async def test_an_outcome_stays_as_it_is_when_it_is_resumed() -> None:
    agent = Agent(ScriptedLlm([say(call("enter")), *LOOKS]), tools=[look, enter])
    outcome = await agent.outcome("q")
    assert isinstance(outcome, Interrupted)
    before, events = to_json(outcome), outcome.events
    decisions = {outcome.pending[0].token: Approve()}
    assert isinstance(await agent.runtime.resume(outcome, decisions), Completed)
    assert (to_json(outcome), outcome.events) == (before, events)
    with pytest.raises(ConfigError, match="used already"):
        await agent.runtime.resume(outcome, decisions)


async def test_a_snapshot_stays_as_it_is_when_the_run_goes_on() -> None:
    run = Agent(ScriptedLlm([*LOOKS, *LOOKS[2:]]), tools=[look]).runtime.open("q")
    for _ in range(4):
        await run.step()
    snapshot = run.snapshot()
    before = to_json(snapshot)
    while run.outcome is None:
        await run.step()
    assert to_json(snapshot) == before


# --- options -----------------------------------------------------------------------------------------


def test_signatures_show_every_option_with_its_default() -> None:
    agent = inspect.signature(Agent).parameters
    assert agent["tool_concurrency"].default == 8
    assert agent["exclude_after"].default is None
    assert isinstance(agent["policy"].default, SelfCorrect)
    assert {"budget", "settings", "middleware", "context", "handoffs", "output_checks"} <= agent.keys()
    run = inspect.signature(Agent.run).parameters
    assert {
        "deps",
        "history",
        "conversation",
        "model",
        "budget",
        "settings",
        "cancellation",
        "parent",
    } <= run.keys()
    assert not any(one.kind is one.VAR_KEYWORD for one in (*agent.values(), *run.values()))


def test_the_signature_of_a_value_has_no_address_in_it() -> None:
    assert str(inspect.signature(Budget)).endswith(" = <factory>)"), str(inspect.signature(Budget))


async def test_settings_of_a_run_win_hold_over_resumes_and_do_not_reach_agents_below() -> None:
    @tool(approval=True)
    async def ask() -> str:
        """Ask first."""
        return "asked"

    inner = ScriptedLlm(["found"])
    child = Agent(inner, name="child")
    outer = ScriptedLlm([say(call("child", {"task": "t"}), call("ask")), "done"])
    agent = Agent(
        outer,
        tools=[ask, child.as_tool()],
        settings=ModelSettings(temperature=0.1, max_tokens=5),
        budget=Budget(),
    )
    own = ModelSettings(temperature=0.9, tool_choice="required")
    waiting = reread(await agent.outcome("q", settings=own))
    await agent.runtime.resume(waiting, {item.token: Approve() for item in waiting.pending})
    first, second = (request.settings for request in outer.requests)
    assert (first.temperature, first.max_tokens, first.tool_choice) == (0.9, 5, "required")
    assert (second.temperature, second.max_tokens, second.tool_choice) == (0.9, 5, None)
    assert inner.requests[0].settings == ModelSettings()


@pytest.mark.parametrize(("names", "told"), [((), "it has no tools"), (("look", "buy"), "it has look, buy")])
async def test_a_choice_of_a_tool_that_the_agent_does_not_have_names_those_it_has(
    names: tuple[str, ...], told: str
) -> None:
    async def act() -> str:
        """Act."""
        return "done"

    agent = Agent(ScriptedLlm(["never asked"]), tools=[tool(act, name=name) for name in names])
    with pytest.raises(ConfigError, match=f"tool_choice='sell': .* has no such tool; {told}$"):
        await agent.run("q", settings=ModelSettings(tool_choice="sell"))


async def test_the_cost_of_a_run_is_known_where_its_model_has_a_price() -> None:
    million = LlmResponse("done", usage=Usage(1_000_000, 0))
    priced = Agent(ScriptedLlm([million], model="m"), budget=Budget(prices={"m": (2.0, 1.0)}))
    assert (await priced.run("q")).cost == pytest.approx(2.0)
    published = Agent(ScriptedLlm([million], model="gpt-4o"))
    assert (await published.run("q")).cost == pytest.approx(2.5)
    unknown = Agent(ScriptedLlm([million], model="nobody's"))
    assert (await unknown.run("q")).cost is None
    silent = ["no tokens are reported"]
    assert (await Agent(ScriptedLlm(silent, model="nobody's")).run("q")).cost is None
    priced = Agent(ScriptedLlm(silent, model="m"), budget=Budget(prices={"m": (2.0, 1.0)}))
    assert (await priced.run("q")).cost == 0.0


@pytest.mark.parametrize("said", ["", "so far"])
async def test_an_answer_that_nothing_was_asked_for_is_the_limit_s_error(said: str) -> None:
    @tool
    async def look() -> int:
        """Look."""
        return 1

    reply = replace(say(call("look"), content=said), usage=Usage(100, 0))
    agent = Agent(ScriptedLlm([reply]), tools=[look], budget=Budget(tokens=50), on_limit="answer")
    outcome = await agent.outcome("q")
    assert isinstance(outcome, Completed if said else Failed)
    if isinstance(outcome, Failed):
        assert isinstance(outcome.error, BudgetExceededError)


async def test_the_settings_of_a_resume_are_merged_over_those_of_the_run() -> None:
    @tool(approval=True)
    async def look() -> int:
        """Look."""
        return 1

    llm = ScriptedLlm([say(call("look")), "done"])
    agent = Agent(llm, tools=[look])
    waiting = reread(await agent.outcome("q", settings=ModelSettings(temperature=0.9, seed=3)))
    decisions = {item.token: Approve() for item in waiting.pending}
    await agent.resume(waiting, decisions, settings=ModelSettings(temperature=0.1))
    assert llm.requests[1].settings == ModelSettings(temperature=0.1, seed=3)
