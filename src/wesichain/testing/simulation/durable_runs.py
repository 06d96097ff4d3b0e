"""Simulated runs of a durable agent: its processes share a database, and the next one takes the run over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from wesichain.agent import Interrupted, Outcome
from wesichain.core import Event
from wesichain.errors import DurableError, RunFailedError, RunInterruptedError

from .agent_runs import questions_of
from .boundary import Process
from .people import answers_to
from .simulated_run import SimulatedRun

if TYPE_CHECKING:
    from wesichain.durable import DurableAgent


async def run_durable(run: SimulatedRun, process: Process, given: DurableAgent[Any]) -> None:
    """Run the task, in one process after the other, until it has ended or nobody resumes it."""
    run.loop.on_blocking_call = run.boundary.database_call
    agent = _in_process(run, process, given)
    answers: Any = None
    while True:
        outcome = await _outcome_of(run, process, agent, answers)
        answers = None
        if isinstance(outcome, Interrupted) and outcome.pending and not process.is_dead:
            answers = await answers_to(questions_of(outcome), run.scenario.people, run.plan, run.loop)
            if answers is not None:
                run.boundary.crash_here(process, "while it waited for an answer")
        if process.is_dead:
            process, given = await run.restart()
            agent = _in_process(run, process, given)
        elif answers is None:
            break
    if outcome is not None:
        run.outcome, run.spent = outcome, outcome.spent
    await agent.close(grace=0.0)


def _in_process(run: SimulatedRun, process: Process, given: DurableAgent[Any]) -> DurableAgent[Any]:
    """The agent as it runs in a process: in virtual time. Also that of a dead process lets go of its database
    when the simulation ends.
    """
    agent = given.configured(events=[run.boundary.sink(process, _log_of(run))], clock=run.loop.clock)
    run.on_close.append(partial(agent.close, grace=0.0))
    return agent


def _log_of(run: SimulatedRun) -> Callable[[Event], None]:
    """Keeps events by their numbers: a process that takes a run over emits those before again."""

    def keep(event: Event) -> None:
        del run.events[event.seq - 1 :]
        run.events.append(event)

    return keep


async def _outcome_of(
    run: SimulatedRun, process: Process, agent: DurableAgent[Any], answers: Any
) -> Outcome[Any] | None:
    """Run until the run ends, waits for people, or its process dies; None where there is no outcome."""
    task = process.task = run.task_of(process, _run_or_resume(run, agent, answers))
    if answers is not None and answers.is_repeated:
        run.answer_again(process, agent.decide(run.id, answers.given))
    await asyncio.wait({task, process.dies_at_once()}, return_when=asyncio.FIRST_COMPLETED)
    if process.is_dead:
        return None
    outcome: Outcome[Any] | None = None
    try:
        outcome = task.result()
    except asyncio.CancelledError:
        outcome = await run.task_of(process, _cancelled(run, agent))
    except Exception as error:  # noqa: BLE001  # whatever a scenario raises is its finding
        run.error = error
    return outcome


async def _run_or_resume(run: SimulatedRun, agent: DurableAgent[Any], answers: Any) -> Outcome[Any]:
    if answers is not None:
        try:
            await agent.decide(run.id, answers.given)
        except DurableError:
            return await agent.outcome(run.id)  # decided before the process died, or too late
    memory = run.scenario.conversation
    options: Any = {} if memory is None else {"conversation": memory(run.world)}
    try:
        return (await agent.run(run.scenario.task, run_id=run.id, **options)).outcome
    except (RunFailedError, RunInterruptedError) as ended:
        outcome: Outcome[Any] = ended.outcome
        return outcome


async def _cancelled(run: SimulatedRun, agent: DurableAgent[Any]) -> Outcome[Any]:
    """The run once it is cancelled: a process that only waits for its outcome has to say so."""
    await agent.cancel(run.id)
    return await agent.outcome(run.id)
