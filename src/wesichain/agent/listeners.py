"""The event sinks of a run, which receive the events that are made from its log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wesichain.core import Event, EventSink
from wesichain.core.internal import Mutable, field
from wesichain.journal.internal import JournalLog, Projection

if TYPE_CHECKING:
    from wesichain.trace import Redactor

_log = logging.getLogger("wesichain")


def follow(
    log: JournalLog,
    sinks: Sequence[EventSink],
    redactor: Redactor | None = None,
    *,
    place: str = "",
    run_id: str = "",
) -> None:
    """Let sinks receive the events of the runs in a place of a log, from now on.

    Events are redacted. A sink may have `follow(log)`, as a recorder does: it then reads the log itself, and
    redacts it by the default rules.
    """
    plain: list[EventSink] = []
    for sink in sinks:
        read: Any = getattr(sink, "follow", None)
        if read is None or redactor is not None or place:
            plain.append(sink)
        else:
            log.follow(read(log))
    if plain:
        log.follow(_Audience(log, plain, redactor, Projection(log, place, run_id)))


class _Audience(Mutable):
    """The sinks of one run."""

    _records: JournalLog
    _sinks: Sequence[EventSink]
    _redactor: Redactor | None
    _projection: Projection
    _next: int = 0  # the number of the next record
    _failed_sinks: list[EventSink] = field(default_factory=list[EventSink])

    def __post_init__(self) -> None:
        for number in range(len(self._records.records)):  # numbered as if the sinks had received them
            self._projection.take(number)
        self._next = len(self._records.records)

    def added(self) -> None:
        records = self._records.records
        while self._next < len(records):
            self._next += 1  # first: a sink may stop the run, which adds a record
            for event in self._projection.take(self._next - 1):
                self._pass_on(event)

    def show(self, piece: tuple[Any, ...]) -> None:
        event = self._projection.piece(piece)
        if event is not None:
            self._pass_on(event)

    def _pass_on(self, event: Event) -> None:
        redacted = self._redact(event)
        for sink in self._sinks:
            try:
                sink.emit(redacted)
            except (Exception, asyncio.CancelledError):  # noqa: BLE001  # a sink must never change the run
                if sink not in self._failed_sinks:
                    self._failed_sinks.append(sink)
                    _log.exception("the event sink %r failed; the run goes on without its report", sink)

    def _redact(self, event: Event) -> Event:
        if self._redactor is None:
            from wesichain.trace import Redactor  # loaded with the first sink that needs it

            self._redactor = Redactor()
        return self._redactor.event(event)
