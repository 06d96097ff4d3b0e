"""Events as lines of a recording: redacted, and without lone surrogates."""

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
    """Redact events and write them as lines. The bytes of parts go to `blobs`.

    `unwritable` is called with each event that cannot be written as JSON, and the error.
    """
    try:
        return forms_to_jsonl(_forms(entries, redactor), blobs=blobs)
    except Exception:  # noqa: BLE001  # one of the events cannot be written as it is
        lines: list[bytes] = []
        for event in entries.events():
            try:
                lines.append(_line_without_surrogates(redactor.event(event), blobs))
            except Exception as error:  # noqa: BLE001  # an event may contain any object of a model client
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
    """The line of an event; lone surrogates are replaced."""
    try:
        return to_jsonl((event,), blobs=blobs)
    except CodecError:
        valid = replace(_WITHOUT_SURROGATES.event(event), run_id=without_surrogates(event.run_id))
        return to_jsonl((valid,), blobs=blobs)


_WITHOUT_SURROGATES = Redactor(without_surrogates, environ={})


# --- events on their way into a file ----------------------------------------------------------------

DELTAS: Final = frozenset({TextDelta, OutputDelta})


class Entries(Value):
    """Events in order, in the compact form of a run's log (see `events_in`)."""

    entries: list[Any]
    run_id: str = ""
    before: int = 0  # the number of the event before the first, in a log

    def __len__(self) -> int:
        return len(self.entries)

    def events(self) -> list[Event]:
        return events_in(self.entries[:], self.run_id, self.before)


class PendingEvents:
    """The events of a run that are not yet in its file: of the run's `log` if there is one, else those added.

    The log may grow at any time, and keeps its events. Deltas of streamed replies are left out, unless
    `with_deltas`.
    """

    __slots__ = ("_before", "_drops_deltas", "_is_log", "_items", "_run_id", "_taken")

    def __init__(
        self, run_id: str, log: list[Any] | None = None, before: int = 0, *, with_deltas: bool = False
    ) -> None:
        self._run_id, self._before = run_id, before
        self._drops_deltas = log is not None and not with_deltas
        self._is_log = log is not None
        self._items: list[Any] = [] if log is None else log
        self._taken = 0  # of the log

    def __len__(self) -> int:
        return len(self._items) - self._taken

    def add(self, event: Event) -> None:
        """Keep an event, unless it is in the log already."""
        if not self._is_log:
            self._items.append(event)

    def take(self, last: Event | None = None) -> Entries:
        """Take the events to be written now, without the `last`, which the caller writes itself."""
        before, entries = self._before + self._taken, self._items[self._taken :]
        if self._is_log:
            self._taken += len(entries)
        else:
            del self._items[: len(entries)]
        if entries and entries[-1] is last:
            entries.pop()
        if self._drops_deltas and not DELTAS.isdisjoint(map(type, entries)):
            events = events_in(entries, self._run_id, before)
            return Entries([event for event in events if type(event) not in DELTAS])
        return Entries(entries, self._run_id, before)

    def release(self) -> None:
        """Drop the log of an ended run: a callback of the event loop still refers to this object."""
        self._items, self._taken, self._is_log = [], 0, False
