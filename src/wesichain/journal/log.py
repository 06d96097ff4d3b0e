"""The log of one run: entries with names, in order.

In memory a log is a list of records. What follows from the list, such as the index of names, is computed when
somebody asks for it, and extended with the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from wesichain.core.internal import Clock, Value
from wesichain.store import Claim, Entry

from .entries import Answer, Asked, Begin, Go, Received, Say
from .entry_names import Name, parse
from .sealing import Cipher, opened
from .waiting import wait_of
from .written import body_reader, elapsed_of

B = TypeVar("B", bound=Value)

# The entries that a function asks for by their names; others are for readers of the log, or for its writer.
_ASKED_FOR = frozenset({"perform", "asked", "sleep", "wait"})


class Record(NamedTuple):
    """One entry. `body` is a `Value`, or a function that reads it for one that comes from a store."""

    name: str
    body: Any
    at: float
    elapsed: float


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
    """The log of one run in this process."""

    def __init__(self, run_id: str, clock: Clock) -> None:
        self.run_id = run_id
        self.clock = clock
        self.records: list[Record] = []
        self.known = 0  # the number of records from before this leg of the work
        self.leg = 1
        self.writer: LogWriter | None = None
        self._elapsed = 0.0
        self._started = clock.monotonic()
        self._waits: list[Mapping[str, Any]] = []  # of this leg, beside questions
        self._index: dict[str, int] = {}
        self._indexed = 0
        self._claimed: set[str] = set()
        self._questions: dict[str, str] = {}  # the names of the entries with questions, by token
        self._tokens: dict[tuple[str, str], str] = {}  # of questions, by place and name
        self._signals: dict[str, int] = {}  # those that nobody has received
        self._last: int | None = None
        self._stop: int | None = None

    @staticmethod
    def of(run_id: str, entries: Iterable[Entry], clock: Clock, cipher: Cipher | None = None) -> JournalLog:
        """The log with the entries of a store, to be read, or continued."""
        log = JournalLog(run_id, clock)
        for entry in entries:
            log.take(opened(entry, cipher, run_id))
        log.known = len(log.records)
        log.leg = 1 + sum(record.name.startswith("go ") for record in log.records)
        return log

    def take(self, entry: Entry) -> None:
        """Add an entry that the store has.

        What came from outside did no work: it has the seconds of the entry before it.
        """
        self._elapsed = elapsed_of(entry) or self._elapsed
        read = body_reader(entry.name, entry.body)
        self.records.append(Record(entry.name, read, entry.at, self._elapsed))

    def take_from_outside(self, entry: Entry) -> None:
        """Add an entry that came while this process works on the run."""
        read = body_reader(entry.name, entry.body)
        self.records.append(Record(entry.name, read, entry.at, self.elapsed))

    # --- writing -----------------------------------------------------------------------------------

    def write(self, name: str, body: Value) -> None:
        """Append an entry. Its name is used nowhere else in the log."""
        self.records.append(Record(name, body, self.clock.time(), self.elapsed))

    def enter(self, name: str, body: Value) -> None:
        """Append an entry from outside, while nobody works on the run."""
        self.records.append(Record(name, body, self.clock.time(), self._elapsed))

    @property
    def elapsed(self) -> float:
        """The seconds that were worked on the run, in all its legs."""
        return self._elapsed + self.clock.monotonic() - self._started

    async def flush(self) -> None:
        """Store the entries so far, if the log has a store."""
        if self.writer is not None:
            await self.writer.flush()

    async def now(self) -> float:
        """The time in seconds since the epoch, by the clock of the store if the log has one."""
        return self.clock.time() if self.writer is None else await self.writer.now()

    # --- reading -----------------------------------------------------------------------------------

    def find(self, name: str, kind: type[B]) -> B | None:
        """The body of an entry, which counts as asked for; None if there is none of this name."""
        number = self.number_of(name)
        if number is None:
            return None
        self._claimed.add(name)
        body = self.body(number)
        assert isinstance(body, kind), f"the name {name!r} says what the entry is"
        return body

    def has(self, name: str) -> bool:
        """Whether there is an entry of this name."""
        return self.number_of(name) is not None

    def number_of(self, name: str) -> int | None:
        """The number of the record with this name."""
        self._extend_index()
        return self._index.get(name)

    def body(self, number: int) -> Any:
        """The body of a record, read from its text when it is needed first."""
        record = self.records[number]
        if isinstance(record.body, Value):
            return record.body
        read: Callable[[], Value] = record.body
        body = read()
        self.records[number] = record._replace(body=body)
        return body

    @property
    def begin(self) -> Begin | None:
        """The first entry; None before the run has begun."""
        return self.find("begin", Begin)

    @property
    def last(self) -> Value | None:
        """The last entry that says where work on the run began or ended: a `Go`, a `Left` or an `End`."""
        self._extend_index()
        return None if self._last is None else cast("Value", self.body(self._last))

    @property
    def stop_reason(self) -> str | None:
        """The reason of a stop that is in force: nobody has resumed the run since."""
        self._extend_index()
        return None if self._stop is None else str(self.body(self._stop).reason)

    def count(self, kind: str) -> int:
        """The number of entries of a kind at the top of the run."""
        return sum(record.name.startswith(f"{kind} ") for record in self.records)

    # --- what the run waits for --------------------------------------------------------------------

    def token_of(self, place: str, name: str) -> str | None:
        """The token of a question that was asked before."""
        self._extend_index()
        return self._tokens.get((place, name))

    def answer_name(self, token: str) -> str:
        """The name of the entry that answers a question."""
        self._extend_index()
        return f"{parse(self._questions[token]).place}answer {token}"

    def is_answered(self, token: str) -> bool:
        """Whether a question has an answer."""
        return self.has(self.answer_name(token))

    def questions(self) -> Iterator[Asked]:
        """All questions of the run, in their order."""
        self._extend_index()
        for name in [*self._questions.values()]:
            yield self.body(self._index[name])

    def open_questions(self) -> list[Asked]:
        """The questions that have no answer."""
        return [asked for asked in self.questions() if not self.is_answered(asked.token)]

    def next_signal(self, name: str) -> str | None:
        """The name of the entry of the next signal with this name that nobody has received."""
        self._extend_index()
        bodies = ((entry, cast("Say", self.body(number))) for entry, number in self._signals.items())
        return next((entry for entry, say in bodies if say.signal == name), None)

    def wait(self, wait: Mapping[str, Any]) -> None:
        """Note something that this leg of the work waits for; questions are entries."""
        self._waits.append(wait)

    def waits(self) -> tuple[Mapping[str, Any], ...]:
        """What the run waits for."""
        return (*map(wait_of, self.open_questions()), *self._waits)

    # --- what nobody asked for ---------------------------------------------------------------------

    @property
    def unclaimed(self) -> tuple[str, ...]:
        """The names of entries from before this leg that the function did not ask for."""
        self._extend_index()
        names = (record.name for record in self.records[: self.known] if record.name not in self._claimed)
        return tuple(name for name in names if name in self._index and _is_asked_for(parse(name)))

    # --- the index -----------------------------------------------------------------------------------

    def _extend_index(self) -> None:
        while self._indexed < len(self.records):
            number, name = self._indexed, self.records[self._indexed].name
            self._indexed += 1
            self._index.setdefault(name, number)
            self._index_more(parse(name), name, number)

    def _index_more(self, parsed: Name, name: str, number: int) -> None:
        """Extend what is known of questions, signals and voided entries with one entry."""
        match parsed.kind:
            case "asked":
                asked: Asked = self.body(number)
                self._questions[asked.token] = name
                self._tokens[parsed.place, asked.name] = asked.token
            case "say":
                self._signals[name] = number
            case "heard":
                heard: Received = self.body(number)
                self._signals.pop(heard.name, None)
            case "go":
                self._last = number
                go: Go = self.body(number)
                if not go.writer:  # somebody has resumed it; a process that begins to work is stopped too
                    self._stop = None
                for voided in go.voids:
                    self._index.pop(voided, None)
            case "left" | "end":
                self._last = number
            case "stop":
                self._stop = number
            case _:
                pass


def _is_asked_for(name: Name) -> bool:
    return name.kind in _ASKED_FOR and not name.rest.endswith(" ?")


def answer_of(log: JournalLog, token: str) -> Answer | None:
    """The answer to a question, which counts as asked for."""
    return log.find(log.answer_name(token), Answer)
