"""The report of a batch: what each task came to, and how the runs went in sum."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from wesichain.core.internal import dataclass

from .curator import CuratorDelta
from .entities import Outcome

_NOTHING = CuratorDelta()


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
class LearningSummary:
    """What a batch came to; `records` has the tasks in the order in which they were run."""

    records: tuple[RunRecord, ...] = ()
    added: int = 0
    updated: int = 0

    @property
    def health(self) -> Health:
        return Health.of(self.records)

    def plus(self, *, records: tuple[RunRecord, ...] = (), delta: CuratorDelta = _NOTHING) -> LearningSummary:
        return LearningSummary(
            (*self.records, *records), self.added + len(delta.added), self.updated + len(delta.updated)
        )

    def text(self) -> str:
        """Return the figures, a line each."""
        half = len(self.records) // 2
        early, late, total = Health.of(self.records[:half]), Health.of(self.records[half:]), self.health
        halves = f"first half {early.iterations:.2f}, second half {late.iterations:.2f}"
        return "\n".join(
            [
                f"{total.runs} tasks, {total.success:.0%} solved, {total.errors:.0%} ended in errors",
                f"iterations a task: {total.iterations:.2f} ({halves})",
                f"bullets: {self.added} new, {self.updated} times new evidence",
            ]
        )


def _percentile(values: Sequence[float], share: float) -> float:
    """The nearest rank."""
    return sorted(values)[ceil(share * len(values)) - 1] if values else 0.0
