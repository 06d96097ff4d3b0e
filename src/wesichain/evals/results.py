"""Results: the result of each run of an evaluation, their file format, and the report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from wesichain.core import JsonValue, Usage, from_json
from wesichain.core.internal import Value
from wesichain.errors import CodecError, ConfigError

from .scores import Score

Status: TypeAlias = Literal["completed", "failed", "interrupted"]


class Result(Value, omit_defaults=True):
    """The result of one run of a case. It passed if the run completed and every score passed.

    `cost` is None if the price of a model is not known.
    """

    __always__: ClassVar[tuple[str, ...]] = ("scores", "output", "steps", "tool_calls", "usage", "seconds")

    case: str
    run_id: str
    attempt: int
    status: Status
    scores: tuple[Score, ...] = ()
    output: JsonValue = None
    error: str = ""
    steps: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    cost: float | None = None
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.status == "completed" and all(score.passed for score in self.scores)

    @property
    def why(self) -> str:
        """The reason why it did not pass, in one line; empty if it passed."""
        if self.status != "completed":
            return f"{self.status}: {self.error}"
        return "; ".join(
            f"{score.name}: {score.why}" if score.why else score.name
            for score in self.scores
            if not score.passed
        )


class Report(Value):
    """The results of an evaluation, in the order of cases and attempts."""

    results: tuple[Result, ...]

    @property
    def share(self) -> float:
        """The share of runs that passed."""
        return sum(one.passed for one in self.results) / len(self.results) if self.results else 0.0

    @property
    def failures(self) -> tuple[Result, ...]:
        return tuple(one for one in self.results if not one.passed)

    @property
    def usage(self) -> Usage:
        return sum((one.usage for one in self.results), Usage())

    @property
    def cost(self) -> float | None:
        """The cost of all runs; None if the cost of a run is not known."""
        costs = [one.cost for one in self.results]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    def by_case(self) -> Mapping[str, Sequence[Result]]:
        return by_case(self.results)


def by_case(results: Iterable[Result]) -> dict[str, list[Result]]:
    grouped: defaultdict[str, list[Result]] = defaultdict(list)
    for one in results:
        grouped[one.case].append(one)
    return dict(grouped)


def read_results(path: Path) -> tuple[Result, ...]:
    """Read the results of a file. An incomplete last line, from a crash, is ignored."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    found: list[Result] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(from_json(Result, line))
        except CodecError as error:
            if number == len(lines):
                break
            raise ConfigError(f"{path}, line {number}: not a result of an evaluation: {error}") from error
    return tuple(found)
