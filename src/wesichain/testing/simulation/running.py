"""One simulated run: a scenario with one seed, from its first process to its last."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from wesichain.agent import Interrupted, Outcome
from wesichain.core import CancellationToken, Decision, Event, PendingCall, Spent, from_json, to_json
from wesichain.errors import RunFailedError, RunInterruptedError, WesichainError
from wesichain.testing.seams import installed

from .boundary import Boundary, Process
from .faults import FaultPlan, Faults
from .loop import EPOCH, OWNER, VirtualLoop, virtual_loop
from .scenario import Scenario, ToolEffects, Trace

_PERSON = ("person_never", "person_late", "person_twice")
_WEEK = 7 * 86_400.0
_SETTLED = 86_400.0  # seconds after the end of a run in which what it left behind may still act


@contextmanager
def simulated(scenario: Scenario, seed: int, faults: Faults) -> Generator[Trace]:
    """One run of the scenario; it never raises for what the run does.

    Inside, the world is as the run left it: the code of processes that died is closed afterwards, and what
    stands in its `finally` blocks is run then.
    """
    loop = virtual_loop(seed)
    plan = FaultPlan(seed, faults)
    boundary = Boundary(loop, plan)
    run = _Run(scenario, seed, loop, plan, boundary)
    try:
        with installed(boundary):
            try:
                loop.run(run.conduct())
                loop.settle(_SETTLED)
            except Exception as error:  # noqa: BLE001  # a run that never ends, or that raises, is a finding
                run.error = run.error or error
        yield run.trace()
    finally:
        boundary.close()
        loop.close()


class _Run:
    def __init__(
        self, scenario: Scenario, seed: int, loop: VirtualLoop, plan: FaultPlan, boundary: Boundary
    ) -> None:
        self._scenario = scenario
        self._seed = seed
        self._loop = loop
        self._plan = plan
        self._boundary = boundary
        self._run_id = f"simulated-{seed}"
        self._events: list[Event] = []
        self._processes = 0
        self._world: Any = None
        self._outcome: Outcome[Any] | None = None
        self._background: set[asyncio.Task[Any]] = set()
        self.error: BaseException | None = None

    def trace(self) -> Trace:
        outcome = self._outcome
        return Trace(
            self._seed,
            self._run_id,
            tuple(self._events),
            ToolEffects(self._boundary.effects),
            Spent() if outcome is None else outcome.spent,
            outcome,
            self._world,
            tuple(self._plan.happened),
            self._processes,
            self.error,
        )

    async def conduct(self) -> None:
        """Run the task, in one process after the other, until it has ended or nobody goes on with it."""
        scenario = self._scenario
        self._world = None if scenario.world is None else scenario.world()
        process, agent = self._new_process()
        outcome = await self._in(process, agent.run(scenario.task, **self._options(process)))
        while isinstance(outcome, Interrupted):
            self._outcome = outcome
            if process.is_dying:
                process.is_dead = True
            elif not outcome.pending:
                return  # somebody stopped it, and means it
            stored = to_json(outcome)
            answers = await self._answers(outcome.pending)
            if answers is None:
                return
            dies = not process.is_dead and self._boundary.crash_here(
                process, f"while it waited {stored_at(outcome)}"
            )
            if process.is_dead or dies:
                process.is_dead = True
                await asyncio.sleep(self._plan.number("restart", self._processes, low=1.0, high=60.0))
                process, agent = self._new_process()
                kind: Any = Interrupted
                outcome = from_json(kind, stored)
            else:
                process.token = CancellationToken()
            decisions = {token: decision for token, (decision, _) in answers.items()}
            resumed = agent.resume(outcome, decisions, **self._options(process))
            if any(twice for _, twice in answers.values()):
                self._answer_again(process, agent.resume(outcome, decisions, deps=self._world))
            outcome = await self._in(process, resumed, waiting=outcome)
        if outcome is not None:
            self._outcome = outcome

    # --- processes -----------------------------------------------------------------------------------

    def _new_process(self) -> tuple[Process, Any]:
        self._processes += 1
        return Process(self._processes), self._scenario.new_agent()

    def _options(self, process: Process) -> dict[str, Any]:
        options: dict[str, Any] = {
            "deps": self._world,
            "cancellation": process.token,
            "clock": self._loop.clock,
            "events": self._boundary.sink(process, self._events.append),
        }
        if self._scenario.conversation is not None:
            options["conversation"] = self._scenario.conversation(self._world)
        if self._processes == 1 and not self._events:
            options["run_id"] = self._run_id
        return options

    async def _in(
        self, process: Process, run: Coroutine[Any, Any, Any], waiting: Interrupted[Any] | None = None
    ) -> Outcome[Any] | None:
        """The outcome of a run inside a process; None where it raised something else.

        A resume that is refused (its question has expired) leaves the run where it was.
        """
        try:
            result = await self._task_of(process, run)
        except (RunFailedError, RunInterruptedError) as ended:
            outcome: Outcome[Any] = ended.outcome
            return outcome
        except WesichainError as error:
            if waiting is not None and waiting.pending and not _is_open(self._events):
                self._outcome = waiting
                return None
            self.error = error
            return None
        except Exception as error:  # noqa: BLE001  # whatever a scenario raises is its finding
            self.error = error
            return None
        completed: Outcome[Any] = result.outcome
        return completed

    def _task_of(self, process: Process, run: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        context = contextvars.copy_context()
        context.run(OWNER.set, process)
        return self._loop.create_task(run, context=context)

    # --- people --------------------------------------------------------------------------------------

    async def _answers(self, pending: tuple[PendingCall, ...]) -> Mapping[str, tuple[Decision, bool]] | None:
        """The decision on each call that waits, and whether it is given twice; None if one is missing."""
        arriving: list[tuple[float, PendingCall, bool]] = []
        for item in pending:
            place = self._plan.visit(f"answer to {'/'.join((*item.scope, item.call.id))} {item.call.name}")
            kind = self._plan.at(place, _PERSON)
            if self._scenario.people is None or kind == "person_never":
                return None
            at = self._loop.time() + self._plan.number(place, low=1.0, high=600.0)
            if kind == "person_late":
                expires = _WEEK + at if item.expires_at is None else item.expires_at - EPOCH
                at = max(at, expires + 1.0)
            arriving.append((at, item, kind == "person_twice"))
        answers: dict[str, tuple[Decision, bool]] = {}
        for at, item, twice in sorted(arriving, key=lambda one: one[0]):
            await asyncio.sleep(max(0.0, at - self._loop.time()))
            assert self._scenario.people is not None
            decision = self._scenario.people(item)
            if decision is None:
                return None
            answers[item.token] = decision, twice
        return answers

    def _answer_again(self, process: Process, resume: Coroutine[Any, Any, Any]) -> None:
        """The same answer, a little later: the runtime has to refuse it."""

        async def again() -> None:
            try:
                await asyncio.sleep(self._plan.number("again", len(self._events), low=0.0, high=30.0))
            except BaseException:
                resume.close()
                raise
            with suppress(WesichainError):
                await resume

        task = self._task_of(process, again())
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def stored_at(outcome: Interrupted[Any]) -> str:
    """The questions that an interrupted run waits for, as the name of a place."""
    return "for " + ", ".join(sorted(item.call.id for item in outcome.pending))


def _is_open(events: list[Event]) -> bool:
    """Whether the last part of the run has begun, and has not ended."""
    return bool(events) and not (
        events[-1].kind in ("run_completed", "run_failed", "run_interrupted") and not events[-1].scope
    )
