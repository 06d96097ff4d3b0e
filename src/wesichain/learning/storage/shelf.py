"""The shelf: the state of a domain, which is the result of applying its deltas in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from wesichain.errors import CodecError, CorruptRecordError
from wesichain.learning.entities.bullets import PlaybookBullet, collapse

from .journal import (
    GENESIS,
    Delta,
    Gap,
    Head,
    PlaybookChange,
    Record,
    State,
    line_of,
    read_record,
)

_CHUNK = 500  # bullets in a line of state


class Shelf:
    """The bullets of a domain in the order of their first record, and the ids of merged reflections."""

    def __init__(self, domain: str) -> None:
        self.domain = domain
        self.bullets: dict[str, PlaybookBullet] = {}
        self.by_sequence: dict[tuple[str, ...], dict[str, None]] = {}
        self.owned: dict[str, None] = {}
        self.merged: set[str] = set()
        self.seq = 0
        self.hash = GENESIS  # "" after a gap: the previous delta is not known
        self._begun = False
        self._states_due = 0

    def follow(self, record: Record) -> None:
        """Apply the next record of a log. A record that does not follow raises a `CodecError`."""
        match record:
            case Head():
                if self._begun or record.domain != self.domain:
                    raise CodecError(
                        f"it is the head of a log of {record.domain!r}, and does not belong here"
                    )
                self._begun = True
                self.seq, self.hash, self._states_due = record.seq, record.hash, record.states
            case State():
                self._states_due -= 1
                self.take(record.change)
            case Delta():
                is_next = not self.hash or (record.seq, record.prev) == (self.seq + 1, self.hash)
                if not (self._begun and is_next and self._states_due <= 0):
                    raise CodecError("it does not follow the line before it: a line is missing")
                self.seq, self.hash = record.seq, record.hash
                self.take(record.change)
            case Gap():
                self.hash, self._states_due = "", 0
            case _:
                assert_never(record)

    def take(self, change: PlaybookChange) -> None:
        for name in change.drops:
            gone = self.bullets.pop(name, None)
            self.owned.pop(name, None)
            if gone is not None:
                del self.by_sequence[collapse(gone.tool_sequence)][name]
        for bullet in change.puts:
            self.bullets[bullet.id] = bullet
            self.by_sequence.setdefault(collapse(bullet.tool_sequence), {})[bullet.id] = None
            if bullet.is_owned:
                self.owned[bullet.id] = None
            else:
                self.owned.pop(bullet.id, None)
        self.merged.update(change.merged)
        self.merged.difference_update(change.unmerged)


def follow(lines: Iterable[bytes], shelf: Shelf, *, where: str, until: int | None = None) -> Iterator[Record]:
    """Apply the records of a log one by one, up to delta `until`."""
    for number, line in enumerate(lines, 1):
        try:
            record = read_record(line)
            if isinstance(record, Delta) and until is not None and record.seq > until:
                return
            shelf.follow(record)
        except CodecError as error:
            raise CorruptRecordError(
                f"{where}, line {number}: {error}; recover the other records with "
                f"playbook.repair({shelf.domain!r})"
            ) from error
        yield record


def snapshot(shelf: Shelf) -> list[bytes]:
    """The first lines of a log that starts with this state."""
    bullets = tuple(shelf.bullets.values())
    changes = [PlaybookChange(puts=bullets[at : at + _CHUNK]) for at in range(0, len(bullets), _CHUNK)]
    changes.append(PlaybookChange(merged=tuple(sorted(shelf.merged))))
    head = Head(shelf.domain, shelf.seq, shelf.hash, len(changes))
    return [line_of(head), *(line_of(State(change)) for change in changes)]


def back_to(then: Shelf, now: Shelf) -> PlaybookChange:
    """The change that turns `now` into `then`: the same bullets, in the same order."""
    wanted = list(then.bullets)
    kept = [name for name in now.bullets if name in then.bullets]
    in_place = 0
    while in_place < len(kept) and kept[in_place] == wanted[in_place]:
        in_place += 1
    again = set(kept[in_place:])  # their order has changed: remove and add them again
    return PlaybookChange(
        drops=tuple(name for name in now.bullets if name not in then.bullets or name in again),
        puts=tuple(
            then.bullets[name]
            for name in wanted
            if name in again or now.bullets.get(name) != then.bullets[name]
        ),
        merged=tuple(sorted(then.merged - now.merged)),
        unmerged=tuple(sorted(now.merged - then.merged)),
    )


def bullet_back_to(id: str, then: Shelf, now: Shelf) -> PlaybookChange:
    """The change that restores one bullet."""
    if id not in then.bullets:
        return PlaybookChange(drops=(id,) if id in now.bullets else ())
    known = then.bullets[id]
    return PlaybookChange(puts=() if now.bullets.get(id) == known else (known,))
