"""Laws that hold for every script of replies, faults, cancellations and policies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.agent.kit import check_events
from tests.draws import draws
from wesichain.agent import AgentRuntime, Completed, Failed, Interrupted, Outcome
from wesichain.agent.internal import Caller, Effects
from wesichain.core import (
    Action,
    LlmRequest,
    LlmResponse,
    Message,
    Observation,
    Role,
    StepStarted,
    ToolCall,
    Usage,
)
from wesichain.core.internal import Transcript
from wesichain.errors import LlmRejectedError, LlmTransportError, ToolError
from wesichain.policy import (
    Budget,
    Fail,
    FailFast,
    Interrupt,
    N,
    ObserveErrors,
    OnceWithToolCatalog,
    Recovery,
    Reprompt,
    RepromptN,
    RepromptOnceWithToolCatalog,
    Retry,
)
from wesichain.testing import FakeClock, FunctionLlm, ScriptedLlm
from wesichain.tools import CancellationToken, ToolContext, tool


@tool
async def work(n: int) -> int:
    """Works when n is even."""
    await asyncio.sleep(0)
    if n % 2:
        raise ToolError(f"{n} is odd")
    return n


@tool
async def stop(ctx: ToolContext) -> str:
    """Cancels its own run."""
    ctx.cancellation.cancel("the tool said stop")
    return "stopping"


@tool(sequential=True)
def plain(n: int) -> int:
    """Sync."""
    return n


@tool(approval=True)
async def careful() -> str:
    """Asks first."""
    return "done"


names = st.sampled_from(["work", "work", "work", "plain", "stop", "careful", "nosuch", ""])
args: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries({"n": st.integers(0, 3)}), st.just({}), st.just("{bad"), st.none(), st.just([1])
)
calls = st.builds(ToolCall, st.sampled_from(["", "a", "b", "c"]), names, args)
finish = st.sampled_from(["stop", "tool_calls", "length", "content_filter", "error"])
replies = st.builds(
    LlmResponse,
    st.sampled_from(["", "text", " "]),
    st.lists(calls, max_size=3).map(tuple),
    st.just(Usage(5, 3)),
    finish,
)
faults = st.sampled_from(
    [LlmTransportError("503", retryable=True), LlmRejectedError("401"), KeyError("bug"), OSError("x")]
)
scripts = st.lists(st.one_of(replies, replies, replies, faults), max_size=14)

decisions = st.sampled_from(
    [
        Fail(),
        Interrupt(),
        Retry(),
        Retry(consume_budget=False),
        Reprompt(N(2)),
        Reprompt(N(99), consume_budget=False),
        Reprompt(OnceWithToolCatalog()),
        "nonsense",
        None,
    ]
)


class Random:
    """A policy that decides from a list, over and over; it raises where the list says None."""

    def __init__(self, choices: list[Any]) -> None:
        self._choices = choices
        self._next = 0

    def on_model_error(self, state: Any, error: Any) -> Any:
        choice = self._choices[self._next % len(self._choices)]
        self._next += 1
        if choice is None:
            raise RuntimeError("policy bug")
        return choice

    on_tool_error = on_model_error


engines: st.SearchStrategy[Callable[[], Any]] = st.one_of(
    st.sampled_from(
        [
            FailFast,
            RepromptOnceWithToolCatalog,
            ObserveErrors,
            lambda: RepromptN(2),
            lambda: Recovery({Exception: Retry()}),
        ]
    ),
    st.lists(decisions, min_size=1, max_size=4).map(lambda choices: lambda: Random(choices)),
)
options = st.fixed_dictionaries(
    {
        "budget": st.builds(
            Budget,
            st.integers(1, 6),
            tokens=st.none() | st.integers(0, 40),
            tool_calls=st.none() | st.integers(0, 4),
            free_retries=st.integers(0, 2),
        ),
        "on_limit": st.sampled_from(["fail", "partial", "answer"]),
        "tool_concurrency": st.integers(1, 3),
        "exclude_after": st.none() | st.integers(1, 3),
    }
)
cancel_at = st.none() | st.integers(0, 12)


class Sink:
    """Raises now and then, and cancels the run at a given event."""

    def __init__(self, token: CancellationToken, at: int | None) -> None:
        self._token, self._at, self._count = token, at, 0

    def emit(self, event: Any) -> None:
        self._count += 1
        if self._count == self._at:
            self._token.cancel("by the observer")
        if self._count % 5 == 0:
            raise ValueError("a sink that fails")


def carry_out(
    script: list[Any], make_policy: Callable[[], Any], chosen: dict[str, Any], at: int | None
) -> tuple[Outcome[str], ScriptedLlm]:
    async def main() -> Outcome[str]:
        token = CancellationToken()
        runtime = AgentRuntime(
            llm,
            [work, stop, plain, careful],
            policy=make_policy(),
            events=Sink(token, at),
            clock=FakeClock(),
            new_id=lambda: "run",
            **chosen,
        )
        outcome = await runtime.run("q", cancellation=token)
        leftover = asyncio.all_tasks() - {asyncio.current_task()}
        assert not leftover, "a run leaves no task behind"
        return outcome

    llm = ScriptedLlm(script)
    return asyncio.run(main()), llm


@draws(40)
@given(scripts, engines, options, cancel_at)
def test_a_run_always_ends_within_its_budget_with_lawful_events(
    script: list[Any], make_policy: Callable[[], Any], chosen: dict[str, Any], at: int | None
) -> None:
    outcome, llm = carry_out(script, make_policy, chosen, at)
    assert isinstance(outcome, Completed | Failed | Interrupted)
    budget: Budget = chosen["budget"]
    extra = 1 if chosen["on_limit"] == "answer" else 0
    assert len(llm.requests) <= budget.steps + budget.free_retries + extra
    check_events(outcome.events)
    asked, shown = [list(request.messages) for request in llm.requests], told(outcome)
    assert shown == asked or (at is not None and shown[:-1] == asked), (
        "but one that was stopped before it was asked"
    )
    if not isinstance(
        outcome, Interrupted
    ):  # whose last batch may be unfinished: that is what resuming is for
        check_results(outcome)


def told(outcome: Outcome[str]) -> list[list[Message]]:
    """The messages that the events say the model saw: each by a step, or by the reply and results that it follows."""
    transcript = Transcript()
    shown: list[list[Message]] = []
    for event in outcome.events:
        transcript.take(event)
        if isinstance(event, StepStarted):
            shown.append([*transcript.messages])
    return shown


def check_results(outcome: Outcome[str]) -> None:
    """Every call in the messages has exactly one result."""
    asked = [call.id for message in outcome.messages for call in message.tool_calls]
    answered = [message.tool_call_id for message in outcome.messages if message.role is Role.TOOL]
    assert asked == answered
    assert len(set(asked)) == len(asked)
    actions = [step.call.id for step in outcome.steps if isinstance(step, Action)]
    observed = [step.call_id for step in outcome.steps if isinstance(step, Observation)]
    assert actions == [call_id for call_id in observed if call_id is not None]


@draws(15)
@given(scripts, engines, options, cancel_at)
def test_the_same_script_gives_the_same_outcome_and_events(
    script: list[Any], make_policy: Callable[[], Any], chosen: dict[str, Any], at: int | None
) -> None:
    if chosen["tool_concurrency"] > 1:
        chosen = {**chosen, "tool_concurrency": 1}  # side by side, the moments of starting depend on the loop
    first, _ = carry_out(script, make_policy, chosen, at)
    second, _ = carry_out(script, make_policy, chosen, at)
    assert type(first) is type(second)
    assert list(first.steps) == list(second.steps)
    assert [_timeless(event) for event in first.events] == [_timeless(event) for event in second.events]


def _timeless(event: Any) -> Any:
    return replace(event, duration_ms=0.0) if hasattr(event, "duration_ms") else event


@draws(20)
@given(scripts)
def test_wrapped_effects_cannot_bypass_the_machine(script: list[Any]) -> None:
    """Whoever answers the effects sees each model call and each tool call of the log, and no other."""
    asked: list[int] = []
    called: list[str] = []

    class Watching(Effects):
        def __init__(self, inner: Effects) -> None:
            self._inner = inner

        async def ask(self, request: Any, *, step_id: int, on_text: Any) -> LlmResponse:
            asked.append(step_id)
            return await self._inner.ask(request, step_id=step_id, on_text=on_text)

        async def call(self, prepared: Any, caller: Caller) -> Any:
            called.append(prepared.call.id)
            return await self._inner.call(prepared, caller)

    async def main() -> Any:
        runtime = AgentRuntime(ScriptedLlm(script), [work, plain], policy=ObserveErrors(), clock=FakeClock())
        return await runtime.run("q", effects=Watching)

    outcome = asyncio.run(main())
    check_events(outcome.events)
    kinds = [(type(event).__name__, event) for event in outcome.events]
    assert asked == [event.step_id for kind, event in kinds if kind == "StepStarted"]
    assert called == [event.call_id for kind, event in kinds if kind == "ToolDispatched"]


@draws(20)
@given(scripts, st.integers(1, 12))
@example([LlmResponse("", (ToolCall("", "work", {"n": 0}),))], 2)  # cut before the reply, without an id
def test_a_run_that_is_cut_and_resumed_ends_as_if_it_had_not_been(script: list[Any], at: int) -> None:
    """Cancel at any event, resume, and the scratchpad is that of the run that was left alone."""
    plan = [
        reply for reply in script if not (isinstance(reply, LlmResponse) and _asks(reply, "stop", "careful"))
    ]

    async def whole() -> Any:
        return await _runtime(plan).run("q")

    async def cut() -> Any:
        token = CancellationToken()
        runtime = _runtime(plan)
        outcome = await runtime.run("q", cancellation=token, events=Sink(token, at))
        while isinstance(outcome, Interrupted):
            outcome = await runtime.resume(outcome)
        return outcome

    left_alone, resumed = asyncio.run(whole()), asyncio.run(cut())
    assert type(left_alone) is type(resumed)
    assert _results(left_alone) == _results(resumed)


def _asks(reply: LlmResponse, *unwanted: str) -> bool:
    return any(call.name in unwanted for call in reply.tool_calls)


def _runtime(plan: list[Any]) -> AgentRuntime[str]:
    """The reply depends on how far the conversation is, as a model's does, not on how often it was asked."""

    def reply(request: LlmRequest) -> Any:
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        return plan[turn] if turn < len(plan) else "the end"

    return AgentRuntime(
        FunctionLlm(reply), [work, plain], clock=FakeClock(), budget=Budget(30), loop_guard=None
    )


def _results(outcome: Any) -> list[Any]:
    """The observations. An id that the runtime had to make names its step, and a step that was begun and cut
    off is never used again: of such an id, only the place in its reply is the same."""
    return [
        (step.value, re.sub(r"^call_\d+_", "call_?_", step.call_id or ""), step.parts)
        for step in outcome.steps
        if isinstance(step, Observation)
    ]


def test_the_laws_can_fail() -> None:
    """The checker of events is no rubber stamp."""
    outcome, _ = carry_out([LlmResponse("hi")], FailFast, {"budget": Budget()}, None)
    events = list(outcome.events)
    for broken in (events[1:], events[:-1], [*events, events[-1]], [events[0], *reversed(events[1:])]):
        try:
            check_events(broken)
        except AssertionError:
            continue
        raise AssertionError("a broken log passed")
