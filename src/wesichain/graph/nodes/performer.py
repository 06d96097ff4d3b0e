"""The tasks of a super-step: they run concurrently, and a failure loses no result of the others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final, NoReturn

from wesichain.core.internal import abandon, replace
from wesichain.errors import CheckpointError, GraphError, NodeFailedError
from wesichain.graph.checkpoints.fold import PendingEntries
from wesichain.graph.questions import GraphInterrupt, Paused
from wesichain.graph.state.updates import NodeResult
from wesichain.graph.superstep import Done, Frontier, NodeTask, Position
from wesichain.trace import redact

from .frame import Frame, within
from .node_run import NodeRun, Outcome, OuterUpdate, close_coroutine


class Performer:
    """Runs the tasks of one super-step. `has_waited`: other tasks of the event loop could run meanwhile."""

    __slots__ = ("_at", "_done", "_frame", "_pending", "_stopped", "_unsaved", "has_waited")

    def __init__(self, frame: Frame, at: Position, pending: PendingEntries | None) -> None:
        self._frame = frame
        self._at = at
        self._pending = pending or _NOTHING
        self._done: dict[str, NodeResult] = {}
        self._stopped: dict[str, Paused | OuterUpdate | GraphError] = {}
        self._unsaved: list[Done] = []
        self.has_waited = False

    async def perform(self) -> list[Done]:
        """Run the tasks; return the results of all of them, in the order in which they were planned."""
        tasks, known = self._at.frontier.tasks, self._pending
        todo = known.todo(self._at.frontier)
        try:
            await self._run(todo)
        except BaseException:
            with suppress(CheckpointError):  # another run has written to the thread
                await self._save_results()  # finished tasks do not run again
            raise
        if known.waiting or len(self._done) < len(todo):
            await self._stop(todo)
        done = {**known.results, **self._done} if known.results else self._done
        return [(task, done[task.id]) for task in tasks]

    def _take(self, task: NodeTask, outcome: Outcome) -> bool:
        """Keep the outcome of a task; return whether the other tasks may continue."""
        if isinstance(outcome, NodeResult):
            self._done[task.id] = outcome
            self._unsaved.append((task, outcome))
            return True
        self._stopped[task.id] = outcome
        return not isinstance(outcome, GraphError)

    async def _run(self, todo: Sequence[NodeTask]) -> None:
        """Run plain tasks one after the other, and the rest concurrently; a failure stops the others."""
        waiting: list[tuple[NodeTask, NodeRun, Awaitable[Any] | None]] = []
        is_alone = self._frame.is_alone and len(todo) == 1
        for task in todo:
            visit = NodeRun(
                self._frame,
                self._at,
                task,
                self._frame.definition.nodes[task.node],
                answers=self._pending.answers.get(task.id, _NONE),
                done=self._pending.done.get(task.id, _NONE),
                is_alone=is_alone,
            )
            if not visit.is_plain:
                waiting.append((task, visit, None))
            elif not isinstance(outcome := visit.run_plain(), _OUTCOMES):
                waiting.append((task, visit, outcome))
            elif not self._take(task, outcome):
                for _, _, awaitable in waiting:
                    close_coroutine(awaitable)
                return
        if len(todo) == 1 and waiting and waiting[0][1].is_in_place:
            task, visit, awaitable = waiting[0]
            self._take(task, await visit.run(awaitable))
        elif waiting:
            self.has_waited = True
            await self._run_concurrently(waiting)

    async def _run_concurrently(
        self, waiting: Sequence[tuple[NodeTask, NodeRun, Awaitable[Any] | None]]
    ) -> None:
        """Run tasks in asyncio tasks of their own. Results are saved while others still run.

        Even a single async node gets an asyncio task, unless it was added with `blocking=False`: a node that
        ignores its cancellation cannot keep the run from ending.
        """
        ends, begin = _FinishedVisits(), asyncio.get_running_loop().create_task
        running: dict[str, asyncio.Task[None]] = {}
        to_begin, most = deque(waiting), self._frame.options.max_concurrency or len(waiting)
        try:
            while running or to_begin:
                while to_begin and len(running) < most:
                    task, visit, awaitable = to_begin.popleft()
                    running[task.id] = begin(ends.take(task, visit, awaitable))
                if self._unsaved:
                    await self._save_results()
                await self._wait(ends, waiting[0][0].node)
                while ends.found:
                    task, outcome = ends.found.popleft()
                    del running[task.id]
                    if not self._take(task, outcome):
                        return
        finally:
            if running:
                await abandon(running.values())
                for task, outcome in ends.found:  # tasks that finished while another failed
                    if not isinstance(outcome, _CancelledOutsideError):
                        self._take(task, outcome)
            for _, _, awaitable in waiting:  # a task may be cancelled before its first step
                close_coroutine(awaitable)

    async def _wait(self, ends: _FinishedVisits, node: str) -> None:
        frame = self._frame
        if frame.deadline is None:
            await ends.wait()
        else:
            left = max(0.0, frame.deadline - frame.clock.monotonic())
            await within(ends.wait(), left, frame.out_of_time(node))

    async def _save_results(self) -> None:
        if self._frame.journal is not None and self._unsaved:
            unsaved, self._unsaved = self._unsaved, []
            await self._frame.journal.note(unsaved)

    async def _stop(self, todo: Sequence[NodeTask]) -> NoReturn:
        """Save results, questions and errors of an unfinished super-step, and raise the reason."""
        frame, journal = self._frame, self._frame.journal
        await self._save_results()
        frame.number_events()
        ended = [(task, self._stopped[task.id]) for task in todo if task.id in self._stopped]
        failures = [(task, error) for task, error in ended if isinstance(error, GraphError)]
        paused = [(task, pause) for task, pause in ended if isinstance(pause, Paused)]
        await self._save_questions(paused)
        for task, error in failures:
            if journal is not None:
                await journal.note_error(task, redact(f"{type(error).__name__}: {error}"))
        if failures:
            raise failures[0][1]
        updates = [outcome for _, outcome in ended if isinstance(outcome, OuterUpdate)]
        if updates:
            updates[0].done = self._results_so_far()
            raise updates[0]
        raise self._ask(paused)

    def _results_so_far(self) -> list[Done]:
        """The results of the tasks that have finished, in the order in which they were planned."""
        done = {**self._pending.results, **self._done}
        for task, outcome in self._stopped.items():
            if isinstance(outcome, OuterUpdate):
                done[task] = outcome.before
        return [(task, done[task.id]) for task in self._at.frontier.tasks if task.id in done]

    async def _save_questions(self, paused: Sequence[tuple[NodeTask, Paused]]) -> None:
        journal = self._frame.journal
        for task, pause in paused:
            new = [one for one in pause.asked if not one.owner]
            if journal is not None and new:
                await journal.note_questions(task, new)

    def _ask(self, paused: Sequence[tuple[NodeTask, Paused]]) -> BaseException:
        """Return the exception with which a run ends while it waits for an answer."""
        frame = self._frame
        found = _in_order(self._at.frontier, self._pending.waiting, paused)
        asked = tuple(chain.from_iterable(found))
        if frame.is_inner:  # they are stored in the thread, if there is one
            return Paused(tuple([one if one.owner else replace(one, owner=frame.scope) for one in asked]))
        nodes = ", ".join(map(repr, dict.fromkeys([one.node for one in asked[:_NAMED]])))
        problems = "".join(f": {pause.problem}" for _, pause in paused if pause.problem)
        return frame.interrupted(f"the run waits for an answer to {nodes}{problems}", asked)


_NAMED = 100  # the error message names the nodes of this many questions
_NOTHING: Final = PendingEntries()
_NONE: Mapping[str, Any] = {}


def _in_order(
    frontier: Frontier,
    waiting: Mapping[str, tuple[GraphInterrupt, ...]],
    paused: Sequence[tuple[NodeTask, Paused]],
) -> Iterable[tuple[GraphInterrupt, ...]]:
    """The questions of the tasks, in the order in which the tasks were planned; `waiting` has that order."""
    if not paused:
        return waiting.values()
    found = {**waiting, **{task.id: pause.asked for task, pause in paused}}
    return [found[task] for task in frontier.by_id if task in found]


_OUTCOMES = (NodeResult, Paused, OuterUpdate, GraphError)


class _CancelledOutsideError(NodeFailedError):
    """The outcome of a visit that was cancelled, though the run was not."""


class _FinishedVisits:
    """The outcomes of visits, in the order in which they finished.

    A visit adds its outcome itself: a callback of its task would wake the run one loop iteration later.
    """

    __slots__ = ("_came", "_failure", "found")

    def __init__(self) -> None:
        self.found: deque[tuple[NodeTask, Outcome]] = deque()
        self._came = asyncio.Event()
        self._failure: BaseException | None = None

    async def take(self, task: NodeTask, visit: NodeRun, awaitable: Awaitable[Any] | None) -> None:
        try:
            self.found.append((task, await visit.run(awaitable)))
        except asyncio.CancelledError:
            outcome = _CancelledOutsideError("a node was cancelled from outside of the run")
            self.found.append((task, outcome))
        except BaseException as error:  # noqa: BLE001  # raised where the run waits
            self._failure = error
        self._came.set()

    async def wait(self) -> None:
        """Wait for the next outcome; raise an exception that is not an outcome."""
        await self._came.wait()
        self._came.clear()
        if self._failure is not None:
            raise self._failure
