"""Simulated runs of an agent: the outcome is stored as JSON, and after a crash a new process resumes it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from wesichain.agent import Interrupted, Outcome
from wesichain.core import Event, from_json, to_json
from wesichain.core.internal import CancellationToken
from wesichain.errors import RunFailedError, RunInterruptedError, WesichainError

from .boundary import Process
from .people import SimulatedQuestion, answers_to
from .simulated_run import SimulatedRun


async def run_agent(run: SimulatedRun, process: Process, agent: Any) -> None:
    """Run the task until it has ended or nobody resumes it; each crash starts a new process."""
    outcome = await _outcome_of(run, process, agent.run(run.scenario.task, **_options(run, process)))
    while isinstance(outcome, Interrupted):
        keep_outcome(run, outcome)
        if process.is_dying:
            process.is_dead = True
        elif not outcome.pending:
            return  # it was cancelled
        stored = to_json(outcome)
        answers = await answers_to(questions_of(outcome), run.scenario.people, run.plan, run.loop)
        if answers is None:
            return
        awaited = ", ".join(sorted(item.call.id for item in outcome.pending))
        # The process may have died meanwhile, in a call that was delivered again.
        if process.is_dying or run.boundary.crash_here(process, f"while it waited for {awaited}"):
            process.is_dead = True
        if process.is_dead:
            process, agent = await run.restart()
            kind: Any = Interrupted
            outcome = from_json(kind, stored)
        else:
            process.token = CancellationToken()
        resumed = agent.resume(outcome, answers.given, **_options(run, process))
        if answers.is_repeated:
            run.answer_again(process, agent.resume(outcome, answers.given, deps=run.world))
        outcome = await _outcome_of(run, process, resumed, waiting=outcome)
    if outcome is not None:
        keep_outcome(run, outcome)


def keep_outcome(run: SimulatedRun, outcome: Outcome[Any]) -> None:
    """Set the outcome of the simulated run."""
    run.outcome, run.spent = outcome, outcome.spent


def _options(run: SimulatedRun, process: Process) -> dict[str, Any]:
    options: dict[str, Any] = {
        "deps": run.world,
        "cancellation": process.token,
        "clock": run.loop.clock,
        "events": run.boundary.sink(process, run.events.append),
    }
    if run.scenario.conversation is not None:
        options["conversation"] = run.scenario.conversation(run.world)
    if process.number == 1 and not run.events:
        options["run_id"] = run.id
    return options


async def _outcome_of(
    run: SimulatedRun,
    process: Process,
    code: Coroutine[Any, Any, Any],
    waiting: Interrupted[Any] | None = None,
) -> Outcome[Any] | None:
    """Run code in a process and return the outcome; None if it raised another error.

    A resume that is refused, since its question has expired, does not change the run.
    """
    try:
        result = await run.task_of(process, code)
    except (RunFailedError, RunInterruptedError) as ended:
        outcome: Outcome[Any] = ended.outcome
        return outcome
    except WesichainError as error:
        if waiting is None or not waiting.pending or _is_open(run.events):
            run.error = error
        return None
    completed: Outcome[Any] = result.outcome
    return completed


def questions_of(outcome: Interrupted[Any]) -> list[SimulatedQuestion]:
    """The open questions of an interrupted run."""
    return [
        SimulatedQuestion(
            item.token,
            f"answer to {'/'.join((*item.scope, item.call.id))} {item.call.name}",
            item,
            item.expires_at,
        )
        for item in outcome.pending
    ]


def _is_open(events: list[Event]) -> bool:
    """Whether the last part of the run has started and not ended."""
    return bool(events) and not (
        events[-1].kind in ("run_completed", "run_failed", "run_interrupted") and not events[-1].scope
    )
