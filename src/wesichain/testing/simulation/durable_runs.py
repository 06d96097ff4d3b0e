"""Simulated durable runs: processes share a database, and after a crash a new one takes over the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from wesichain.agent import Interrupted, Outcome
from wesichain.core import Event
from wesichain.errors import DurableError, GraphInterruptedError, RunFailedError, RunInterruptedError

from .agent_runs import keep_outcome, questions_of
from .boundary import Process
from .graph_runs import graph_in_process, graph_questions, keep_state
from .people import Answers, SimulatedQuestion, answers_to
from .scenario import is_durable_graph
from .simulated_run import SimulatedRun

if TYPE_CHECKING:
    from wesichain.durable import DurableAgent, DurableGraph


async def run_durable(
    run: SimulatedRun, process: Process, given: DurableAgent[Any] | DurableGraph[Any]
) -> None:
    """Run the task until it has ended or nobody resumes it; each crash starts a new process."""
    run.loop.on_blocking_call = run.boundary.database_call
    program = _in_process(run, process, given)
    answers: Answers | None = None
    while True:
        questions = await _questions_of(run, process, program, answers)
        answers = None
        if questions:
            answers = await answers_to(questions, run.scenario.people, run.plan, run.loop)
            if answers is not None:
                run.boundary.crash_here(process, "while it waited for an answer")
        if process.is_dead:
            process, given = await run.restart()
            program = _in_process(run, process, given)
        elif answers is None:
            break
    await program.close()


async def _questions_of(
    run: SimulatedRun, process: Process, program: _Agent | _Graph, answers: Answers | None
) -> list[SimulatedQuestion]:
    """Run until the run ends, waits for people, or its process dies; returns the open questions."""
    task = process.task = run.task_of(process, program.run(answers))
    if answers is not None and answers.is_repeated:
        run.answer_again(process, program.answer(answers))
    await asyncio.wait({task, process.dies_at_once()}, return_when=asyncio.FIRST_COMPLETED)
    if process.is_dead:
        return []
    if task.cancelled():  # this process only waited for the run, which has to be cancelled explicitly
        task = run.task_of(process, program.cancel())
    waits: list[SimulatedQuestion] = await task
    return waits


def _in_process(run: SimulatedRun, process: Process, given: Any) -> _Agent | _Graph:
    """The program in a process, with virtual time. It is closed when the simulation ends."""
    program = _Graph(run, process, given) if is_durable_graph(given) else _Agent(run, process, given)
    run.on_close.append(program.close)
    return program


class _Agent:
    """A durable agent in one process."""

    def __init__(self, run: SimulatedRun, process: Process, given: DurableAgent[Any]) -> None:
        self._run = run
        sink = run.boundary.sink(process, _log_of(run))
        self._served = given.configured(events=[sink], clock=run.loop.clock)
        self.close: Callable[[], Coroutine[Any, Any, None]] = partial(self._served.close, grace=0.0)

    async def run(self, answers: Answers | None) -> list[SimulatedQuestion]:
        run = self._run
        if answers is not None:
            try:
                await self.answer(answers)
            except DurableError:  # too late: the run still waits, and nobody answers again
                keep_outcome(run, await self._served.outcome(run.id))
                return []
        memory = run.scenario.conversation
        options: Any = {} if memory is None else {"conversation": memory(run.world)}
        try:
            result = await self._served.run(run.scenario.task, run_id=run.id, **options)
        except (RunFailedError, RunInterruptedError) as ended:
            return self._ended(ended.outcome)
        return self._ended(result.outcome)

    async def answer(self, answers: Answers) -> None:
        await self._served.decide(self._run.id, answers.given)

    async def cancel(self) -> list[SimulatedQuestion]:
        await self._served.cancel(self._run.id)
        return self._ended(await self._served.outcome(self._run.id))

    def _ended(self, outcome: Outcome[Any]) -> list[SimulatedQuestion]:
        keep_outcome(self._run, outcome)
        return questions_of(outcome) if isinstance(outcome, Interrupted) else []


class _Graph:
    """A durable graph in one process."""

    def __init__(self, run: SimulatedRun, process: Process, given: DurableGraph[Any]) -> None:
        self._run = run
        sink = run.boundary.sink(process, run.events.append)
        self._graph = graph_in_process(run, process, given.graph)
        self._served = given.configured(events=[sink], clock=run.loop.clock)
        self._served.graph = self._graph
        self.close: Callable[[], Coroutine[Any, Any, None]] = partial(self._served.close, grace=0.0)

    async def run(self, answers: Answers | None) -> list[SimulatedQuestion]:
        run = self._run
        if answers is not None:
            try:
                await self.answer(answers)
            except DurableError:  # too late: the graph still waits, and nobody answers again
                await keep_state(run, self._graph)
                return []
        return await self._ended(self._served.run(run.scenario.task, run_id=run.id))

    async def answer(self, answers: Answers) -> None:
        await self._served.answer(self._run.id, {**answers.given})

    async def cancel(self) -> list[SimulatedQuestion]:
        await self._served.cancel(self._run.id)
        return await self._ended(self._served.result(self._run.id))

    async def _ended(self, code: Coroutine[Any, Any, Any]) -> list[SimulatedQuestion]:
        try:
            await code
        except GraphInterruptedError as stop:
            return graph_questions(stop)
        except DurableError:
            if await self._served.status(self._run.id) not in ("failed", "cancelled"):
                raise
        finally:
            await keep_state(self._run, self._graph)
        return []


def _log_of(run: SimulatedRun) -> Callable[[Event], None]:
    """Keep events by number: a process that takes over a run emits its earlier events again."""

    def keep(event: Event) -> None:
        del run.events[event.seq - 1 :]
        run.events.append(event)

    return keep
