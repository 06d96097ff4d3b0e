"""The frame of one run: the values that its parts share, and a wait with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from wesichain.core.internal import Clock, Value, abandon, field
from wesichain.errors import CheckpointError, GraphInterruptedError, GraphTimeoutError
from wesichain.graph.checkpoints.thread_journal import ThreadJournal
from wesichain.graph.context import ExecutionOptions, GraphContext, TaskRecord
from wesichain.graph.definition import Definition
from wesichain.graph.questions import GraphInterrupt
from wesichain.graph.state.schema import StateValues
from wesichain.graph.watch.report import RunLog, RunReport, ScopedSink
from wesichain.policy.internal import Account
from wesichain.store import Store


class Frame(Value):
    """One run's graph, limits, log and journal. `scope` is its path from the outermost graph.

    `is_alone`: no other task is on the event loop. `on_stop` are called with the error and the values so far
    when the run stops before its end. `folded`: if the graph is a node, the keys whose writes the outer graph
    folds one by one, else None.
    """

    definition: Definition
    options: ExecutionOptions
    report: RunReport
    clock: Clock
    journal: ThreadJournal | None = None
    scope: str = ""
    is_inner: bool = False
    deadline: float | None = None
    context: Any = None
    is_alone: bool = False
    folded: frozenset[str] | None = None
    store: Store | None = None
    counted_from: int = 0  # the step that `max_steps` counts from
    is_answered: bool = False  # the run was resumed with an answer
    account: Account | None = None  # the spending of all agents
    on_stop: list[Callable[[BaseException, StateValues], None]] = field(default_factory=list)
    unfinished: set[TaskRecord] = field(default_factory=set)  # of inner graphs too

    @property
    def log(self) -> RunLog:
        return self.report.log

    def within(self, task: str) -> str:
        """The scope of inner runs of a task."""
        return f"{self.scope}/{task}" if self.scope else task

    def context_of(self, node: str, step: int, task: str, record: TaskRecord | None = None) -> GraphContext:
        """The context of a node, for one task of a super-step."""
        limit, scope, log = self.options.max_steps, self.within(task), self.report.log
        return GraphContext(
            remaining_steps=None if limit is None else max(0, limit - step + self.counted_from),
            observer=self.options.observer,
            thread_id=self.options.thread_id,
            node=node,
            run_id=log.run_id,
            step=step,
            scope=scope,
            deadline=self.deadline,
            events=ScopedSink(self.report, scope, node=node, task=task)
            if self.report.has_listeners
            else None,
            clock=self.clock,
            context=self.context,
            is_streamed=log.is_asked("messages"),
            on_emit=partial(log.give, "custom", node, self.scope) if log.is_asked("custom") else None,
            record=record,
            store=self.store,
            account=self.account,
        )

    def interrupted(self, what: str, interrupts: tuple[GraphInterrupt, ...] = ()) -> GraphInterruptedError:
        if self.journal is None:
            what += "; it cannot be resumed: build the graph with a checkpointer for that"
        return GraphInterruptedError(what, interrupts=interrupts, thread_id=self.options.thread_id)

    def out_of_time(self, node: str) -> GraphTimeoutError:
        return GraphTimeoutError(
            f"the run ran out of time at node {node!r} (max_duration={self.options.max_duration})", node=node
        )

    def number_events(self) -> None:
        """Tell the journal the number of the last event, counting the event of its next checkpoint."""
        if self.journal is not None and self.log.has_listeners:
            self.journal.last_event = self.log.last_seq + 1

    async def close_log(self) -> None:
        """Store the number of the last event and the spending of a stopped run, for its resume."""
        if self.journal is not None:
            with suppress(CheckpointError):  # another run has written to the thread
                notes = [note for record in self.unfinished if (note := record.note_spent()) is not None]
                await self.journal.note_stop(self.log.last_seq if self.log.has_listeners else 0, notes)


T = TypeVar("T")


async def within(awaitable: Awaitable[T], seconds: float, late: BaseException) -> T:
    """Await it, or cancel it after so many seconds and raise `late`.

    A node that catches `CancelledError` and continues is abandoned.
    """
    task = asyncio.ensure_future(awaitable)
    try:
        await asyncio.wait((task,), timeout=seconds)
        if task.done():
            return task.result()
        raise late
    finally:
        await abandon((task,))
