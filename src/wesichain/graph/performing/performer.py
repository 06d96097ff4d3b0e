"""The tasks of a super-step: all at once, and none losing another's work."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from typing import Any, NoReturn

from wesichain.errors import GraphError, NodeFailedError
from wesichain.graph.checkpoints import Pending, as_interrupt
from wesichain.graph.context import Paused
from wesichain.graph.state import Result
from wesichain.graph.superstep import Done, Position, Task
from wesichain.trace import redact

from .frame import Frame
from .visit import Outcome, Up, Visit
from .waiting import put_down, within


class Performer:
    """Performs the tasks of one super-step. Made for it, used once."""

    __slots__ = ("_at", "_frame", "_outcomes", "_pending", "_unsaved")

    def __init__(self, frame: Frame, at: Position, pending: Pending | None) -> None:
        self._frame = frame
        self._at = at
        self._pending = pending or Pending()
        self._outcomes: dict[str, Outcome] = {}
        self._unsaved: list[Done] = []

    async def perform(self) -> list[Done]:
        """The results of all tasks, in the order in which they were planned."""
        tasks, known = self._at.frontier.tasks, self._pending
        self._outcomes.update(known.results)
        for task_id, asked in known.asked.items():
            self._outcomes[task_id] = Paused(tuple(as_interrupt(one) for one in asked), noted=True)
        await self._together([task for task in tasks if task.id not in self._outcomes])
        done = [(task, found) for task in tasks if isinstance(found := self._outcomes.get(task.id), Result)]
        if len(done) < len(tasks):
            await self._give_up()
        return done

    def _take(self, task: Task, outcome: Outcome) -> bool:
        """Keep what came of a task; whether the others may go on."""
        self._outcomes[task.id] = outcome
        if isinstance(outcome, Result):
            self._unsaved.append((task, outcome))
        return isinstance(outcome, Result | Paused)

    async def _together(self, todo: Sequence[Task]) -> None:
        """Run the tasks: plain ones on the spot, those that wait side by side; a failure stops the rest."""
        waiting: list[tuple[Task, Visit, Awaitable[Any] | None]] = []
        for task in todo:
            visit = Visit(self._frame, self._at, task, self._pending.answers.get(task.id, ()))
            if not visit.is_plain:
                waiting.append((task, visit, None))
            elif not isinstance(outcome := visit.at_once(), _ENDS):
                waiting.append((task, visit, outcome))
            elif not self._take(task, outcome):
                _let_go(begun for _, _, begun in waiting)
                return
        if waiting:
            await self._side_by_side(waiting)

    async def _side_by_side(self, waiting: Sequence[tuple[Task, Visit, Awaitable[Any] | None]]) -> None:
        """Carry out tasks that wait. Results are saved while others still run.

        An async node has a task of its own even when it is alone: one that will not stop cannot hold the run.
        """
        running: dict[asyncio.Future[Outcome], Task] = {}
        finished: deque[asyncio.Future[Outcome]] = deque()
        wake = asyncio.Event()

        def note(future: asyncio.Future[Outcome]) -> None:
            finished.append(future)
            wake.set()

        for task, visit, begun in waiting:
            started = asyncio.ensure_future(visit.in_time(begun))
            running[started] = task
            started.add_done_callback(note)
        try:
            while running:
                await self._save_results()
                await self._wait(wake, running)
                while finished:
                    future = finished.popleft()
                    if not self._take(running.pop(future), _outcome_of(future)):
                        return
        finally:
            await put_down(running)
            for future, task in running.items():  # some may have finished while another failed
                if future.done() and not future.cancelled():
                    self._take(task, future.result())

    async def _wait(self, wake: asyncio.Event, running: dict[asyncio.Future[Outcome], Task]) -> None:
        frame = self._frame
        if frame.deadline is None:
            await wake.wait()
        else:
            late = frame.out_of_time(next(iter(running.values())).node)
            await within(wake.wait(), max(0.0, frame.deadline - frame.clock.monotonic()), late)
        wake.clear()

    async def _save_results(self) -> None:
        if self._frame.journal is not None and self._unsaved:
            unsaved, self._unsaved = self._unsaved, []
            await self._frame.journal.note(unsaved)

    async def _give_up(self) -> NoReturn:
        """Save what can be saved of a super-step that did not come to its end, and say why it did not."""
        frame, journal = self._frame, self._frame.journal
        await self._save_results()
        frame.number_events()
        ended = [
            (task, self._outcomes[task.id]) for task in self._at.frontier.tasks if task.id in self._outcomes
        ]
        failures = [(task, error) for task, error in ended if isinstance(error, GraphError)]
        for task, error in failures:
            if journal is not None:
                await journal.note_error(task, redact(f"{type(error).__name__}: {error}"))
        if failures:
            raise failures[0][1]
        for _, outcome in ended:
            if isinstance(outcome, Up):
                raise outcome
        paused = [(task, pause) for task, pause in ended if isinstance(pause, Paused)]
        for task, pause in paused:
            if journal is not None and not pause.noted:
                (asked,) = pause.interrupts
                await journal.note_asked(task, asked.id, asked.value, pause.memo)
        questions = tuple(asked for _, pause in paused for asked in pause.interrupts)
        if frame.is_inner:
            raise Paused(questions, noted=True)
        nodes = ", ".join(dict.fromkeys(repr(asked.node) for asked in questions))
        problems = "".join(f": {pause.problem}" for _, pause in paused if pause.problem)
        raise frame.interrupted(f"the run waits for an answer to {nodes}{problems}", questions)


_ENDS = (Result, Paused, Up, GraphError)


def _let_go(begun: Iterable[Awaitable[Any] | None]) -> None:
    """Close coroutines that nobody will await any more."""
    for one in begun:
        if isinstance(one, Coroutine):
            one.close()


def _outcome_of(future: asyncio.Future[Outcome]) -> Outcome:
    """What a visit came to; one that was cancelled, though the run was not, has failed."""
    if future.cancelled():
        return NodeFailedError("a node was cancelled from outside of the run")
    return future.result()
