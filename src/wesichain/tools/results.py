"""Results: what became of one call, and of all calls of a tool."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Any

from wesichain.core import JsonValue, Part, ToolCall
from wesichain.core.internal import Value, positions_of
from wesichain.errors import ConfigError, ToolDispatchError

from .context import RunContext
from .definition import Tool


class PreparedCall(Value):
    """A call whose tool is known and whose arguments are checked."""

    call: ToolCall
    tool: Tool
    args: Any

    def asks_approval(self, ctx: RunContext[Any]) -> bool:
        """Whether a person has to approve the call; a rule takes `(args)` or `(ctx, args)`."""
        rule: Any = self.tool.approval
        if not callable(rule):
            return bool(rule)
        try:
            return bool(rule(ctx, self.args) if positions_of(rule)[0] > 1 else rule(self.args))
        except Exception as error:
            raise ConfigError(
                f"the approval rule of tool {self.tool.name!r} raised {type(error).__name__}: {error}; "
                f"it takes (args) or (ctx, args), and says whether a person has to approve the call"
            ) from error


class ToolResult(Value):
    """The result of one call: a value, or an error. `finish`: the tool gave it as the run's own (`Finish`).

    Of a result with pictures, documents or sounds `parts` has all of it, and `value` tells it in words.
    """

    call_id: str
    name: str
    value: JsonValue = None
    error: ToolDispatchError | None = None
    duration_ms: float = 0.0
    finish: bool = False
    parts: tuple[Part, ...] = ()

    @property
    def ok(self) -> bool:
        return self.error is None


class DraftResult:
    """What a tool has returned, while its call is being made: the result is made of it."""

    __slots__ = ("finish", "parts", "value")

    value: JsonValue
    finish: bool
    parts: tuple[Part, ...]


class ToolStats(Value):
    """The statistics of one tool's calls; durations in milliseconds, percentiles over the last 512."""

    successes: int = 0
    failures: int = 0
    total_ms: float = 0.0
    min_ms: float = 0.0
    max_ms: float = 0.0
    p50_ms: float = 0.0
    p95_ms: float = 0.0

    @property
    def count(self) -> int:
        return self.successes + self.failures

    @property
    def mean_ms(self) -> float:
        return self.total_ms / self.count if self.count else 0.0


class Counter:
    """Counts the calls of one tool: a call appends its duration; sums are made a thousand at a time."""

    __slots__ = ("_counts", "_longest", "_recent", "_shortest", "_total", "failures", "successes")

    def __init__(self) -> None:
        self.successes: list[float] = []  # milliseconds that are not summed up yet
        self.failures: list[float] = []
        self._counts = [0, 0]
        self._total = 0.0
        self._shortest = inf
        self._longest = 0.0
        self._recent: deque[float] = deque(maxlen=512)

    def sum_up(self) -> None:
        for kind, durations in enumerate((self.successes, self.failures)):
            taken = durations[:]
            del durations[: len(taken)]  # those that another thread has added meanwhile stay
            if taken:
                self._counts[kind] += len(taken)
                self._total += sum(taken)
                self._shortest = min(*taken, self._shortest)
                self._longest = max(*taken, self._longest)
                self._recent.extend(taken)

    def stats(self) -> ToolStats:
        self.sum_up()
        recent = sorted(self._recent)
        last = len(recent) - 1
        return ToolStats(
            successes=self._counts[0],
            failures=self._counts[1],
            total_ms=self._total,
            min_ms=self._shortest if recent else 0.0,
            max_ms=self._longest,
            p50_ms=recent[round(0.50 * last)] if recent else 0.0,
            p95_ms=recent[round(0.95 * last)] if recent else 0.0,
        )
