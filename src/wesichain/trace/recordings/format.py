"""The file format of a recording: one JSON value per line.

    {"kind":"recording","version":1,...}    the header, always first
    {"kind":"run_started",...}              one event per line, in order
    {"kind":"recording_dropped",...}        where events were dropped: how many, and why
    {"kind":"recording_ended",...}          after the event that ended the run

A resumed run is appended to its file, after `recording_ended`. A line that is not JSON was torn by a crash
or a full disk; a line that is not an event comes from a model client that broke its protocol. The other
lines are complete. The bytes of images, documents and sounds are not in the file: a part has the URL
`sha256:...`, and the folder `RUN.parts/` next to `RUN.jsonl` has a file of that name.
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
    """Replace lone surrogates, which cannot be encoded, with question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def excerpt(text: str) -> str:
    """The first 160 characters of a text, for lists of runs."""
    return without_surrogates(text[:160])


def _text(value: JsonValue) -> str:
    try:
        return text_of(value)
    except CodecError:
        return ""


class Header(Value, omit_defaults=True):
    """The first line of a recording: its format version, and the fields shown in lists of runs."""

    kind: ClassVar[str] = "recording"
    version: int
    run_id: str
    started_at: float
    model: str
    user_input: str  # the first 160 characters
    agent: str = ""  # the name of the agent that the run began with; "" if it is not known


class Dropped(Value):
    """The number of events that are missing at this place, and the reason."""

    kind: ClassVar[str] = "recording_dropped"
    events: int
    reason: str


class RecordedEnd(Value):
    """The last line of an ended recording: the fields shown in lists of runs."""

    kind: ClassVar[str] = "recording_ended"
    status: Status
    steps: int
    ended_at: float
    usage: Usage
    result: str  # the beginning of the output, the error or the reason

    @classmethod
    def of(cls, event: End, nested: Usage) -> RecordedEnd:
        """`nested`: the tokens of the runs inside this one; the end of a graph does not include them."""
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
    """Read the first line of a file; raise `CodecError` if it is not the header of a recording."""
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
    """The lines of `data`; for an unreadable one, a message with its number, counted from `first`."""
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
