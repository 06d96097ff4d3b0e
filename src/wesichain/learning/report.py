"""The report of a batch: what each task came to, and how the runs went in sum."""

from __future__ import annotations

from wesichain.core.internal import Value

from .entities.feedback import Outcome


class RunRecord(Value):
    """One task that was run: what came of it, and what it took."""

    task_id: str
    domain: str
    outcome: Outcome
    iterations: int
    seconds: float
    tokens: int = 0
    error: str = ""


class LearningSummary(Value):
    """What a batch came to; `records` has the tasks in the order in which they were run."""

    records: tuple[RunRecord, ...] = ()
    added: int = 0
    updated: int = 0

    def text(self) -> str:
        """Return the figures, a line each; a run of which nothing is known is neither solved nor not."""
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
