"""Cycles: whether a node keeps seeing the same state. Costs what a super-step changed, not what there is."""

from __future__ import annotations

from collections import deque
from typing import Any

from wesichain.graph.state import UNSET, AppendOnlyList, OpaqueError, StateValues, fingerprint, grow
from wesichain.graph.superstep import Folded, Frontier

_TOO_OFTEN = 3


class CycleWatch:
    """Remembers which states the nodes of the last `window` super-steps saw, as fingerprints.

    While the state holds something opaque, which could have changed unseen, no two states are the same.
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
        """Take what a super-step changed."""
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
        except OpaqueError:
            self._opaque.add(name)
            return
        self._opaque.discard(name)
        self._marks[name] = mark
        self._total ^= hash((name, mark))

    def see(self, frontier: Frontier) -> str | None:
        """Note what the next super-step's nodes see; the one that has seen it too often, if there is one."""
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
        except OpaqueError:
            return set()
