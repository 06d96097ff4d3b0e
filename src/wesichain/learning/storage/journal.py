"""The journal: every change of a domain as a delta, in a hash chain.

A log is a JSON Lines file: a head, the state at the last compaction (lines of bullets), then a line for each
delta. The first field of each line is the hash of the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from wesichain.core import to_json
from wesichain.core.internal import Value, parse_json
from wesichain.errors import CodecError
from wesichain.learning.entities.bullets import DATA_MODEL, PlaybookBullet

Cause: TypeAlias = Literal[
    "record", "merge", "promote", "quarantine", "refuse", "consolidate", "rollback", "forget"
]
GENESIS = "0" * 32
_MARK = b'{"hash":"'


class PlaybookChange(Value):
    """A change of a playbook: deleted bullets, new versions of bullets, reflections merged or unmerged.

    `forgotten` are hashes of bullets that were erased, also from the lines before.
    """

    drops: tuple[str, ...] = ()
    puts: tuple[PlaybookBullet, ...] = ()
    merged: tuple[str, ...] = ()
    unmerged: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.puts or self.drops or self.merged or self.unmerged or self.forgotten)


class Delta(Value):
    """One change in the journal. `seq` counts from 1; `prev` is the hash of the previous delta."""

    seq: int
    prev: str
    hash: str
    at: float
    cause: Cause
    note: str
    change: PlaybookChange


class Head(Value):
    """The first line of a log: its domain, and the delta that it starts after; `states` lines follow."""

    domain: str
    seq: int = 0
    hash: str = GENESIS
    states: int = 0


class State(Value):
    """A part of the initial state of a log."""

    change: PlaybookChange


class Gap(Value):
    """The place of a damaged line that was removed."""

    line: int


Record: TypeAlias = Head | State | Delta | Gap


def draft(
    change: PlaybookChange, *, seq: int, prev: str, at: float, cause: Cause, note: str = ""
) -> tuple[Delta, bytes]:
    """Make the next delta of a chain, and its line."""
    about = {"kind": "delta", "seq": seq, "prev": prev, "at": at, "cause": cause, "note": note}
    line, mark = _seal(about | _plain_change(change))
    return Delta(seq, prev, mark, at, cause, note, change), line


def line_of(record: Head | State | Gap) -> bytes:
    """The line of a record that is not a delta."""
    match record:
        case Head():
            about = {"kind": "head", "format": DATA_MODEL, "domain": record.domain, "seq": record.seq}
            return _seal(about | {"head": record.hash, "states": record.states})[0]
        case State():
            return _seal({"kind": "state"} | _plain_change(record.change))[0]
        case Gap():
            return _seal({"kind": "gap", "line": record.line})[0]


def read_record(line: bytes) -> Record:
    """Read a line. A change of a single byte raises a `CodecError`."""
    mark, rest = line[len(_MARK) : len(_MARK) + 32].decode("latin-1"), b"{" + line[len(_MARK) + 34 :]
    if not line.startswith(_MARK) or _hash(rest) != mark:
        raise CodecError("its hash does not fit its content")
    body = parse_json(rest)
    try:
        match body["kind"]:
            case "delta":
                about = (body["at"], body["cause"], body.get("note", ""))
                return Delta(body["seq"], body["prev"], mark, *about, _read_change(body))
            case "state":
                return State(_read_change(body))
            case "gap":
                return Gap(body["line"])
            case "head":
                check_format(body["format"])
                return Head(body["domain"], body["seq"], body["head"], body["states"])
            case other:
                raise CodecError(f"it has the unknown kind {other!r}")
    except (KeyError, TypeError) as error:
        raise CodecError(f"it is not a record: {error!r}") from None


def check_format(version: str) -> None:
    """Refuse data of another major version of the data model."""
    if version.partition(".")[0] != DATA_MODEL.partition(".")[0]:
        raise CodecError(
            f"it has version {version} of the data model, this program reads {DATA_MODEL}; update it"
        )


def _plain_change(change: PlaybookChange) -> dict[str, Any]:
    return {name: value for name in _PARTS if (value := getattr(change, name))}


def _read_change(body: Mapping[str, Any]) -> PlaybookChange:
    parts: dict[str, Any] = {name: tuple(body[name]) for name in _PARTS if name in body}
    parts["puts"] = tuple(map(PlaybookBullet.from_plain, parts.get("puts", ())))
    return PlaybookChange(**parts)


_PARTS = tuple(item.name for item in fields(PlaybookChange))


def _seal(body: Mapping[str, Any]) -> tuple[bytes, str]:
    text = to_json(body).encode()
    mark = _hash(text)
    return _MARK + mark.encode() + b'",' + text[1:], mark


def _hash(text: bytes) -> str:
    return sha256(text).hexdigest()[:32]
