"""The log of one tree of runs: entries with names, and announcements between them, in order.

An entry is recorded once it is known: a reply, a result, a decision. An announcement says that something has
begun or goes on: a step, a call, progress. A run continues from its entries; events are made from both.

In memory a log is a list. An entry is a tuple `(name, body, at, elapsed)`, an announcement a tuple
`(class of its event, place, step, at, *fields)`. What follows from the list, such as the index of names, is
computed when somebody asks for it, and extended with the list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from wesichain.core import Message
from wesichain.core.internal import Clock, PendingCall, Spent, Value, running_loop
from wesichain.errors import ReplayMismatchError

from .entries import Answer, Asked, Begin, End, Go, Left
from .entry_names import parse, places_above

if TYPE_CHECKING:  # loaded when a log is read, or waits for somebody: most are only written
    from wesichain.store import Claim

    from .log_index import LogIndex
    from .spending import Ledgers

B = TypeVar("B", bound=Value)
Record: TypeAlias = tuple[Any, ...]

# The entries that a program asks for by their names; others are for readers of the log, or for its writer.
_ASKED_FOR = frozenset({"begin", "ask", "call", "perform", "asked", "hand", "visit", "sleep", "wait"})


class Unread:
    """A body that is made when somebody needs it first: read from a store, or put together."""

    __slots__ = ("read",)

    def __init__(self, read: Callable[[], Value]) -> None:
        self.read = read


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

    async def look(self) -> None:
        """Read what has come from outside."""
        ...

    def release(self, unique: str) -> None:
        """End a claim with the next append: what it names has failed, and may be done by another run."""
        ...

    async def first(
        self, name: str, body: Value, *, claims: Sequence[Claim] = (), releases: Sequence[str] = ()
    ) -> None:
        """Store an entry, unless the log has one of this name, which others may have written meanwhile.

        `claims` and `releases` are made with it. Raises `UniqueConflictError` if another entry has a claim.
        """
        ...

    async def now(self) -> float:
        """The time by the clock of the store."""
        ...


class JournalLog:
    """The log of one tree of runs in this process."""

    # A log has few attributes of its own until it is stored, followed or continued: most logs never are.
    known = 0  # the number of records from before this leg of the work
    leg = 1
    writer: LogWriter | None = None
    journals: Any = None  # the `Journals` that the log is stored in
    refuse: Callable[[str], BaseException] | None = None  # in a replay: what an act raises
    strict = False  # whether a request has to be the recorded one, whatever program it is
    before = 0.0  # the seconds that were worked on the run in earlier legs
    _loop: asyncio.AbstractEventLoop | None = None  # of the followers
    _followers: tuple[Follower, ...] = ()
    _index: LogIndex | None = None
    _ledgers: Ledgers | None = None  # before this leg
    _claimed: set[str] | None = None  # the names that the program has asked for
    _settled: set[str] | None = None  # places whose entries nobody has to ask for
    _left_inside: list[str] | None = None
    _waits: list[tuple[str, Mapping[str, Any]]] | None = None  # of this leg, beside questions
    _has_asked = False
    is_open = False  # whether somebody has a handle to send messages with
    has_mail = False  # whether a message to an agent has come that may not have been read
    _listeners: tuple[Callable[[str, Any], None], ...] = ()  # of what comes from outside

    def __init__(self, run_id: str, clock: Clock) -> None:
        self.run_id = run_id
        self.clock = clock
        self.records: list[Record] = []
        self.append: Callable[[Record], None] | None = self.records.append  # None if somebody has to see it
        self.opened_at = clock.monotonic()

    def reopened(self) -> None:
        """Begin another leg of the work after the records so far."""
        self.known = len(self.records)
        self.leg = 1 + self.index.legs
        self.before = self._last_elapsed()
        self.opened_at = self.clock.monotonic()
        self._loop = None
        self._claimed = self._settled = self._ledgers = self._left_inside = self._waits = None
        self.writer = self.refuse = None
        self._followers = self._listeners = ()
        self.append = self.records.append
        self.has_mail = bool(self.index.untaken)

    def copy(self, clock: Clock, *, until: int | None = None, run_id: str = "") -> JournalLog:
        """A log with the same records, or with the first ones of them."""
        made = JournalLog(run_id or self.run_id, clock)
        made.records = self.records[:until]
        return made

    def continued(self, until: int, clock: Clock) -> JournalLog:
        """This log, to be continued from record number `until`; a copy if it has gone on since."""
        if not until or until == len(self.records):
            self.clock = clock
            return self
        return self.copy(clock, until=until)

    # --- writing -----------------------------------------------------------------------------------

    def write(self, name: str, body: Any) -> None:
        """Append an entry. Its name is used nowhere else in the log."""
        clock = self.clock
        self.add((name, body, clock.time(), self.before + clock.monotonic() - self.opened_at))

    def add(self, record: Record) -> None:
        """Append a record: an entry, or an announcement."""
        if self.refuse is not None:
            if record[0].__class__ is str:
                self._compare(record[0], record[1])
            return
        self.records.append(record)
        if self._followers:
            self._notify()

    def replay(self, refuse: Callable[[str], BaseException]) -> None:
        """From now on, compare what is added with the records so far; `refuse` makes what an act raises."""
        self.strict, self.refuse, self.append = True, refuse, None

    def enter(self, name: str, body: Any) -> None:
        """Append an entry that comes from outside. It does no work: the run's seconds stay as they are."""
        self.records.append((name, body, self.clock.time(), self._last_elapsed()))

    def receive(self, record: Record) -> None:
        """Append an entry that has come from outside, while this process works on the run."""
        self.add(record)
        name, body = record[0], self.body(len(self.records) - 1)
        self.has_mail = self.has_mail or bool(getattr(body, "when", ""))
        for listener in self._listeners:
            listener(name, body)

    def listen(self, listener: Callable[[str, Any], None]) -> Callable[[], None]:
        """Call `listener` with the name and the body of what comes from outside; returns what ends that."""
        self._listeners += (listener,)
        return lambda: self._unlisten(listener)

    def _unlisten(self, listener: Callable[[str, Any], None]) -> None:
        self._listeners = tuple(one for one in self._listeners if one is not listener)

    def forget(self, number: int) -> None:
        """Put an empty note in the place of a record that cannot be read."""
        self.records[number] = (_Unreadable, "", 0, 0.0)

    def _compare(self, name: str, body: Any) -> None:
        """In a replay: compare an entry that the program would add with the recorded one."""
        assert self.refuse is not None, "it is a replay"
        number, kind = self.number_of(name), parse(name).kind
        if number is None:
            if kind not in ("go", "left"):
                raise self.refuse(name)
            return
        self._claim(name)
        recorded = self.body(number)
        if kind in ("end", "call") and recorded.essence != body.essence:
            raise ReplayMismatchError(
                f"the entry {name!r} differs from the recorded one: recorded {_short(recorded.essence)}, now "
                f"{_short(body.essence)}",
                name=name,
                expected=recorded.essence,
                actual=body.essence,
            )

    async def flush(self) -> None:
        """Store the entries so far, if the log has a store."""
        if self.writer is not None:
            await self.writer.flush()

    async def next_record(self) -> None:
        """Wait until the log has another record."""
        from .following import next_record  # loaded with the first wait

        await next_record(self)

    # --- followers -----------------------------------------------------------------------------------

    def follow(self, follower: Follower) -> None:
        """Call a follower for each record that is added from now on."""
        if self._loop is None:
            self._loop = running_loop()
        self._followers += (follower,)
        self.append = None

    def unfollow(self, follower: Follower) -> None:
        """End what `follow()` began."""
        self._followers = tuple(one for one in self._followers if one is not follower)
        if not self._followers and self.refuse is None:
            self.append = self.records.append

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

    # --- time ----------------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        """The seconds that were worked on the outermost run, in all its legs."""
        return self.before + self.clock.monotonic() - self.opened_at

    async def now(self) -> float:
        """The time in seconds since the epoch, by the clock of the store if the log has one."""
        return self.clock.time() if self.writer is None else await self.writer.now()

    def _last_elapsed(self) -> float:
        return next((one[3] for one in reversed(self.records) if one[0].__class__ is str), 0.0)

    # --- reading -----------------------------------------------------------------------------------

    @property
    def index(self) -> LogIndex:
        """What the log has, by name; extended to the last record."""
        index = self._index
        if index is None:
            from .log_index import LogIndex

            index = self._index = LogIndex(self)
        if index.size != len(self.records):
            index.extend()
        return index

    @property
    def can_be_told(self) -> bool:
        """Whether messages may come from outside, or may have come before."""
        return self.writer is not None or self.has_mail or self.is_open or self.known > 0

    @property
    def is_new(self) -> bool:
        """Whether nothing was recorded before this leg."""
        return self.known == 0

    def find(self, name: str, kind: type[B]) -> B | None:
        """The body of an entry, which counts as asked for; None if there is none of this name."""
        number = self.index.numbers.get(name)
        if number is None:
            return None
        self._claim(name)
        return cast("B", self.body(number))  # the name says what it is

    def _claim(self, name: str) -> None:
        if self._claimed is None:
            self._claimed = set()
        self._claimed.add(name)

    def has(self, name: str) -> bool:
        """Whether there is an entry of this name."""
        return name in self.index.numbers

    def number_of(self, name: str) -> int | None:
        """The number of the record with this name."""
        return self.index.numbers.get(name)

    def body(self, number: int) -> Any:
        """The body of an entry, read from its text when it is needed first."""
        record = self.records[number]
        body = record[1]
        if body.__class__ is Unread:
            body = body.read()
            self.records[number] = (record[0], body, record[2], record[3])
        return body

    def entries(self) -> Iterator[tuple[int, str]]:
        """The numbers and names of the entries, in order."""
        for number, record in enumerate(self.records):
            if record[0].__class__ is str:
                yield number, record[0]

    def entries_in(self, until: int) -> int:
        """The number of entries among the first `until` records."""
        return sum(record[0].__class__ is str for record in self.records[:until])

    def names_inside(self, place: str) -> Iterator[str]:
        """The names of the entries in a place and in the places inside it."""
        return (name for name in self.index.numbers if name.startswith(place))

    def begin_of(self, place: str = "") -> Begin | None:
        """The first entry of the run in a place."""
        number = self.number_of(f"{place}begin")
        return None if number is None else self.body(number)

    def claim_begin(self, place: str) -> Begin | None:
        """The first entry of the run in a place, which counts as asked for."""
        return self.find(f"{place}begin", Begin)

    def started(self, place: str, step: int) -> tuple[tuple[Message, ...], bool, bool] | None:
        """What was announced of a step: its new messages, whether it follows, and whether it was free."""
        number = self.index.steps.get((place, step))
        if number is None:
            return None
        *_, messages, follows, free = self.records[number]
        return messages, follows, free

    def have_ended(self, place: str) -> bool:
        """Whether runs have begun inside a call, and all of them have ended."""
        begun = [name for name in self.names_inside(place) if name.endswith("/begin")]
        return bool(begun) and all(self.has(f"{name.removesuffix('begin')}end") for name in begun)

    # --- where work on the run began and ended ---------------------------------------------------------

    @property
    def last(self) -> Go | Left | End | None:
        """The last entry that says where work on the run began or ended."""
        number = self.index.last
        return None if number is None else self.body(number)

    @property
    def stop_reason(self) -> str | None:
        """The reason of a stop that is in force: nobody has resumed the run since."""
        number = self.index.stop
        return None if number is None else str(self.body(number).reason)

    def count(self, kind: str) -> int:
        """The number of entries of a kind at the top of the run."""
        return sum(name.startswith(f"{kind} ") for _, name in self.entries())

    def left_inside(self, names: Sequence[str]) -> None:
        """Note the calls of a run inside another that are entered again."""
        self._left_inside = [*(self._left_inside or ()), *names]

    def take_left_inside(self) -> tuple[str, ...]:
        """The calls of all runs inside the outermost one that are entered again."""
        names, self._left_inside = tuple(self._left_inside or ()), None
        return names

    def was_left(self, name: str) -> bool:
        """Whether work on the run has ended before while this call was entered."""
        return any(name in self.body(number).inside for number in self.index.lefts)

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

    # --- what the run waits for --------------------------------------------------------------------

    def ask(self, name: str, asked: Asked) -> None:
        """Record a question to a person."""
        self.write(name, asked)
        self._has_asked = True

    @property
    def has_questions(self) -> bool:
        """Whether a question was asked. A run that asks none, and was not continued, needs no index."""
        return self._has_asked or (self.known > 0 and bool(self.index.questions))

    def token_of(self, place: str, name: str) -> str | None:
        """The token of a question that was asked before under a name."""
        return self.index.tokens.get((place, name))

    def answer_name(self, token: str) -> str:
        """The name of the entry that answers a question."""
        return f"{parse(self.index.questions[token]).place}answer {token}"

    def is_answered(self, token: str) -> bool:
        """Whether a question has an answer."""
        return self.has(self.answer_name(token))

    def answer(self, token: str, answer: Answer) -> None:
        """Record the answer to a question."""
        self.enter(self.answer_name(token), answer)

    def questions(self, place: str = "") -> Iterator[Asked]:
        """All questions in a place, and in the places inside it, in their order."""
        for name in [*self.index.questions.values()]:
            if name.startswith(place):
                yield self.body(self.index.numbers[name])

    def open_questions(self, place: str = "") -> list[Asked]:
        """The questions in a place, and in the places inside it, that have no answer."""
        return [asked for asked in self.questions(place) if not self.is_answered(asked.token)]

    def pending(self, place: str = "") -> tuple[PendingCall, ...]:
        """The questions in a place that have no answer, as outcomes and events show them."""
        from .questions import pending_call

        return tuple(map(pending_call, self.open_questions(place)))

    def next_signal(self, name: str) -> str | None:
        """The name of the entry of the next signal with this name that nobody has received."""
        bodies = ((entry, self.body(number)) for entry, number in self.index.untaken.items())
        return next((entry for entry, say in bodies if say.signal == name), None)

    def wait(self, place: str, wait: Mapping[str, Any]) -> None:
        """Note something that this leg of the work waits for; questions are entries."""
        if self._waits is None:
            self._waits = []
        self._waits.append((place, wait))

    def waits(self, place: str = "") -> tuple[Mapping[str, Any], ...]:
        """What the run in a place, and those inside it, wait for."""
        from .waiting import wait_of

        others = [wait for where, wait in self._waits or () if where.startswith(place)]
        return (*map(wait_of, self.open_questions(place)), *others)

    # --- what was spent ------------------------------------------------------------------------------

    def spent_in(self, place: str) -> Spent | None:
        """What the run in a place, and those inside it, had spent before this leg."""
        found = self._known_ledgers().by_place.get(place)
        return None if found is None else found.spent(self.before)

    def is_counted(self, name: str) -> bool:
        """Whether a `once` call that was begun before this leg is part of what was spent."""
        return name in self._known_ledgers().open_calls

    def _known_ledgers(self) -> Ledgers:
        if self._ledgers is None:
            from .spending import ledgers_of

            self._ledgers = ledgers_of(self, self.known)
        return self._ledgers

    # --- what nobody asked for -----------------------------------------------------------------------

    def settle(self, place: str) -> None:
        """The runs in a place have ended: nobody asks for their entries again."""
        if self._settled is None:
            self._settled = set()
        self._settled.add(place)

    @property
    def unclaimed(self) -> tuple[str, ...]:
        """The names of entries from before this leg that no program asked for."""
        claimed, numbers = self._claimed or (), self.index.numbers
        found: list[str] = []
        for record in self.records[: self.known]:
            name = record[0]
            if name.__class__ is str and name not in claimed and name in numbers and self._is_asked_for(name):
                found.append(name)
        return tuple(found)

    def _is_asked_for(self, name: str) -> bool:
        parsed = parse(name)
        if parsed.kind not in _ASKED_FOR or "?" in parsed.rest.rpartition(" ")[2]:
            return False
        return self._settled is None or self._settled.isdisjoint(places_above(parsed.place))


def answer_of(log: JournalLog, token: str) -> Answer | None:
    """The answer to a question, which counts as asked for."""
    return log.find(log.answer_name(token), Answer)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]} ..."
