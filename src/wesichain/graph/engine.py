"""The engine: runs super-steps, using the pure functions of `superstep`.

The rules of a graph run:

- A run is a sequence of super-steps. In each, all tasks of the frontier run concurrently (`nodes`), and each
  sees the state from the start of the super-step: a write is visible in the next one, never before.
- When all tasks have finished, their writes are folded into the state, key by key, in the order in which the
  tasks were planned, not in the order in which they finished. Then routers read the new state; together with
  edges, `goto` and `Send` they determine the next frontier. The run ends when that is empty.
- A join runs its target once all its sources have finished, in one super-step or over several. A deferred
  node runs when nothing else is left to run.
- With a thread, a checkpoint is stored after the input and after every super-step, before the next begins:
  the changed keys and the next frontier. Within a super-step, notes are pending on the last checkpoint:
  results of finished tasks, things that a task must not do twice, questions, answers, errors.
- A failure stops the other tasks; a question lets them finish. In both cases the run ends at its last
  checkpoint, and its super-step is not folded. `interrupt_before` and `interrupt_after` stop between two.
- A resume reads the last checkpoint and its notes. Tasks with a stored result do not run again; the others
  run from their start, with the answers and the record in the notes; tasks with open questions do not run.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import Any

from wesichain.core import JsonValue, RunCompleted, RunFailed, RunInterrupted, RunStarted, Usage
from wesichain.core.internal import Mutable, around, field
from wesichain.errors import (
    CodecError,
    CycleDetectedError,
    GraphError,
    GraphInterruptedError,
    MaxStepsExceededError,
    MaxVisitsExceededError,
    NodeFailedError,
)

from .checkpoints.coding import ANYTHING
from .checkpoints.fold import PendingEntries
from .checkpoints.thread_journal import OuterWrites
from .definition import START, Router
from .nodes.cycles import CycleWatch
from .nodes.frame import Frame
from .nodes.node_run import OuterUpdate
from .nodes.performer import Performer
from .questions import Paused
from .state.kinds import is_items, is_mapping, is_some
from .state.schema import StateValues, copies
from .state.updates import Send
from .superstep import Done, Folded, Frontier, NodeTask, Position, advance, check_target, fold

_NOTHING = OuterWrites()
_BREATH = 0.001  # seconds after which a run whose nodes never wait lets other tasks of the loop run


class GraphRun(Mutable):
    """One run of a graph. `position` is its position after the last super-step; `outer` are its writes so far
    to the outer graph.
    """

    frame: Frame
    position: Position
    visits: Counter[str] = field(default_factory=Counter[str])
    outer: OuterWrites = _NOTHING
    _cycles: CycleWatch | None = field(init=False, default=None)

    async def _begin(self, folded: Folded) -> None:
        """Choose the entry nodes, and save the input."""
        targets = await route(self.frame, START, folded.values)
        frontier = advance(self.frame.definition, Frontier(), (START,), targets)
        self.position = Position(folded.values, frontier)
        await self._save(folded, source="input")

    async def run_to_end(self, first: Folded | PendingEntries) -> None:
        """Run to the end, from an input, or from a checkpoint with its pending notes."""
        frame, options, breath = self.frame, self.frame.options, self.frame.clock.monotonic()
        pending = None if isinstance(first, Folded) else first
        resumed = pending is not None
        if isinstance(first, Folded):
            await self._begin(first)
        if options.cycle_detection and frame.definition.may_loop:
            assert options.cycle_window is not None, "the defaults of a graph have one"
            self._cycles = CycleWatch(self.position.values, window=options.cycle_window)
        while (at := self.position).frontier.tasks:
            self._check_limits(at)
            if options.interrupt_before and not resumed:
                self._stop(at.frontier.tasks, options.interrupt_before, "before")
            resumed = False
            performer = Performer(frame, at, pending)
            try:
                done = await performer.perform()
            except OuterUpdate as handed:
                self._hand_over(at, handed)
                raise
            has_waited = performer.has_waited
            del performer  # frees the results and the previous state
            pending = None
            await self._settle(at, done)
            if options.interrupt_after and self.position.frontier.tasks:
                self._stop([task for task, _ in done], options.interrupt_after, "after")
            if frame.report.owed:
                await frame.report.settle()
            if not has_waited and frame.clock.monotonic() - breath > _BREATH:
                await asyncio.sleep(0)  # also allows a cancellation
                breath = frame.clock.monotonic()

    def _hand_over(self, at: Position, handed: OuterUpdate) -> None:
        """End the run for an update of the outer graph, with the writes up to now."""
        folded = fold(self.frame.definition.schema, at.values, handed.done)
        self.position = Position(folded.values, at.frontier, at.step)
        if self.frame.folded is not None:
            self.outer |= _outer_writes(self.frame.folded, folded, handed.done)
            handed.ended = copies(folded.values), self.outer

    async def _settle(self, at: Position, done: Sequence[Done]) -> None:
        """Fold the writes of the tasks, choose the next tasks, and save the super-step."""
        frame = self.frame
        ran = [task.node for task, _ in done]
        finished = dict.fromkeys(ran)
        try:
            folded = fold(frame.definition.schema, at.values, done)
            targets = [
                check_target(frame.definition, task.node, target)
                for task, result in done
                for target in result.goto
            ]
            for node in finished:
                if node in frame.definition.routers:
                    targets += await route(frame, node, folded.values, step=at.step + 1)
        except Exception:
            if frame.journal is not None:
                await frame.journal.note(done)  # finished tasks need not run again
            raise
        if self._cycles is not None:
            self._cycles.update(folded)
        frontier = advance(frame.definition, at.frontier, finished, targets)
        outer = None if frame.folded is None else _outer_writes(frame.folded, folded, done)
        position, self.position = self.position, Position(folded.values, frontier, at.step + 1)
        for node in ran:
            self.visits[node] += 1
        if frame.journal is None and frame.log.tap is None and outer is None:
            return
        try:
            await self._save(folded, source="loop", ran=ran, outer=outer)
        except BaseException:
            self.position = position
            raise

    async def _save(
        self, folded: Folded, *, source: str, ran: Sequence[str] = (), outer: OuterWrites | None = None
    ) -> None:
        frame, at = self.frame, self.position
        if frame.journal is not None:
            frame.number_events()
            checkpoint = await frame.journal.commit(
                at,
                folded,
                source=source,
                run_id=frame.log.run_id,
                ran=ran,
                outer=outer,
            )
            if frame.report.has_listeners:
                frame.report.checkpoint_saved(at.step, checkpoint, ran)
        if outer is not None:
            self.outer |= outer
        if frame.log.is_asked("values"):
            frame.log.give("values", "", frame.scope, frame.definition.schema.build(copies(at.values)))

    # --- limits ------------------------------------------------------------------------------------

    def _check_limits(self, at: Position) -> None:
        frame, options, tasks = self.frame, self.frame.options, at.frontier.tasks
        taken = at.step - frame.counted_from
        if options.max_steps is not None and taken >= options.max_steps:
            raise MaxStepsExceededError(
                f"max steps exceeded: the run has taken {taken} super-steps and has not ended; "
                f"raise max_steps, or look for a loop at {tasks[0].node!r}",
                node=tasks[0].node,
            )
        if frame.deadline is not None and frame.clock.monotonic() >= frame.deadline:
            raise frame.out_of_time(tasks[0].node)
        if options.max_visits is not None:
            for name, count in Counter(task.node for task in tasks).items():
                if self.visits[name] + count > options.max_visits:
                    raise MaxVisitsExceededError(
                        f"max visits exceeded: node {name!r} has run {options.max_visits} times", node=name
                    )
        if self._cycles is not None and (node := self._cycles.see(at.frontier)) is not None:
            raise CycleDetectedError(
                f"cycle detected: node {node!r} sees the same state for the third time within "
                f"{options.cycle_window} super-steps; let something change in between, or pass "
                f"cycle_detection=False",
                node=node,
            )

    def _stop(self, tasks: Sequence[NodeTask], names: Sequence[str], when: str) -> None:
        stops = dict.fromkeys(repr(task.node) for task in tasks if task.node in names)
        if stops:
            raise self.frame.interrupted(f"the run stopped {when} {', '.join(stops)}")


def _outer_writes(keys: frozenset[str], folded: Folded, done: Sequence[Done]) -> OuterWrites:
    writes = [write for _, result in done for write in result.writes if write[0] in keys]
    return OuterWrites(frozenset(folded.changes), tuple(writes))


# --- routing ---------------------------------------------------------------------------------------


async def route(frame: Frame, source: str, values: StateValues, *, step: int = 0) -> list[str | Send]:
    """Call the routers after a node with the state after its super-step; return their targets."""
    chosen: list[str | Send] = []
    for router in frame.definition.routers.get(source, ()):
        args = (frame.context_of(source, step, source),) if router.wants_context else ()
        try:
            answer = router.call(frame.definition.schema.view(values), *args)
            if answer.__class__ is not str and inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:
            raise NodeFailedError(
                f"the router after {source!r} raised {type(error).__name__}: {error}", node=source
            ) from error
        chosen += [
            check_target(frame.definition, source, target) for target in _targets(router, answer, source)
        ]
    return chosen


def _targets(router: Router, answer: Any, source: str) -> list[Any]:
    """Map the return value of a router to its targets."""
    if answer.__class__ is str and router.targets is not None and answer in router.targets:
        return [router.targets[answer]]
    answers = answer if is_items(answer) or is_some(answer) else (answer,)
    if router.targets is None:
        return list(answers)
    chosen: list[Any] = []
    for one in answers:
        label = getattr(one, "value", one)  # a member of an enum stands for its value
        if isinstance(one, Send):
            chosen.append(one)
        elif isinstance(label, Hashable) and label in router.targets:
            chosen.append(router.targets[label])
        else:
            known = ", ".join(map(repr, router.targets))
            raise NodeFailedError(
                f"the router after {source!r} returned {one!r}, which is none of its targets: {known}",
                node=source,
            )
    return chosen


# --- the first and the last event -------------------------------------------------------------------

_NO_USAGE = Usage()  # agents in nodes report their own


async def run_graph(
    frame: Frame, run: GraphRun, first: Folded | PendingEntries, *, given: Any = None
) -> StateValues:
    """Run a graph from its first event to its last; return its final values.

    `first`: the folded input, or the notes pending on the checkpoint from which a thread is resumed.
    """
    if around.hook is None:
        return await _run(frame, run, first, given)
    with around.hook.workflow(frame.log.run_id) as failing:
        try:
            return await _run(frame, run, first, given)
        except (GraphInterruptedError, Paused, OuterUpdate):
            raise
        except BaseException as error:
            failing(error)
            raise


async def _run(frame: Frame, run: GraphRun, first: Folded | PendingEntries, given: Any) -> StateValues:
    log, scope = frame.log, frame.scope
    log.emit(RunStarted, scope, 0, _task(given), "graph", resumed=not isinstance(first, Folded))
    try:
        await run.run_to_end(first)
    except BaseException as error:
        for stop in frame.on_stop:
            stop(error, run.position.values)
        _report_stop(frame, run, error)
        raise
    if log.has_listeners:
        log.emit(RunCompleted, scope, run.position.step, _output(run.position.values), _NO_USAGE)
    return run.position.values


def _report_stop(frame: Frame, run: GraphRun, error: BaseException) -> None:
    """Set the state of the error, and emit the last event of a run that stopped before its end."""
    step, name = run.position.step, type(error).__name__
    if isinstance(error, GraphError) and error.state is None:
        with suppress(Exception):  # the user's class may raise
            error.state = frame.definition.schema.build(copies(run.position.values))
    match error:
        case GraphInterruptedError():
            reason = str(error)
        case Paused():
            reason = "it waits for an answer"
        case OuterUpdate():
            reason = "it updated the outer graph"
        case asyncio.CancelledError():
            reason = "the task that ran it was cancelled"
        case _:
            frame.log.emit(RunFailed, frame.scope, step, name, str(error), _NO_USAGE)
            return
    frame.log.emit(RunInterrupted, frame.scope, step, reason, _NO_USAGE)


def _task(given: Any) -> str:
    """Return the task for the first event: the input, if the state has one."""
    found = given.get("input", "") if is_mapping(given) else getattr(given, "user_input", "")
    return found if isinstance(found, str) else ""


def _output(values: StateValues) -> JsonValue:
    """Return the final state as JSON data for the last event, without values that are not data."""
    output: dict[str, JsonValue] = {}
    for name, value in copies(values).items():
        with suppress(CodecError, RecursionError):
            output[name] = ANYTHING.encode(value)
    return output
