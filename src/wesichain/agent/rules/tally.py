"""The tally: what has gone wrong in a run so far, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass

from wesichain.core import ToolCall
from wesichain.policy import N, OnceWithToolCatalog, RepromptStrategy, chain_of


@dataclass(slots=True)
class Tally:
    """Counts of one run. Plain data, so that an interrupted run takes it along."""

    faults: dict[str, int] | None = None  # None, not an empty dict: most runs have none, and there are many
    reprompts: dict[str, int] | None = None
    tool_failures: dict[str, int] | None = None
    excluded: tuple[str, ...] = ()
    last_call: ToolCall | None = None
    repeats: int = 0

    def count_fault(self, error: BaseException) -> None:
        """Count the error, and the causes behind it, under each of their classes."""
        for name in {_name(cls) for found in chain_of(error) for cls in type(found).__mro__}:
            self.faults = _counted(self.faults, name)

    def times(self, error_class: type[BaseException]) -> int:
        return (self.faults or {}).get(_name(error_class), 0)

    def may_reprompt(self, error: BaseException, strategy: RepromptStrategy) -> bool:
        """Count one more reprompt for this class of error; False when the strategy allows no more."""
        match strategy:
            case OnceWithToolCatalog():
                limit = 1
            case N(n=limit):
                pass
        name = _name(type(error))
        self.reprompts = _counted(self.reprompts, name)
        return self.reprompts[name] <= limit

    def count_tool_failure(self, tool_name: str, *, limit: int | None) -> bool:
        """Count a failure of a tool; True when this one excludes it from the rest of the run."""
        self.tool_failures = _counted(self.tool_failures, tool_name)
        if limit is None or self.tool_failures[tool_name] < limit or tool_name in self.excluded:
            return False
        self.excluded += (tool_name,)
        return True

    def count_call(self, call: ToolCall) -> int:
        """How many times in a row this very call (tool and arguments) has now been asked for."""
        last = self.last_call
        if last is not None and last.name == call.name and last.args == call.args:
            self.repeats += 1
        else:
            self.last_call = call
            self.repeats = 1
        return self.repeats


def _counted(counts: dict[str, int] | None, name: str) -> dict[str, int]:
    counts = {} if counts is None else counts
    counts[name] = counts.get(name, 0) + 1
    return counts


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
