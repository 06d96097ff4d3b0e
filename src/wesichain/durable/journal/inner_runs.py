"""Inner runs: the runs inside a run, read from its log, for the list of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wesichain.core import Event, RunCompleted, RunFailed, RunInterrupted, RunStarted
from wesichain.durable.states import is_inside_id, task_preview
from wesichain.durable.store.children import ChildResult, NewChild

from .records import fingerprint


class InnerRuns:
    """Tracks the runs inside one run, event by event.

    The runs of a graph's node emit their events in the same scope at each visit: the events of a scope belong
    to the run that started there last.
    """

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}  # by scope
        self._changes: list[NewChild | ChildResult] = []

    def receive(self, events: Iterable[Event], *, after: int = 0) -> None:
        """Read the next events of the log. Those up to the number `after` cause no changes."""
        for event in events:
            change = self._change_by(event)
            if change is not None and event.seq > after:
                self._changes.append(change)

    def take(self) -> tuple[NewChild | ChildResult, ...]:
        """The changes since the last call, to be stored with the next step."""
        taken, self._changes = self._changes, []
        return tuple(taken)

    def scope_in(self, event: Event, run_id: str) -> str | None:
        """The scope of an event, relative to a run; None if it is not of that run or of one inside it."""
        for scope, found in self._around(event.scope):
            if found == run_id:
                return event.scope[len(scope) + 1 :]
        return None

    def _change_by(self, event: Event) -> NewChild | ChildResult | None:
        match event:
            case RunStarted(own_id=own, scope=scope, user_input=task) if own:
                own = own if is_inside_id(own) else fingerprint([event.run_id, own])[:32]
                above = [found for place, found in self._around(scope) if place != scope]
                self._ids[scope] = own
                parent = above[0] if above else event.run_id
                return NewChild(own, parent, event.agent, task_preview(task))
            case _ if event.scope not in self._ids:
                return None
            case RunCompleted():
                return ChildResult(self._ids[event.scope], "completed")
            case RunFailed():
                return ChildResult(self._ids[event.scope], "failed", f"{event.error}: {event.message}")
            case RunInterrupted() if not event.pending:  # otherwise it waits, as the run at the top does
                return ChildResult(self._ids[event.scope], "interrupted", event.reason)
            case _:
                return None

    def _around(self, scope: str) -> Iterator[tuple[str, str]]:
        """The runs of a scope and of those around it, the innermost first."""
        while scope:
            if scope in self._ids:
                yield scope, self._ids[scope]
            scope = scope.rpartition("/")[0]
