"""Credit: how runs change a bullet's evidence and its stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wesichain.core.internal import replace
from wesichain.errors import PlaybookError

from .entities.bullets import PlaybookBullet, ToolCallingStrategy, changed_tools
from .entities.conditions import BAD, GOOD, MOST, OTHER, case_of, count_of, deciding, on_side, with_case
from .entities.evidence import EvidenceTally
from .entities.stages import Ruling, Stage, lesson_stage, settle, stage_of
from .reflector import Reflection

_SOURCES = 64  # of the runs that taught a lesson, how many are kept


def with_stage(bullet: PlaybookBullet, *, now: float) -> PlaybookBullet:
    """Return the bullet with the stage that its evidence and ruling give it."""
    tally = bullet.tally
    if bullet.lesson and not bullet.is_owned and tally.is_losing and bullet.is_visible:
        bullet = replace(bullet, sources=(), tally=_withdrawn(bullet))  # it has to be taught again
    stage, ruling = settle(earned_stage(bullet), bullet.ruling)
    return replace(bullet, stage=stage, ruling=ruling, last_updated=now)


def earned_stage(bullet: PlaybookBullet) -> Stage:
    """Return the stage that a bullet's evidence gives it, ignoring any ruling."""
    counts = (bullet.helpful_count, bullet.harmful_count)
    if bullet.lesson and bullet.provenance.author != "operator":
        return lesson_stage(bullet.tally, taught=len(bullet.sources), helpful=counts[0], harmful=counts[1])
    left = (counts[0] - bullet.tally.lost_helpful, counts[1] - bullet.tally.lost_harmful)
    return stage_of(round(left[0]), round(left[1]), section=bullet.section)


def _withdrawn(bullet: PlaybookBullet) -> EvidenceTally:
    reset = bullet.tally.reset(bullet.helpful_count, bullet.harmful_count)
    return replace(reset, withdrawn=bullet.tally.withdrawn + 1)


def credit_run(
    bullet: PlaybookBullet,
    run: Reflection,
    *,
    shown: bool | None,
    helped: bool | None,
    half_life: float,
    now: float,
    taught: Sequence[str] = (),
) -> PlaybookBullet:
    """Return the bullet with one more run as its evidence.

    `shown` says whether the run was shown the bullet; None if the run is no evidence for it. `helped` says
    whether the run succeeded after it followed the bullet's sequence or was shown the lesson; None if it did
    neither. `taught` has the runs that taught this lesson, if this run is one of them.
    """
    bullet = _with_tools(bullet, run)
    success = run.outcome == "success"
    tally = bullet.tally
    counts = (bullet.helpful_count, bullet.harmful_count)
    means: dict[str, Any] = {}
    if bullet.section != "Pitfalls" and bullet.is_visible and (shown or helped is not None):
        tally = tally.tested(success=success if helped is None else helped)
    if shown is not None:
        tally = tally.with_run(shown=shown, success=success, half_life=half_life)
    if helped is not None:
        tally = tally.followed(*counts, half_life=half_life)
        counts = (counts[0] + helped, counts[1] + (not helped))
        means = _means(bullet, run, counts)
    if not (bullet.lesson or bullet.is_owned) and bullet.section == "Strategies":
        kind = OTHER if helped is None else GOOD if helped else BAD
        if helped is not None or run.went_elsewhere(bullet.tool_sequence):
            bullet = replace(bullet, cases=with_case(bullet.cases, case_of(kind, run.marks)))
    if tally.is_alarming and not bullet.lesson:
        tally = tally.reset(*counts)
    if taught:
        bullet = replace(bullet, sources=tuple(dict.fromkeys((*bullet.sources, *taught)))[-_SOURCES:])
    grown = replace(bullet, helpful_count=counts[0], harmful_count=counts[1], tally=tally, **means)
    return with_stage(grown, now=now)


def split(bullet: PlaybookBullet, *, now: float) -> tuple[PlaybookBullet, ...]:
    """Split a bullet that works only for tasks with (or without) a certain word; () if there is no such word.

    Each part keeps the runs that meet its condition. Bullets that an operator wrote or ruled on, and bullets
    that are already a part, are not split.
    """
    is_fixed = bullet.provenance.author == "operator" or bullet.ruling in ("forced", "quarantined")
    if is_fixed or bullet.condition:
        return ()
    word = deciding(bullet.cases)
    if word is None:
        return ()
    parts: list[PlaybookBullet] = []
    for condition in (f"+{word}", f"-{word}"):
        cases = on_side(condition, bullet.cases)
        good, bad = count_of(GOOD, cases), count_of(BAD, cases)
        part = replace(
            _without_rate(bullet),
            id="",
            condition=condition,
            cases=cases,
            helpful_count=good,
            harmful_count=bad,
            tally=EvidenceTally(),
            ruling="none",
            created_at=now,
        )
        parts.append(with_stage(part, now=now))
    return tuple(parts)


def merge_evidence(first: PlaybookBullet, other: PlaybookBullet, *, now: float) -> PlaybookBullet:
    """Return the first bullet with the evidence of both."""
    mine = first.helpful_count + first.harmful_count
    theirs = other.helpful_count + other.harmful_count
    if isinstance(first, ToolCallingStrategy) and isinstance(other, ToolCallingStrategy) and mine + theirs:
        mean = _mean(first.avg_iterations, mine, other.avg_iterations, theirs)
        first = replace(first, avg_iterations=mean)
    return with_stage(
        replace(
            _without_rate(first),
            helpful_count=first.helpful_count + other.helpful_count,
            harmful_count=first.harmful_count + other.harmful_count,
            tags=tuple(dict.fromkeys((*first.tags, *other.tags))),
            tally=first.tally.joined(other.tally),
            cases=(*first.cases, *other.cases)[-MOST:],
        ),
        now=now,
    )


def _with_tools(bullet: PlaybookBullet, run: Reflection) -> PlaybookBullet:
    """Update the fingerprints of the bullet's tools; evidence from before a change of a schema is reset."""
    marks = tuple(f"{name}={run.tools[name]}" for name in bullet.tool_sequence if name in run.tools)
    if not marks or bullet.fingerprints == marks:
        return bullet
    if changed_tools(bullet, run.tools):
        tally = bullet.tally.reset(bullet.helpful_count, bullet.harmful_count)
        bullet = replace(bullet, tally=tally, cases=(), sources=())
    return replace(bullet, fingerprints=marks)


def _means(bullet: PlaybookBullet, run: Reflection, counts: tuple[int, int]) -> dict[str, Any]:
    """Return the means of a strategy after one more run; `counts` include that run."""
    if not isinstance(bullet, ToolCallingStrategy):
        return {}
    seen = sum(counts)
    iterations = _mean(bullet.avg_iterations, seen - 1, run.iterations, 1)
    return {"tool_success_rate": counts[0] / seen, "avg_iterations": iterations}


def _mean(first: float, weight: int, second: float, other: int) -> float:
    return (first * weight + second * other) / (weight + other)


def merge_record(bullet: PlaybookBullet, known: PlaybookBullet | None, *, now: float) -> PlaybookBullet:
    """Merge a bullet that is recorded with the stored one (`known`), if there is one.

    A bullet that an operator records without counts is an owner's sentence and is shown at once. The stage of
    a bullet with counts follows from them.
    """
    if known is None:
        ruling: Ruling = bullet.ruling if bullet.ruling in ("quarantined", "owner") else "none"
        if ruling == "none" and _is_owner_text(bullet):
            ruling = "owner"
        return with_stage(replace(bullet, ruling=ruling, created_at=bullet.created_at or now), now=now)
    for name in ("content", "section", "tool_sequence"):
        if getattr(bullet, name) != getattr(known, name):
            raise PlaybookError(
                f"bullet {known.id!r} is recorded with another {name}; a bullet is never rewritten: "
                f"record the new one under an id of its own"
            )
    counts = [max(getattr(known, name), getattr(bullet, name)) for name in ("helpful_count", "harmful_count")]
    is_grown = counts != [known.helpful_count, known.harmful_count]
    is_word = known.ruling == "none" and _is_owner_text(known) and _is_owner_text(bullet)
    ruling = "owner" if is_word else known.ruling
    grown = replace(
        _without_rate(known) if is_grown else known,
        helpful_count=counts[0],
        harmful_count=counts[1],
        tags=tuple(dict.fromkeys((*known.tags, *bullet.tags))),
        ruling=ruling,
    )
    return known if grown == known else with_stage(grown, now=now)


def _without_rate(bullet: PlaybookBullet) -> PlaybookBullet:
    """Return the bullet without its success rate, for a change of its counts."""
    return replace(bullet, tool_success_rate=None) if isinstance(bullet, ToolCallingStrategy) else bullet


def _is_owner_text(bullet: PlaybookBullet) -> bool:
    return bullet.provenance.author == "operator" and not (bullet.helpful_count or bullet.harmful_count)
