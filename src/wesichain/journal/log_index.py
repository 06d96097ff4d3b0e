"""The index of a log: where its entries are, and what has been asked, said, begun and left."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

from wesichain.core import StepStarted

from .entries import Asked, Go
from .entry_names import parse

# Entries of other kinds are found by their names alone.
_INDEXED = frozenset({"begin", "asked", "say", "heard", "go", "left", "end", "stop", "closing"})


class IndexedLog(Protocol):
    """The part of a log that is needed here."""

    records: list[tuple[Any, ...]]

    def body(self, number: int) -> Any: ...


class LogIndex:
    """The numbers of the records of a log, in a few orders.

    `numbers` are those of entries by name, without the entries that a later leg makes again. `steps` are
    those of announced requests, by place and step. `questions` are the names of entries with questions, by
    token, `tokens` the tokens of those that have a name, by place and name. `untaken` are messages and signals
    that nobody has taken. `last` says where work on the run began or ended, `stop` is a stop in force.
    """

    __slots__ = (
        "_lock",
        "_log",
        "_unkeyed",
        "is_closing",
        "last",
        "lefts",
        "legs",
        "numbers",
        "options",
        "questions",
        "size",
        "steps",
        "stop",
        "tokens",
        "untaken",
    )

    def __init__(self, log: IndexedLog) -> None:
        self._log = log
        self._lock = threading.RLock()  # a run inside a call may be in a tool's thread
        self.size = 0
        self.numbers: dict[str, int] = {}
        self.steps: dict[tuple[str, int], int] = {}
        self.questions: dict[str, str] = {}
        self.tokens: dict[tuple[str, str], str] = {}
        self.untaken: dict[str, int] = {}
        self.last: int | None = None
        self.stop: int | None = None
        self.lefts: list[int] = []
        self.options: list[int] = []  # where later legs of the work had options of their own
        self.legs = 0
        self.is_closing = False  # whether the run is about to end, and takes no messages any more
        self._unkeyed: dict[str, list[str]] = {}

    def runs_without_key(self, prefix: str) -> Sequence[str]:
        """The places of the runs without a key that a program has begun in a call, in their order.

        `prefix` is the place of the call and the escaped name of the program.
        """
        return self._unkeyed.get(prefix, ())

    def extend(self) -> None:
        """Take in the records that were added since the last call."""
        with self._lock:
            records = self._log.records
            for number in range(self.size, len(records)):
                name = records[number][0]
                if name.__class__ is not str:
                    if name is StepStarted:
                        self.steps[records[number][1], records[number][2]] = number
                    continue
                self.numbers.setdefault(name, number)
                place, _, own = name.rpartition("/")
                kind, _, rest = own.partition(" ")
                if kind in _INDEXED:
                    self._take(kind, f"{place}/" if place else "", rest, name, number)
            self.size = len(records)

    def _take(self, kind: str, place: str, rest: str, name: str, number: int) -> None:
        match kind:
            case "begin":
                program, mark, _ = place.removesuffix("/").rpartition("~")
                if mark and "/" not in place[len(program) : -1]:
                    self._unkeyed.setdefault(program, []).append(place)
            case "asked":
                self._take_question(place, name, number)
            case "say":
                self.untaken[name] = number
            case "heard":
                heard = self._log.body(number)
                for taken in heard.names if rest.isdecimal() else (heard.name,):
                    self.untaken.pop(taken, None)
            case "go":
                self._take_go(number)
            case "stop":
                self.stop = number
            case "closing":
                self.is_closing = True
            case "left":
                self.last = number
                self.lefts.append(number)
            case _:
                self.last = self.last if place else number

    def _take_question(self, place: str, name: str, number: int) -> None:
        token = parse(name).rest
        self.questions[token] = name
        asked: Asked = self._log.body(number)
        if asked.name:
            self.tokens[place, asked.name] = token

    def _take_go(self, number: int) -> None:
        go: Go = self._log.body(number)
        self.last, self.is_closing = number, False
        self.legs += 1
        if go.own_model or go.settings is not None or go.budget is not None:
            self.options.append(number)
        if not go.writer:  # somebody has resumed it; a process that begins to work is stopped too
            self.stop = None
        for voided in go.voids:
            self.numbers.pop(voided, None)
