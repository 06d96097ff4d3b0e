"""The curator: takes reflections into a playbook, without a model, without chance, one delta each.

Bullets that are about the same become one; whatever a run followed gets the credit or the blame. A
bullet's words never change and its counters only grow, so that every state can be read in the journal
and brought back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from wesichain.core import dataclass
from wesichain.errors import ConfigError

from .embedders import Vectors
from .entities import PlaybookBullet, ToolCallingStrategy, collapse
from .playbook import Playbook, settled
from .reflector import Reflection
from .storage import Change, Delta, View

_NEIGHBOURS = 64  # bullets about one intent that are looked at; merging keeps them fewer


@dataclass(frozen=True, slots=True)
class CuratorDelta:
    """What a merge or a consolidation did, or would do: ids of bullets, and the deltas written."""

    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()  # reflections that were merged before
    deltas: tuple[Delta, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.updated or self.removed)


class SemanticCurator:
    """Merges by meaning, within a domain.

    Two bullets of one section are the same when they have the same sequence of tools and a similarity
    of at least `sequence_threshold`, or no tools at all and at least `threshold`. Bullets with
    different sequences stay apart however alike their words are: counters belong to a sequence.
    A domain is kept to `max_bullets`; the newest quarter of them is never pruned.
    """

    def __init__(
        self, *, threshold: float = 0.8, sequence_threshold: float = 0.6, max_bullets: int = 100_000
    ) -> None:
        if not 0 < sequence_threshold <= threshold <= 1:
            raise ConfigError(
                f"0 < sequence_threshold <= threshold <= 1 must hold; "
                f"got {sequence_threshold!r} and {threshold!r}"
            )
        if max_bullets < 4:
            raise ConfigError(f"max_bullets is 4 or more; got {max_bullets!r}")
        self._threshold = threshold
        self._sequence_threshold = sequence_threshold
        self._max_bullets = max_bullets

    def merge(self, playbook: Playbook, reflections: Reflection | Iterable[Reflection]) -> CuratorDelta:
        """Take in one reflection or many; in which order they come does not matter.

        Each is one change of its own. One that was merged before, or shows nothing, changes nothing.
        """
        batch = [reflections] if isinstance(reflections, Reflection) else list(reflections)
        once = {(item.domain, item.id): item for item in batch}
        batch = [once[key] for key in sorted(once)]
        vectors = playbook.embed([item.intent for item in batch])
        parts = [self._merge(playbook, item, vector) for item, vector in zip(batch, vectors, strict=True)]
        return _total(parts)

    def consolidate(self, playbook: Playbook, domain: str, *, dry_run: bool = False) -> CuratorDelta:
        """Make one of bullets that have come to be the same: the oldest stays, with all their evidence."""
        if dry_run:
            with playbook.view(domain) as view:
                change = self._consolidation(view, now=playbook.now())
            return CuratorDelta(updated=_ids(change.puts), removed=change.drops)
        delta = playbook.change(
            domain, lambda view: self._consolidation(view, now=playbook.now()), cause="consolidate"
        )
        if delta is None:
            return CuratorDelta()
        return CuratorDelta(updated=_ids(delta.change.puts), removed=delta.change.drops, deltas=(delta,))

    def _merge(self, playbook: Playbook, reflection: Reflection, vector: Vectors) -> CuratorDelta:
        known: set[str] = set()

        def decide(view: View) -> Change:
            change = self._decide(view, reflection, vector=vector, now=playbook.now())
            known.update(bullet.id for bullet in change.puts if view.get(bullet.id) is not None)
            return change

        delta = playbook.change(reflection.domain, decide, cause="merge", note=reflection.task_id)
        if delta is None:
            return CuratorDelta(skipped=(reflection.id,))
        return CuratorDelta(
            added=tuple(name for name in _ids(delta.change.puts) if name not in known),
            updated=tuple(name for name in _ids(delta.change.puts) if name in known),
            removed=delta.change.drops,
            deltas=(delta,),
        )

    def _decide(self, view: View, reflection: Reflection, *, vector: Vectors, now: float) -> Change:
        if reflection.outcome == "unknown" or view.has_merged(reflection.id):
            return Change()
        near = [
            match.bullet
            for match in view.nearest(vector, k=_NEIGHBOURS)
            if match.similarity >= self._needed(match.bullet)
        ]
        puts: dict[str, PlaybookBullet] = {}
        for bullet in _concerned(view, near, reflection):
            helped = reflection.verdict_on(bullet.tool_sequence)
            if helped is not None:
                puts[bullet.id] = _credited(bullet, reflection, helped=helped, now=now)
        for proposal in reflection.proposals:
            twin = view.get(proposal.id) or next((item for item in near if _is_twin(item, proposal)), None)
            bullet = twin or replace(proposal, created_at=now)
            if bullet.id not in puts:  # else it was followed, and has its evidence
                helped = reflection.verdict_on(bullet.tool_sequence)
                succeeded = reflection.outcome == "success" if helped is None else helped
                puts[bullet.id] = _credited(bullet, reflection, helped=succeeded, now=now)
        new = [name for name in puts if view.get(name) is None]
        drops = self._stale(view, puts, new=len(new))
        room = self._max_bullets - len(view) + len(drops)
        for name in new[room:]:  # nothing else could go
            del puts[name]
        return Change(drops=drops, puts=tuple(puts.values()), merged=(reflection.id,))

    def _needed(self, bullet: PlaybookBullet) -> float:
        return self._sequence_threshold if bullet.tool_sequence else self._threshold

    def _stale(self, view: View, puts: Mapping[str, PlaybookBullet], *, new: int) -> tuple[str, ...]:
        """What has to go so that the domain keeps within its size; a tenth at once, so that it is rare."""
        size = len(view) + new
        if size <= self._max_bullets:
            return ()
        surplus = size - self._max_bullets + self._max_bullets // 10
        protect = max(0, max(1, self._max_bullets // 4) - new)  # the new ones are the newest
        stale = view.stale(surplus + len(puts), protect=protect)
        return tuple(name for name in stale if name not in puts)[:surplus]

    def _consolidation(self, view: View, *, now: float) -> Change:
        groups: dict[tuple[str, tuple[str, ...]], list[PlaybookBullet]] = {}
        for bullet in view.bullets():
            groups.setdefault((bullet.section, collapse(bullet.tool_sequence)), []).append(bullet)
        kept: dict[str, PlaybookBullet] = {}
        drops: list[str] = []
        for group in groups.values():
            vectors = view.vectors([bullet.id for bullet in group])
            stay: list[int] = []
            for row, bullet in enumerate(group):
                similar = vectors[stay] @ vectors[row]
                if stay and similar.max() >= self._needed(bullet):
                    first = group[stay[int(similar.argmax())]]
                    kept[first.id] = _joined(kept.get(first.id, first), bullet, now=now)
                    drops.append(bullet.id)
                else:
                    stay.append(row)
        return Change(drops=tuple(drops), puts=tuple(kept.values()))


def _concerned(
    view: View, near: Sequence[PlaybookBullet], reflection: Reflection
) -> Iterator[PlaybookBullet]:
    """The bullets that the run may have followed: about this intent, shown to it, or about no task."""
    yield from near
    yield from (shown for name in reflection.shown if (shown := view.get(name)) is not None)
    for calls in {reflection.worked, reflection.attempted}:
        yield from (bullet for bullet in view.with_sequence(calls) if not bullet.example_task)


def _is_twin(known: PlaybookBullet, proposal: PlaybookBullet) -> bool:
    return known.section == proposal.section and collapse(known.tool_sequence) == collapse(
        proposal.tool_sequence
    )


def _credited(bullet: PlaybookBullet, run: Reflection, *, helped: bool, now: float) -> PlaybookBullet:
    """The bullet with one more run as its evidence."""
    seen = bullet.helpful_count + bullet.harmful_count
    if isinstance(bullet, ToolCallingStrategy):
        bullet = replace(
            bullet,
            tool_success_rate=_mean(bullet.success_rate, seen, float(helped), 1),
            avg_iterations=_mean(bullet.avg_iterations, seen, run.iterations, 1),
        )
    counts = (bullet.helpful_count + helped, bullet.harmful_count + (not helped))
    return settled(replace(bullet, helpful_count=counts[0], harmful_count=counts[1]), now=now)


def _joined(first: PlaybookBullet, other: PlaybookBullet, *, now: float) -> PlaybookBullet:
    """The first bullet with the evidence of both."""
    mine = first.helpful_count + first.harmful_count
    theirs = other.helpful_count + other.harmful_count
    if isinstance(first, ToolCallingStrategy) and isinstance(other, ToolCallingStrategy) and mine + theirs:
        first = replace(
            first,
            tool_success_rate=_mean(first.success_rate, mine, other.success_rate, theirs),
            avg_iterations=_mean(first.avg_iterations, mine, other.avg_iterations, theirs),
        )
    return settled(
        replace(
            first,
            helpful_count=first.helpful_count + other.helpful_count,
            harmful_count=first.harmful_count + other.harmful_count,
            tags=tuple(dict.fromkeys((*first.tags, *other.tags))),
        ),
        now=now,
    )


def _mean(first: float, weight: int, second: float, other: int) -> float:
    return (first * weight + second * other) / (weight + other)


def _ids(bullets: Iterable[PlaybookBullet]) -> tuple[str, ...]:
    return tuple(bullet.id for bullet in bullets)


def _total(parts: Sequence[CuratorDelta]) -> CuratorDelta:
    def each(name: str) -> dict[str, None]:
        return dict.fromkeys(item for part in parts for item in getattr(part, name))

    added = each("added")
    return CuratorDelta(
        added=tuple(added),
        updated=tuple(name for name in each("updated") if name not in added),
        removed=tuple(each("removed")),
        skipped=tuple(each("skipped")),
        deltas=tuple(delta for part in parts for delta in part.deltas),
    )
