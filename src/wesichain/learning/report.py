"""The report of a learning run: figures, and a plot of iterations per task over time."""

from __future__ import annotations

from collections.abc import Sequence

from wesichain.core import dataclass

from .curator import CuratorDelta
from .gate import Health, RunRecord, Verdict

_HEIGHT = 8
_NOTHING = CuratorDelta()


@dataclass(frozen=True, slots=True)
class Rollback:
    """A bullet whose promotion was taken back, and why."""

    domain: str
    bullet: str
    reason: str


@dataclass(frozen=True, slots=True)
class LearningSummary:
    """What a batch came to; `records` has the tasks in the order in which they were run."""

    records: tuple[RunRecord, ...] = ()
    added: int = 0
    updated: int = 0
    verdicts: tuple[Verdict, ...] = ()
    rollbacks: tuple[Rollback, ...] = ()

    @property
    def health(self) -> Health:
        return Health.of(self.records)

    def plus(
        self,
        *,
        records: tuple[RunRecord, ...] = (),
        delta: CuratorDelta = _NOTHING,
        verdicts: tuple[Verdict, ...] = (),
        rollbacks: tuple[Rollback, ...] = (),
    ) -> LearningSummary:
        return LearningSummary(
            (*self.records, *records),
            self.added + len(delta.added),
            self.updated + len(delta.updated),
            (*self.verdicts, *verdicts),
            (*self.rollbacks, *rollbacks),
        )

    def text(self) -> str:
        """Figures first, then the plot."""
        half = len(self.records) // 2
        early, late, all_of_it = Health.of(self.records[:half]), Health.of(self.records[half:]), self.health
        halves = f"first half {early.iterations:.2f}, second half {late.iterations:.2f}"
        promoted = sum(verdict.passed for verdict in self.verdicts)
        fate = f"{promoted} promoted, {len(self.rollbacks)} rollbacks"
        lines = [
            f"{all_of_it.runs} tasks, {all_of_it.success:.0%} solved, {all_of_it.errors:.0%} ended in errors",
            f"iterations a task: {all_of_it.iterations:.2f} ({halves})",
            f"bullets: {self.added} new, {self.updated} times new evidence, {fate}",
            plot([record.iterations for record in self.records]),
        ]
        return "\n".join(lines)


def plot(values: Sequence[float], *, width: int = 60) -> str:
    """Columns of blocks, oldest at the left; a column is the mean of the tasks that it stands for."""
    if not values:
        return ""
    size = -(-len(values) // width)
    means = [sum(values[at : at + size]) / len(values[at : at + size]) for at in range(0, len(values), size)]
    top = max(*means, 1.0)
    rows: list[str] = []
    for level in range(_HEIGHT, 0, -1):
        label = f"{top * level / _HEIGHT:5.1f} |"
        bars = "".join("█" if mean * _HEIGHT / top >= level - 0.5 else " " for mean in means)
        rows.append((label + bars).rstrip())
    return "\n".join([*rows, "      +" + "-" * len(means), "       iterations per task, over time"])


def progress_bar(done: int, total: int, record: RunRecord, *, width: int = 30) -> str:
    """One line: how far, and how the last task went."""
    filled = width * done // max(1, total)
    bar = "#" * filled + "." * (width - filled)
    return f"[{bar}] {done}/{total} {record.task_id}: {record.outcome}, {record.iterations} iterations"
