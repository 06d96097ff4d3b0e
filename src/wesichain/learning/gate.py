"""The gate: what a bullet must show on held-out tasks to enter prod, and how runs compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from wesichain.core import dataclass

from .entities import Outcome, PromotionWatch

NOT_TRIED = "no held-out task retrieves it"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One task that was run: what came of it, and what it took."""

    task_id: str
    domain: str
    outcome: Outcome
    iterations: int
    seconds: float
    tokens: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Health:
    """How a number of runs went; a run of which nothing is known counts as neither success nor failure."""

    runs: int
    success: float
    iterations: float
    p95: float
    errors: float

    @classmethod
    def of(cls, records: Sequence[RunRecord]) -> Health:
        judged = [record for record in records if record.outcome != "unknown"]
        count = max(1, len(records))
        return cls(
            runs=len(records),
            success=sum(record.outcome == "success" for record in judged) / max(1, len(judged)),
            iterations=sum(record.iterations for record in records) / count,
            p95=_percentile([record.seconds for record in records], 0.95),
            errors=sum(bool(record.error) for record in records) / count,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says of one bullet, and on what grounds."""

    bullet_id: str
    passed: bool
    reason: str
    without: Health
    with_it: Health


def judge(bullet_id: str, *, without: Health, with_it: Health) -> Verdict:
    """A bullet passes when the tasks that it is shown to succeed no less often, and take no more iterations.

    `without` and `with_it` are the same tasks, those that retrieve the bullet; where there are none, nothing
    is said for it.
    """
    reason = ""
    if with_it.runs == 0 or without.runs == 0:
        reason = NOT_TRIED
    elif with_it.success < without.success:
        reason = f"success falls from {without.success:.0%} to {with_it.success:.0%}"
    elif with_it.iterations > without.iterations and with_it.success <= without.success:
        reason = f"iterations rise from {without.iterations:.2f} to {with_it.iterations:.2f}"
    return Verdict(bullet_id, not reason, reason or "the held-out tasks do not get worse", without, with_it)


def regression(before: Health, after: Health) -> str | None:
    """Why what was let in has to leave again, by success and iterations; None where it need not."""
    watch = PromotionWatch(before.runs, before.success, before.iterations)
    runs = max(1, after.runs)
    since = replace(watch, runs=runs, successes=after.success * runs, iterations=after.iterations * runs)
    return since.regression()


def _percentile(values: Sequence[float], share: float) -> float:
    """The nearest rank."""
    return sorted(values)[ceil(share * len(values)) - 1] if values else 0.0
