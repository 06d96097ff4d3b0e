"""The tally: counts of a run's errors, repeated calls and tools that are no longer offered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from zlib import crc32

from wesichain.core import ReActStep, ToolCall, ToolSpec
from wesichain.core.internal import Cut, Mutable
from wesichain.policy import N, OnceWithToolCatalog, RepromptStrategy
from wesichain.policy.internal import chain_of

_KEPT = 500  # characters


class Tally(Mutable, eq=True, omit_defaults=True):
    """Counts of one run, as plain data that is stored with an interrupted run.

    Fields are assigned and never changed in place, so that a shallow copy stays as it is.
    """

    __always__: ClassVar[tuple[str, ...]] = (
        "faults",
        "row",
        "reprompts",
        "tool_failures",
        "excluded",
        "last_call",
        "last_result",
        "repeats",
        "free",
        "limit",
    )

    faults: dict[str, int] | None = None  # by class of error; None, since most runs have no errors
    row: dict[str, int] | None = None  # the faults since the last valid reply
    reprompts: dict[str, int] | None = None
    tool_failures: dict[str, int] | None = None
    excluded: tuple[str, ...] = ()
    last_call: ToolCall | None = None
    last_result: str = ""  # the result of that call (`short_result`)
    repeats: int = 0
    free: bool = False  # whether the next model call spends no step
    limit: str | None = None  # the limit that the run has met: the next reply is the last one
    cuts: tuple[Cut, ...] = ()  # made by the context views
    found: tuple[str, ...] = ()  # the tools that searches have found
    advised: tuple[str, ...] = ()  # the tools that the advice recommends

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

    def count_fault(self, error: BaseException) -> None:
        """Count the error and its causes under each of their classes and base classes."""
        names = {name for found in chain_of(error) for name in _names(type(found))}
        self.faults = _counted(self.faults, *names)
        self.row = _counted(self.row, *names)

    def times(self, error_class: type[BaseException]) -> int:
        return (self.faults or {}).get(_name(error_class), 0)

    def times_in_row(self, error_class: type[BaseException]) -> int:
        return (self.row or {}).get(_name(error_class), 0)

    def may_reprompt(self, error: BaseException, strategy: RepromptStrategy) -> bool:
        """Count a reprompt for this class of error; False if the strategy does not allow it."""
        match strategy:
            case OnceWithToolCatalog():
                limit = 1
            case N(n=limit):
                pass
        name = _name(type(error))
        self.reprompts = _counted(self.reprompts, name)
        return self.reprompts[name] <= limit

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


def _names(cls: type) -> tuple[str, ...]:
    names = _known.get(cls)
    if names is None:
        if len(_known) >= 256:
            _known.clear()
        names = _known[cls] = tuple(map(_name, cls.__mro__))
    return names


_known: dict[type, tuple[str, ...]] = {}


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


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
