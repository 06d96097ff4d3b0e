"""Results: the result of one call, and the statistics of all calls of a tool."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Any

from wesichain.core import JsonValue, Part, ToolCall
from wesichain.core.internal import Identity, Value, positions_of
from wesichain.errors import ConfigError, ToolDispatchError

from .call_args import CallArgs
from .context import RunContext
from .definition import Tool


class PreparedCall(Value):
    """A call with its tool and its checked arguments."""

    call: ToolCall
    tool: Tool
    args: Any

    def may_decide(self, identity: Identity, ctx: RunContext[Any]) -> bool:
        """Whether somebody may decide on the call: what the tool's rule of approvers says."""
        rule: Any = self.tool.approvers
        if rule is None:
            return True
        try:
            return bool(rule(identity, ctx, CallArgs.of(self.args)))
        except Exception as error:
            raise ConfigError(
                f"the rule of approvers of tool {self.tool.name!r} raised {type(error).__name__}: {error}; it "
                f"takes (identity, ctx, args), and returns whether this identity may decide"
            ) from error

    def asks_approval(self, ctx: RunContext[Any]) -> bool:
        """Whether the call needs human approval. A rule takes `(args)` or `(ctx, args)`."""
        rule: Any = self.tool.approval
        if not callable(rule):
            return bool(rule)
        try:
            args = CallArgs.of(self.args)
            return bool(rule(ctx, args) if positions_of(rule)[0] > 1 else rule(args))
        except Exception as error:
            raise ConfigError(
                f"the approval rule of tool {self.tool.name!r} raised {type(error).__name__}: {error}; "
                f"it takes (args) or (ctx, args), and returns whether the call needs approval"
            ) from error


class ToolResult(Value):
    """The result of one call: a value or an error. `finish` is True if the tool returned `Finish`.

    If the result has images, documents or audio, `parts` contains all of it, and `value` is a description.
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
    """The fields of a result while the call is running."""

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
    """The statistics of one tool. A call appends its duration; a thousand durations are summed up at once."""

    __slots__ = ("_counts", "_longest", "_recent", "_shortest", "_total", "failures", "successes")

    def __init__(self) -> None:
        self.successes: list[float] = []  # milliseconds, not summed up yet
        self.failures: list[float] = []
        self._counts = [0, 0]
        self._total = 0.0
        self._shortest = inf
        self._longest = 0.0
        self._recent: deque[float] = deque(maxlen=512)

    def sum_up(self) -> None:
        for kind, durations in enumerate((self.successes, self.failures)):
            summed = durations[:]
            del durations[: len(summed)]  # another thread may have appended more
            if summed:
                self._counts[kind] += len(summed)
                self._total += sum(summed)
                self._shortest = min(*summed, self._shortest)
                self._longest = max(*summed, self._longest)
                self._recent.extend(summed)

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
