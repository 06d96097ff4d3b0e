"""How a run inside a call, a node or a function is found again: by its key, or by its task."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from wesichain.errors import ConfigError, JournalMismatchError

from .entry_names import escape_id, keyed_place, numbered_place
from .log import JournalLog

_CLAIMING = threading.RLock()  # runs may be started from a tool's thread


class Claims:
    """The places of the runs inside one thing. `keyed` is where those with a key stand."""

    __slots__ = ("_claimed", "_keyed", "_log", "_place", "_what")

    def __init__(self, log: JournalLog, place: str, keyed: str, *, what: str) -> None:
        self._log = log
        self._place = place
        self._keyed = keyed
        self._what = what
        self._claimed: set[str] = set()

    def claim(self, name: str, task: str, key: str | None = None, *, alone: bool = False) -> str:
        """The place of a run of an agent, a graph or a function with this name.

        With a key, a further attempt finds it. Without, it is the place of the run that was begun with the
        same task before, or a new one. What runs one agent, `alone`, has one place for it, whatever the task.
        """
        with _CLAIMING:
            if alone:
                return numbered_place(self._place, name, 1)
            place = self._by_key(name, key) if key is not None else self._by_task(name, task)
            self._claimed.add(place)
            return place

    def _by_key(self, name: str, key: str) -> str:
        place = keyed_place(self._keyed, name, key)
        if place in self._claimed:
            raise ConfigError(
                f"the key {key!r} is used for two runs of {name!r} in {self._what}; give each run a key of its own"
            )
        return place

    def _by_task(self, name: str, task: str) -> str:
        begun = self._log.index.runs_without_key(f"{self._place}{escape_id(name)}")
        free = [place for place in begun if place not in self._claimed]
        recorded = dict(zip(free, self._tasks_of(free), strict=True))
        for place, known in recorded.items():
            if known == task:
                return place
        if not free:
            return numbered_place(self._place, name, len(begun) + 1)
        first = recorded[free[0]]
        raise JournalMismatchError(
            f"{self._what} had begun a run of {name!r} with the task {first[:80]!r}, and now begins one with "
            f"{task[:80]!r}; runs that start in any order, or whose tasks change, need a name: give key=",
            name=f"{free[0]}begin",
            expected=first,
            actual=task,
        )

    def _tasks_of(self, places: Iterable[str]) -> Iterable[str]:
        for place in places:
            begin = self._log.begin_of(place)
            yield "" if begin is None else begin.task
