"""Events as the lines of a recording: without secrets, and with whole letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from wesichain.core import Event
from wesichain.core.internal import BlobWriter, form_of, forms_in, forms_to_jsonl, to_jsonl
from wesichain.errors import CodecError
from wesichain.trace.redaction import Redactor

from .format import without_surrogates
from .unwritten import Entries


class LineWriter:
    """Writes events as lines, without secrets; the bytes of parts go to `blobs`."""

    __slots__ = ("_redactor",)

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def lines(
        self,
        entries: Entries,
        unwritable: Callable[[Event, Exception], None],
        blobs: BlobWriter | None = None,
    ) -> bytes:
        """The lines of events. `unwritable` is told of one that has no JSON, and why."""
        try:
            return self.lines_between((), entries, (), blobs)
        except Exception:  # noqa: BLE001  # one of them is no usual one
            return b"".join(self._lines_of_any(entries.events(), unwritable, blobs))

    def lines_between(
        self, first: Sequence[object], entries: Entries, last: Sequence[object], blobs: BlobWriter | None
    ) -> bytes:
        """The lines of events, and of values without secrets before and after them, in one go.

        An event that has no JSON, or holds half a letter, is an exception.
        """
        forms = [*map(form_of, first), *self._forms(entries), *map(form_of, last)]
        return forms_to_jsonl(forms, blobs=blobs)

    def _forms(self, entries: Entries) -> list[Any]:
        redactor = self._redactor
        forms = forms_in(entries.entries, entries.run_id, entries.before)
        suspects = redactor.suspects(forms)
        if suspects:
            events = entries.events()
            for place in suspects:
                forms[place] = form_of(redactor.event(events[place]))
        return forms

    def _lines_of_any(
        self,
        events: list[Event],
        unwritable: Callable[[Event, Exception], None],
        blobs: BlobWriter | None,
    ) -> Iterator[bytes]:
        for event in events:
            try:
                yield _line_without_surrogates(self._redactor.event(event), blobs)
            except Exception as error:  # noqa: BLE001  # an event may hold anything that a model's code returned
                unwritable(event, error)


def _line_without_surrogates(event: Event, blobs: BlobWriter | None) -> bytes:
    """The line of an event that may hold halves of letters, with whole ones in their place."""
    try:
        return to_jsonl((event,), blobs=blobs)
    except CodecError:
        whole = replace(_WHOLE_LETTERS.event(event), run_id=without_surrogates(event.run_id))
        return to_jsonl((whole,), blobs=blobs)


_WHOLE_LETTERS = Redactor(without_surrogates, environ={})
