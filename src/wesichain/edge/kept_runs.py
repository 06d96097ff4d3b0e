"""Kept runs: plain runs that have ended or wait, for a limited time and in a limited amount of memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from wesichain.core.internal import Value

from .limits import Limits


class Keepable(Protocol):
    """What is kept: a run of an owner."""

    @property
    def run_id(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def is_waiting(self) -> bool: ...
    @property
    def size(self) -> int: ...


RunT = TypeVar("RunT", bound=Keepable)


class _Kept(Value, Generic[RunT]):
    """A kept run, the time until which it is kept, and its bytes."""

    run: RunT
    until: float
    size: int


class KeptRuns(Generic[RunT]):
    """Keeps runs by their ids until their time is over.

    If there are too many, or too many bytes, runs of the owner who has the most of them go: the oldest that
    has ended, or else the oldest that waits. An owner cannot push out the runs of another with fewer.
    """

    def __init__(self, limits: Limits, time: Callable[[], float]) -> None:
        self._limits = limits
        self._time = time
        self._runs: dict[bool, OrderedDict[str, _Kept[RunT]]] = {False: OrderedDict(), True: OrderedDict()}
        self._counts: dict[str, int] = {}  # by owner
        self._bytes: dict[str, int] = {}

    def add(self, run: RunT) -> None:
        """Keep a run that has ended or waits; one that was kept before is replaced."""
        self.remove(run.run_id)
        seconds = self._limits.wait_seconds if run.is_waiting else self._limits.keep_seconds
        kept = _Kept(run, self._time() + seconds, run.size)
        self._runs[run.is_waiting][run.run_id] = kept
        self._counts[run.owner] = self._counts.get(run.owner, 0) + 1
        self._bytes[run.owner] = self._bytes.get(run.owner, 0) + kept.size
        self._make_room()

    def remove(self, run_id: str) -> None:
        """Do not keep this run any more."""
        for runs in self._runs.values():
            kept = runs.pop(run_id, None)
            if kept is not None:
                owner = kept.run.owner
                self._counts[owner] -= 1
                self._bytes[owner] -= kept.size
                if not self._counts[owner]:
                    del self._counts[owner], self._bytes[owner]

    def get(self, run_id: str) -> RunT | None:
        """The run with this id, if it is kept."""
        self._forget_old()
        kept = self._runs[True].get(run_id) or self._runs[False].get(run_id)
        return None if kept is None else kept.run

    def waiting(self) -> Iterator[RunT]:
        """The runs that wait, the newest first."""
        self._forget_old()
        for kept in reversed(self._runs[True].values()):
            yield kept.run

    def _forget_old(self) -> None:
        now = self._time()
        for runs in self._runs.values():
            while runs and next(iter(runs.values())).until <= now:
                self.remove(next(iter(runs)))

    def _make_room(self) -> None:
        self._forget_old()
        while sum(len(runs) for runs in self._runs.values()) > self._limits.keep_runs:
            self._drop_one_of(max(self._counts, key=self._counts.__getitem__))
        while sum(self._bytes.values()) > self._limits.keep_bytes:
            self._drop_one_of(max(self._bytes, key=self._bytes.__getitem__))

    def _drop_one_of(self, owner: str) -> None:
        for runs in self._runs.values():  # ended runs before those that wait
            for run_id, kept in runs.items():
                if kept.run.owner == owner:
                    self.remove(run_id)
                    return
