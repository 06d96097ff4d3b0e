"""Events as the lines of a recording: without secrets, and with whole letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from wesichain.core import BlobWriter, Event, to_jsonl
from wesichain.errors import CodecError
from wesichain.trace.redaction import Redactor

from .format import whole_letters


def lines_of(
    events: Sequence[Event],
    redactor: Redactor,
    unwritable: Callable[[Event, Exception], None],
    blobs: BlobWriter | None = None,
) -> bytes:
    """The events as lines, without secrets. `unwritable` is told of one that has no JSON, and why.

    The bytes of parts go to `blobs`.
    """
    try:
        return to_jsonl(redactor.events(events), blobs=blobs)
    except Exception:  # noqa: BLE001  # one of them is no usual one
        return b"".join(_lines_of_any(events, redactor, unwritable, blobs))


def _lines_of_any(
    events: Sequence[Event],
    redactor: Redactor,
    unwritable: Callable[[Event, Exception], None],
    blobs: BlobWriter | None,
) -> Iterator[bytes]:
    for event in events:
        try:
            yield _whole_line(redactor.event(event), blobs)
        except Exception as error:  # noqa: BLE001  # an event may hold anything that a model's code returned
            unwritable(event, error)


def _whole_line(event: Event, blobs: BlobWriter | None) -> bytes:
    """The line of an event that may hold halves of letters, with whole ones in their place."""
    try:
        return to_jsonl((event,), blobs=blobs)
    except CodecError:
        whole = replace(_WHOLE_LETTERS.event(event), run_id=whole_letters(event.run_id))
        return to_jsonl((whole,), blobs=blobs)


_WHOLE_LETTERS = Redactor(whole_letters, environ={})
