"""Events from a log: each is made from one record, and its number follows from its place in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from wesichain.core import (
    ContentOmitted,
    Event,
    ModelResponded,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    ToolCompleted,
)
from wesichain.core.internal import (
    AdviceShown,
    ContextReduced,
    Decided,
    HandedOff,
    MessageReceived,
    Spent,
)

from .entries import (
    Answer,
    Asked,
    Begin,
    Decide,
    End,
    Go,
    Hand,
    Left,
    RecordedError,
    Reply,
    Result,
    Say,
    View,
)
from .entry_names import Name, parse, unescape
from .log import JournalLog
from .questions import pending_call

Form: TypeAlias = tuple[Any, ...]  # the class of an event, its step, and the fields that only it has


class Projection:
    """Makes the events of the runs in a place, one record after the other.

    `scope` of an event is the place of its run below that place, without the last slash.
    """

    __slots__ = (
        "_asked",
        "_begin_of_run",
        "_decided",
        "_log",
        "_models",
        "_place",
        "_run_id",
        "_size",
        "seq",
    )

    def __init__(self, log: JournalLog, place: str = "", run_id: str = "") -> None:
        self.seq = 0
        self._log = log
        self._place = place
        self._size = len(place)
        self._run_id = run_id or log.run_id
        self._asked: dict[str, Asked] = {}  # the questions so far, by token
        self._decided: list[Decided] = []  # since the run was left
        self._models: dict[str, str] = {}  # of the runs, by their place
        self._begin_of_run: Begin | None = None

    def take(self, number: int) -> Sequence[Event]:
        """The events of the record with this number; records are taken in order, none left out."""
        record = self._log.records[number]
        first = record[0]
        if first.__class__ is not str:
            make, place, step, at, *fields = record
            if not place.startswith(self._place) or not hasattr(make, "kind"):
                return ()
            self.seq += 1
            return (make(self._run_id, step, self.seq, at, *fields, scope=place[self._size : -1]),)
        name = parse(first)
        forms_of = _FORMS.get(name.kind)
        if forms_of is None or not name.place.startswith(self._place):
            return ()
        body, at = self._log.body(number), record[2]
        place = body.place or name.place if isinstance(body, Say) else name.place  # of whom a message is for
        scope = place[self._size : -1]
        events: list[Event] = []
        for make, step, *fields in forms_of(self, name, body):
            self.seq += 1
            events.append(make(self._run_id, step, self.seq, at, *fields, scope=scope))
        return events

    def piece(self, record: Sequence[Any]) -> Event | None:
        """The event of a piece of a streamed reply. It has the number of the last event: it is not counted."""
        make, place, step, at, *fields = record
        if not place.startswith(self._place):
            return None
        event: Event = make(self._run_id, step, self.seq, at, *fields, scope=place[self._size : -1])
        return event

    # --- one method for each kind of entry ------------------------------------------------------------

    def _begin(self, name: Name, body: Begin) -> Iterator[Form]:
        if body.program_kind != "agent":
            return
        self._models[name.place] = body.model
        own_id = body.run_id if name.place else ""
        if name.place == self._place:
            self._begin_of_run = body
        yield (
            RunStarted, 0, body.task, body.model, body.tools, False, (), body.parts, body.program, own_id,
            body.instructions,
        )  # fmt: skip
        if body.advice is not None:
            advice = body.advice
            yield AdviceShown, 0, advice.shown, advice.text, advice.held, "", advice.tools

    def _go(self, name: Name, body: Go) -> Iterator[Form]:
        """A resumed run; the first leg of the work begins with the first entry."""
        if name.rest == "1" or not body.writer:
            return
        decided, self._decided = tuple(self._decided), []
        self._models[""] = body.model
        first = self._begin_of_run
        if first is not None:
            model = body.model or first.model
            yield RunStarted, 0, first.task, model, first.tools, True, decided, (), body.program

    def _ask(self, name: Name, body: Reply) -> Iterator[Form]:
        reply, step = body.reply, body.step or name.step
        if reply is not None:
            yield ModelResponded, step, reply, body.ms, body.cost, body.cut
            if reply.omitted:
                yield ContentOmitted, step, self._models.get(name.place, ""), reply.omitted

    def _view(self, name: Name, body: View) -> Iterator[Form]:
        yield ContextReduced, name.step, body.view, body.cuts, body.cost, body.usage, body.trouble

    def _decide(self, name: Name, body: Decide) -> Iterator[Form]:
        words = name.words
        call_id = unescape(words[1]) if len(words) == 3 and not body.is_rejection else None
        kind, cause = _kind_and_cause(body.fault, is_of_call=call_id is not None)
        text, tool = body.fault.message, body.tool or None
        yield StepFailed, name.step, kind, text, body.decision, call_id, tool, body.ms, body.free, cause

    def _call(self, name: Name, body: Any) -> Iterator[Form]:
        if isinstance(body, Result) and body.fault is None and not body.provided:
            call_id = unescape(name.words[1])
            yield (
                ToolCompleted, name.step, call_id, body.tool, body.value, body.ms, body.parts, body.finish,
            )  # fmt: skip

    def _asked_for(self, _: Name, body: Asked) -> Iterator[Form]:
        self._asked[body.token] = body
        return iter(())

    def _answer(self, name: Name, body: Answer) -> Iterator[Form]:
        asked = self._asked.get(name.rest)
        if asked is not None and body.decision is not None:
            tool = "" if asked.call is None else asked.call.name
            self._decided.append(Decided(name.rest, tool, body.decision))
        return iter(())

    def _say(self, _: Name, body: Say) -> Iterator[Form]:
        if body.when:
            yield MessageReceived, 0, body.text, body.parts, body.when, body.by, body.call

    def _hand(self, name: Name, body: Hand) -> Iterator[Form]:
        self._models[name.place] = body.model
        yield HandedOff, name.step, body.source, body.target, body.model, body.tools, body.instructions
        if body.advice is not None:
            advice = body.advice
            yield AdviceShown, name.step, advice.shown, advice.text, advice.held, body.target, advice.tools

    def _left(self, _: Name, body: Left) -> Iterator[Form]:
        spent = body.spent or Spent()
        tokens = [str(wait.get("token")) for wait in body.waits]
        pending = tuple(pending_call(self._asked[one]) for one in tokens if one in self._asked)
        yield RunInterrupted, body.step, body.reason, spent.usage, pending, spent.seconds

    def _end(self, _: Name, body: End) -> Iterator[Form]:
        if body.spent is None:  # of a function or a graph
            return
        spent = body.spent
        if body.fault is None:
            yield RunCompleted, body.step, body.text, spent.usage, spent.seconds, body.stopped_by
        else:
            yield RunFailed, body.step, body.fault.error.name, body.fault.message, spent.usage, spent.seconds


_FORMS: dict[str, Callable[[Projection, Name, Any], Iterator[Form]]] = {
    "begin": Projection._begin,
    "go": Projection._go,
    "ask": Projection._ask,
    "view": Projection._view,
    "decide": Projection._decide,
    "call": Projection._call,
    "asked": Projection._asked_for,
    "answer": Projection._answer,
    "say": Projection._say,
    "hand": Projection._hand,
    "left": Projection._left,
    "end": Projection._end,
}


def _kind_and_cause(fault: RecordedError, *, is_of_call: bool) -> tuple[str, str]:
    """The class of the exception behind a fault, and its full name where the first does not say it all."""
    found = fault.cause or fault.error
    full = found.classes[0]
    if is_of_call:
        full = "" if fault.cause is None else full
    elif full.startswith("wesichain.errors:") or ":" not in full:
        full = ""
    return found.name, full


def events_of(
    log: JournalLog, place: str = "", *, run_id: str = "", since: int = 0, until: int | None = None
) -> list[Event]:
    """The events of the runs in a place, from record number `since` up to record number `until`."""
    made, projection = list[Event](), Projection(log, place, run_id)
    for number in range(len(log.records) if until is None else until):
        events = projection.take(number)
        if number >= since:
            made += events
    return made
