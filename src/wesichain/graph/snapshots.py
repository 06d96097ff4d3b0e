"""Snapshots: the state of a thread at a checkpoint, for users."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Container, Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Literal, TypeVar

from wesichain.core.internal import Value, field
from wesichain.errors import GraphError

from .checkpoints.fold import PendingEntries
from .checkpoints.thread_journal import LoadedCheckpoint, ThreadJournal
from .compatibility import inner_checkpoints
from .definition import Definition
from .questions import Answered, GraphInterrupt
from .state.schema import HIDDEN, StateValues, copies
from .superstep import NodeTask, fold

StateT = TypeVar("StateT")


class TaskState(Value):
    """A task of the next super-step, and its status."""

    id: str
    node: str
    status: Literal["pending", "done", "failed", "interrupted"]
    error: str | None = None


class Snapshot(Value, Generic[StateT]):
    """The state of a thread at one checkpoint. `next` are the nodes that still have to run.

    `next` is empty only at the end of a run. If all nodes of a step have run, but the run stopped before the
    step was saved, it names them, and `resume` continues after them.

    The snapshot of the newest state includes the writes of nodes that finished beside a failed or waiting
    one; a snapshot by checkpoint id shows the checkpoint as saved. `answered` are the questions answered up
    to it, oldest first. `inner` are the snapshots of inner graphs by node (for a Send, by task id), if
    `get_state` was called with `inner=True`.
    """

    values: StateT
    next: tuple[str, ...]
    checkpoint_id: str
    step: int
    created_at: float
    interrupts: tuple[GraphInterrupt, ...] = ()
    parent_id: str | None = None
    source: str = ""
    run_id: str = ""
    thread_id: str = ""
    tasks: tuple[TaskState, ...] = ()
    answered: tuple[Answered, ...] = ()
    inner: Mapping[str, Snapshot[Any]] = field(default_factory=dict[str, "Snapshot[Any]"])


def snapshot(
    definition: Definition,
    journal: ThreadJournal,
    loaded: LoadedCheckpoint,
    *,
    newest: bool,
    inner: bool = False,
) -> Snapshot[Any]:
    """Make the snapshot of a checkpoint; with `inner`, also those of the graphs inside its tasks."""
    position, pending = loaded.position, loaded.pending
    values = position.values
    tasks = position.frontier.tasks
    if newest and pending.results:
        known = [(task, pending.results[task.id]) for task in tasks if task.id in pending.results]
        with suppress(GraphError):  # their writes may conflict, which the run will report
            values = fold(definition.schema, values, known).values
    questions = journal.open_questions(loaded)
    waiting = {loaded.renamed.get(task, task) for task in questions.by_task}
    states = tuple(_task_state(task, pending, waiting) for task in tasks)
    return Snapshot(
        values=_state_for_program(definition, loaded, values),
        next=_next(states, newest=newest),
        checkpoint_id=str(loaded.checkpoint),
        step=position.step,
        created_at=loaded.at,
        interrupts=tuple(questions.by_id.values()),
        parent_id=None if loaded.parent is None else str(loaded.parent),
        source=loaded.source,
        run_id=loaded.run_id,
        thread_id=journal.thread_id,
        tasks=states,
        answered=journal.answered(loaded),
        inner=_inner(definition, journal, loaded, newest=newest) if inner else {},
    )


def _next(states: Sequence[TaskState], *, newest: bool) -> tuple[str, ...]:
    left = [state.node for state in states if state.status != "done"]
    return tuple(left if newest and left else [state.node for state in states])


def _inner(
    definition: Definition, journal: ThreadJournal, loaded: LoadedCheckpoint, *, newest: bool
) -> dict[str, Snapshot[Any]]:
    """Make the snapshots of the graphs inside the tasks of a checkpoint, at all depths."""
    return {
        task.id if task.is_sent else task.node: snapshot(inner, inside, found, newest=newest, inner=True)
        for task, inner, inside, found in inner_checkpoints(definition, journal, loaded)
    }


def _state_for_program(definition: Definition, loaded: LoadedCheckpoint, values: StateValues) -> Any:
    """Return the state as a value of the program's type, or as plain data if that is not possible."""
    if loaded.stored is not None:
        return dict(loaded.stored)
    data = copies(values)
    try:
        return definition.schema.build(data)
    except Exception:  # noqa: BLE001  # the user's class may require keys that the thread lacks
        return {name: item for name, item in data.items() if not name.startswith(HIDDEN)}


def _task_state(task: NodeTask, pending: PendingEntries, waiting: Container[str]) -> TaskState:
    if task.id in pending.results:
        return TaskState(task.id, task.node, "done")
    if task.id in waiting:
        return TaskState(task.id, task.node, "interrupted")
    error = pending.errors.get(task.id)
    return TaskState(task.id, task.node, "pending" if error is None else "failed", error)


class History(Generic[StateT]):
    """The snapshots of a thread, newest first: `await` it for a list, or use `async for`."""

    def __init__(self, read: Callable[[], Awaitable[list[Snapshot[StateT]]]]) -> None:
        self._read = read

    def __await__(self) -> Generator[Any, None, list[Snapshot[StateT]]]:
        return self._read().__await__()

    async def __aiter__(self) -> AsyncIterator[Snapshot[StateT]]:
        for one in await self._read():
            yield one
