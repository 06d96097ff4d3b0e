"""A log as entries of a store, and back.

Announcements are written as the notes of the entry that they come before. A note leaves out what the log has
anyway: the messages of the first request, and the arguments of a call as the model gave them. The bytes of
images, documents and sounds are written once, by their hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from wesichain.core import Event, LlmRequest, Message, Role, StepStarted, ToolCall, ToolDispatched
from wesichain.core.internal import (
    BlobReader,
    Value,
    form_of,
    form_to_json,
    from_plain,
    is_object,
    parse_json,
    replace,
    to_plain,
)
from wesichain.errors import CodecError
from wesichain.store import Entry

from .entries import FORMAT, Begin, Reply, body_class
from .entry_names import parse
from .log import JournalLog, Record, Unread
from .requests import fingerprint
from .sealing import Cipher, opened


class Parts:
    """The bytes of parts by their hash, collected while a body is written, or known while one is read."""

    __slots__ = ("found",)

    def __init__(self, found: Mapping[str, bytes] | None = None) -> None:
        self.found: dict[str, bytes] = dict(found or {})

    def put(self, data: bytes) -> str:
        digest = sha256(data).hexdigest()
        self.found[digest] = data
        return digest

    def get(self, digest: str) -> bytes | None:
        return self.found.get(digest)


class LogEncoder:
    """Writes the records of one log, in order, as entries of a store."""

    __slots__ = ("_calls", "_clean", "_log", "_next", "_notes", "_seq", "_skipped", "_tasks")

    def __init__(
        self,
        log: JournalLog,
        *,
        since: int = 0,
        seq: int = 0,
        clean: Callable[[Any], Any] | None = None,
    ) -> None:
        """`since` is the number of the first record that is not written yet, `seq` of the last entry.

        `clean` removes secrets from bodies, and from the events of notes.
        """
        self._log = log
        self._clean = clean
        self._next = since
        self._seq = seq
        self._notes: list[Any] = []
        self._skipped: set[int] = set()
        self._calls: dict[tuple[str, str], ToolCall] = {}  # of the last replies, by place and id
        self._tasks: dict[str, Begin] = {}  # of runs without a request so far, by place

    @property
    def seq(self) -> int:
        """The number of the last entry that was written."""
        return self._seq

    def renumber(self, seq: int) -> None:
        """Go on after an entry that somebody else has appended."""
        self._seq = seq

    def skip(self, number: int) -> None:
        """Leave a record out that is about to be added: the store has it already."""
        self._skipped.add(number)

    def take(
        self, until: int | None = None, *, refused: Callable[[str, CodecError], None] | None = None
    ) -> list[Entry]:
        """The entries for the records that were added since the last call, up to record number `until`.

        `refused` is called with the name of an entry that JSON cannot hold, in place of an exception.
        """
        records, made = self._log.records, list[Entry]()
        end = len(records) if until is None else until
        while self._next < end:
            number, record = self._next, records[self._next]
            self._next += 1
            if number in self._skipped:
                continue
            if record[0].__class__ is not str:
                self._notes.append(self._note(record))
                continue
            try:
                made.append(self._entry(record[0], self._log.body(number), record[2], record[3]))
            except CodecError as error:
                if refused is None:
                    raise
                refused(record[0], error)
        return made

    def _entry(self, name: str, body: Any, at: float, elapsed: float) -> Entry:
        parts = Parts()
        stored = self._stored(name, body)
        form = form_of(stored if self._clean is None else self._clean(stored))
        text = form_to_json(form, blobs=parts)
        if self._notes:
            notes = form_to_json({"elapsed": round(elapsed, 6), "before": self._notes}, blobs=parts)
            self._notes = []
        else:
            notes = f'{{"elapsed":{elapsed:.6f}}}'
        self._seq += 1
        return Entry(self._seq, name, text, at, getattr(body, "by", ""), notes, parts.found)

    def _stored(self, name: str, body: Any) -> Any:
        """The body as it is written; what later notes may leave out is remembered."""
        if type(body) is Reply:
            place = parse(name).place
            for call in () if body.reply is None else body.reply.tool_calls:
                if isinstance(call, ToolCall):  # a broken model client may return anything
                    self._calls[place, call.id] = call
            if isinstance(body.request, LlmRequest):
                return replace(body, request=fingerprint(body.request))
        elif type(body) is Begin:
            self._tasks[name.removesuffix("begin")] = body
            steps = None if body.steps is None else to_plain(body.steps)
            return replace(body, fingerprint=body.program_fingerprint, steps=steps)
        return body

    def _note(self, record: Record) -> Any:
        make, place, step, at, *fields = record
        if self._clean is not None:
            event = self._clean(make("", step, 0, at, *fields))
            fields = [getattr(event, name) for name in event.__struct_fields__ if name not in _GENERAL]
        note: dict[str, Any] = {"kind": make.kind, "step": step, "at": at}
        if place:
            note["place"] = place
        if make is StepStarted:
            return self._request_note(note, place, *fields)
        if make is ToolDispatched:
            call, attempt, resumed = fields
            known = self._calls.get((place, call.id)) == call
            note["call"] = call.id if known else form_of(call)
            return (
                note | ({"attempt": attempt} if attempt > 1 else {}) | ({"resumed": True} if resumed else {})
            )
        note["event"] = form_of(make("", step, 0, at, *fields))
        return note

    def _request_note(
        self, note: dict[str, Any], place: str, messages: Any, follows: bool, free: bool
    ) -> dict[str, Any]:
        begin = self._tasks.pop(place, None)
        if begin is not None and is_opening(messages, begin):
            note["opening"] = True
        elif messages:
            note["messages"] = form_of(messages)
        return note | ({"follows": True} if follows else {}) | ({"free": True} if free else {})


def opening_of(begin: Begin) -> tuple[Message, ...]:
    """The messages of the first request of a run."""
    return (*begin.messages, Message(Role.USER, begin.parts or begin.task))


def is_opening(messages: Sequence[Message], begin: Begin) -> bool:
    """Whether the messages of a request are those that the run began with."""
    return len(messages) == len(begin.messages) + 1 and tuple(messages) == opening_of(begin)


def read_log(log: JournalLog, entries: Iterable[Entry], cipher: Cipher | None = None) -> LogDecoder:
    """Add the entries of a store to a log that is being opened, with their notes."""
    decoder = LogDecoder(log)
    for entry in entries:
        for record in decoder.take(opened(entry, cipher, log.run_id)):
            log.records.append(record)
    log.reopened()
    return decoder


class LogDecoder:
    """Reads the entries of one log. Bodies are read when somebody needs them; notes at once.

    The bytes of parts are those of the entries so far, or of `blobs`.
    """

    def __init__(self, log: JournalLog, blobs: BlobReader | None = None) -> None:
        self._log = log
        self._found = Parts()
        self._parts: BlobReader = self._found if blobs is None else blobs
        self._replies: dict[str, list[int]] = {}  # the numbers of the records with replies, by place
        self._begins: dict[str, int] = {}
        self._elapsed = 0.0

    def take(self, entry: Entry) -> list[Record]:
        """The records of an entry, which the caller adds to the log before the next one is taken."""
        name = parse(entry.name)
        self._found.found.update(entry.parts)
        notes: Any = parse_json(entry.notes) if entry.notes else {}
        made = [self._announcement(note) for note in notes.get("before", ())]
        own = len(self._log.records) + len(made)
        if name.kind == "begin":
            self._begins[name.place] = own
        elif name.kind == "ask":
            self._replies.setdefault(name.place, []).append(own)
        # What came from outside did no work: it has the seconds of the entry before it.
        self._elapsed = notes.get("elapsed", self._elapsed)
        read = body_reader(entry.name, entry.body, self._parts)
        return [*made, (entry.name, Unread(read), entry.at, self._elapsed)]

    def _announcement(self, note: dict[str, Any]) -> Record:
        kind, step, at, place = note["kind"], note["step"], note["at"], note.get("place", "")
        if kind == StepStarted.kind:
            messages: Any = ()
            if note.get("opening"):
                messages = opening_of(self._log.body(self._begins[place]))
            elif "messages" in note:
                messages = from_plain(tuple[Message, ...], note["messages"], blobs=self._parts)
            return StepStarted, place, step, at, messages, note.get("follows", False), note.get("free", False)
        if kind == ToolDispatched.kind:
            call = note["call"]
            found = from_plain(ToolCall, call) if is_object(call) else self._call(place, call)
            return ToolDispatched, place, step, at, found, note.get("attempt", 1), note.get("resumed", False)
        event: Any = from_plain(Event, note["event"], blobs=self._parts)
        names = [name for name in event.__struct_fields__ if name not in _GENERAL]
        return type(event), place, step, at, *(getattr(event, name) for name in names)

    def _call(self, place: str, call_id: str) -> ToolCall:
        """The call of a reply, by its id."""
        for number in reversed(self._replies.get(place, ())):
            reply: Any = self._log.body(number).reply
            for call in () if reply is None else reply.tool_calls:
                if call.id == call_id:
                    found: ToolCall = call
                    return found
        raise CodecError(f"the log has no call {call_id!r}, which a note says has begun")


_GENERAL = frozenset({"run_id", "step_id", "seq", "at", "scope", "node", "task_id"})


def body_reader(name: str, text: str, parts: BlobReader) -> Callable[[], Value]:
    """A function that reads the body of an entry."""

    def read() -> Value:
        parsed = parse(name)
        kind = body_class(parsed.kind, parsed.rest)
        if kind is None:
            raise CodecError(
                f"the entry {name!r} is of no kind that this version knows: a later version has written it"
            )
        try:
            plain: Any = parse_json(text)
            _check_format(kind, plain)
            body: Value = from_plain(kind, plain, blobs=parts)
        except CodecError as error:
            raise CodecError(f"the entry {name!r} cannot be read: {error}") from error
        return body

    return read


def _check_format(kind: type[Value], plain: Any) -> None:
    """Raise for the log of another version."""
    if kind is Begin and plain.get("format") != FORMAT:
        raise CodecError(
            f"the log has format {plain.get('format')!r}, and this version reads format {FORMAT}; continue "
            f"the run with the version that began it"
        )


def entry_for(name: str, body: Value, seq: int, at: float, elapsed: float = 0.0) -> Entry:
    """An entry to be appended with this number.

    `elapsed` are the seconds that were worked on the run so far; an entry from outside has none.
    """
    parts = Parts()
    text = form_to_json(form_of(body), blobs=parts)
    notes = f'{{"elapsed":{elapsed:.6f}}}' if elapsed else ""
    return Entry(seq, name, text, at, getattr(body, "by", ""), notes, parts.found)


# --- a log as one JSON value -----------------------------------------------------------------------


def log_to_plain(log: JournalLog, until: int | None = None) -> list[Any]:
    """The entries of a log as JSON data, with the bytes of parts as base64."""
    return [entry_to_plain(entry) for entry in LogEncoder(log).take(until)]


def entry_to_plain(entry: Entry) -> dict[str, Any]:
    """An entry as JSON data."""
    from base64 import b64encode

    plain: dict[str, Any] = {"seq": entry.seq, "name": entry.name, "at": entry.at}
    if entry.by:
        plain["by"] = entry.by
    plain["body"] = parse_json(entry.body)
    plain["notes"] = parse_json(entry.notes) if entry.notes else {}
    if entry.parts:
        plain["parts"] = {digest: b64encode(data).decode() for digest, data in entry.parts.items()}
    return plain


def entry_from_plain(plain: Any) -> Entry:
    """An entry from JSON data."""
    from base64 import b64decode

    from wesichain.core.internal import dump_json

    try:
        parts = {digest: b64decode(data, validate=True) for digest, data in plain.get("parts", {}).items()}
        notes = plain.get("notes")
        return Entry(
            int(plain["seq"]),
            str(plain["name"]),
            dump_json(plain["body"]),
            float(plain["at"]),
            str(plain.get("by", "")),
            dump_json(notes) if notes else "",
            parts,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CodecError(f"not an entry of a log: {type(error).__name__}: {error}") from error
