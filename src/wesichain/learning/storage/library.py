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
from wesichain.learning.entities import PlaybookBullet, collapse, is_followed

from .backend import Backend, Log, Repaired
from .erasing import Eraser, find, fingerprint
from .filters import Condition
from .journal import Cause, Delta, PlaybookChange, draft
from .shelf import back_to, bullet_back_to

if TYPE_CHECKING:  # needs FAISS
    from .index import VectorIndex


@dataclass(frozen=True, slots=True)
class Match:
    """A bullet and the similarity of its intent to the query (a cosine)."""

    bullet: PlaybookBullet
    similarity: float
    domain: str


class View:
    """A domain at one moment: what a decision may read."""

    def __init__(self, log: Log, embedder: Embedder) -> None:
        self._log = log
        self._embedder = embedder
        self._index: VectorIndex | None = None

    @property
    def seq(self) -> int:
        """The number of the last delta."""
        return self._log.shelf.seq

    def get(self, id: str) -> PlaybookBullet | None:
        return self._log.shelf.bullets.get(id)

    def bullets(self) -> Sequence[PlaybookBullet]:
        """All of them, oldest first."""
        return list(self._log.shelf.bullets.values())

    def __len__(self) -> int:
        return len(self._log.shelf.bullets)

    def has_merged(self, reflection_id: str) -> bool:
        return reflection_id in self._log.shelf.merged

    def nearest(self, vector: Vectors, *, k: int, conditions: Sequence[Condition] = ()) -> Sequence[Match]:
        """The k bullets closest to a unit vector among those that meet the conditions, closest first."""
        found = self._searchable().search(vector, k=k, conditions=conditions)
        bullets = self._log.shelf.bullets
        return [Match(bullets[name], similarity, self._log.domain) for name, similarity in found]

    def with_sequence(self, sequence: Sequence[str]) -> Sequence[PlaybookBullet]:
        """The bullets of exactly this sequence of tools, immediate repeats aside."""
        shelf = self._log.shelf
        return [shelf.bullets[name] for name in shelf.by_sequence.get(collapse(sequence), ())]

    def owned(self) -> Sequence[PlaybookBullet]:
        """The sentences of owners."""
        shelf = self._log.shelf
        return [shelf.bullets[name] for name in shelf.owned]

    def meeting(self, ids: Sequence[str], conditions: Sequence[Condition]) -> Collection[str]:
        """Those of these bullets that meet the conditions."""
        return self._searchable().meeting(ids, conditions)

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """The vectors of bullets that are there, one row each."""
        return self._searchable().vectors(ids)

    def stale(self, count: int, *, protect: int) -> Sequence[str]:
        """The ids of the `count` least valuable bullets, never one of the `protect` newest."""
        return self._log.shelf.stale(count, protect=protect)

    def _searchable(self) -> VectorIndex:
        if self._index is None:
            self._index = self._log.open_index(self._embedder)
        return self._index


Decide: TypeAlias = Callable[[View], PlaybookChange]


class Library:
    """Domains by name. Safe to share between threads; between processes by the backend's locks."""

    def __init__(self, backend: Backend, *, embedder: Embedder, clock: Clock) -> None:
        self._backend = backend
        self._embedder = embedder
        self._clock = clock
        self._open: dict[str, _Domain] = {}
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

    def compact(self, domain: str, *, keep_history: bool) -> None:
        entry = self._domain(domain)
        with entry.guard, entry.log.locked():
            entry.refresh()
            entry.log.compact(keep_history=keep_history)

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
            entry.purge()
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

    def _write(self, entry: _Domain, change: PlaybookChange, *, cause: Cause, note: str) -> Delta | None:
        if not change:
            return None
        shelf, at = entry.log.shelf, self._clock.time()
        delta, line = draft(change, seq=shelf.seq + 1, prev=shelf.hash, at=at, cause=cause, note=note)
        entry.log.append(delta, line)
        entry.follow([change])
        if entry.log.is_long():
            entry.log.compact(keep_history=True)
        return delta

    def _domain(self, domain: str) -> _Domain:
        with self._guard:
            if domain not in self._open:
                self._open[domain] = _Domain(self._backend.log(domain), self._embedder)
            return self._open[domain]


class _Domain(View):
    """A view that is kept up to date."""

    def __init__(self, log: Log, embedder: Embedder) -> None:
        super().__init__(log, embedder)
        self.log = log
        self.guard = RLock()

    def refresh(self) -> None:
        changes = self.log.refresh()
        if changes is None and self._index is not None:
            self._index.sync(self.log.shelf.bullets.values())
        self.follow(changes or ())

    def follow(self, changes: Sequence[PlaybookChange]) -> None:
        for change in changes if self._index is not None else ():
            for name in change.drops:
                self._searchable().drop(name)
            for bullet in change.puts:
                self._searchable().put(bullet)

    def purge(self) -> None:
        """Take what the log holds now for all that there is, and keep no vector of anything else."""
        if self._index is not None:
            self._index.sync(self.log.shelf.bullets.values())
            self._index.purge()

    def save(self, *, at_least: int) -> None:
        """Keep the vectors once enough are new; what is not kept is embedded again by the next process."""
        index = self._index
        if index is not None and index.unsaved >= at_least:
            with suppress(PlaybookError):  # it can be made again: a full disk must not fail the caller
                self.log.save_index()


_WEIGHT = 0.1  # of all else beside the similarity


def rank(match: Match, others: Sequence[Match]) -> tuple[float, int]:
    """Similarity, then evidence; detours, and what not to do, behind what to do. Of equals, short first."""
    bullet = match.bullet
    is_pitfall = bullet.section == "Pitfalls"
    for_it, against = bullet.helpful_count, bullet.harmful_count
    if is_pitfall:
        for_it, against = against, for_it
    score = match.similarity + _WEIGHT * for_it / max(1, for_it + against)
    if is_pitfall or _is_detour(match, others):
        score -= _WEIGHT
    return round(score, 3), -bullet.tool_count


def _is_detour(match: Match, others: Sequence[Match]) -> bool:
    """Whether a shorter way, which is a part of this one, is known to do for the same kind of task."""
    bullet, near = match.bullet, match.similarity
    if bullet.section != "Strategies" or bullet.tool_count < 2:
        return False
    return any(
        is_followed(other.bullet.tool_sequence, bullet.tool_sequence)
        for other in others
        if -0.01 < other.similarity - near < 0.01  # first, since few are left then
        and 0 < other.bullet.tool_count < bullet.tool_count
        and other.domain == match.domain
        and other.bullet.section == "Strategies"
    )
