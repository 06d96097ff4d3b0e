"""The tally: counts of a run's errors, repeated calls and tools that are no longer offered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from wesichain.core import ReActStep, ToolCall, ToolSpec
from wesichain.core.internal import Mutable
from wesichain.journal.internal import RecordedError, name_of_class
from wesichain.policy import N, OnceWithToolCatalog, RepromptStrategy

_KEPT = 500  # characters
_EVERY = ("Exception", "BaseException")  # which every error is, and no record names


class Tally(Mutable):
    """Counts of one run. They follow from its log, and are counted again when the run continues."""

    faults: dict[str, int] | None = None  # by class of error; None, since most runs have no errors
    row: dict[str, int] | None = None  # the faults since the last valid reply
    reprompts: dict[str, int] | None = None
    tool_failures: dict[str, int] | None = None
    excluded: tuple[str, ...] = ()
    last_call: ToolCall | None = None
    last_result: str = ""  # the result of that call (`short_result`)
    repeats: int = 0
    free: bool = False  # whether the next model call spends no step
    found: tuple[str, ...] = ()  # the tools that searches have found
    advised: tuple[str, ...] = ()  # the tools that the advice recommends
    unknown: tuple[tuple[str, Any], ...] = ()  # names and arguments of calls whose outcome is unknown

    def in_order(self, tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """The tools in the order in which they are offered: a recommended tool before similar ones.

        Tools with the same parameters are similar. All other tools keep their places.
        """
        listed = list(tools)
        for name in reversed(self.advised):
            place = next((at for at, tool in enumerate(listed) if tool.name == name), None)
            if place is not None:
                taken = _parameters(listed[place])
                first = next(at for at, tool in enumerate(listed) if _parameters(tool) == taken)
                listed.insert(first, listed.pop(place))
        return tuple(listed) if self.advised else tools

    def count_fault(self, fault: RecordedError) -> None:
        """Count the error and its causes under each of their classes and base classes."""
        names = {name for raised in fault.chain for name in raised.classes}
        self.faults = _counted(self.faults, *names, *_EVERY)
        self.row = _counted(self.row, *names, *_EVERY)

    def times(self, error_class: type[BaseException]) -> int:
        return (self.faults or {}).get(name_of_class(error_class), 0)

    def times_in_row(self, error_class: type[BaseException]) -> int:
        return (self.row or {}).get(name_of_class(error_class), 0)

    def may_reprompt(self, fault: RecordedError, strategy: RepromptStrategy) -> bool:
        """Count a reprompt for the class of an error; False if the strategy does not allow it."""
        match strategy:
            case OnceWithToolCatalog():
                limit = 1
            case N(n=limit):
                pass
        return self.count_reprompt(fault) <= limit

    def count_reprompt(self, fault: RecordedError) -> int:
        """Count that an error of this class is returned to the model; return how often that was."""
        name = fault.error.classes[0]
        self.reprompts = _counted(self.reprompts, name)
        return self.reprompts[name]

    def count_tool_failure(self, tool_name: str, *, limit: int | None) -> bool:
        """Count a failure of a tool; True if the tool is not offered any more because of it."""
        self.tool_failures = _counted(self.tool_failures, tool_name)
        if limit is None or self.tool_failures[tool_name] < limit or tool_name in self.excluded:
            return False
        self.excluded += (tool_name,)
        return True


def short_result(text: str) -> str:
    """The text of a result, or the length and checksum of a long one, to compare with the next result."""
    return text if len(text) <= _KEPT else f"{len(text)} {crc32(text.encode('utf-8', 'surrogatepass'))}"


def _parameters(tool: ToolSpec) -> frozenset[str]:
    return frozenset(tool.parameters.get("properties") or ())


def _counted(counts: dict[str, int] | None, *names: str) -> dict[str, int]:
    counted: dict[str, int] = {} if counts is None else {**counts}
    for name in names:
        counted[name] = counted.get(name, 0) + 1
    return counted


class PolicyView(Mutable):
    """The policy's view of a run."""

    _phase: Any
    _tally: Tally
    iteration_count: int

    @property
    def user_input(self) -> str:
        text: str = self._phase.user_input
        return text

    @property
    def scratchpad(self) -> Sequence[ReActStep]:
        steps: Sequence[ReActStep] = self._phase.steps
        return steps

    def faults(self, error_class: type[BaseException]) -> int:
        return self._tally.times(error_class)

    def faults_in_row(self, error_class: type[BaseException]) -> int:
        return self._tally.times_in_row(error_class)
