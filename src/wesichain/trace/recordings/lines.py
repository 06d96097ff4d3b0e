"""Events as the lines of a recording: without secrets, and with whole letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from wesichain.core import Event, TextDelta
from wesichain.core.internal import (
    BlobWriter,
    OutputDelta,
    Value,
    events_in,
    form_of,
    forms_in,
    forms_to_jsonl,
    replace,
    to_jsonl,
)
from wesichain.errors import CodecError
from wesichain.trace.redaction.redactor import Redactor

from .format import without_surrogates


def lines_of(
    entries: Entries, redactor: Redactor, unwritable: Callable[[Event, Exception], None], blobs: BlobWriter
) -> bytes:
    """The lines of events, without secrets; the bytes of parts go to `blobs`.

    `unwritable` is called with an event that has no JSON, and why.
    """
    try:
        return forms_to_jsonl(_forms(entries, redactor), blobs=blobs)
    except Exception:  # noqa: BLE001  # one of them is no usual one
        lines: list[bytes] = []
        for event in entries.events():
            try:
                lines.append(_line_without_surrogates(redactor.event(event), blobs))
            except Exception as error:  # noqa: BLE001  # it may hold anything that a model's code returned
                unwritable(event, error)
        return b"".join(lines)


def _forms(entries: Entries, redactor: Redactor) -> list[Any]:
    forms = forms_in(entries.entries, entries.run_id, entries.before)
    suspects = redactor.suspects(forms)
    if suspects:
        events = entries.events()
        for place in suspects:
            forms[place] = form_of(redactor.event(events[place]))
    return forms


def _line_without_surrogates(event: Event, blobs: BlobWriter) -> bytes:
    """The line of an event that may hold halves of letters, with whole ones in their place."""
    try:
        return to_jsonl((event,), blobs=blobs)
    except CodecError:
        whole = replace(_WHOLE_LETTERS.event(event), run_id=without_surrogates(event.run_id))
        return to_jsonl((whole,), blobs=blobs)


_WHOLE_LETTERS = Redactor(without_surrogates, environ={})


# --- events on their way into a file ----------------------------------------------------------------

PIECES: Final = frozenset({TextDelta, OutputDelta})


class Entries(Value):
    """Events in order, some of them as the log of a run keeps them until somebody looks (`events_in`)."""

    entries: list[Any]
    run_id: str = ""
    before: int = 0  # the number of the event before the first, in a log

    def __len__(self) -> int:
        return len(self.entries)

    def events(self) -> list[Event]:
        return events_in(self.entries[:], self.run_id, self.before)


class Unwritten:
    """The events of a run that its file lacks. Without a `log` they are those that were added.

    Others may append to the log at any time, and its events stay there. Pieces of replies among them are
    left out, unless its writer `wants_pieces`.
    """

    __slots__ = ("_before", "_drops_pieces", "_is_log", "_items", "_run_id", "_taken")

    def __init__(
        self, run_id: str, log: list[Any] | None = None, before: int = 0, *, wants_pieces: bool = False
    ) -> None:
        self._run_id, self._before = run_id, before
        self._drops_pieces = log is not None and not wants_pieces
        self._is_log = log is not None
        self._items: list[Any] = [] if log is None else log
        self._taken = 0  # of the log

    def __len__(self) -> int:
        return len(self._items) - self._taken

    def add(self, event: Event) -> None:
        """Hold an event, which a log has already."""
        if not self._is_log:
            self._items.append(event)

    def take(self, last: Event | None = None) -> Entries:
        """All that is to be written now, but for the `last` event, which its writer has in its hands."""
        before, entries = self._before + self._taken, self._items[self._taken :]
        if self._is_log:
            self._taken += len(entries)
        else:
            del self._items[: len(entries)]
        if entries and entries[-1] is last:
            entries.pop()
        if self._drops_pieces and not PIECES.isdisjoint(map(type, entries)):
            told = events_in(entries, self._run_id, before)
            return Entries([event for event in told if type(event) not in PIECES])
        return Entries(entries, self._run_id, before)

    def let_go(self) -> None:
        """Forget the log of a run that is over: the loop that has yet to come round would keep it."""
        self._items, self._taken, self._is_log = [], 0, False
