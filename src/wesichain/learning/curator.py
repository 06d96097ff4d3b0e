"""The curator: takes reflections into a playbook, without a model, without chance, one delta each.

Bullets that are about the same become one; a strategy that a run followed and a lesson that it was shown
get the credit or the blame. A strategy whose tasks one word tells apart is split by it. A bullet's words
never change and its counters only grow, so that every state can be read in the journal and brought back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

from wesichain.core.internal import Value, replace
from wesichain.errors import ConfigError

from .crediting import credited, joined, recorded, split
from .embedders import Vectors
from .entities.bullets import PlaybookBullet, changed_tools, collapse
from .entities.conditions import fits
from .playbook import Playbook
from .reflector import Reflection
from .storage.domain import Domain
from .storage.journal import Delta, PlaybookChange

_NEIGHBOURS = 64  # bullets about one intent that are looked at; merging keeps them fewer


class CuratorDelta(Value):
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
    """

    def __init__(self, *, threshold: float = 0.8, sequence_threshold: float = 0.6) -> None:
        if not 0 < sequence_threshold <= threshold <= 1:
            raise ConfigError(
                f"0 < sequence_threshold <= threshold <= 1 must hold; "
                f"got {sequence_threshold!r} and {threshold!r}"
            )
        self._threshold = threshold
        self._sequence_threshold = sequence_threshold

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
        now, written = playbook.now(), None
        with playbook.view(domain) if dry_run else playbook.writing(domain) as view:
            change = self._consolidation(view, now=now)
            if not dry_run:
                written = view.write(change, at=now, cause="consolidate")
        deltas = () if written is None else (written,)
        return CuratorDelta(updated=_ids(change.puts), removed=change.drops, deltas=deltas)

    def _merge(self, playbook: Playbook, reflection: Reflection, vector: Vectors) -> CuratorDelta:
        with playbook.writing(reflection.domain) as view:
            change = self._decide(playbook, view, reflection, vector=vector)
            known = [bullet.id for bullet in change.puts if view.get(bullet.id) is not None]
            delta = view.write(change, at=playbook.now(), cause="merge", note=reflection.task_id)
        if delta is None:
            return CuratorDelta(skipped=(reflection.id,))
        added = tuple(name for name in _ids(change.puts) if name not in known)
        return CuratorDelta(added, updated=tuple(known), removed=change.drops, deltas=(delta,))

    def _decide(
        self, playbook: Playbook, view: Domain, reflection: Reflection, *, vector: Vectors
    ) -> PlaybookChange:
        now, sentences = playbook.now(), _owned(reflection)
        if view.has_merged(reflection.id):  # no evidence twice, but an owner may say more about a run
            new = {key: item for key, item in sentences.items() if not view.has_merged(key)}
            unknown = [item for item in new.values() if _same_sentence(item, view) is None]
            added = tuple(recorded(item, None, now=now) for item in unknown)
            return PlaybookChange(puts=added, merged=tuple(new) if added else ())
        if reflection.outcome == "unknown" and not sentences:
            return PlaybookChange()
        near = [
            match.bullet
            for match in view.nearest(vector, k=_NEIGHBOURS)
            if match.similarity >= self._needed(match.bullet)
            and fits(match.bullet.condition, reflection.marks)
        ]
        twins = {item.id: self._twin(playbook, view, item, near) for item in reflection.proposals}
        taught = {
            (twins[item.id] or item).id: (*item.sources, reflection.source)
            for item in reflection.proposals
            if item.lesson and not item.is_owned
        }
        puts: dict[str, PlaybookBullet] = {}

        def credit(bullet: PlaybookBullet, *, shown: bool | None, helped: bool | None) -> None:
            puts[bullet.id] = credited(
                bullet,
                reflection,
                shown=shown,
                helped=helped,
                half_life=playbook.shares.half_life,
                now=now,
                taught=taught.get(bullet.id, ()),
            )

        for bullet in {item.id: item for item in _concerned(view, near, reflection)}.values():
            shown, helped = _side(bullet, reflection), _helped(bullet, reflection)
            is_other = bool(bullet.cases) and reflection.went_elsewhere(bullet.tool_sequence)
            is_changed = bool(changed_tools(bullet, reflection.tools))
            if shown is not None or helped is not None or is_other or is_changed:
                credit(bullet, shown=shown, helped=helped)
        for proposal in reflection.proposals:
            twin = twins[proposal.id]
            bullet = twin or replace(proposal, created_at=now)
            if bullet.id in puts:
                continue  # it has its evidence
            if proposal.is_owned:
                puts[bullet.id] = recorded(bullet, twin, now=now)
            elif bullet.lesson:
                credit(bullet, shown=None, helped=None)
            else:
                helped = reflection.verdict_on(bullet.tool_sequence)
                succeeded = reflection.outcome == "success" if helped is None else helped
                credit(bullet, shown=None, helped=succeeded)
        gone: list[str] = []
        for bullet in list(puts.values()):
            if parts := split(bullet, now=now):
                del puts[bullet.id]
                gone += [bullet.id] if view.get(bullet.id) is not None else []
                puts |= {part.id: part for part in parts}
        return PlaybookChange(
            drops=tuple(gone), puts=tuple(puts.values()), merged=(reflection.id, *sentences)
        )

    def _twin(
        self, playbook: Playbook, view: Domain, proposal: PlaybookBullet, near: Sequence[PlaybookBullet]
    ) -> PlaybookBullet | None:
        """Return the bullet that a proposal is one with.

        Lessons are one where they are about the same parameter of the same tools, mean the same and have the
        same numbers in them, at whatever tasks.
        """
        if proposal.is_owned:
            return _same_sentence(proposal, view)
        known = view.get(proposal.id)
        if known is not None:
            return known
        if not proposal.lesson:
            return next((item for item in near if _is_twin(item, proposal)), None)
        alike = [
            item
            for item in view.with_sequence(proposal.tool_sequence)
            if _is_twin(item, proposal) and _numbers(item.content) == _numbers(proposal.content)
        ]
        if not alike:
            return None
        rows = playbook.embed([proposal.content, *(item.content for item in alike)])
        likeness = rows[1:] @ rows[0]
        best = int(likeness.argmax())
        return alike[best] if likeness[best] >= self._sequence_threshold else None

    def _needed(self, bullet: PlaybookBullet) -> float:
        return self._sequence_threshold if bullet.tool_sequence else self._threshold

    def _consolidation(self, view: Domain, *, now: float) -> PlaybookChange:
        groups: dict[tuple[str, tuple[str, ...]], list[PlaybookBullet]] = {}
        for bullet in view.bullets():
            if not (bullet.lesson or bullet.is_owned):  # a lesson is joined when it is taught
                key = (f"{bullet.section} {bullet.condition}", collapse(bullet.tool_sequence))
                groups.setdefault(key, []).append(bullet)
        kept: dict[str, PlaybookBullet] = {}
        drops: list[str] = []
        for group in groups.values():
            vectors = view.vectors([bullet.id for bullet in group])
            stay: list[int] = []
            for row, bullet in enumerate(group):
                similar = vectors[stay] @ vectors[row]
                if stay and similar.max() >= self._needed(bullet):
                    first = group[stay[int(similar.argmax())]]
                    kept[first.id] = joined(kept.get(first.id, first), bullet, now=now)
                    drops.append(bullet.id)
                else:
                    stay.append(row)
        return PlaybookChange(drops=tuple(drops), puts=tuple(kept.values()))


def _owned(reflection: Reflection) -> dict[str, PlaybookBullet]:
    """The sentences of owners about a run, each by a hash that says that it was taken in."""
    return {
        sha256(f"{reflection.id} {item.content}".encode("utf-8", "surrogatepass")).hexdigest()[:32]: item
        for item in reflection.proposals
        if item.is_owned
    }


def _same_sentence(sentence: PlaybookBullet, view: Domain) -> PlaybookBullet | None:
    """Return the bullet of this id, or the sentence of an owner that is equal to this one."""
    same = (
        item
        for item in view.with_sequence(sentence.tool_sequence)
        if item.is_owned and item.content == sentence.content
    )
    return view.get(sentence.id) or next(same, None)


def _concerned(
    view: Domain, near: Sequence[PlaybookBullet], reflection: Reflection
) -> Iterator[PlaybookBullet]:
    """The bullets that the run may have followed: about this intent, shown to it, or about no task."""
    yield from near
    told = (*reflection.shown, *reflection.held)
    yield from (bullet for name in told if (bullet := view.get(name)) is not None)
    for calls in {reflection.worked, reflection.attempted}:
        yield from (bullet for bullet in view.with_sequence(calls) if not bullet.example_task)


def _side(bullet: PlaybookBullet, run: Reflection) -> bool | None:
    """Return whether a run had the bullet; None where it says nothing of runs with it or without.

    Of a lesson about calls of a tool, a run that did not call it shows nothing; one that called it while the
    lesson was not shown yet is a run without it.
    """
    if run.outcome == "unknown" or (bullet.lesson and not run.has_called(bullet.tool_sequence)):
        return None
    if bullet.id in run.shown:
        return True
    is_before = bool(bullet.lesson) and not bullet.is_visible
    return False if is_before or bullet.id in run.held else None


def _helped(bullet: PlaybookBullet, run: Reflection) -> bool | None:
    """Return whether a run that followed a bullet went well, None where it was not followed.

    Whether a lesson was followed cannot be seen: what counts are the runs that were shown it and called its
    tool.
    """
    if not bullet.lesson and (bullet.tool_sequence or not bullet.is_owned):
        return run.verdict_on(bullet.tool_sequence)
    is_about = run.has_called(bullet.tool_sequence) or not bullet.tool_sequence
    is_known = run.outcome != "unknown"
    return run.outcome == "success" if bullet.id in run.shown and is_about and is_known else None


def _is_twin(known: PlaybookBullet, proposal: PlaybookBullet) -> bool:
    about = (known.section, bool(known.lesson), known.parameter)
    same = about == (proposal.section, bool(proposal.lesson), proposal.parameter)
    return same and collapse(known.tool_sequence) == collapse(proposal.tool_sequence)


def _numbers(rule: str) -> set[str]:
    """The words of a rule with digits in them: two that differ in them say different things."""
    return set(re.findall(r"\S*\d\S*", rule.rstrip(".")))


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
