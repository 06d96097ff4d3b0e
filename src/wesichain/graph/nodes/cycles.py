"""Cycle detection: whether a node repeatedly sees the same state.

States are compared by fingerprints. The fingerprint of a list is extended when items are appended, so that
the cost of a super-step depends on what it changed, not on the size of the state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from wesichain.core.internal import field_values, is_record
from wesichain.graph.state.kinds import is_dict, is_list, is_some, is_tuple, kind_of
from wesichain.graph.state.owned import AppendOnlyList
from wesichain.graph.state.reducers import UNSET, Unset
from wesichain.graph.state.schema import StateValues
from wesichain.graph.superstep import Folded, Frontier

_TOO_OFTEN = 3


class CycleWatch:
    """Records the fingerprints of the states that nodes saw in the last `window` super-steps.

    While the state contains an opaque object, which could change unnoticed, no two states are equal.
    """

    __slots__ = ("_counts", "_marks", "_opaque", "_seen", "_total", "_window")

    def __init__(self, values: StateValues, *, window: int) -> None:
        self._window = window
        self._seen: deque[set[tuple[str, int]]] = deque()
        self._counts: dict[tuple[str, int], int] = {}
        self._marks: dict[str, int] = {}
        self._opaque: set[str] = set()
        self._total = 0
        for name, value in values.items():
            self._mark(name, value)

    def update(self, folded: Folded) -> None:
        """Update the fingerprint with the changes of a super-step."""
        for name, change in folded.changes.items():
            self._mark(name, folded.values[name], kept=change.kept)
        for name in folded.dropped:
            self._mark(name, folded.values.get(name, UNSET))

    def _mark(self, name: str, value: Any, *, kept: int | None = None) -> None:
        before = self._marks.pop(name, None)
        if before is not None:
            self._total ^= hash((name, before))
        try:
            if kept is not None and before is not None and isinstance(value, AppendOnlyList):
                mark = grow(before, value.items(kept))
            else:
                mark = fingerprint(value)
        except TypeError:  # a value that cannot be compared
            self._opaque.add(name)
            return
        self._opaque.discard(name)
        self._marks[name] = mark
        self._total ^= hash((name, mark))

    def see(self, frontier: Frontier) -> str | None:
        """Record what the nodes of the next super-step see; return the node that has seen it too often."""
        now = self._places(frontier)
        self._seen.append(now)
        for place in now:
            self._counts[place] = self._counts.get(place, 0) + 1
        if len(self._seen) > self._window:
            for place in self._seen.popleft():
                self._counts[place] -= 1
                if not self._counts[place]:
                    del self._counts[place]
        return next((place[0] for place in now if self._counts[place] >= _TOO_OFTEN), None)

    def _places(self, frontier: Frontier) -> set[tuple[str, int]]:
        if self._opaque:
            return set()
        try:
            return {
                (task.node, hash((self._total, fingerprint(task.payload) if task.is_sent else 0)))
                for task in frontier.tasks
            }
        except TypeError:  # of a value that has no fingerprint
            return set()


# --- fingerprints ----------------------------------------------------------------------------------


def fingerprint(value: Any) -> int:
    """Return a hash that equal values share and, barring collisions, different values do not.

    The hash of a list is folded from the left, so that `grow(fingerprint(a), b) == fingerprint(a + b)`.
    """
    if isinstance(value, str):
        return hash(value)
    if value is None or isinstance(value, bool | int | float):
        return hash((None, repr(value)))  # hash() itself takes -1 for -2, and 1 for True; "1" is not 1
    if isinstance(value, AppendOnlyList):
        return value.folded(grow, hash(list))
    if is_list(value) or is_tuple(value):
        return grow(hash(type(value)), value)
    if is_dict(value):
        return hash(frozenset((fingerprint(key), fingerprint(item)) for key, item in value.items()))
    if is_some(value):
        return hash((isinstance(value, set), frozenset(map(fingerprint, value))))
    if is_record(value):
        return hash((kind_of(value), *map(fingerprint, field_values(value))))
    if kind_of(value).__hash__ in (None, object.__hash__) and not isinstance(value, _UNCHANGING):
        raise TypeError(f"{kind_of(value).__name__} has no hash of its own")
    return hash(value)


_UNCHANGING = (type, FunctionType, BuiltinFunctionType, ModuleType, Enum, Unset)


def grow(mark: int, items: Sequence[Any]) -> int:
    """Return the fingerprint of a list after these items are appended to it."""
    for item in items:
        mark = hash((mark, fingerprint(item)))
    return mark
