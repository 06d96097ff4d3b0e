"""The report of a batch: the outcome of each task, and the totals."""

from __future__ import annotations

from wesichain.core.internal import Value

from .entities.feedback import Outcome


class RunRecord(Value):
    """The outcome of one task, with its iterations, seconds and tokens."""

    task_id: str
    domain: str
    outcome: Outcome
    iterations: int
    seconds: float
    tokens: int = 0
    error: str = ""


class LearningSummary(Value):
    """The results of a batch. `records` has the tasks in the order in which they were run."""

    records: tuple[RunRecord, ...] = ()
    added: int = 0
    updated: int = 0

    def text(self) -> str:
        """Return the totals, one line each. The share of solved tasks ignores unknown outcomes."""
        known = [record for record in self.records if record.outcome != "unknown"]
        solved = sum(record.outcome == "success" for record in known) / max(1, len(known))
        errors = sum(bool(record.error) for record in self.records)
        half = len(self.records) // 2
        total, early, late = (
            sum(record.iterations for record in part) / max(1, len(part))
            for part in (self.records, self.records[:half], self.records[half:])
        )
        return "\n".join(
            [
                f"{len(self.records)} tasks, {solved:.0%} solved, {errors} ended in errors",
                f"iterations a task: {total:.2f} (first half {early:.2f}, second half {late:.2f})",
                f"bullets: {self.added} new, {self.updated} times new evidence",
            ]
        )
