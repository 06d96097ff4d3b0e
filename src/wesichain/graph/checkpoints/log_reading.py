"""Reading checkpoints back: folding what each of them changed, from a base on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from wesichain.core.internal import dump_json, is_object, parse_json
from wesichain.errors import CheckpointError, CodecError
from wesichain.store import Entry, is_settled

from .deltas import undelta
from .parts import together

FORMAT = 3
ONCE = '"once":'


class Reading:
    """Folds checkpoints, one after the other, into what was stored at the last of them."""

    __slots__ = (
        "_thread_id",
        "answered",
        "base",
        "body",
        "counted_from",
        "entry",
        "format",
        "last_event",
        "moment",
        "out",
        "run_id",
        "spent",
        "stored",
        "version",
        "visits",
        "wrote",
    )

    def __init__(self, thread_id: str, chain: Iterable[tuple[Entry, dict[str, Any]]] = ()) -> None:
        self._thread_id = thread_id
        self.entry = Entry(0, "", 0, 0.0, "")
        self.body: dict[str, Any] = {}
        self.base = 0
        self.stored: dict[str, Any] = {}
        self.visits: Counter[str] = Counter()
        self.run_id = ""
        self.last_event = 0
        self.format = FORMAT
        self.version = 1  # of the state's form
        self.moment = 0  # the checkpoint that this one stands for: itself, or that which it branched from
        self.answered: list[Any] = []
        self.counted_from = 0
        self.spent: Any = None
        self.wrote: set[str] = set()
        self.out: list[Any] = []
        for entry, body in chain:
            self._take(entry, body)

    def take_next(self, entry: Entry) -> bool:
        """Go on to this checkpoint, if it was made on the last one."""
        body = parsed(entry)
        if body.get("parent") != self.entry.seq or entry.base == entry.seq:
            return False
        self._take(entry, body)
        return True

    def _take(self, entry: Entry, body: dict[str, Any]) -> None:
        self.entry, self.body, self.base = entry, body, entry.base
        self.moment = body.get("moment", entry.seq)
        try:
            if entry.seq == entry.base:
                self.format, self.version = body.get("format", 0), body.get("version", 1)
                self.answered = []
            self.answered += body.get("answered", ())
            self.counted_from = body.get("from", 0)
            self.spent = body.get("spent", self.spent)
            for name, change in body["values"].items():
                self.stored[name] = undelta(self.stored.get(name), change)
            for name in body.get("gone", ()):
                self.stored.pop(name, None)
            if body["source"] == "input":
                self.visits.clear()
            self.visits.update(body.get("ran", {}))
            self.run_id = body.get("run", self.run_id)
            self.last_event = max(self.last_event, body.get("event", 0))
            if self.format < 3 and body["source"] == "loop":
                self._take_old_writes(body)
            else:
                self.wrote.update(body.get("wrote", ()))
                self.out += body.get("out", ())
        except (CodecError, LookupError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"checkpoint {entry.seq} of {self._thread_id!r} is damaged: {error!r}"
            ) from error

    def _take_old_writes(self, body: dict[str, Any]) -> None:
        """Make the writes of an inner graph of its changes: those to lists, sets and mappings were not stored
        before format 3, and before format 2 none were.
        """
        self.wrote.update(body.get("wrote", body["values"]))
        stored = body.get("out", [])
        self.out += stored
        for name, change in body["values"].items():
            if any(name == write[0] for write in stored):
                continue
            if "+" in change:
                self.out.append([name, "typed", change["+"][1]])
            elif "~" in change and "$set" not in change["~"]:
                self.out.append([name, "typed", {key: self.stored[name][key] for key in change["~"]}])
            else:
                how = "set" if self.format < 2 else "typed"
                self.out.append([name, how, self.stored[name]])


def chain(entries: Mapping[int, Entry], seq: int) -> list[tuple[Entry, dict[str, Any]]]:
    """The checkpoints that one is made of, oldest first: back to its base, along the parents."""
    chain: list[tuple[Entry, dict[str, Any]]] = []
    base = entries[seq].base
    number: int | None = seq
    while number is not None and number in entries:
        body = parsed(entries[number])
        chain.append((entries[number], body))
        if number == base:
            break
        number = body.get("parent")
    if chain[-1][0].seq != base:
        raise CheckpointError(f"checkpoint {seq} cannot be read: what it is based on ({base}) is missing")
    if (version := chain[-1][1].get("format", 0)) > FORMAT:
        raise CheckpointError(
            f"checkpoint {seq} was written in the format {version}; this version reads up to {FORMAT}"
        )
    chain.reverse()
    return chain


def parsed(entry: Entry) -> dict[str, Any]:
    try:
        body = parse_json(entry.body)
    except CodecError as error:
        raise CheckpointError(f"entry {entry.seq} of the thread is damaged: {error}") from error
    if not is_object(body):
        raise CheckpointError(f"entry {entry.seq} of the thread is damaged: it is not an object")
    return together(entry, body)


@contextmanager
def undamaged(thread_id: str) -> Generator[None]:
    """Read what a journal wrote; where it is not as it was written, the thread is damaged."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"thread {thread_id!r} is damaged: {error!r}") from error


def rebased(entries: Sequence[Entry], *, at: float) -> list[Entry]:
    """The newest checkpoint of a log as one that needs nothing before it, and what is pending on it.

    It stands for the same moment, so that what is asked there is the same question.
    """
    checkpoints = {entry.seq: entry for entry in entries if not entry.owner}
    newest = max(checkpoints)
    reading = Reading("", chain(checkpoints, newest))
    body = {name: item for name, item in reading.body.items() if name not in ("parent", "gone", "ran")}
    body |= {
        "run": reading.run_id,
        "format": FORMAT,
        "values": {k: {"=": v} for k, v in reading.stored.items()},
    }
    if reading.version > 1:
        body["version"] = reading.version
    if reading.visits:
        body["ran"] = dict(reading.visits)
    if reading.spent:
        body["spent"] = reading.spent
    if reading.answered:
        body["answered"] = reading.answered
    if once := once_in(entries):
        body["once"] = once
    first = entries[-1].seq + 1
    body["moment"] = reading.moment
    pending = [entry for entry in entries if is_settled(entry.owner, str(newest))]
    return [Entry(first, "", first, at, dump_json(body)), *moved(pending, newest, first)]


def once_in(entries: Iterable[Entry]) -> dict[str, Any]:
    """The things done once in a thread that these entries have, by their ids; the last counts."""
    found: dict[str, Any] = {}
    for entry in entries:
        if ONCE in entry.body:
            body = parsed(entry)
            if "did" in body and isinstance(body.get("once"), str):
                found[body["once"]] = body["did"][1]
            elif is_object(once := body.get("once")):
                found |= once
    return found


def moved(entries: Sequence[Entry], head: int, to: int) -> list[Entry]:
    """The notes pending on one checkpoint, as they would be on another, numbered from there on."""
    numbers = {head: to} | {entry.seq: number for number, entry in enumerate(entries, start=to + 1)}
    return [_renumbered(entry, numbers) for entry in entries]


def _renumbered(entry: Entry, numbers: Mapping[int, int]) -> Entry:
    """The same entry where the log counts differently."""
    way = entry.owner.split("/")
    way[::3] = [str(numbers.get(int(number), number)) for number in way[::3]]
    body = parsed(entry)
    if "parent" in body:
        body["parent"] = numbers[body["parent"]]
    base = numbers.get(entry.base, numbers[entry.seq])
    return Entry(numbers[entry.seq], "/".join(way), base, entry.at, dump_json(body))
