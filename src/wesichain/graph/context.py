"""The options of a run, and the context of a node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import fields
from typing import Any, Generic, TypeAlias, cast

from typing_extensions import TypeVar

from wesichain.core import EventSink, JsonValue
from wesichain.core.internal import (
    Clock,
    Mutable,
    Spent,
    SystemClock,
    Value,
    field,
    force_setattr,
    from_plain,
    to_plain,
)
from wesichain.errors import ConfigError
from wesichain.policy import Account, Budget
from wesichain.store import Store

from .checkpoints.journal import ThreadJournal
from .superstep import NodeTask
from .watch.observer import Observer

ContextT = TypeVar("ContextT", default=Any)

Sinks: TypeAlias = EventSink | Iterable[EventSink] | None

_LIMITS: Mapping[str, type[int] | tuple[type[int], type[float]]] = {
    "max_steps": int,
    "max_duration": (int, float),
    "node_timeout": (int, float),
    "max_visits": int,
    "cycle_window": int,
    "max_concurrency": int,
}


class ExecutionOptions(Value):
    """Limits and listeners of one run; None is the graph's default. Times are seconds.

    `cycle_detection`: the third time that a node sees an identical state within the last
    `cycle_window` super-steps ends the run. `restart` lets a thread with unfinished work start over.
    `max_concurrency`: how many tasks of a super-step run at once. `budget`: what all agents of the run may
    spend together; what its thread has spent before counts.
    """

    max_steps: int | None = None
    max_duration: float | None = None
    node_timeout: float | None = None
    max_visits: int | None = None
    cycle_detection: bool | None = None
    cycle_window: int | None = None
    interrupt_before: Sequence[str] = ()
    interrupt_after: Sequence[str] = ()
    observer: Observer | None = None
    thread_id: str | None = None
    events: Sinks = None
    run_id: str | None = None
    restart: bool = False
    max_concurrency: int | None = None
    budget: Budget | None = None

    def __post_init__(self) -> None:
        for name, kind in _LIMITS.items():
            value: Any = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not (isinstance(value, kind) and value > 0)):
                number = "whole number" if kind is int else "number"
                raise ConfigError(f"ExecutionOptions({name}={value!r}): use a {number} above 0, or None")
        for name in ("interrupt_before", "interrupt_after"):
            nodes = getattr(self, name)
            if isinstance(nodes, str):
                force_setattr(self, name, (nodes,))
            elif nodes is not None and not isinstance(nodes, Collection):
                raise ConfigError(f"ExecutionOptions({name}={nodes!r}): use the names of nodes")

    def over(self, defaults: ExecutionOptions) -> ExecutionOptions:
        """These options, with the defaults where they say nothing."""
        said = {name: getattr(self, name) for name in _OPTIONS}
        return ExecutionOptions(
            **{
                name: getattr(defaults, name) if value is None or value == () else value
                for name, value in said.items()
            }
        )


_OPTIONS = [option.name for option in fields(ExecutionOptions)]
DEFAULTS = ExecutionOptions(max_steps=100, cycle_detection=True, cycle_window=20)


_SPENT = "spent"  # the name of what the agent of a task has spent


class TaskRecord(Mutable):
    """The record of things that a task must not do again when it is run anew: plain data, by name.

    It is in its thread's log, where there is one, until the super-step is over. `unfinished` are the records
    of the run whose agents were not run to their end.
    """

    journal: ThreadJournal | None
    task: NodeTask
    known: dict[str, JsonValue]
    unfinished: set[TaskRecord]
    _once: dict[str, JsonValue] = field(init=False, default_factory=dict[str, JsonValue])
    _account: Account | None = field(init=False, default=None)  # of the agent that runs in the task

    def read(self, name: str) -> JsonValue:
        """The data written under this name, in this attempt or one before; None if there is none."""
        return self.known.get(name)

    async def write(self, name: str, data: JsonValue, *, once: str | None = None) -> None:
        """Keep something. When this returns, it is safe. What has an id that is used `once` is kept for as
        long as the thread is: whoever goes back, or forks, finds it there.
        """
        if self.journal is not None:
            await self.journal.note_done(self.task, name, data, once)
        elif once is not None:
            self._once[once] = data
        self.known[name] = data

    def open_account(self, above: Account | None) -> Account | None:
        """An account for the agent that runs in the task. What it has spent when it was not run to its end is
        given back: it receives the same replies, and spends that again.
        """
        if above is None:
            return None
        if self._account is not None:
            above.give_back(self._account.spent(0.0))
        elif (stored := self.known.get(_SPENT)) is not None:
            above.give_back(from_plain(Spent, stored))
        self._account = above.below()
        self.unfinished.add(self)
        return self._account

    def close_account(self) -> None:
        """The agent has ended, or waits: whoever runs the task again spends nothing twice."""
        self._account = None
        if _SPENT not in self.known:
            self.unfinished.discard(self)

    def note_spent(self) -> tuple[str, Mapping[str, Any]] | None:
        """A note of what the agent has spent, and whose it is; to be written with what the thread has."""
        spent = None if self._account is None else to_plain(self._account.spent(0.0))
        return None if self.journal is None else self.journal.done_note(self.task, _SPENT, spent)

    def read_once(self, once: str) -> JsonValue:
        """The data last written under this id, on any branch of the thread; None if there is none."""
        return self._once.get(once) if self.journal is None else self.journal.once(once)


class GraphContext(Value, Generic[ContextT]):
    """The context of a node: the run that it is part of, as far as a node may know it.

    `context` is what the run was given (`graph.invoke(state, context=...)`); it is never stored.
    `remaining_steps` is `max_steps` minus the super-steps taken. `deadline` is the moment, on the
    clock's `monotonic`, at which the run is over. `events` takes events of an inner run into the
    graph's log, under the scope of this node. `is_streamed`: somebody reads text while it comes.
    `record` is what the node did when it was run before, if its super-step was not finished then. `store` is
    the graph's (`build(store=...)`), for what outlives a thread. `account` is what the run may spend, and has
    spent: agents in its nodes draw on it.
    """

    remaining_steps: int | None = None
    observer: Observer | None = None
    thread_id: str | None = None
    node: str = ""
    run_id: str = ""
    step: int = 0
    scope: str = ""
    deadline: float | None = None
    events: EventSink | None = None
    clock: Clock = field(default_factory=SystemClock)
    context: ContextT = cast("Any", None)  # None, whatever the type: nothing was given
    is_streamed: bool = False
    on_emit: Callable[[Any], None] | None = None
    record: TaskRecord | None = None
    store: Store | None = None
    account: Account | None = None

    def emit(self, value: Any) -> None:
        """Emit a value to streams of the run with the mode "custom"; without one it is dropped."""
        if self.on_emit is not None:
            self.on_emit(value)


ALONE: ContextVar[bool] = ContextVar("wesichain_graph_alone", default=False)
"""Whether no other task is on the event loop: whoever is set to run here can let nobody wait."""

IN_PLACE: ContextVar[bool] = ContextVar("wesichain_graph_in_place", default=False)
"""Whether a node that is not async is being called: it may block, also where an event loop runs."""
