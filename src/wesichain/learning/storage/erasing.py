"""Erasing: rewrites the lines of a log without erased bullets, and hashes the chain again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from hashlib import sha256
from typing import assert_never

from wesichain.core import to_json
from wesichain.core.internal import replace
from wesichain.errors import CodecError, PlaybookError
from wesichain.learning.entities.bullets import PlaybookBullet, has_text

from .journal import Delta, Gap, Head, PlaybookChange, State, draft, line_of, read_record

FORGOTTEN = "forgotten"


def selector(
    *, id: str | None, task_id: str | None, matching: str | None
) -> Callable[[PlaybookBullet], bool]:
    """Return the test for the bullets to erase; exactly one argument has to be given."""
    given = {"id": id, "task_id": task_id, "matching": matching}
    wanted = {name: value for name, value in given.items() if value is not None}
    if len(wanted) != 1 or not all(has_text(value) for value in wanted.values()):
        raise PlaybookError(
            f"forget takes one of id=, task_id= and matching=, with a text; got {wanted or 'none'}"
        )
    if matching is None:
        return lambda bullet: bullet.id == id if id is not None else bullet.provenance.task == task_id
    text = matching.casefold()
    return lambda bullet: any(text in part.casefold() for part in bullet.words)


def find(lines: Iterable[bytes], is_meant: Callable[[PlaybookBullet], bool]) -> dict[str, PlaybookBullet]:
    """The latest version of each bullet of a log that is to be erased, by id; including deleted bullets."""
    found: dict[str, PlaybookBullet] = {}
    for line in lines:
        try:
            record = read_record(line)
        except CodecError as error:
            raise PlaybookError(
                f"nothing is erased from a log that cannot be read ({error}); repair it first"
            ) from error
        if isinstance(record, State | Delta):
            found |= {bullet.id: bullet for bullet in record.change.puts if is_meant(bullet)}
    return found


def fingerprint(bullet: PlaybookBullet) -> str:
    """The hash that stays in the journal after a bullet was erased."""
    return sha256(to_json(bullet).encode()).hexdigest()[:32]


class Eraser:
    """Rewrites lines one by one, oldest first, without these bullets and the names of these tasks.

    A delta keeps its number, its time and its cause, so that earlier states can still be restored.
    """

    def __init__(self, ids: Collection[str], *, tasks: Collection[str]) -> None:
        self._ids = frozenset(ids)
        self._tasks = frozenset(tasks)
        self._hashes: dict[str, str] = {}  # the new hash of each delta, by its old hash

    def line(self, line: bytes) -> bytes:
        record = read_record(line)
        match record:
            case Head():
                return line_of(replace(record, hash=self._hash(record.hash)))
            case State(change=change):
                return line_of(State(self._without(change)))
            case Delta():
                is_named = record.note in self._ids or record.note in self._tasks
                delta, written = draft(
                    self._without(record.change),
                    seq=record.seq,
                    prev=self._hash(record.prev),
                    at=record.at,
                    cause=record.cause,
                    note=FORGOTTEN if is_named else record.note,
                )
                self._hashes[record.hash] = delta.hash
                return written
            case Gap():
                return line
            case _:
                assert_never(record)

    def _hash(self, known: str) -> str:
        return self._hashes.get(known, known)

    def _without(self, change: PlaybookChange) -> PlaybookChange:
        return replace(
            change,
            drops=tuple(name for name in change.drops if name not in self._ids),
            puts=tuple(bullet for bullet in change.puts if bullet.id not in self._ids),
        )
