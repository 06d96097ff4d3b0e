"""A domain in memory: its state, its index, and what a decision may read of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING, TypeAlias

from wesichain.core.internal import dataclass
from wesichain.errors import PlaybookError
from wesichain.learning.embedders import Embedder, Vectors
from wesichain.learning.entities.bullets import PlaybookBullet, collapse

from .backend import Log
from .filters import Condition
from .journal import PlaybookChange

if TYPE_CHECKING:  # needs FAISS
    from .index import VectorIndex


@dataclass(frozen=True, slots=True)
class Match:
    """A bullet and how similar its intent is to what was asked for (a cosine)."""

    bullet: PlaybookBullet
    similarity: float
    domain: str


class View:
    """A domain in memory, kept up to date by the playbook: what a decision may read."""

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
        bullets, domain = self.log.shelf.bullets, self.log.domain
        wanted = 4 * k if conditions else k
        while True:  # few may meet the conditions: more and more of the nearest are looked at
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

    # --- for the playbook ---

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
