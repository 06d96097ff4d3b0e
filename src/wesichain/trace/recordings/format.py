"""The file format of a recording: the log of a run, one JSON value per line.

    {"kind":"recording","version":1,...}        the header, always first
    {"seq":1,"name":"go 1","body":{...},...}    one entry per line, in order, with the notes before it
    {"kind":"recording_dropped",...}            where entries were dropped: how many, and why
    {"kind":"recording_ended",...}              after the entry that ended the run, or work on it

A resumed run is appended to its file, after `recording_ended`. A line that is not JSON was torn by a crash
or a full disk; the other lines are complete. The bytes of images, documents and sounds are not in the file: a
part has the URL `sha256:...`, and the folder `RUN.parts/` next to `RUN.jsonl` has a file of that name.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from wesichain.core import RunCompleted, RunFailed, RunInterrupted, Usage
from wesichain.core.internal import Value, from_plain, is_object, parse_json, text_of
from wesichain.errors import CodecError

VERSION = 1

Status: TypeAlias = Literal["completed", "failed", "interrupted", "unfinished"]
RunEnd: TypeAlias = RunCompleted | RunFailed | RunInterrupted

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


class Header(Value):
    """The first line of a recording: its format version, and the fields shown in lists of runs."""

    kind: ClassVar[str] = "recording"
    version: int
    run_id: str
    started_at: float
    agent: str  # the name of the agent that the run began with
    model: str
    user_input: str  # the first 160 characters


class Dropped(Value):
    """The number of entries that are missing at this place, and the reason."""

    kind: ClassVar[str] = "recording_dropped"
    entries: int
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
    def of(cls, event: RunEnd) -> RecordedEnd:
        match event:
            case RunCompleted():
                try:
                    result = text_of(event.output)
                except CodecError:
                    result = ""
            case RunFailed():
                result = f"{event.error}: {event.message}"
            case RunInterrupted():
                result = event.reason
        return cls(STATUS_OF[type(event)], event.step_id, event.at, event.usage, excerpt(result))


def read_header(line: bytes, where: str) -> Header:
    """Read the first line of a file; raise `CodecError` if it is not the header of a recording."""
    try:
        plain = parse_json(line)
    except CodecError:
        plain = None
    if not is_object(plain) or plain.get("kind") != Header.kind:
        raise CodecError(f"{where} is not a recording: its first line is no header")
    version = plain.get("version")
    if version != VERSION or "agent" not in plain:
        raise CodecError(
            f"{where} has version {version!r} of the recording format, or was written by a development version, "
            f"and this wesichain reads version {VERSION}; read it with the wesichain that wrote it"
        )
    return from_plain(Header, plain)
