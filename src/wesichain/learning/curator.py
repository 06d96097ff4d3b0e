"""The curator: merges reflections into a playbook, deterministically and without a model, one delta each.

Equivalent bullets are merged. The outcome of a run counts for the strategies that it followed and the lessons
that it was shown. A strategy that works only for tasks with a certain word is split. A bullet's content never
changes and its counters only grow, so that the journal has every state and each can be restored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

from wesichain.core.internal import Value, replace
from wesichain.errors import ConfigError

from .credit import credit_run, merge_evidence, merge_record, split
from .embedders import Vectors
from .entities.bullets import PlaybookBullet, changed_tools, collapse
from .entities.conditions import fits
from .playbook import Playbook
from .reflector import Reflection
from .storage.domain import Domain
from .storage.journal import Delta, PlaybookChange

_NEIGHBOURS = 64  # bullets with a similar intent that are compared; merging keeps their number lower


class CuratorDelta(Value):
    """The result of a merge or a consolidation (or a dry run): ids of bullets, and the deltas written."""

    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()  # reflections that changed nothing, such as those merged before
    deltas: tuple[Delta, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.updated or self.removed)


class SemanticCurator:
    """Merges bullets by similarity, within a domain.

    Two bullets of one section are merged if they have the same sequence of tools and a similarity of at
    least `sequence_threshold`, or no tools and a similarity of at least `threshold`. Bullets with different
    sequences are never merged, since the counters belong to a sequence.
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
        """Merge one or more reflections, in any order.

        Each is written as a delta of its own. A reflection that was merged before, or that teaches nothing,
        changes nothing.
        """
        batch = [reflections] if isinstance(reflections, Reflection) else list(reflections)
        unique = {(item.domain, item.id): item for item in batch}
        batch = [unique[key] for key in sorted(unique)]
        vectors = playbook.embed([item.intent for item in batch])
        parts = [self._merge(playbook, item, vector) for item, vector in zip(batch, vectors, strict=True)]
        return _total(parts)

    def consolidate(self, playbook: Playbook, domain: str, *, dry_run: bool = False) -> CuratorDelta:
        """Merge bullets that are equivalent by now: the oldest stays, with the evidence of all."""
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
        if view.has_merged(reflection.id):  # its evidence counts once; an owner may add a sentence later
            new = {key: item for key, item in sentences.items() if not view.has_merged(key)}
            unknown = [item for item in new.values() if _same_sentence(item, view) is None]
            added = tuple(merge_record(item, None, now=now) for item in unknown)
            return PlaybookChange(puts=added, merged=tuple(new) if added else ())
        if reflection.outcome == "unknown" and not sentences:
            return PlaybookChange()
        near = [
            match.bullet
            for match in view.nearest(vector, k=_NEIGHBOURS)
            if match.similarity >= self._threshold_for(match.bullet)
            and fits(match.bullet.condition, reflection.marks)
        ]
        stored = {item.id: self._equivalent(playbook, view, item, near) for item in reflection.proposals}
        taught = {
            (stored[item.id] or item).id: (*item.sources, reflection.source)
            for item in reflection.proposals
            if item.lesson and not item.is_owned
        }
        puts: dict[str, PlaybookBullet] = {}

        def credit(bullet: PlaybookBullet, *, shown: bool | None, helped: bool | None) -> None:
            puts[bullet.id] = credit_run(
                bullet,
                reflection,
                shown=shown,
                helped=helped,
                half_life=playbook.shares.half_life,
                now=now,
                taught=taught.get(bullet.id, ()),
            )

        for bullet in {item.id: item for item in _candidates(view, near, reflection)}.values():
            shown, helped = _exposure(bullet, reflection), _helped(bullet, reflection)
            is_other = bool(bullet.cases) and reflection.went_elsewhere(bullet.tool_sequence)
            is_changed = bool(changed_tools(bullet, reflection.tools))
            if shown is not None or helped is not None or is_other or is_changed:
                credit(bullet, shown=shown, helped=helped)
        for proposal in reflection.proposals:
            same = stored[proposal.id]
            bullet = same or replace(proposal, created_at=now)
            if bullet.id in puts:
                continue  # this run was counted above
            if proposal.is_owned:
                puts[bullet.id] = merge_record(bullet, same, now=now)
            elif bullet.lesson:
                credit(bullet, shown=None, helped=None)
            else:
                helped = reflection.verdict_on(bullet.tool_sequence)
                succeeded = reflection.outcome == "success" if helped is None else helped
                credit(bullet, shown=None, helped=succeeded)
        drops: list[str] = []
        for bullet in list(puts.values()):
            if parts := split(bullet, now=now):
                del puts[bullet.id]
                drops += [bullet.id] if view.get(bullet.id) is not None else []
                puts |= {part.id: part for part in parts}
        return PlaybookChange(
            drops=tuple(drops), puts=tuple(puts.values()), merged=(reflection.id, *sentences)
        )

    def _equivalent(
        self, playbook: Playbook, view: Domain, proposal: PlaybookBullet, near: Sequence[PlaybookBullet]
    ) -> PlaybookBullet | None:
        """Return the stored bullet that is equivalent to a proposal, or None.

        Two lessons are equivalent if they are about the same parameter of the same tools, are similar and
        contain the same numbers; their tasks are not compared.
        """
        if proposal.is_owned:
            return _same_sentence(proposal, view)
        known = view.get(proposal.id)
        if known is not None:
            return known
        if not proposal.lesson:
            return next((item for item in near if _has_same_subject(item, proposal)), None)
        alike = [
            item
            for item in view.with_sequence(proposal.tool_sequence)
            if _has_same_subject(item, proposal) and _numbers(item.content) == _numbers(proposal.content)
        ]
        if not alike:
            return None
        rows = playbook.embed([proposal.content, *(item.content for item in alike)])
        likeness = rows[1:] @ rows[0]
        best = int(likeness.argmax())
        return alike[best] if likeness[best] >= self._sequence_threshold else None

    def _threshold_for(self, bullet: PlaybookBullet) -> float:
        return self._sequence_threshold if bullet.tool_sequence else self._threshold

    def _consolidation(self, view: Domain, *, now: float) -> PlaybookChange:
        groups: dict[tuple[str, tuple[str, ...]], list[PlaybookBullet]] = {}
        for bullet in view.bullets():
            if not (bullet.lesson or bullet.is_owned):  # lessons were merged when they were taught
                key = (f"{bullet.section} {bullet.condition}", collapse(bullet.tool_sequence))
                groups.setdefault(key, []).append(bullet)
        kept: dict[str, PlaybookBullet] = {}
        drops: list[str] = []
        for group in groups.values():
            vectors = view.vectors([bullet.id for bullet in group])
            stay: list[int] = []
            for row, bullet in enumerate(group):
                similar = vectors[stay] @ vectors[row]
                if stay and similar.max() >= self._threshold_for(bullet):
                    first = group[stay[int(similar.argmax())]]
                    kept[first.id] = merge_evidence(kept.get(first.id, first), bullet, now=now)
                    drops.append(bullet.id)
                else:
                    stay.append(row)
        return PlaybookChange(drops=tuple(drops), puts=tuple(kept.values()))


def _owned(reflection: Reflection) -> dict[str, PlaybookBullet]:
    """The owners' sentences about a run, by the hash that marks each as merged."""
    return {
        sha256(f"{reflection.id} {item.content}".encode("utf-8", "surrogatepass")).hexdigest()[:32]: item
        for item in reflection.proposals
        if item.is_owned
    }


def _same_sentence(sentence: PlaybookBullet, view: Domain) -> PlaybookBullet | None:
    """Return the stored bullet with this id, or the owner's sentence with the same text."""
    same = (
        item
        for item in view.with_sequence(sentence.tool_sequence)
        if item.is_owned and item.content == sentence.content
    )
    return view.get(sentence.id) or next(same, None)


def _candidates(
    view: Domain, near: Sequence[PlaybookBullet], reflection: Reflection
) -> Iterator[PlaybookBullet]:
    """The bullets that the run may be evidence for: similar to it, shown to it, or without a task."""
    yield from near
    advised = (*reflection.shown, *reflection.held)
    yield from (bullet for name in advised if (bullet := view.get(name)) is not None)
    for calls in {reflection.worked, reflection.attempted}:
        yield from (bullet for bullet in view.with_sequence(calls) if not bullet.example_task)


def _exposure(bullet: PlaybookBullet, run: Reflection) -> bool | None:
    """Return whether a run was shown the bullet; None if the run is no evidence for either side.

    A run that did not call a lesson's tool is no evidence for the lesson. A run that called the tool before
    the lesson was visible counts as a run without it.
    """
    if run.outcome == "unknown" or (bullet.lesson and not run.has_called(bullet.tool_sequence)):
        return None
    if bullet.id in run.shown:
        return True
    is_before = bool(bullet.lesson) and not bullet.is_visible
    return False if is_before or bullet.id in run.held else None


def _helped(bullet: PlaybookBullet, run: Reflection) -> bool | None:
    """Return whether a run that followed a bullet succeeded; None if it did not follow it.

    It cannot be observed whether a run followed a lesson. A run that was shown the lesson and called its tool
    counts instead.
    """
    if not bullet.lesson and (bullet.tool_sequence or not bullet.is_owned):
        return run.verdict_on(bullet.tool_sequence)
    is_about = run.has_called(bullet.tool_sequence) or not bullet.tool_sequence
    is_known = run.outcome != "unknown"
    return run.outcome == "success" if bullet.id in run.shown and is_about and is_known else None


def _has_same_subject(known: PlaybookBullet, proposal: PlaybookBullet) -> bool:
    about = (known.section, bool(known.lesson), known.parameter)
    same = about == (proposal.section, bool(proposal.lesson), proposal.parameter)
    return same and collapse(known.tool_sequence) == collapse(proposal.tool_sequence)


def _numbers(rule: str) -> set[str]:
    """The words with digits in a rule: rules with different numbers are different rules."""
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
