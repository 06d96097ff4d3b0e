"""Replay: the same loop, answered from a recording. Exact, or refused at the first difference.

A recording is a list of events in one order, whoever they belong to. The program runs again, with agents
that are tools, and every event that it emits is compared with the next one. What the world answered then is
returned when its turn has come, so that calls side by side end in the order in which they ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from wesichain import errors
from wesichain.agent.agent import Agent
from wesichain.agent.effects import Caller, Effects, JournalEntry, OnText, SameCaller
from wesichain.agent.extra_replies import reemit_extra_calls
from wesichain.agent.model_names import AnyModel
from wesichain.agent.outcomes import Completed, Interrupted, Outcome, with_events
from wesichain.agent.run_state import RunState
from wesichain.agent.runtime import AgentRuntime
from wesichain.context import ViewRequest
from wesichain.core import (
    AdviceShown,
    Clock,
    Event,
    LlmRequest,
    LlmResponse,
    LlmTraits,
    Message,
    ModelResponded,
    Role,
    RunInterrupted,
    RunStarted,
    StepStarted,
)
from wesichain.core.internal import CancellationToken, Decision
from wesichain.errors import AgentError, ReplayMismatchError
from wesichain.middleware import CallRun, Middleware
from wesichain.policy import find_price
from wesichain.tools import PreparedCall, ToolResult

from .cursor import RecordingCursor
from .recorded_answers import UNKNOWN, RecordedAnswers
from .recorded_errors import advice_in, refusal_in, refusal_of_part

if TYPE_CHECKING:
    from wesichain.trace import Recording

OutT = TypeVar("OutT")
T = TypeVar("T")


async def replay(
    recording: Recording,
    agent: Agent[Any, OutT],
    from_step: int | None = None,
    *,
    deps: Any = None,
    model: AnyModel | None = None,
) -> Outcome[OutT]:
    """Run the agent again as it was recorded, offline, to the same events and outcome.

    Requests and calls are compared redacted, as they were recorded. What the program now does
    otherwise (another prompt, tool or argument) is a `ReplayMismatchError` at the first difference.
    A run that was interrupted and went on does so again, with the decisions of then. With `from_step`,
    the steps before it are replayed and the run goes on live from there. `deps` are for approval rules and
    the like, which are asked again; no tool is run. A run that had another model than the agent's is
    replayed under its name and price; one whose traits are others needs `model` again.
    """
    given: Any = recording
    if not hasattr(given, "events"):
        raise errors.ConfigError(f"{given!r} is no recording; read one with wesichain.trace.load(path)")
    legs = _legs(recording.events)
    started = legs[0][0] if legs else None
    if not isinstance(started, RunStarted):
        raise ReplayMismatchError(f"the recording of {recording.run_id!r} has no beginning")
    if started.resumed:
        raise ReplayMismatchError(f"the recording of {recording.run_id!r} begins in the middle of a run")
    cursor = RecordingCursor(legs[0], from_step)
    options = _options(cursor, agent, deps, model)
    _check_tools(cursor, agent.runtime.with_model(options["model"]) if "model" in options else agent.runtime)
    task: Any = [*started.parts] if started.parts else started.user_input
    outcome = await agent.outcome(task, history=_history(cursor, agent), run_id=recording.run_id, **options)
    cursor.check_end()
    events = cursor.arranged(outcome.events)
    for before, leg in pairwise(legs):
        start = leg[0]
        if not isinstance(outcome, Interrupted) or not isinstance(start, RunStarted):
            raise ReplayMismatchError(
                "the recording goes on behind an interruption, and the program now was not interrupted there"
            )
        decisions = _decisions(start, before, outcome)
        cursor = RecordingCursor(leg, from_step, before=outcome.spent.seconds)
        outcome = await agent.runtime.resume_run(outcome, decisions, **_options(cursor, agent, deps, model))
        cursor.check_end()
        events += cursor.arranged(outcome.events)
    return with_events(outcome, events)


def _decisions(start: RunStarted, before: Sequence[Event], waiting: Interrupted[Any]) -> dict[str, Decision]:
    """The decisions of then on the questions of now; the tokens of version 0.1 were others."""
    tokens = {one.token: one.token for one in waiting.pending}
    asked = next((event.pending for event in reversed(before) if isinstance(event, RunInterrupted)), ())
    now = {(one.scope, one.call.id): one.token for one in waiting.pending}
    tokens = {one.token: now.get((one.scope, one.call.id), one.token) for one in asked} | tokens
    return {tokens.get(item.token, item.token): item.decision for item in start.decisions}


def _legs(events: Sequence[Event]) -> list[list[Event]]:
    """The parts of a run: up to its first interruption, from there to the next, and so on."""
    legs: list[list[Event]] = []
    for event in events:
        if not legs or (isinstance(event, RunStarted) and not event.scope):
            legs.append([])
        legs[-1].append(event)
    return legs


def _options(cursor: RecordingCursor, agent: Agent[Any], deps: Any, model: AnyModel | None) -> dict[str, Any]:
    """The options that make a run follow a recording."""
    named = model or _model_of(cursor, agent)
    return {
        **({} if named is None else {"model": named}),
        "stream": cursor.is_streamed,
        "effects": partial(ReplayEffects, RecordedAnswers(cursor), ""),
        "clock": _ReplayClock(cursor),
        "events": (cursor,),
        "deps": deps,
        **_opening(cursor),
    }


class _Named:
    """Stands for a model that a recording knows by its name: it has a price, and cannot be asked."""

    def __init__(self, model: str, traits: LlmTraits) -> None:
        self.model = model
        self.traits = traits

    async def complete(self, request: LlmRequest) -> LlmResponse:
        raise errors.ConfigError(f"{request.model!r} is known by name alone, from a recording; pass model=")


def _model_of(cursor: RecordingCursor, agent: Agent[Any]) -> _Named | None:
    """The model that a run had in place of the agent's."""
    started, budget = cursor.events[0], agent.runtime.budget
    if not isinstance(started, RunStarted) or started.model == agent.runtime.model or not cursor.is_whole:
        return None
    if budget.cost is not None and find_price(started.model, budget.prices) is None:
        return None  # recorded when the agent had another model, perhaps
    traits, own = agent.runtime.traits, agent.runtime.registry
    has_final = any(spec.name.startswith("final_") and spec.name not in own for spec in started.tools)
    return _Named(started.model, replace(traits, native_output=not has_final, output_with_tools=True))


def _opening(cursor: RecordingCursor) -> dict[str, Any]:
    """The instructions and the advice from the recording: functions and playbooks may return others now."""
    opening: dict[str, Any] = {}
    for event in cursor.events:
        if isinstance(event, RunStarted) and not event.scope and event.instructions:
            opening["instructions"] = event.instructions
        if isinstance(event, AdviceShown) and not event.scope and not event.agent:
            return {**opening, "advice": advice_in(event)}
    return opening


def _check_tools(cursor: RecordingCursor, runtime: AgentRuntime[Any]) -> None:
    started = next(event for event in cursor.events if isinstance(event, RunStarted))
    recorded = {spec.name: cursor.compare.plain(spec) for spec in started.tools}
    present = {spec.name: cursor.compare.plain(spec) for spec in runtime.offered()}
    for name in sorted(recorded.keys() | present.keys()):
        then, now = recorded.get(name), present.get(name)
        if then != now:
            what = "is gone" if now is None else "is new" if then is None else "has changed"
            raise ReplayMismatchError(
                f"the tool {name!r} {what} since the recording", expected=then, actual=now
            )


def _history(cursor: RecordingCursor, agent: Agent[Any]) -> tuple[Message, ...]:
    """The history before the question: the first request without our own prompt and the task."""
    first = next((event for event in cursor.events if isinstance(event, StepStarted)), None)
    if first is None:
        return ()
    asked = max((i for i, message in enumerate(first.messages) if message.role is Role.USER), default=0)
    before = first.messages[:asked]
    return before[1:] if before and before[0].role is Role.SYSTEM and agent.has_instructions else before


class ReplayEffects(Effects):
    """The world as it was recorded; from `from_step` on, the world itself."""

    __slots__ = ("_answers", "_live", "_run", "_scope", "cancellation", "needs_deps", "remembers")

    def __init__(self, answers: RecordedAnswers, scope: str, live: Effects) -> None:
        self._answers = answers
        self._scope = scope
        self._live = live
        self._run: RunState[Any] | None = None
        self.remembers = True
        self.cancellation = answers.cursor.token(scope)
        self.needs_deps = not answers.cursor.is_whole

    @override
    def token(self, given: CancellationToken | None) -> CancellationToken | None:
        """Each run is stopped where it was, not with the one above: what arrived meanwhile arrives again."""
        if self._answers.cursor.is_whole and given is not None:
            return self.cancellation or CancellationToken()
        return super().token(given)

    @override
    def attach(self, run: RunState[Any]) -> None:
        self._run = run

    @override
    def around(self, middleware: Sequence[Middleware], *, step_id: int | None = None) -> Sequence[Middleware]:
        """No middleware is run. A run, or a part of one, that it ended then ends so again."""
        events = self._answers.cursor.events
        if step_id is not None:
            refused = refusal_of_part(events, self._scope, step_id)
            return () if refused is None else (_Recorded(refused, at_once=True),)
        refusal = refusal_in(events, self._scope)
        return () if refusal is None else (_Recorded(refusal.error, at_once=refusal.at_once),)

    def _extra_reply(self, event: StepStarted | ModelResponded) -> None:
        """Emit, and pay for, a model call that a middleware made beside that of the loop."""
        assert self._run is not None, "a run is attached before its first step"
        reemit_extra_calls(self._run, (event,))

    @override
    async def ask(self, request: LlmRequest, *, step_id: int, on_text: OnText | None) -> LlmResponse:
        if self._answers.cursor.goes_live(self._scope, step_id):
            return await self._live.ask(request, step_id=step_id, on_text=on_text)
        self._answers.cursor.check()
        if isinstance(request, ViewRequest):
            return await self._answers.summary(self._scope, step_id)
        return await self._answers.reply(self._scope, step_id, on_text, self._extra_reply)

    @override
    async def call(self, prepared: PreparedCall, caller: Caller) -> ToolResult:
        ctx = caller.context(prepared.call)
        if self._answers.cursor.goes_live(self._scope, ctx.step_id):
            return await self._live.call(prepared, caller)
        self._answers.cursor.check()
        live = self._live
        return await self._answers.result(
            self._scope, prepared, ctx, lambda: live.call(prepared, SameCaller(ctx))
        )

    @override
    async def remember(self, entry: JournalEntry[T], make: Callable[[], Awaitable[T]]) -> T:
        if self._answers.cursor.goes_live(self._scope, entry.step_id):
            return await make()
        known = self._answers.remembered(self._scope, entry.verb, entry.step_id, entry.call_id)
        if known is UNKNOWN:
            return await make()
        recorded = entry.read(known)
        return await self._live_or(recorded, entry, make) if entry.verb == "offer" else recorded

    async def _live_or(self, recorded: T, entry: JournalEntry[T], make: Callable[[], Awaitable[T]]) -> T:
        """The tools of the program, which have effects and rules, where they are those of the recording.

        A function that needs deps, or another day, returns others now: then the recorded ones stand for them.
        """
        try:
            live = await make()
        except Exception:  # noqa: BLE001  # whatever the function needs is not here
            return recorded
        return live if entry.write(live) == entry.write(recorded) else recorded

    @override
    async def turn(self, call_id: str = "") -> None:
        cursor = self._answers.cursor
        await (cursor.dispatch_turn(self._scope, call_id) if call_id else cursor.step_turn(self._scope))

    @override
    def below(self, call: str, number: int) -> Callable[[Effects], Effects]:
        scope = f"{self._scope}/{call}" if self._scope else call
        return partial(ReplayEffects, self._answers, scope if number == 1 else f"{scope}/~{number}")


class _Recorded(Middleware):
    """The recorded verdict of the middleware around a run: it refused the task, or the answer."""

    def __init__(self, error: AgentError, *, at_once: bool) -> None:
        self._error = error
        self._at_once = at_once

    @override
    async def wrap_run(self, ctx: object, task: Any, call_next: CallRun) -> Any:
        outcome = None if self._at_once else await call_next(task)
        if outcome is None or isinstance(outcome, Completed):
            raise self._error
        return outcome


class _ReplayClock(Clock):
    """The times of the recording, event by event; nobody waits."""

    def __init__(self, cursor: RecordingCursor) -> None:
        self._cursor = cursor

    @override
    def time(self) -> float:
        return self._cursor.time()

    @override
    def monotonic(self) -> float:
        return self._cursor.monotonic()

    @override
    async def sleep(self, seconds: float) -> None:
        return None
