"""The tasks of a super-step: all at once, and none losing another's work."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final, NoReturn

from wesichain.core.internal import abandon, replace
from wesichain.errors import CheckpointError, GraphError, NodeFailedError
from wesichain.graph.checkpoints.fold import Pending
from wesichain.graph.questions import GraphInterrupt, Paused
from wesichain.graph.state.updates import NodeResult
from wesichain.graph.superstep import Done, Frontier, NodeTask, Position
from wesichain.trace import redact

from .frame import Frame, within
from .node_run import NodeRun, Outcome, OuterUpdate, close_coroutine


class Performer:
    """Performs the tasks of one super-step. Made for it, used once.

    `has_waited`: others on the event loop have had their turn meanwhile.
    """

    __slots__ = ("_at", "_done", "_frame", "_pending", "_stopped", "_unsaved", "has_waited")

    def __init__(self, frame: Frame, at: Position, pending: Pending | None) -> None:
        self._frame = frame
        self._at = at
        self._pending = pending or _NOTHING
        self._done: dict[str, NodeResult] = {}
        self._stopped: dict[str, Paused | OuterUpdate | GraphError] = {}
        self._unsaved: list[Done] = []
        self.has_waited = False

    async def perform(self) -> list[Done]:
        """The results of all tasks, in the order in which they were planned."""
        tasks, known = self._at.frontier.tasks, self._pending
        todo = known.todo(self._at.frontier)
        try:
            await self._together(todo)
        except BaseException:
            with suppress(CheckpointError):  # the thread is somebody else's by now
                await self._save_results()  # what has finished is not run again
            raise
        if known.waiting or len(self._done) < len(todo):
            await self._give_up(todo)
        done = {**known.results, **self._done} if known.results else self._done
        return [(task, done[task.id]) for task in tasks]

    def _take(self, task: NodeTask, outcome: Outcome) -> bool:
        """Keep what came of a task; whether the others may go on."""
        if isinstance(outcome, NodeResult):
            self._done[task.id] = outcome
            self._unsaved.append((task, outcome))
            return True
        self._stopped[task.id] = outcome
        return not isinstance(outcome, GraphError)

    async def _together(self, todo: Sequence[NodeTask]) -> None:
        """Run the tasks: plain ones on the spot, those that wait side by side; a failure stops the rest."""
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
            elif not isinstance(outcome := visit.at_once(), _ENDS):
                waiting.append((task, visit, outcome))
            elif not self._take(task, outcome):
                for _, _, begun in waiting:
                    close_coroutine(begun)
                return
        if len(todo) == 1 and waiting and waiting[0][1].is_in_place:
            task, visit, begun = waiting[0]
            self._take(task, await visit.carried_out(begun))
        elif waiting:
            self.has_waited = True
            await self._side_by_side(waiting)

    async def _side_by_side(self, waiting: Sequence[tuple[NodeTask, NodeRun, Awaitable[Any] | None]]) -> None:
        """Carry out tasks that wait. Results are saved while others still run.

        An async node has a task of its own even when it is alone: one that will not stop cannot hold the run,
        unless it was added with `blocking=False`.
        """
        ends, begin = _Ends(), asyncio.get_running_loop().create_task
        running: dict[str, asyncio.Task[None]] = {}
        to_begin, most = deque(waiting), self._frame.options.max_concurrency or len(waiting)
        try:
            while running or to_begin:
                while to_begin and len(running) < most:
                    task, visit, begun = to_begin.popleft()
                    running[task.id] = begin(ends.take(task, visit, begun))
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
                for task, outcome in ends.found:  # some may have finished while another failed
                    if not isinstance(outcome, _CancelledOutsideError):
                        self._take(task, outcome)
            for _, _, begun in waiting:  # a task may be cancelled before its first step
                close_coroutine(begun)

    async def _wait(self, ends: _Ends, node: str) -> None:
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

    async def _give_up(self, todo: Sequence[NodeTask]) -> NoReturn:
        """Save what can be saved of a super-step that did not come to its end, and say why it did not."""
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
        handed = [outcome for _, outcome in ended if isinstance(outcome, OuterUpdate)]
        if handed:
            handed[0].done = self._written()
            raise handed[0]
        raise self._ask(paused)

    def _written(self) -> list[Done]:
        """What the tasks have written, as far as they have come, in the order in which they were planned."""
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
        """The error that a run ends in while it waits for an answer."""
        frame = self._frame
        found = _in_order(self._at.frontier, self._pending.waiting, paused)
        asked = tuple(chain.from_iterable(found))
        if frame.is_inner:  # the thread has them, if there is one
            return Paused(tuple([one if one.owner else replace(one, owner=frame.scope) for one in asked]))
        nodes = ", ".join(map(repr, dict.fromkeys([one.node for one in asked[:_NAMED]])))
        problems = "".join(f": {pause.problem}" for _, pause in paused if pause.problem)
        return frame.interrupted(f"the run waits for an answer to {nodes}{problems}", asked)


_NAMED = 100  # questions whose nodes a message names
_NOTHING: Final = Pending()
_NONE: Mapping[str, Any] = {}


def _in_order(
    frontier: Frontier,
    waiting: Mapping[str, tuple[GraphInterrupt, ...]],
    paused: Sequence[tuple[NodeTask, Paused]],
) -> Iterable[tuple[GraphInterrupt, ...]]:
    """The questions of the tasks, in the order of planning. Those that wait are in it already."""
    if not paused:
        return waiting.values()
    found = {**waiting, **{task.id: pause.asked for task, pause in paused}}
    return [found[task] for task in frontier.by_id if task in found]


_ENDS = (NodeResult, Paused, OuterUpdate, GraphError)


class _CancelledOutsideError(NodeFailedError):
    """The outcome of a visit that was cancelled, though the run was not."""


class _Ends:
    """The outcomes of visits, in the order in which they came. A visit says so itself, which wakes the run at
    once: a callback of its task would do so a turn of the loop later.
    """

    __slots__ = ("_came", "_failure", "found")

    def __init__(self) -> None:
        self.found: deque[tuple[NodeTask, Outcome]] = deque()
        self._came = asyncio.Event()
        self._failure: BaseException | None = None

    async def take(self, task: NodeTask, visit: NodeRun, begun: Awaitable[Any] | None) -> None:
        try:
            self.found.append((task, await visit.carried_out(begun)))
        except asyncio.CancelledError:
            outcome = _CancelledOutsideError("a node was cancelled from outside of the run")
            self.found.append((task, outcome))
        except BaseException as error:  # noqa: BLE001  # raised where the run waits
            self._failure = error
        self._came.set()

    async def wait(self) -> None:
        """Return when there is an end to take; raises what no visit should have raised."""
        await self._came.wait()
        self._came.clear()
        if self._failure is not None:
            raise self._failure
