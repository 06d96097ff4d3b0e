"""A domain in memory: the state that its log defines, and the index of its bullets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from threading import RLock
from typing import TYPE_CHECKING

from wesichain.core.internal import Value, dump_json
from wesichain.errors import CorruptRecordError, PlaybookError
from wesichain.learning.embedders import Embedder, Vectors
from wesichain.learning.entities.bullets import PlaybookBullet, collapse

from .backend import Log, Repaired
from .erasing import Eraser, find, fingerprint
from .filters import Filter
from .journal import Cause, Delta, PlaybookChange, Record, draft
from .shelf import Shelf, follow, snapshot

if TYPE_CHECKING:  # needs FAISS
    from .index import VectorIndex

LONG = 10_000  # deltas; a log is compacted if it has more, and more than eight per bullet


class Match(Value):
    """A bullet and the similarity (cosine) of its intent to the query."""

    bullet: PlaybookBullet
    similarity: float


class Domain:
    """One domain of a playbook. Its state is read in `reading` and changed in `writing`."""

    def __init__(self, name: str, log: Log, embedder: Embedder) -> None:
        self.name = name
        self.shelf = Shelf(name)
        self._log = log
        self._embedder = embedder
        self._guard = RLock()
        self._index: VectorIndex | None = None  # made at the first search
        self._is_read = False  # whether the shelf has the state of the log when it was last read
        self._deltas = 0  # in the log since its last compaction

    # --- reading the state ---

    def get(self, id: str) -> PlaybookBullet | None:
        return self.shelf.bullets.get(id)

    def bullets(self) -> Sequence[PlaybookBullet]:
        """Return all bullets, oldest first."""
        return list(self.shelf.bullets.values())

    def has_merged(self, reflection_id: str) -> bool:
        return reflection_id in self.shelf.merged

    def nearest(self, vector: Vectors, *, k: int, passes: Filter | None = None) -> list[Match]:
        """Return the k bullets closest to a unit vector that pass the filter, closest first."""
        bullets = self.shelf.bullets
        wanted = 4 * k if passes else k
        while True:  # few may pass the filter: more and more of the nearest are looked at
            found = self._get_index().search(vector, k=wanted)
            passing = (
                Match(bullets[name], similarity)
                for name, similarity in found
                if passes is None or passes(bullets[name], self.name)
            )
            matches = list(islice(passing, k))
            if len(matches) == k or len(found) < wanted:
                return matches
            wanted *= 4

    def with_sequence(self, sequence: Sequence[str]) -> Sequence[PlaybookBullet]:
        """Return the bullets with exactly this sequence of tools, ignoring immediate repeats."""
        return [self.shelf.bullets[name] for name in self.shelf.by_sequence.get(collapse(sequence), ())]

    def owned(self, vector: Vectors, passes: Filter, *, besides: Sequence[Match]) -> list[Match]:
        """Return the sentences of owners about tools, however far they are from a vector."""
        known = {match.bullet.id for match in besides}
        rest = [
            item
            for item in (self.shelf.bullets[name] for name in self.shelf.owned)
            if item.id not in known and item.tool_sequence and passes(item, self.name)
        ]
        likeness = self.vectors([item.id for item in rest]) @ vector
        return [Match(item, float(near)) for item, near in zip(rest, likeness, strict=True)]

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """Return the vectors of bullets, one row each."""
        return self._get_index().vectors(ids)

    # --- the log ---

    @contextmanager
    def reading(self) -> Generator[Domain]:
        """Read what is new in the log, and yield the domain."""
        with self._guard:
            self._refresh()
            yield self
            self._save(at_least=max(256, len(self.shelf.bullets) // 8))

    @contextmanager
    def writing(self) -> Generator[Domain]:
        """Lock the log, read what is new, and yield the domain for `write`."""
        known = -1
        with self._guard:
            try:
                with self._log.locked():
                    self._refresh()
                    known = self.shelf.seq
                    yield self
            except BaseException:
                self._is_read &= self.shelf.seq == known  # it is not known whether a delta was stored
                raise

    def write(self, change: PlaybookChange, *, at: float, cause: Cause, note: str = "") -> Delta | None:
        """Append one delta, in constant time; None if the change is empty."""
        if not change:
            return None
        delta, line = draft(
            change, seq=self.shelf.seq + 1, prev=self.shelf.hash, at=at, cause=cause, note=note
        )
        self._log.append(delta, line)
        self.shelf.follow(delta)
        self._note(delta)
        if self.is_long():
            self._log.compact(self.shelf.seq, snapshot(self.shelf))
            self._deltas = 0
        return delta

    def is_long(self) -> bool:
        """Whether a compaction is due."""
        return self._deltas > max(LONG, 8 * len(self.shelf.bullets))

    def journal(self) -> Sequence[Delta]:
        """Return every stored delta, oldest first."""
        deltas: list[Delta] = []
        with self._guard:
            for where, lines in self._log.chains():
                known = deltas[-1].seq if deltas else 0  # an interrupted compaction leaves a log twice
                records = follow(lines, Shelf(self.name), where=where)
                deltas += [item for item in records if isinstance(item, Delta) and item.seq > known]
        return deltas

    def state_at(self, seq: int) -> Shelf:
        """Return the state after delta `seq`, from the latest log that starts before it."""
        for where, lines in reversed(self._log.chains()):
            shelf = Shelf(self.name)
            for _ in follow(lines, shelf, where=where, until=seq):
                pass
            if shelf.seq <= seq:
                return shelf
        if seq == 0:
            return Shelf(self.name)
        raise PlaybookError(f"the journal of {self.name!r} begins after delta {seq}: that state is lost")

    def forget(self, is_meant: Callable[[PlaybookBullet], bool], *, tasks: Collection[str], at: float) -> int:
        """Erase bullets and the names of tasks from the log; return the number of bullets."""
        lines = [line for _, lines in self._log.chains() for line in lines]
        found = find(lines, is_meant)
        if not found and not any(dump_json(name).encode() in line for name in tasks for line in lines):
            return 0
        eraser = Eraser(found, tasks=tasks)
        self._log.rewrite(eraser.line, intents=[bullet.intent for bullet in found.values()])
        self._read()
        hashes = tuple(sorted(map(fingerprint, found.values())))
        self.write(PlaybookChange(forgotten=hashes), at=at, cause="forget")
        return len(found)

    def repair(self) -> Repaired:
        """Set unreadable records aside."""
        with self._guard, self._log.locked():
            return self._log.repair()

    def close(self) -> None:
        """Save the vectors. Waits for a thread of a cancelled run that still uses the domain."""
        with self._guard:
            self._save(at_least=1)

    def _refresh(self) -> None:
        """Apply the records that other writers have appended."""
        new = self._log.read_new(self.shelf.seq) if self._is_read else None
        try:
            for record in follow(new or (), self.shelf, where=self._log.where):
                self._note(record)
        except CorruptRecordError:
            new = None  # they do not follow the last record that was read
        if new is None:
            self._read()

    def _read(self) -> None:
        """Replace the state by that of the log, and drop the vectors of other bullets."""
        self._is_read = False
        self.shelf, self._deltas = Shelf(self.name), 0
        for record in follow(self._log.read(), self.shelf, where=self._log.where):
            self._deltas += isinstance(record, Delta)
        if self._index is not None:
            self._index.sync(self.bullets())
        self._is_read = True

    def _note(self, record: Record) -> None:
        """Update the index after a record that was applied to the shelf."""
        if isinstance(record, Delta):
            self._deltas += 1
            if self._index is not None:
                self._index.drop(record.change.drops)
                for bullet in record.change.puts:
                    self._index.put(bullet)

    def _save(self, *, at_least: int) -> None:
        """Save the vectors if enough are new; the next process embeds unsaved texts again."""
        if self._index is not None and self._index.unsaved >= at_least:
            with suppress(PlaybookError):  # it is only a cache: a full disk must not fail the caller
                self._log.save_vectors(self._index)

    def _get_index(self) -> VectorIndex:
        if self._index is None:
            from .index import VectorIndex  # needs FAISS

            index = VectorIndex(self._embedder)
            index.sync(self.bullets())
            self._log.load_vectors(index)
            self._index = index
        return self._index


_WEIGHT = 0.1  # of the evidence


def rank(match: Match) -> tuple[float, int]:
    """The sort key: similarity with evidence; strategies before pitfalls; then the shorter sequence first."""
    bullet = match.bullet
    for_it, against = bullet.helpful_count, bullet.harmful_count
    is_warning = bullet.section == "Pitfalls"
    if is_warning:
        for_it, against = against, for_it
    evidence = for_it / (for_it + against or 1) - is_warning
    return round(match.similarity + _WEIGHT * evidence, 3), -len(bullet.tool_sequence)
