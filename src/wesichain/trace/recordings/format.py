"""The file of a recording: one JSON value a line.

    {"kind":"recording","version":1,...}    the Header, always first
    {"kind":"run_started",...}              an event a line, in order
    {"kind":"recording_dropped",...}        where events could not be kept, how many and why
    {"kind":"recording_ended",...}          after the event that ended the run

A run that is resumed goes on in its file, behind the `Ended`. A line that is not JSON was torn by a
crash or a full disk, one that is no event comes of a model that broke its protocol; the lines around it
are whole. The bytes of pictures, documents and sounds are not in the file: a part is told as
`"url":"sha256:..."`, and `RUN.parts/` beside `RUN.jsonl` has a file of that name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, TypeAlias

from wesichain.core import Event, JsonValue, RunCompleted, RunFailed, RunInterrupted, Usage
from wesichain.core.internal import BlobReader, Value, from_plain, is_object, parse_json, text_of
from wesichain.errors import CodecError

VERSION = 1

Status: TypeAlias = Literal["completed", "failed", "interrupted", "unfinished"]
End: TypeAlias = RunCompleted | RunFailed | RunInterrupted

STATUS_OF: dict[type, Status] = {
    RunCompleted: "completed",
    RunFailed: "failed",
    RunInterrupted: "interrupted",
}


def without_surrogates(text: str) -> str:
    """The text with a question mark for each half of a letter, which no file can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def excerpt(text: str) -> str:
    """The beginning of a text, as the header and the end repeat it for lists of runs."""
    return without_surrogates(text[:160])


def _text(value: JsonValue) -> str:
    try:
        return text_of(value)
    except CodecError:
        return ""


class Header(Value):
    """The head of a recording: its format, and the facts that a list of runs shows."""

    kind: ClassVar[str] = "recording"
    version: int
    run_id: str
    started_at: float
    model: str
    user_input: str  # its beginning


class Dropped(Value):
    """Events that should stand here and could not be kept."""

    kind: ClassVar[str] = "recording_dropped"
    events: int
    reason: str


class RecordedEnd(Value):
    """How the run ended, in few words: what a list of runs shows of it."""

    kind: ClassVar[str] = "recording_ended"
    status: Status
    steps: int
    ended_at: float
    usage: Usage
    result: str  # the beginning of the output, the error or the reason

    @classmethod
    def by(cls, event: End, nested: Usage) -> RecordedEnd:
        """`nested`: the tokens of runs inside this one, which a graph does not add up."""
        match event:
            case RunCompleted():
                result = _text(event.output)
            case RunFailed():
                result = f"{event.error}: {event.message}"
            case RunInterrupted():
                result = event.reason
        usage = event.usage if event.usage.total_tokens else nested
        return cls(STATUS_OF[type(event)], event.step_id, event.at, usage, excerpt(result))


Line: TypeAlias = Event | Dropped | RecordedEnd


def read_header(line: bytes, where: str) -> Header:
    """The first line of a file; anything else is a `CodecError` that says what it is."""
    try:
        plain = parse_json(line)
    except CodecError:
        plain = None
    if not is_object(plain) or plain.get("kind") != Header.kind:
        raise CodecError(f"{where} is not a recording: its first line is no header")
    version = plain.get("version")
    if isinstance(version, int) and version > VERSION:
        raise CodecError(
            f"{where} has version {version} of the recording format, and this wesichain reads {VERSION}; "
            f"read it with a newer wesichain"
        )
    return from_plain(Header, plain)


def read_lines(data: bytes, *, first: int = 1, blobs: BlobReader | None = None) -> Iterator[Line | str]:
    """The lines of `data`, numbered from `first`; for one that cannot be read, a sentence that says why."""
    for number, line in enumerate(data.split(b"\n"), start=first):
        if not line:
            continue
        try:
            plain = parse_json(line)
        except CodecError:
            yield f"line {number} is torn: its {len(line)} bytes are not JSON"
            continue
        try:
            yield from_plain(Line, plain, blobs=blobs)
        except CodecError as error:
            yield f"line {number} is no event: {error}"
