"""Inside: the runs inside a run, told to the database as they begin, and with the step that they end with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from wesichain.core import Event, RunCompleted, RunFailed, RunInterrupted, RunStarted
from wesichain.durable.states import is_inside_id
from wesichain.durable.store import ChildResult, NewChild

from .records import fingerprint

Begin: TypeAlias = Callable[[NewChild], Awaitable[None]]


class Inside:
    """The runs inside one run, for the list of runs.

    A run that waits for a person stays open: its question is that of the run at the top.
    """

    def __init__(self, begin: Begin) -> None:
        self.begin = begin
        self._ended: list[ChildResult] = []

    def receive(self, events: Iterable[Event]) -> None:
        """Note the runs inside that these events end."""
        for event in events:
            if event.scope:
                self.ended(_ends(event))

    def ended(self, children: Iterable[ChildResult]) -> None:
        self._ended += children

    def take(self) -> tuple[ChildResult, ...]:
        """The runs that have ended since it was last asked: they are kept with what is written now."""
        taken, self._ended = self._ended, []
        return tuple(taken)


class Visitors:
    """The runs inside the run of a graph, by what its log tells of them, an event after another.

    Nodes are visited again and again, and what runs in them tells its events in the same scope each time: a
    run is known by its id, and has the scope to itself from when it starts there until another one does.
    """

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}  # by scope

    def receive(self, event: Event) -> NewChild | None:
        """Take the next event of the log; of a run that starts inside, or goes on, what is listed of it."""
        if not isinstance(event, RunStarted) or not event.own_id:
            return None
        own = event.own_id
        own = own if is_inside_id(own) else fingerprint([event.run_id, own])[:32]
        above = [found for scope, found in self._around(event.scope) if scope != event.scope]
        self._ids[event.scope] = own
        return NewChild(own, above[0] if above else event.run_id, event.agent, visit_scope(own))

    def ends(self, event: Event) -> list[ChildResult]:
        """How the run inside ended whose end this event tells."""
        own = self._ids.get(event.scope)
        return [] if own is None else [replace(end, scope=visit_scope(own)) for end in _ends(event)]

    def scope_in(self, event: Event, run_id: str) -> str | None:
        """The scope of an event for one of the runs, if it is of that one, or of one inside it."""
        for scope, found in self._around(event.scope):
            if found == run_id:
                return event.scope[len(scope) + 1 :]
        return None

    def _around(self, scope: str) -> Iterator[tuple[str, str]]:
        """The runs that speak in a scope and around it, the innermost first."""
        while scope:
            if scope in self._ids:
                yield scope, self._ids[scope]
            scope = scope.rpartition("/")[0]


def visit_scope(run_id: str) -> str:
    """The stand-in for the scope of a run in a graph's node, which is not its alone."""
    return f"@{run_id}"


def _ends(event: Event) -> list[ChildResult]:
    match event:
        case RunCompleted():
            return [ChildResult(event.scope, "completed")]
        case RunFailed():
            return [ChildResult(event.scope, "failed", f"{event.error}: {event.message}")]
        case RunInterrupted() if not event.pending:
            return [ChildResult(event.scope, "interrupted", event.reason)]
        case _:
            return []
