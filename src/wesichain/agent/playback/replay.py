"""Replay: runs the agent loop again with the replies and results of a recording.

A recording is a list of the events of all runs in one order. The agent runs again, with agents that are
tools, and every event that it emits is compared with the recorded one; the first difference is an error.
Recorded replies and results are returned in the recorded order, so that concurrent calls end as they did.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from wesichain import errors
from wesichain.agent.agent import Agent
from wesichain.agent.model_names import AnyModel
from wesichain.agent.phases import Interrupted, Outcome, with_events
from wesichain.agent.runtime import AgentRuntime
from wesichain.core import (
    Event,
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    RunInterrupted,
    RunStarted,
    StepStarted,
)
from wesichain.core.internal import AdviceShown, Clock, Decision, LlmTraits, replace
from wesichain.errors import ReplayMismatchError
from wesichain.policy import find_price

from .cursor import RecordingCursor
from .recorded_errors import advice_in
from .replay_effects import ReplayEffects

if TYPE_CHECKING:
    from wesichain.trace import Recording

OutT = TypeVar("OutT")


async def replay(
    recording: Recording,
    agent: Agent[Any, OutT],
    from_step: int | None = None,
    *,
    deps: Any = None,
    model: AnyModel | None = None,
) -> Outcome[OutT]:
    """Run the agent again as it was recorded, offline, to the same events and outcome.

    Requests and calls are compared after redaction, as they were recorded. Whatever the agent now does
    differently (another prompt, tool or argument) is a `ReplayMismatchError` at the first difference.
    An interrupted run is resumed with the recorded decisions. With `from_step`, the steps before it are
    replayed, and the run continues live from there. `deps` are for functions that are called again, such as
    those of `DynamicTools`; no tool is run. A run with another model than the agent's is replayed with the
    name and price of that model; pass `model` if its traits differ.
    """
    given: Any = recording
    if not hasattr(given, "events"):
        raise errors.ConfigError(f"{given!r} is not a recording; read one with wesichain.trace.load(path)")
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
                "the recording continues after an interruption, and the program now was not interrupted there"
            )
        decisions = _decisions(start, before, outcome)
        cursor = RecordingCursor(leg, from_step, before=outcome.spent.seconds)
        outcome = await agent.runtime.resume_run(outcome, decisions, **_options(cursor, agent, deps, model))
        cursor.check_end()
        events += cursor.arranged(outcome.events)
    return with_events(outcome, events)


def _decisions(start: RunStarted, before: Sequence[Event], waiting: Interrupted[Any]) -> dict[str, Decision]:
    """The recorded decisions by their present tokens; version 0.1 had other tokens."""
    tokens = {one.token: one.token for one in waiting.pending}
    asked = next((event.pending for event in reversed(before) if isinstance(event, RunInterrupted)), ())
    now = {(one.scope, one.call.id): one.token for one in waiting.pending}
    tokens = {one.token: now.get((one.scope, one.call.id), one.token) for one in asked} | tokens
    return {tokens.get(item.token, item.token): item.decision for item in start.decisions}


def _legs(events: Sequence[Event]) -> list[list[Event]]:
    """The parts of a run between its interruptions."""
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
        "effects": partial(ReplayEffects, cursor, ""),
        "clock": _ReplayClock(cursor),
        "events": (cursor,),
        "deps": deps,
        **_opening(cursor),
    }


class _RecordedModel:
    """A stand-in for a model of which a recording has the name: it has a price and cannot be called."""

    def __init__(self, model: str, traits: LlmTraits) -> None:
        self.model = model
        self.traits = traits

    async def complete(self, request: LlmRequest) -> LlmResponse:
        raise errors.ConfigError(f"only the name of {request.model!r} is recorded; pass model= to call it")


def _model_of(cursor: RecordingCursor, agent: Agent[Any]) -> _RecordedModel | None:
    """A stand-in for the model of a run that was not the agent's; None if it was."""
    started, budget = cursor.events[0], agent.runtime.budget
    if not isinstance(started, RunStarted) or started.model == agent.runtime.model or not cursor.is_whole:
        return None
    if budget.cost is not None and find_price(started.model, budget.prices) is None:
        return None  # recorded when the agent had another model, perhaps
    traits, own = agent.runtime.traits, agent.runtime.registry
    has_final = any(spec.name.startswith("final_") and spec.name not in own for spec in started.tools)
    return _RecordedModel(started.model, replace(traits, native_output=not has_final, output_with_tools=True))


def _opening(cursor: RecordingCursor) -> dict[str, Any]:
    """The recorded instructions and advice, since functions and playbooks may return others now."""
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
    """The history of the run: the first request without the instructions and the task."""
    first = next((event for event in cursor.events if isinstance(event, StepStarted)), None)
    if first is None:
        return ()
    asked = max((i for i, message in enumerate(first.messages) if message.role is Role.USER), default=0)
    before = first.messages[:asked]
    return before[1:] if before and before[0].role is Role.SYSTEM and agent.has_instructions else before


class _ReplayClock(Clock):
    """A clock with the times of the recorded events. It never waits."""

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
