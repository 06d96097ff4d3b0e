"""Cycles: whether a node keeps seeing the same state. Costs what a super-step changed, not what there is."""

from __future__ import annotations

from collections import deque

from wesichain.graph.state import UNSET, Growing, Values, fingerprint, grow
from wesichain.graph.superstep import Folded, Frontier

_TOO_OFTEN = 3


class CycleWatch:
    """Remembers which states the nodes of the last `window` super-steps saw, as fingerprints."""

    __slots__ = ("_counts", "_marks", "_seen", "_total", "_window")

    def __init__(self, values: Values, *, window: int) -> None:
        self._window = window
        self._seen: deque[set[tuple[str, int]]] = deque()
        self._counts: dict[tuple[str, int], int] = {}
        self._marks = {name: fingerprint(value) for name, value in values.data.items()}
        self._total = 0
        for item in self._marks.items():
            self._total ^= hash(item)

    def update(self, folded: Folded) -> None:
        """Take what a super-step changed."""
        for name, change in folded.changes.items():
            value, before = folded.values.data[name], self._marks.get(name)
            if change.kept is not None and before is not None and isinstance(value, Growing):
                self._mark(name, grow(before, value.items(change.kept)))
            else:
                self._mark(name, fingerprint(value))
        for name in folded.dropped:
            self._mark(name, fingerprint(folded.values.data.get(name, UNSET)))

    def _mark(self, name: str, mark: int) -> None:
        if name in self._marks:
            self._total ^= hash((name, self._marks[name]))
        self._marks[name] = mark
        self._total ^= hash((name, mark))

    def see(self, frontier: Frontier) -> str | None:
        """Note what the next super-step's nodes see; the one that has seen it too often, if there is one."""
        now = {
            (task.node, hash((self._total, fingerprint(task.payload) if task.is_sent else 0)))
            for task in frontier.tasks
        }
        self._seen.append(now)
        for place in now:
            self._counts[place] = self._counts.get(place, 0) + 1
        if len(self._seen) > self._window:
            for place in self._seen.popleft():
                self._counts[place] -= 1
                if not self._counts[place]:
                    del self._counts[place]
        return next((place[0] for place in now if self._counts[place] >= _TOO_OFTEN), None)
