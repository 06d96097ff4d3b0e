"""The library: the domains of a playbook, their state and their index in memory, over any backend.

A commit locks the domain, reads what others have written, decides, and appends one delta: its cost
does not grow with the playbook. The index follows in memory and is saved now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from threading import RLock
from typing import TYPE_CHECKING, TypeAlias

from wesichain.core import Clock
from wesichain.core.internal import dataclass, dump_json
from wesichain.errors import PlaybookError
from wesichain.learning.embedders import Embedder, Vectors
from wesichain.learning.entities import PlaybookBullet, collapse

from .backend import Backend, Log, Repaired
from .erasing import Eraser, find, fingerprint
from .filters import Condition
from .journal import Cause, Delta, PlaybookChange, draft
from .shelf import back_to, bullet_back_to

if TYPE_CHECKING:  # needs FAISS
    from .index import VectorIndex


@dataclass(frozen=True, slots=True)
class Match:
    """A bullet and how similar its intent is to what was asked for (a cosine)."""

    bullet: PlaybookBullet
    similarity: float
    domain: str


class View:
    """A domain in memory, kept up to date by the library: what a decision may read."""

    def __init__(self, log: Log, embedder: Embedder) -> None:
        self.log = log
        self.guard = RLock()
        self._embedder = embedder
        self._index: VectorIndex | None = None  # made when it is first needed

    def get(self, id: str) -> PlaybookBullet | None:
        return self.log.shelf.bullets.get(id)

    def bullets(self) -> Sequence[PlaybookBullet]:
        """Return all of them, oldest first."""
        return list(self.log.shelf.bullets.values())

    def __len__(self) -> int:
        return len(self.log.shelf.bullets)

    def has_merged(self, reflection_id: str) -> bool:
        return reflection_id in self.log.shelf.merged

    def nearest(self, vector: Vectors, *, k: int, conditions: Sequence[Condition] = ()) -> Sequence[Match]:
        """Return the k bullets closest to a unit vector that meet the conditions, closest first."""
        bullets, domain, wanted = self.log.shelf.bullets, self.log.domain, k
        while True:  # conditions are met by few, so more and more of the nearest are looked at
            found = self._get_index().search(vector, k=wanted)
            matches = [
                Match(bullets[name], similarity, domain)
                for name, similarity in found
                if all(condition.is_met(bullets[name], domain) for condition in conditions)
            ]
            if len(matches) >= k or len(found) < wanted:
                return matches[:k]
            wanted *= 4

    def with_sequence(self, sequence: Sequence[str]) -> Sequence[PlaybookBullet]:
        """Return the bullets of exactly this sequence of tools, immediate repeats aside."""
        shelf = self.log.shelf
        return [shelf.bullets[name] for name in shelf.by_sequence.get(collapse(sequence), ())]

    def owned(self) -> Sequence[PlaybookBullet]:
        """Return the sentences of owners."""
        return [self.log.shelf.bullets[name] for name in self.log.shelf.owned]

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """Return the vectors of bullets that are there, one row each."""
        return self._get_index().vectors(ids)

    # --- for the library ---

    def refresh(self) -> None:
        """Take in what others have written."""
        changes = self.log.refresh()
        if changes is None:
            self.resync()
        self.follow(changes or ())

    def follow(self, changes: Sequence[PlaybookChange]) -> None:
        """Bring the index up to date after these changes of the log."""
        for change in changes if self._index is not None else ():
            self._get_index().drop(change.drops)
            for bullet in change.puts:
                self._get_index().put(bullet)

    def resync(self) -> None:
        """Take what the log holds now for all that there is, and keep no vector of anything else."""
        if self._index is not None:
            self._index.sync(self.bullets())

    def save(self, *, at_least: int) -> None:
        """Keep the vectors once enough are new; what is not kept is embedded again by the next process."""
        if self._index is not None and self._index.unsaved >= at_least:
            with suppress(PlaybookError):  # it can be made again: a full disk must not fail the caller
                self.log.save_vectors(self._index, self._embedder)

    def _get_index(self) -> VectorIndex:
        if self._index is None:
            from .index import VectorIndex  # needs FAISS

            index = VectorIndex(self._embedder)
            index.sync(self.bullets())
            self.log.load_vectors(index, self._embedder)
            self._index = index
        return self._index


Decide: TypeAlias = Callable[[View], PlaybookChange]


class Library:
    """Domains by name. Safe to share between threads; between processes by the backend's locks."""

    def __init__(self, backend: Backend, *, embedder: Embedder, clock: Clock) -> None:
        self._backend = backend
        self._embedder = embedder
        self._clock = clock
        self._open: dict[str, View] = {}
        self._guard = RLock()

    def domains(self) -> Sequence[str]:
        return self._backend.domains()

    @contextmanager
    def view(self, domain: str) -> Generator[View]:
        """The domain as it is now."""
        entry = self._domain(domain)
        with entry.guard:
            entry.refresh()
            yield entry
            entry.save(at_least=max(256, len(entry) // 8))

    def commit(self, domain: str, decide: Decide, *, cause: Cause, note: str = "") -> Delta | None:
        """Write what `decide` says of the state as it is now; None where that is no change."""
        entry = self._domain(domain)
        with entry.guard, entry.log.locked():
            entry.refresh()
            return self._write(entry, decide(entry), cause=cause, note=note)

    def rollback(self, domain: str, *, to: int, id: str | None = None) -> Delta | None:
        """Write the change that brings back the state right after delta `to`, or that of one bullet."""
        entry = self._domain(domain)
        with entry.guard, entry.log.locked():
            entry.refresh()
            shelf = entry.log.shelf
            if not 0 <= to <= shelf.seq:
                raise PlaybookError(
                    f"the deltas of {domain!r} are numbered up to {shelf.seq}; there is no {to}"
                )
            then = entry.log.state_at(to)
            change = back_to(then, shelf) if id is None else bullet_back_to(id, then, shelf)
            return self._write(entry, change, cause="rollback", note=f"to {to}" if id is None else id)

    def journal(self, domain: str) -> Sequence[Delta]:
        entry = self._domain(domain)
        with entry.guard:
            return entry.log.journal()

    def repair(self, domain: str) -> Repaired:
        entry = self._domain(domain)
        with entry.guard, entry.log.locked():
            return entry.log.repair()

    def forget(
        self, domain: str, is_meant: Callable[[PlaybookBullet], bool], *, tasks: Collection[str] = ()
    ) -> int:
        """Erase bullets from all that is kept, and the names of tasks; how many bullets that were."""
        entry = self._domain(domain)
        with entry.guard, entry.log.locked():
            entry.refresh()
            lines = entry.log.lines()
            found = find(lines, is_meant)
            if not found and not any(dump_json(name).encode() in line for name in tasks for line in lines):
                return 0
            eraser = Eraser(found, tasks=tasks)
            entry.log.rewrite(eraser.line, intents=[bullet.intent for bullet in found.values()])
            entry.resync()
            if found:
                hashes = tuple(sorted(map(fingerprint, found.values())))
                self._write(entry, PlaybookChange(forgotten=hashes), cause="forget", note="")
            return len(found)

    def close(self) -> None:
        with self._guard:
            for entry in self._open.values():
                with entry.guard:  # a thread of a run that was cancelled may still be at work in it
                    entry.save(at_least=1)
            self._open.clear()
            self._backend.close()

    def _write(self, entry: View, change: PlaybookChange, *, cause: Cause, note: str) -> Delta | None:
        if not change:
            return None
        shelf, at = entry.log.shelf, self._clock.time()
        delta, line = draft(change, seq=shelf.seq + 1, prev=shelf.hash, at=at, cause=cause, note=note)
        entry.log.append(delta, line)
        entry.follow([change])
        if entry.log.is_long():
            entry.log.compact()
        return delta

    def _domain(self, domain: str) -> View:
        with self._guard:
            if domain not in self._open:
                self._open[domain] = View(self._backend.log(domain), self._embedder)
            return self._open[domain]


_WEIGHT = 0.1  # of all else beside the similarity


def rank(match: Match) -> tuple[float, int]:
    """Similarity, then evidence; of equals, what to do before what not to do, and the shorter way first."""
    bullet = match.bullet
    for_it, against = bullet.helpful_count, bullet.harmful_count
    is_warning = bullet.section == "Pitfalls"
    if is_warning:
        for_it, against = against, for_it
    evidence = for_it / max(1, for_it + against) - is_warning
    return round(match.similarity + _WEIGHT * evidence, 3), -bullet.tool_count
