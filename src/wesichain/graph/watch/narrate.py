"""The run's log: numbers the events of a graph and of what runs inside it, and hands them to the sinks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from wesichain.core import Clock, Event, EventSink
from wesichain.trace import Redactor

from .stream import Mode, Tap

_log = logging.getLogger("wesichain")


class RunLog:
    """One log, one run id, one sequence: shared by a graph, its subgraphs and the agents in its nodes."""

    def __init__(
        self,
        run_id: str,
        *,
        clock: Clock,
        sinks: Iterable[EventSink] = (),
        tap: Tap | None = None,
        last_seq: int = 0,
    ) -> None:
        self.run_id = run_id
        self.tap = tap
        self._clock = clock
        has_ending = tap is not None and (tap.wants("events") or tap.wants("messages"))
        self._sinks = (*sinks, tap) if tap is not None and has_ending else tuple(sinks)
        self.has_listeners = bool(self._sinks)  # where nobody listens, nothing is made
        self._redactor = Redactor() if self._sinks else None
        self._seq = last_seq
        self._broken: set[int] = set()

    @property
    def last_seq(self) -> int:
        return self._seq

    def is_asked(self, mode: Mode) -> bool:
        """Whether whoever streams the run asked for this."""
        return self.tap is not None and self.tap.wants(mode)

    def give(self, mode: Mode, node: str, subgraph: str, data: Any) -> None:
        """Hand something to whoever streams the run."""
        if self.tap is not None and self.tap.wants(mode):
            self.tap.give(mode, node, subgraph, data)

    def take(self, event: Event, scope: str, node: str, task: str) -> None:
        """Take an event of an inner run into this log, as one of the branch that it runs in."""
        inner = f"{scope}/{event.scope}" if scope and event.scope else scope or event.scope
        node, task = event.node or node, event.task_id or task
        seq = self._next()
        self._emit(replace(event, run_id=self.run_id, seq=seq, scope=inner, node=node, task_id=task))

    def emit(self, kind: Callable[..., Event], scope: str, step: int, *fields: Any, **more: Any) -> None:
        """Emit an event of this run, if there are listeners."""
        if self.has_listeners:
            self._emit(
                kind(self.run_id, step, self._next(), self._clock.time(), *fields, scope=scope, **more)
            )

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    def _emit(self, event: Event) -> None:
        if self._redactor is not None:
            event = self._redactor.event(event)
        for index, sink in enumerate(self._sinks):
            try:
                sink.emit(event)
            except (Exception, asyncio.CancelledError):  # noqa: BLE001  # a sink must never change the run
                if index not in self._broken:
                    self._broken.add(index)
                    _log.exception("the event sink %r failed; the run goes on without its report", sink)
