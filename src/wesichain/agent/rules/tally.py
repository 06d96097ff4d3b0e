"""The tally: what has gone wrong in a run so far, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from zlib import crc32

from wesichain.core import ReActStep, ToolCall, ToolSpec
from wesichain.core.internal import Cut, Mutable
from wesichain.policy import N, OnceWithToolCatalog, RepromptStrategy, chain_of

_KEPT = 500  # characters


class Tally(Mutable, eq=True, omit_defaults=True):
    """Counts of one run. Plain data, so that an interrupted run takes a copy along.

    Its fields are set anew and never changed in place: what was copied stays as it was.
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

    faults: dict[str, int] | None = None  # None, not an empty dict: most runs have none, and there are many
    row: dict[str, int] | None = None  # of them, those since the last step that went well
    reprompts: dict[str, int] | None = None
    tool_failures: dict[str, int] | None = None
    excluded: tuple[str, ...] = ()
    last_call: ToolCall | None = None
    last_result: str = ""  # what the call gave (`short_result`)
    repeats: int = 0
    free: bool = False  # the next model call spends no step: by the policy, and there was one left
    limit: str | None = None  # the limit that the run has met: what comes next is its last word
    cuts: tuple[Cut, ...] = ()  # what the model was no longer shown
    found: tuple[str, ...] = ()  # the tools that searches have found
    advised: tuple[str, ...] = ()  # the tools that advice says to call

    def in_order(self, tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """The tools as a model is offered them: what advice says to call before what it might try instead.

        These are the tools that take the same parameters; all others stay where they are.
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
        """Count the error, and the causes behind it, under each of their classes."""
        names = {name for found in chain_of(error) for name in _names(type(found))}
        self.faults = _counted(self.faults, *names)
        self.row = _counted(self.row, *names)

    def times(self, error_class: type[BaseException]) -> int:
        return (self.faults or {}).get(_name(error_class), 0)

    def times_in_row(self, error_class: type[BaseException]) -> int:
        return (self.row or {}).get(_name(error_class), 0)

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


def short_result(text: str) -> str:
    """What a tally keeps of a call's result: all of it, or of a long one its length and checksum."""
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
