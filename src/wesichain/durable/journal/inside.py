"""Inside: the runs inside a run, told to the database as they begin, and with the step that they end with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from wesichain.core import Event, RunCompleted, RunFailed, RunInterrupted
from wesichain.durable.store import EndedChild, NewChild

Begin: TypeAlias = Callable[[NewChild], Awaitable[None]]


class Inside:
    """What is to be listed of the runs inside one run.

    A run that waits for a person stays open: its question is that of the run at the top.
    """

    def __init__(self, begin: Begin) -> None:
        self.begin = begin
        self._ended: list[EndedChild] = []

    def hear(self, events: Iterable[Event]) -> None:
        """Take the ends of runs out of what is told."""
        for event in events:
            if event.scope:
                self._ended += _ends(event)

    def take(self) -> tuple[EndedChild, ...]:
        """The runs that have ended since it was last asked: they are kept with what is written now."""
        taken, self._ended = self._ended, []
        return tuple(taken)


def _ends(event: Event) -> list[EndedChild]:
    match event:
        case RunCompleted():
            return [EndedChild(event.scope, "completed")]
        case RunFailed():
            return [EndedChild(event.scope, "failed", f"{event.error}: {event.message}")]
        case RunInterrupted() if not event.pending:
            return [EndedChild(event.scope, "interrupted", event.reason)]
        case _:
            return []
