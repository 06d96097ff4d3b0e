"""Forks: run a recorded run again from one of its steps, as a new run."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar, cast

from wesichain.agent import Agent, Outcome, replay
from wesichain.core import Event, EventSink, RunStarted, StepStarted
from wesichain.core.internal import SystemClock, replace
from wesichain.errors import ConfigError
from wesichain.trace import Recording

OutT = TypeVar("OutT")


def check_step(recording: Recording, step: int) -> None:
    """Raise `ConfigError` if the run has no such step."""
    steps = [
        event.step_id for event in recording.events if isinstance(event, StepStarted) and not event.scope
    ]
    if step not in steps:
        has = f"steps {steps[0]} to {steps[-1]}" if steps else "no steps"
        raise ConfigError(f"there is no step {step}: the run has {has}")


async def fork(
    recording: Recording,
    agent: Agent[Any, OutT],
    from_step: int,
    *,
    run_id: str,
    events: Sequence[EventSink] = (),
    stream: bool = False,
    **options: Any,
) -> Outcome[OutT]:
    """Replay the steps before `from_step`, continue live, and record both as one new run.

    Raises `ConfigError` if the recording has no such step, and `ReplayMismatchError` if the agent differs
    from the recording before it.
    """
    check_step(recording, from_step)
    before = _before(recording.events, from_step)
    forked = Recording(run_id, tuple(replace(event, run_id=run_id) for event in before))
    program = _Forked(agent, {"events": events, "stream": stream, "clock": SystemClock(), **options})
    return await replay(forked, cast("Agent[Any, OutT]", program), from_step)


def _before(events: Sequence[Event], step: int) -> list[Event]:
    """The events up to the start of the step."""
    kept: list[Event] = []
    for event in events:
        if isinstance(event, StepStarted) and not event.scope and event.step_id == step:
            return [*kept, event]
        if isinstance(event, RunStarted) and not event.scope and event.resumed:
            raise ConfigError(
                f"step {step} comes after a human decision, which is bound to that run; "
                f"fork at an earlier step"
            )
        kept.append(event)
    return kept


class _Forked:
    """Wraps the agent for a replay, with the sinks and the clock of a live run."""

    def __init__(self, agent: Agent[Any], options: Mapping[str, Any]) -> None:
        self._agent = agent
        self._options = options

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    def outcome(self, task: str, **options: Any) -> Awaitable[Outcome[Any]]:
        ours = self._options
        merged: dict[str, Any] = {**options, **ours}
        merged["events"] = (*options["events"], *ours["events"])
        merged["stream"] = options["stream"] or ours["stream"]
        return self._agent.outcome(task, **merged)
