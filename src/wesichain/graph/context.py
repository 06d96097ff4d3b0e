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
from wesichain.policy import Budget
from wesichain.policy.internal import Account
from wesichain.store import Store

from .checkpoints.thread_journal import ThreadJournal
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
    """Limits and listeners of one run; None means the graph's default. Times are in seconds.

    `cycle_detection` ends the run when a node sees an identical state for the third time within
    `cycle_window` super-steps. `restart` lets a thread with unfinished work start over. `max_concurrency`
    limits the tasks of a super-step that run at once. `budget` limits the total spending of all agents,
    including earlier spending of the thread.
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
        """Return these options, with the defaults for those that are not set."""
        own = {name: getattr(self, name) for name in _OPTIONS}
        return ExecutionOptions(
            **{
                name: getattr(defaults, name) if value is None or value == () else value
                for name, value in own.items()
            }
        )


_OPTIONS = [option.name for option in fields(ExecutionOptions)]
DEFAULTS = ExecutionOptions(max_steps=100, cycle_detection=True, cycle_window=20)


_SPENT = "spent"  # the name of the record of an agent's spending


class TaskRecord(Mutable):
    """The record of what a task has done and must not repeat when it runs again: plain data, by name.

    With a thread, it is stored in the log until the end of the super-step. `unfinished` are the records of
    the run whose agents have not ended.
    """

    journal: ThreadJournal | None
    task: NodeTask
    known: dict[str, JsonValue]
    unfinished: set[TaskRecord]
    _once: dict[str, JsonValue] = field(init=False, default_factory=dict[str, JsonValue])
    _account: Account | None = field(init=False, default=None)  # of the agent that runs in the task

    def read(self, name: str) -> JsonValue:
        """Return the data written under this name in this or an earlier attempt; None if there is none."""
        return self.known.get(name)

    async def write(self, name: str, data: JsonValue, *, once: str | None = None) -> None:
        """Store data; it is durable when this returns. With an id in `once`, it is kept as long as the thread
        and visible on its branches and forks.
        """
        if self.journal is not None:
            await self.journal.note_done(self.task, name, data, once)
        elif once is not None:
            self._once[once] = data
        self.known[name] = data

    def open_account(self, above: Account | None) -> Account | None:
        """Open an account for the agent that runs in the task. The spending of an earlier, unfinished attempt
        is given back: the agent receives the recorded replies and spends it again.
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
        """Close the account of an agent that has ended, or waits for an answer."""
        self._account = None
        if _SPENT not in self.known:
            self.unfinished.discard(self)

    def note_spent(self) -> tuple[str, Mapping[str, Any]] | None:
        """Return the note of the agent's spending, with its owner."""
        spent = None if self._account is None else to_plain(self._account.spent(0.0))
        return None if self.journal is None else self.journal.done_note(self.task, _SPENT, spent)

    def read_once(self, once: str) -> JsonValue:
        """Return the data last written under this id on any branch; None if there is none."""
        return self._once.get(once) if self.journal is None else self.journal.once(once)


class GraphContext(Value, Generic[ContextT]):
    """The context of a node: information about its run.

    `context` is the object given to the run (`graph.invoke(state, context=...)`); it is never stored.
    `remaining_steps` is `max_steps` minus the super-steps taken. `deadline` is the time, on the clock's
    `monotonic`, at which the run ends. `events` adds events of an inner run to the graph's log, under the
    scope of this node. `is_streamed`: the text of models is streamed. `record` has what the node did when it
    ran before in an unfinished super-step. `store` is the graph's (`build(store=...)`), for data that is not
    part of a thread. `account` is the budget and spending that agents in the nodes share.
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
    context: ContextT = cast("Any", None)  # None, whatever the type, if no context was given
    is_streamed: bool = False
    on_emit: Callable[[Any], None] | None = None
    record: TaskRecord | None = None
    store: Store | None = None
    account: Account | None = None

    def emit(self, value: Any) -> None:
        """Emit a value to a stream of the run with the mode "custom", if there is one."""
        if self.on_emit is not None:
            self.on_emit(value)


ALONE: ContextVar[bool] = ContextVar("wesichain_graph_alone", default=False)
"""Whether no other task is on the event loop, so that blocking calls do no harm."""

IN_PLACE: ContextVar[bool] = ContextVar("wesichain_graph_in_place", default=False)
"""Whether a sync node is being called, which may block even if an event loop runs in this thread."""
