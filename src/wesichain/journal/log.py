"""The log of one tree of runs: entries with names, and announcements between them, in order.

An entry is recorded once it is known: a reply, a result, a decision. An announcement says that something has
begun or goes on: a step, a call, progress. A run continues from its entries; events are made from both.

In memory a log is a list. An entry is a tuple `(name, body, at, elapsed)`, an announcement a tuple whose
first item is the class of its event. What follows from the list, such as the index of names, is computed when
somebody asks for it, and extended with the list.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from wesichain.core import StepStarted
from wesichain.core.internal import Clock, PendingCall, Spent, Value, running_loop
from wesichain.errors import CodecError, ReplayMismatchError

from .entries import Answer, Asked, Begin, Go, body_type
from .names import parse, places_above
from .questions import pending_call
from .spending import Ledgers, ledgers_of
from .waiting import waiting_for

B = TypeVar("B", bound=Value)
Record: TypeAlias = tuple[Any, ...]  # (name, body, at, elapsed), or (event class, place, step, at, *fields)

# The entries that a program asks for by their names; others are for readers of the log, or for its writer.
_ASKED_FOR = frozenset({"begin", "ask", "call", "perform", "asked", "hand", "visit", "sleep"})

_ALSO_INDEXED = frozenset({"begin", "asked", "say", "heard", "go"})


class Encoded:
    """The body of an entry that was read from a store, until somebody needs it."""

    __slots__ = ("by", "read")

    def __init__(self, read: Callable[[type[Value]], Value], by: str = "") -> None:
        self.read = read
        self.by = by


class _Unreadable:
    """The class of a record in the place of one that cannot be read; it has no event."""

    def __new__(cls, *_: object, **__: object) -> Any:
        return None


class Follower(Protocol):
    """Is called in the thread of the outermost run."""

    def added(self) -> None:
        """Records were added to the log."""
        ...

    def show(self, piece: Record) -> None:
        """A piece of a streamed reply has come, which is not part of the log."""
        ...


class LogWriter(Protocol):
    """Stores the entries of a log."""

    @property
    def name(self) -> str:
        """The name of the process that works on the run."""
        ...

    async def flush(self) -> None:
        """Return once all entries that the log has now are stored."""
        ...

    async def now(self) -> float:
        """The time by the clock of the store."""
        ...


class Log:
    """The log of one tree of runs in this process."""

    __slots__ = (
        "__weakref__",
        "_claimed",
        "_clock",
        "_elapsed",
        "_followers",
        "_index",
        "_indexed",
        "_ledgers",
        "_left",
        "_lock",
        "_loop",
        "_numbered",
        "_questions",
        "_said",
        "_settled",
        "_started",
        "_steps",
        "has_questions",
        "known",
        "leg",
        "records",
        "refuse",
        "run_id",
        "strict",
        "waits",
        "was_given_options",
        "writer",
    )

    def __init__(self, run_id: str, clock: Clock) -> None:
        self.run_id = run_id
        self.records: list[Record] = []
        self.known = 0  # the number of records from before this leg of the work
        self.leg = 1
        self.writer: LogWriter | None = None
        self.refuse: Callable[[str], BaseException] | None = None  # in a replay: what an act raises
        self.strict = False  # whether a request has to be the recorded one, whatever program it is
        self._ledgers: Ledgers | None = None  # before this leg
        self._left: list[str] = []
        self._questions: dict[str, str] = {}  # the names of questions, by token
        self._said: dict[str, int] = {}  # what has entered from outside, and no step has taken
        self.waits: list[tuple[str, Mapping[str, Any]]] = []  # of this leg, beside questions: place and wait
        self._clock = clock
        self._elapsed = 0.0
        self._started = clock.monotonic()
        self._loop = running_loop()
        self._followers: tuple[Follower, ...] = ()
        self._index: dict[str, int] = {}
        self._numbered: dict[str, list[str]] = {}
        self._steps: dict[tuple[str, int], int] = {}
        self._indexed = 0
        self.has_questions = False
        self.was_given_options = False  # a later leg had another model or other settings
        self._claimed: set[str] = set()
        self._settled: set[str] = set()  # places whose entries nobody has to ask for
        self._lock = threading.RLock()  # a run inside a call may be in a tool's thread

    def reopened(self) -> None:
        """Begin another leg of the work after the records so far."""
        self.known = len(self.records)
        entries = [record for record in self.records if record[0].__class__ is str]
        self.leg = 1 + sum(record[0].startswith("go ") for record in entries)
        self._elapsed = self._last_elapsed()
        self._started = self._clock.monotonic()
        self._loop = running_loop()
        self._claimed.clear()
        self._settled.clear()
        self._ledgers = None
        self._left = []
        self.waits = []
        self.writer = self.refuse = None
        self._followers = ()

    # --- writing -----------------------------------------------------------------------------------

    def write(self, name: str, body: Any) -> None:
        """Append an entry. Its name is used nowhere else in the log."""
        if self.refuse is not None:
            self._check(name, body)
            return
        clock = self._clock
        elapsed = self._elapsed + clock.monotonic() - self._started
        self.records.append((name, body, clock.time(), elapsed))
        if self._followers:
            self._notify()

    def announce(self, record: Record) -> None:
        """Append an announcement: the class of an event, its place, step and time, and its own fields."""
        if self.refuse is not None:
            return
        self.records.append(record)
        if self._followers:
            self._notify()

    def _check(self, name: str, body: Any) -> None:
        """In a replay: compare an entry that the program would add with the recorded one."""
        assert self.refuse is not None, "it is a replay"
        number, kind = self.number_of(name), parse(name).kind
        if number is None:
            if kind not in ("go", "left"):
                raise self.refuse(name)
            return
        self._claimed.add(name)
        recorded = self.body(number)
        if kind in ("end", "call") and recorded.essence != body.essence:
            raise ReplayMismatchError(
                f"the entry {name!r} differs from the recorded one: recorded {_short(recorded.essence)}, now "
                f"{_short(body.essence)}",
                name=name,
                expected=recorded.essence,
                actual=body.essence,
            )

    def follow(self, follower: Follower) -> None:
        self._followers += (follower,)

    def unfollow(self, follower: Follower) -> None:
        self._followers = tuple(one for one in self._followers if one is not follower)

    @property
    def has_followers(self) -> bool:
        return bool(self._followers)

    def _notify(self) -> None:
        """Call the followers in the thread of the outermost run, wherever the record was added."""
        loop = self._loop
        if loop is None or loop is running_loop():
            for follower in self._followers:
                follower.added()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self._notify)

    def show(self, piece: Record) -> None:
        """Pass on a piece of a streamed reply, in the form of an announcement."""
        loop = self._loop
        if loop is None or loop is running_loop():
            for follower in self._followers:
                follower.show(piece)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self.show, piece)

    async def flush(self) -> None:
        """Store the entries so far, if the log has a store."""
        if self.writer is not None:
            await self.writer.flush()

    async def now(self) -> float:
        """The time in seconds since the epoch, by the clock of the store if the log has one."""
        return self._clock.time() if self.writer is None else await self.writer.now()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the outermost run."""
        return self._loop

    @property
    def elapsed(self) -> float:
        """The seconds that were worked on the outermost run, in all its legs."""
        return self._elapsed + self._clock.monotonic() - self._started

    @property
    def clock(self) -> Clock:
        return self._clock

    # --- reading -----------------------------------------------------------------------------------

    def entries_in(self, until: int) -> int:
        """The number of entries among the first `until` records."""
        return sum(record[0].__class__ is str for record in self.records[:until])

    def forget(self, number: int) -> None:
        """Put an empty note in the place of a record that cannot be read."""
        self.records[number] = (_Unreadable, "", 0, 0.0)

    @property
    def is_new(self) -> bool:
        """Whether nothing was recorded before this leg."""
        return self.known == 0

    def find(self, name: str, kind: type[B]) -> B | None:
        """The body of an entry, which counts as asked for; None if there is none of this name."""
        number = self.number_of(name)
        if number is None:
            return None
        self._claimed.add(name)
        return cast("B", self.body(number))

    def has(self, name: str) -> bool:
        """Whether there is an entry of this name."""
        return self.number_of(name) is not None

    def number_of(self, name: str) -> int | None:
        """The number of the record with this name."""
        if self._indexed != len(self.records):
            self._extend_index()
        return self._index.get(name)

    def body(self, number: int) -> Any:
        """The body of a record, read from its text when it is needed first."""
        record = self.records[number]
        body = record[1]
        if body.__class__ is Encoded:
            name = parse(record[0])
            body = body.read(body_type(name.kind, name.rest) or Value)
            self.records[number] = (record[0], body, *record[2:])
        return body

    def runs_without_key(self, prefix: str) -> Sequence[str]:
        """The places of the runs without a key that an agent has begun in a call, in their order.

        `prefix` is the place of the call and the escaped name of the agent.
        """
        if self._indexed != len(self.records):
            self._extend_index()
        return self._numbered.get(prefix, ())

    def names_inside(self, place: str) -> Iterator[str]:
        """The names of the entries in a place and in the places inside it."""
        if self._indexed != len(self.records):
            self._extend_index()
        return (name for name in self._index if name.startswith(place))

    def started(self, place: str, step: int) -> tuple[Any, bool, bool] | None:
        """What was announced of a step: its new messages, whether it follows, and whether it was free."""
        if self._indexed != len(self.records):
            self._extend_index()
        number = self._steps.get((place, step))
        if number is None:
            return None
        *_, messages, follows, free = self.records[number]
        return messages, follows, free

    def was_left_inside(self, name: str, place: str) -> bool:
        """Whether a call was left while something inside it waited, since it was last entered.

        `name` is that of the attempt at the call, `place` the place of what is inside it.
        """
        for number in range(len(self.records) - 1, -1, -1):
            found = self.records[number][0]
            if found.__class__ is not str:
                continue
            if found.startswith(place) and "asked " in found:
                return True
            if found.startswith("left ") and name in self.body(number).inside:
                return True
            if found.startswith(f"{name} ?"):
                return False
        return False

    def has_kind(self, prefix: str) -> bool:
        """Whether the log has an entry whose name begins so."""
        if self._indexed != len(self.records):
            self._extend_index()
        return any(name.startswith(prefix) for name in self._index)

    def was_left(self, name: str) -> bool:
        """Whether work on the run has ended before while this call was entered."""
        lefts = (number for found, number in self._index.items() if found.startswith("left "))
        return any(name in self.body(number).inside for number in lefts)

    def have_ended(self, place: str) -> bool:
        """Whether runs have begun inside a call, and all of them have ended."""
        begun = [name for name in self.names_inside(place) if name.endswith("/begin")]
        return bool(begun) and all(self.has(f"{name.removesuffix('begin')}end") for name in begun)

    def numbers_of(self, kind: str) -> Sequence[int]:
        """The numbers of the entries of a kind, in every place."""
        if self._indexed != len(self.records):
            self._extend_index()
        return [number for name, number in self._index.items() if name.rpartition("/")[2].startswith(kind)]

    def begin_of(self, place: str) -> Begin | None:
        """The first entry of the run in a place."""
        number = self.number_of(f"{place}begin")
        return None if number is None else self.body(number)

    def claim_begin(self, place: str) -> Begin | None:
        """The first entry of the run in a place, which counts as asked for."""
        return self.find(f"{place}begin", Begin)

    # --- questions -----------------------------------------------------------------------------------

    def ask(self, name: str, asked: Asked) -> None:
        """Record a question to a person."""
        self.write(name, asked)
        self.has_questions = True

    def answer(self, token: str, answer: Answer) -> None:
        """Record the answer to a question."""
        self.enter(self.answer_name(token), answer)

    def enter(self, name: str, body: Any) -> None:
        """Append an entry that comes from outside, while nobody works on the run."""
        self.records.append((name, body, self._clock.time(), self._last_elapsed()))

    def _last_elapsed(self) -> float:
        return next((one[3] for one in reversed(self.records) if one[0].__class__ is str), 0.0)

    def has_answer(self, token: str) -> bool:
        return self.has(self.answer_name(token))

    def answer_name(self, token: str) -> str:
        """The name of the entry that answers a question."""
        name = self._question_name(token)
        return f"{name[: name.rindex('asked ')]}answer {token}"

    def _question_name(self, token: str) -> str:
        """The name of the entry with a question."""
        self._extend_index()
        found = self._questions.get(token)
        if found is None:
            raise CodecError(f"the log of the run {self.run_id!r} has no question with the token {token!r}")
        return found

    def questions(self, place: str = "") -> Iterator[Asked]:
        """The questions in a place, and in places inside it, that have no answer."""
        if self._indexed != len(self.records):
            self._extend_index()
        for token, name in self._questions.items():
            if name.startswith(place) and not self.has_answer(token):
                number = self.number_of(name)
                if number is not None:
                    yield self.body(number)

    def all_questions(self) -> Iterator[Asked]:
        """All questions of the run, also those that were answered."""
        self._extend_index()
        for name in self._questions.values():
            number = self.number_of(name)
            if number is not None:
                yield self.body(number)

    def pending(self, place: str = "") -> tuple[PendingCall, ...]:
        """The calls in a place that wait for people."""
        return tuple(pending_call(asked) for asked in self.questions(place))

    # --- waiting ---------------------------------------------------------------------------------

    def said(self) -> list[tuple[str, int]]:
        """What has entered from outside, and no step has taken: names of entries, and their numbers."""
        if self._indexed != len(self.records):
            self._extend_index()
        return [*self._said.items()]

    def wait(self, place: str, wait: Mapping[str, Any]) -> None:
        """Note something that this leg of the work waits for; questions are entries."""
        self.waits.append((place, wait))

    def all_waits(self, place: str = "") -> tuple[Mapping[str, Any], ...]:
        """What the run in a place, and those inside it, wait for."""
        others = [wait for where, wait in self.waits if where.startswith(place)]
        return (*(waiting_for(asked) for asked in self.questions(place)), *others)

    # --- legs --------------------------------------------------------------------------------------

    def left_inside(self, names: Sequence[str]) -> None:
        """Note the calls of a run inside another that are entered again."""
        self._left.extend(names)

    def take_left_inside(self) -> tuple[str, ...]:
        """The calls of all runs inside the outermost one that are entered again."""
        names, self._left = tuple(self._left), []
        return names

    def continued(self, until: int, clock: Clock) -> Log:
        """This log, to be continued from record number `until`; a copy if it has gone on since."""
        if not until or until == len(self.records):
            self._clock = clock
            return self
        return self.copy(clock, until=until)

    def copy(self, clock: Clock, *, until: int | None = None, run_id: str = "") -> Log:
        """A log with the same records, or with the first ones of them."""
        made = Log(run_id or self.run_id, clock)
        made.records = self.records[:until]
        return made

    def spent_in(self, place: str) -> Spent | None:
        """What the run in a place, and those inside it, had spent before this leg."""
        found = self._known_ledgers().by_place.get(place)
        return None if found is None else found.spent(self._elapsed)

    def is_counted(self, name: str) -> bool:
        """Whether a `once` call that was begun before this leg is part of what was spent."""
        return name in self._known_ledgers().open_calls

    def _known_ledgers(self) -> Ledgers:
        if self._ledgers is None:
            self._ledgers = ledgers_of(self, self.known)
        return self._ledgers

    def _extend_index(self) -> None:
        with self._lock:
            records = self.records
            for number in range(self._indexed, len(records)):
                name = records[number][0]
                if name.__class__ is not str:
                    if name is StepStarted:
                        self._steps[records[number][1], records[number][2]] = number
                    continue
                self._index.setdefault(name, number)
                place, _, own = name.rpartition("/")
                kind = own.partition(" ")[0]
                if kind in _ALSO_INDEXED:
                    self._index_more(kind, f"{place}/" if place else "", name, number)
                self._indexed = number + 1
            self._indexed = len(records)

    def _index_more(self, kind: str, place: str, name: str, number: int) -> None:
        """Extend what is known of runs, questions and messages with one entry."""
        match kind:
            case "begin":
                agent, mark, _ = place.removesuffix("/").rpartition("~")
                if mark and "/" not in place[len(agent) : -1]:
                    self._numbered.setdefault(agent, []).append(place)
            case "asked":
                self.has_questions = True
                self._questions[parse(name).rest] = name
            case "say":
                self._said[name] = number
            case "heard":
                for taken in self.body(number).names:
                    self._said.pop(taken, None)
            case _:
                go: Go = self.body(number)
                self.was_given_options = self.was_given_options or go.has_options
                for voided in go.voids:
                    self._index.pop(voided, None)

    # --- what nobody asked for ---------------------------------------------------------------------

    def settle(self, place: str) -> None:
        """The runs in a place have ended: nobody asks for their entries again."""
        self._settled.add(place)

    @property
    def unclaimed(self) -> tuple[str, ...]:
        """The names of entries from before this leg that no program asked for."""
        found: list[str] = []
        for record in self.records[: self.known]:
            name = record[0]
            if name.__class__ is not str or name in self._claimed or name not in self._index:
                continue
            parsed = parse(name)
            if parsed.kind not in _ASKED_FOR or parsed.rest.endswith(" ?"):
                continue
            if self._settled.isdisjoint(places_above(parsed.place)):
                found.append(name)
        return tuple(found)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]} ..."
