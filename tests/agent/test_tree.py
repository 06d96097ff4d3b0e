"""One tree of runs: nested, side by side, stopped, resumed. What reviewers have seen go wrong, case by case."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.agent.kit import ADD, add, call, check_events, failed_with, say
from wesichain.agent import (
    Agent,
    AgentRuntime,
    Approve,
    Completed,
    Conversation,
    Failed,
    Interrupted,
)
from wesichain.core import (
    LlmResponse,
    ModelResponded,
    RunInterrupted,
    StepStarted,
    ToolCompleted,
    ToolDispatched,
    Usage,
    from_json,
    to_json,
)
from wesichain.errors import (
    BudgetExceededError,
    ConfigError,
    LlmTransportError,
    ToolFailedError,
)
from wesichain.policy import Budget, ObserveErrors, Recovery, RepromptN, Retry
from wesichain.testing import FakeClock, FunctionLlm, ScriptedLlm
from wesichain.tools import CancellationToken, ToolContext, tool

DOWN = LlmTransportError("down", retryable=True)


def stored(outcome: Any) -> Interrupted[Any]:
    """The outcome as another process would read it."""
    assert isinstance(outcome, Interrupted), outcome
    kind: Any = Interrupted
    read: Interrupted[Any] = from_json(kind, to_json(outcome))
    return read


def priced(replies: Sequence[Any], model: str) -> ScriptedLlm:
    """A model whose every reply reads a million tokens."""
    made = [
        replace(LlmResponse(reply) if isinstance(reply, str) else reply, usage=Usage(1_000_000, 0))
        if isinstance(reply, str | LlmResponse)
        else reply
        for reply in replies
    ]
    return ScriptedLlm(made, model=model)


class Effects:
    """Tools that count what they do, and do it when they are let."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.keys: list[str] = []
        self.running = self.most = 0

    def tool(self, name: str, *, seconds: float = 0.0, **options: Any) -> Any:
        @tool(name=name, **options)
        async def act(ctx: ToolContext, n: int = 0) -> str:
            """Do it."""
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                if seconds:
                    await asyncio.sleep(seconds)
                self.done[name] += 1
                self.keys.append(ctx.idempotency_key)
                return f"{name} done"
            finally:
                self.running -= 1

        return act


# --- one account ------------------------------------------------------------------------------------


def nested(
    inner: Agent[Any, str], outer_replies: Sequence[Any], *tools: Any, **options: Any
) -> Agent[Any, str]:
    return Agent(priced(outer_replies, "outer"), tools=[inner.as_tool(), *tools], **options)


PRICES = {"outer": (0.1, 0.0), "inner": (10.0, 0.0)}


async def test_a_nested_agent_is_charged_at_its_own_price_to_the_run_above() -> None:
    inner = Agent(priced([say(ADD)] * 5, "inner"), tools=[add], name="inner", loop_guard=None)
    agent = nested(inner, [say(call("inner", {"task": "t"})), "x"], budget=Budget(cost=15.0, prices=PRICES))
    outcome = await agent.outcome("q")
    assert failed_with(outcome, BudgetExceededError).resource == "cost"
    assert outcome.spent.cost == pytest.approx(20.1)
    check_events(outcome.events)


async def test_a_cost_without_a_price_is_refused_wherever_it_comes_from() -> None:
    runtime = AgentRuntime(ScriptedLlm(["x"], model="m"))
    with pytest.raises(ConfigError, match="prices of 'm'"):
        await runtime.run("q", budget=Budget(cost=1.0, prices={"other": (1.0, 1.0)}))
    inner = Agent(ScriptedLlm(["x"], model="unknown"), name="inner")
    agent = nested(inner, [say(call("inner", {"task": "t"})), "x"], budget=Budget(cost=1.0, prices=PRICES))
    with pytest.raises(ConfigError, match="prices of 'unknown'"):
        await agent.outcome("q")


async def test_free_retries_spend_tokens() -> None:
    llm = FunctionLlm(lambda _: LlmResponse("", usage=Usage(1_000, 0)))  # empty: malformed, again and again
    policy = Recovery({Exception: Retry(consume_budget=False)}, limit=99)
    outcome = await AgentRuntime(llm, policy=policy, budget=Budget(tokens=1_000, free_retries=9)).run("q")
    failed_with(outcome, BudgetExceededError)
    assert outcome.usage.total_tokens == 1_000


async def test_seconds_go_on_after_a_resume_and_waiting_for_a_person_does_not_count() -> None:
    clock = FakeClock()

    @tool(approval=True)
    async def work(ctx: ToolContext) -> str:
        """Work."""
        clock.advance(4.0)
        return "ok"

    llm = ScriptedLlm([say(call("work")), say(call("work", id="2")), say(call("work", id="3")), "x"])
    runtime = AgentRuntime(llm, [work], budget=Budget(seconds=10.0), clock=clock, loop_guard=None)
    outcome: Any = await runtime.run("q")
    for expected in (4.0, 8.0):
        clock.advance(1_000.0)  # a person thinks
        held = stored(outcome)
        outcome = await runtime.resume(held, {held.pending[0].token: Approve()})
        assert outcome.spent.seconds == pytest.approx(expected)
    held = stored(outcome)
    outcome = await runtime.resume(held, {held.pending[0].token: Approve()})
    assert isinstance(outcome, Failed)
    assert outcome.error.resource == "seconds"  # type: ignore[attr-defined]


# --- side by side -----------------------------------------------------------------------------------


async def test_what_has_finished_is_kept_when_an_earlier_sibling_fails() -> None:
    effects = Effects()

    @tool
    async def slow_failure() -> str:
        """Fails late."""
        await asyncio.sleep(0.05)
        raise ValueError("no")

    llm = ScriptedLlm([say(call("slow_failure"), call("mail"))])
    runtime = AgentRuntime(llm, [slow_failure, effects.tool("mail", effect="once")], tool_concurrency=4)
    outcome = await runtime.run("q")
    assert isinstance(outcome, Failed)
    (told,) = [message.text for message in outcome.messages if message.tool_call_id == "mail-id"]
    assert told == "mail done"
    check_events(outcome.events)


async def test_the_limit_holds_with_retries() -> None:
    effects = Effects()
    failures = Counter[int]()

    @tool
    async def flaky(n: int) -> str:
        """Fails twice."""
        effects.running += 1
        effects.most = max(effects.most, effects.running)
        await asyncio.sleep(0.005)
        effects.running -= 1
        failures[n] += 1
        if failures[n] < 3:
            raise ConnectionError("again")
        return "ok"

    llm = ScriptedLlm([say(*[call("flaky", {"n": n}, id=f"c{n}") for n in range(6)]), "x"])
    policy = Recovery({ToolFailedError: Retry(consume_budget=False)}, limit=99)
    runtime = AgentRuntime(
        llm,
        [flaky],
        policy=policy,
        budget=Budget(steps=5, free_retries=50),
        tool_concurrency=2,
        exclude_after=None,
    )
    outcome = await asyncio.wait_for(runtime.run("q"), 10)
    assert isinstance(outcome, Completed)
    assert effects.most == 2
    assert sum(failures.values()) == 18, "a failed call gives its place back"


# --- cancelling runs downhill -----------------------------------------------------------------------


async def test_a_run_that_is_cut_off_cancels_nobody_else() -> None:
    shutdown = CancellationToken()
    release = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await release.wait()
        return "ok"

    def start() -> Any:
        llm = ScriptedLlm([say(call("wait")), "x"])
        return AgentRuntime(llm, [wait]).run("q", cancellation=shutdown)

    others = [asyncio.ensure_future(start()) for _ in range(3)]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(start(), 0.05)
    assert not shutdown.cancelled
    release.set()
    assert [type(outcome) for outcome in await asyncio.gather(*others)] == [Completed] * 3


async def test_a_tool_s_timeout_around_a_nested_run_is_the_tool_s_error() -> None:
    inner = Agent(FunctionLlm(lambda _: asyncio.sleep(30, "late")), name="inner")

    @tool(timeout=0.05)
    async def delegate(ctx: ToolContext) -> str:
        """Ask the other one."""
        return (await inner.run("t", parent=ctx)).output

    agent = Agent(ScriptedLlm([say(call("delegate")), "x"]), tools=[delegate], policy=ObserveErrors())
    outcome = await agent.outcome("q")
    assert isinstance(outcome, Completed)
    assert any("did not finish" in message.text for message in outcome.messages)
    check_events(outcome.events)


@pytest.mark.parametrize(
    ("on_limit", "ending"), [("fail", Failed), ("partial", Completed), ("answer", Completed)]
)
async def test_a_parent_out_of_time_while_a_child_runs_ends_by_its_limit(on_limit: Any, ending: type) -> None:
    inner = Agent(FunctionLlm(lambda _: asyncio.sleep(30, "late")), name="inner", on_limit="partial")
    llm = ScriptedLlm([say(call("inner", {"task": "t"}), content="so far"), "x"])
    agent = Agent(llm, tools=[inner.as_tool()], budget=Budget(seconds=0.1), on_limit=on_limit)
    outcome = await agent.outcome("q")
    assert isinstance(outcome, ending), outcome
    if isinstance(outcome, Failed):
        assert isinstance(outcome.error, BudgetExceededError)
        assert outcome.error.resource == "seconds"
    check_events(outcome.events)


class Canceller:
    """A sink that stops the run's own task, or its token, at one event."""

    def __init__(self, kind: type, stop: Callable[[], object]) -> None:
        self._kind, self._stop = kind, stop

    def emit(self, event: Any) -> None:
        if isinstance(event, self._kind):
            self._stop()


@pytest.mark.parametrize("at", [StepStarted, ModelResponded, ToolDispatched, ToolCompleted])
async def test_a_sink_that_cancels_the_run_s_own_task_is_heard(at: type) -> None:
    async def run() -> Any:
        task = asyncio.current_task()
        assert task is not None
        sink = Canceller(at, task.cancel)
        return await AgentRuntime(ScriptedLlm([say(ADD), "3"]), [add], events=sink).run("q")

    with pytest.raises(asyncio.CancelledError):
        await asyncio.ensure_future(run())


async def test_a_cancel_is_not_lost_when_the_model_raises_something_else_meanwhile() -> None:
    token = CancellationToken()

    async def reply(_: Any) -> Any:
        asyncio.get_running_loop().call_soon(token.cancel, "enough")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise RuntimeError("closed in the middle") from None

    outcome = await AgentRuntime(FunctionLlm(reply)).run("q", cancellation=token)
    assert isinstance(outcome, Interrupted)
    assert outcome.reason == "enough"


# --- identity ---------------------------------------------------------------------------------------


# --- once -------------------------------------------------------------------------------------------


async def test_once_outranks_a_retry() -> None:
    runs: list[int] = []

    @tool(effect="once")
    async def charge() -> str:
        """Charges, and then the line breaks."""
        runs.append(1)
        raise ConnectionError("the line broke")

    policy = Recovery({ToolFailedError: Retry()})
    outcome = await AgentRuntime(ScriptedLlm([say(call("charge")), "x"]), [charge], policy=policy).run("q")
    assert isinstance(outcome, Completed)
    assert len(runs) == 1
    assert any("the line broke" in message.text for message in outcome.messages)


async def test_an_agent_that_had_charged_is_not_run_again_whole() -> None:
    effects = Effects()
    inner = Agent(ScriptedLlm([say(call("charge")), DOWN]), tools=[effects.tool("charge")], name="inner")
    policy = Recovery({ToolFailedError: Retry()})
    llm = ScriptedLlm([say(call("inner", {"task": "t"})), "x"])
    outcome = await Agent(llm, tools=[inner.as_tool()], policy=policy).outcome("q")
    assert isinstance(outcome, Completed)
    assert effects.done == {"charge": 1}


# --- a child's question is its parent's --------------------------------------------------------------


# --- the end is the end -------------------------------------------------------------------------------


async def whatever_comes(event: asyncio.Event) -> None:
    """Wait for an event, and do not be cancelled."""
    while not event.is_set():
        with contextlib.suppress(asyncio.CancelledError):
            await event.wait()


async def test_nothing_is_told_after_the_end_by_a_tool_that_outlives_its_cancel() -> None:
    token, release, ended = CancellationToken(), asyncio.Event(), asyncio.Event()
    inner = Agent(FunctionLlm(lambda _: "late"), name="inner")

    @tool(timeout=30.0)
    async def stubborn(ctx: ToolContext) -> str:
        """Will not stop."""
        token.cancel("enough")
        await whatever_comes(release)
        try:
            return (await inner.run("t", parent=ctx)).output
        finally:
            ended.set()

    agent = Agent(ScriptedLlm([say(call("stubborn"))]), tools=[stubborn])
    outcome = await agent.outcome("q", cancellation=token)
    assert isinstance(outcome, Interrupted)
    before = outcome.events
    release.set()
    await asyncio.wait_for(ended.wait(), 30)
    assert outcome.events == before
    assert isinstance(before[-1], RunInterrupted)


async def test_a_stream_that_outlives_its_cancel_is_not_told() -> None:
    token, release, ended = CancellationToken(), asyncio.Event(), asyncio.Event()

    class Stubborn:
        model = "m"

        async def complete(self, request: Any) -> Any:
            raise AssertionError

        async def stream(self, request: Any) -> Any:
            from wesichain.core import TextChunk

            yield TextChunk("a")
            token.cancel("enough")
            await whatever_comes(release)
            try:
                yield TextChunk("b")
            finally:
                ended.set()

    runtime = AgentRuntime(Stubborn())
    outcome = await runtime.run("q", cancellation=token, stream=True)
    before = outcome.events
    release.set()
    await asyncio.wait_for(ended.wait(), 30)
    assert outcome.events == before


def test_a_nested_run_in_a_sync_tool_s_thread_is_told_in_order() -> None:
    inner = Agent(ScriptedLlm([say(ADD), "3"] * 4), tools=[add], name="inner")
    heard: list[tuple[int, int]] = []

    class Sink:
        def emit(self, event: Any) -> None:
            heard.append((event.seq, threading.get_ident()))

    @tool
    def delegate(ctx: ToolContext, n: int) -> str:
        """Ask the other one."""
        return inner.run_sync(f"t{n}", parent=ctx).output

    llm = ScriptedLlm([say(*[call("delegate", {"n": n}, id=f"c{n}") for n in range(4)]), "x"])
    agent = Agent(llm, tools=[delegate], events=Sink(), tool_concurrency=4)
    result = agent.run_sync("q")
    assert [seq for seq, _ in heard] == list(range(1, len(heard) + 1))
    assert len({thread for _, thread in heard}) == 1, "sinks are called in the loop's own thread"
    check_events(result.events)


# --- half answers -------------------------------------------------------------------------------------


# --- the policy -----------------------------------------------------------------------------------------


async def test_several_bad_calls_in_one_reply_are_one_fault() -> None:
    bad = say(*[call("nope", id=f"n{n}") for n in range(3)])
    outcome = await AgentRuntime(ScriptedLlm([bad, bad, "x"]), [add], policy=RepromptN(2)).run("q")
    assert isinstance(outcome, Completed)


# --- the loop in steps ------------------------------------------------------------------------------------


async def test_a_run_can_be_taken_a_step_at_a_time() -> None:
    agent = Agent(ScriptedLlm([say(ADD), "3"]), tools=[add])
    async with agent.iterate("q") as run:
        names = [type(phase).__name__ async for phase in run]
    assert names == ["Thinking", "Acting", "Observing", "Thinking", "Completed"]
    assert isinstance(run.outcome, Completed)
    assert run.outcome.output == "3"
    check_events(run.outcome.events)
    assert (await run.step()) is run.outcome


async def test_a_run_in_steps_adds_its_turn_to_the_conversation_once() -> None:
    memory = Conversation()
    agent = Agent(ScriptedLlm(["3"]))
    async with agent.iterate("q", conversation=memory) as run:
        await run.step()
        before = memory.messages
        assert isinstance(await run.step(), Completed)
        assert (before, [message.text for message in memory.messages]) == ((), ["q", "3"])
        await run.step()
    assert len(memory.messages) == 2
