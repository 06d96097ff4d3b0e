"""The tally: what has gone wrong in a run so far, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from wesichain.core import ToolCall
from wesichain.policy import N, OnceWithToolCatalog, RepromptStrategy


@dataclass(slots=True)
class Tally:
    """Counts of one run. Plain data, so that an interrupted run takes it along."""

    faults: dict[str, int] = field(default_factory=dict)
    reprompts: dict[str, int] = field(default_factory=dict)
    tool_failures: dict[str, int] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    last_call: ToolCall | None = None
    repeats: int = 0

    def count_fault(self, error: BaseException) -> None:
        """Count the error, and the cause behind it, under each of their classes."""
        names = {_name(cls) for cls in type(error).__mro__}
        if error.__cause__ is not None:
            names.update(_name(cls) for cls in type(error.__cause__).__mro__)
        for name in names:
            self.faults[name] = self.faults.get(name, 0) + 1

    def times(self, error_class: type[BaseException]) -> int:
        return self.faults.get(_name(error_class), 0)

    def may_reprompt(self, error: BaseException, strategy: RepromptStrategy) -> bool:
        """Count one more reprompt for this class of error; False when the strategy allows no more."""
        match strategy:
            case OnceWithToolCatalog():
                limit = 1
            case N(n=limit):
                pass
        name = _name(type(error))
        used = self.reprompts.get(name, 0)
        self.reprompts[name] = used + 1
        return used < limit

    def count_tool_failure(self, tool_name: str, *, limit: int | None) -> bool:
        """Count a failure of a tool; True when this one excludes it from the rest of the run."""
        failures = self.tool_failures.get(tool_name, 0) + 1
        self.tool_failures[tool_name] = failures
        if limit is None or failures < limit or tool_name in self.excluded:
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


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
