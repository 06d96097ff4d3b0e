"""Entries of a log as entries of a store, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wesichain.core.internal import Value, form_of, form_to_json, from_plain, parse_json
from wesichain.errors import CodecError
from wesichain.store import Entry

from .entries import FORMAT, Begin, body_class
from .entry_names import parse


def entry_for(name: str, body: Value, seq: int, at: float, elapsed: float = 0.0) -> Entry:
    """An entry to be appended with this number.

    `elapsed` are the seconds that were worked on the run so far; an entry from outside has none.
    """
    notes = f'{{"elapsed":{elapsed:.6f}}}' if elapsed else ""
    return Entry(seq, name, form_to_json(form_of(body)), at, getattr(body, "by", ""), notes)


def elapsed_of(entry: Entry) -> float | None:
    """The seconds that were worked on the run when an entry was written; None for one from outside."""
    if not entry.notes:
        return None
    notes: Any = parse_json(entry.notes)
    return float(notes["elapsed"])


def body_reader(name: str, text: str) -> Callable[[], Value]:
    """A function that reads the body of an entry."""

    def read() -> Value:
        parsed = parse(name)
        kind = body_class(parsed.kind, parsed.rest)
        if kind is None:
            raise CodecError(
                f"the entry {name!r} is of no kind that this version knows: a later version has written it"
            )
        try:
            plain: Any = parse_json(text)
            _check_format(kind, plain)
            body: Value = from_plain(kind, plain)
        except CodecError as error:
            raise CodecError(f"the entry {name!r} cannot be read: {error}") from error
        return body

    return read


def _check_format(kind: type[Value], plain: Any) -> None:
    """Raise for the log of another version."""
    if kind is Begin and plain.get("format") != FORMAT:
        raise CodecError(
            f"the log has format {plain.get('format')!r}, and this version reads format {FORMAT}; continue "
            f"the run with the version that began it"
        )
