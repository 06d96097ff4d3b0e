"""The file of one log: a line of JSON for each append, so that a torn last line is an append that never was.

The first line begins with an id, and has the name of the log and when it began. When the beginning of the log
is deleted, another file with another id replaces this one. Each line has the number of its last entry, the
time, and the summary then, so that the last one says what lists show. `shared` is the id of a line of the
shared file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from wesichain.core import to_json
from wesichain.core.internal import dump_json, from_plain, is_object, parse_json
from wesichain.errors import CodecError, StoreError
from wesichain.platform.files import open_file, read_at, sync, sync_folder

from .entries import Entry, LogInfo, Summary
from .lines import APPENDING, replace_file

_HEAD = 32  # bytes that no two files have in common
_BLOCK = 8_192
_SEQ = b'{"seq":'  # begins all lines but the first


class LogState(NamedTuple):
    """What is known of a file: its first bytes, what lists show, and where the next line begins."""

    head: bytes
    info: LogInfo
    end: int


class LogFile:
    """The file of a log. `states` has what is known of all files, by their paths."""

    def __init__(self, path: str, states: dict[str, LogState]) -> None:
        self.path = path
        self._states = states

    def state(self) -> LogState | None:
        """What the file says now; None if there is no log, or if its first append is not complete."""
        state = self._read_state()
        if state is None:
            self._states.pop(self.path, None)
        else:
            self._states[self.path] = state
        return state

    def _read_state(self) -> LogState | None:
        known = self._states.get(self.path)  # before the size: another thread may know of a longer file
        try:
            descriptor = open_file(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            size, head = os.fstat(descriptor).st_size, read_at(descriptor, _HEAD, 0)
            if known is None or known.head != head or known.end > size:
                known = self._first_state(descriptor, head, size)
            if known is None or known.end == size:
                return known
            line, end = self._last_line(descriptor, known.end, size)
        finally:
            os.close(descriptor)
        if line is None:
            return known
        return LogState(head, _info(line, known.info), end)

    def _first_state(self, descriptor: int, head: bytes, size: int) -> LogState | None:
        """What the first line says."""
        data = b""
        while b"\n" not in data:
            if len(data) >= size:
                return None
            data = read_at(descriptor, 8 * len(data) or _BLOCK, 0)
        line = data[: data.index(b"\n")]
        header = self._parsed(line)
        if "log" not in header:
            raise self._damaged("its first line is not that of a log")
        return LogState(
            head, _info(header, LogInfo(header["log"], 0, 0.0, header["begun_at"], Summary())), len(line) + 1
        )

    def _last_line(self, descriptor: int, first: int, size: int) -> tuple[dict[str, Any] | None, int]:
        """The last complete line after byte `first`, and where it ends.

        A power failure may have left a last line of which not all was written, also if its newline was.
        """
        length = _BLOCK
        while True:
            start = max(first, size - length)
            *lines, torn = read_at(descriptor, size - start, start).split(b"\n")
            end = size - len(torn)
            candidates = (lines if start == first else lines[1:])[-2:]
            for line in reversed(candidates):
                try:
                    return parse_json(line), end
                except CodecError:
                    end -= len(line) + 1
            if len(candidates) == 2:
                raise self._damaged("its last lines cannot be read")
            if start == first:
                return None, first
            length *= 8

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            found = parse_json(line)
        except CodecError as error:
            raise self._damaged(f"a line cannot be read: {error}") from error
        if not is_object(found):
            raise self._damaged("a line is not a JSON object")
        return found

    def _damaged(self, why: str) -> StoreError:
        return StoreError(f"{self.path} is damaged: {why}; restore it from a backup, or delete it")

    # --- entries -----------------------------------------------------------------------------------

    def lines(self, since: int) -> Iterator[dict[str, Any]]:
        """The lines that have entries from a number on, or may have."""
        known, state = self._states.get(self.path), self.state()
        if state is None or since > state.info.seq:
            return
        start = known.end if known and known.head == state.head and since > known.info.seq else 0
        with os.fdopen(open_file(self.path, os.O_RDONLY), "rb") as file:
            if file.read(_HEAD) != state.head:
                yield from self.lines(since)  # its beginning was deleted in between
                return
            file.seek(start)
            for line in file.read(state.end - start).split(b"\n")[:-1]:
                if not _is_before(line, since):
                    yield self._parsed(line)

    def entries(self, since: int) -> list[tuple[Entry, Sequence[str]]]:
        """The entries from a number on, without the bytes of their parts, and the hashes of those."""
        return [
            (_entry(seq, record), record.get("parts", ()))
            for line in self.lines(since)
            if line["seq"] >= since
            for seq, record in enumerate(line["entries"], line["seq"] + 1 - len(line["entries"]))
            if seq >= since
        ]

    def has_shared(self, token: str) -> bool:
        """Whether an append was written with this line of the shared file."""
        text = f'"shared":"{token}"'.encode()  # not in a body: quotes are escaped there
        try:
            return text in Path(self.path).read_bytes()
        except FileNotFoundError:
            return False

    # --- writing, with the lock ----------------------------------------------------------------------

    def append(self, state: LogState | None, info: LogInfo, lines: Sequence[bytes]) -> None:
        """Append lines, which are on the disk afterwards, or nothing. A torn last line is cut off."""
        data, end = b"".join(lines), 0 if state is None else state.end
        if state is None:
            data = _header(info, 0, "{}") + data
        descriptor = open_file(self.path, APPENDING | os.O_CREAT)
        try:
            if os.fstat(descriptor).st_size != end:
                os.ftruncate(descriptor, end)
            try:
                rest = memoryview(data)
                while rest:  # a write may be short: only the next one raises for a full disk
                    rest = rest[os.write(descriptor, rest) :]
                sync(descriptor)
            except BaseException:
                os.ftruncate(descriptor, end)
                raise
        finally:
            os.close(descriptor)
        if state is None:
            sync_folder(Path(self.path).parent)
        head = data[:_HEAD] if state is None else state.head
        self._states[self.path] = LogState(head, info, end + len(data))

    def drop(self, before: int) -> None:
        """Delete the entries before a number, by a new file that replaces this one."""
        header, *lines = self.lines(1)
        if before - 1 <= header["seq"]:
            return
        info = self._states.pop(self.path).info
        kept = [_header(info, min(before - 1, info.seq), to_json(info.summary))]
        for line in lines:
            line["entries"] = line["entries"][max(0, before - 1 - line["seq"] + len(line["entries"])) :]
            if line["entries"]:
                kept.append(dump_json(line).encode() + b"\n")
        replace_file(Path(self.path), kept, sync=True)


def line_of(entries: Sequence[Entry], at: float, summary_json: str, shared: str = "") -> bytes:
    """The line of an append."""
    records = dump_json([_record(entry) for entry in entries])
    token = f'"shared":"{shared}",' if shared else ""
    seq = entries[-1].seq
    return f'{{"seq":{seq},"at":{at!r},{token}"summary":{summary_json},"entries":{records}}}\n'.encode()


def _is_before(line: bytes, seq: int) -> bool:
    """Whether all entries of a line have lower numbers, without parsing it; False for the header."""
    number = line[len(_SEQ) : line.find(b",")]
    return line.startswith(_SEQ) and number.isdigit() and int(number) < seq


def _header(info: LogInfo, seq: int, summary_json: str) -> bytes:
    start = f'{{"id":"{token_hex(12)}","log":{dump_json(info.name)},"begun_at":{info.begun_at!r}'
    return f'{start},"seq":{seq},"at":{info.at!r},"summary":{summary_json},"entries":[]}}\n'.encode()


def _record(entry: Entry) -> dict[str, Any]:
    record: dict[str, Any] = {"name": entry.name, "at": entry.at, "body": entry.body}
    if entry.by:
        record["by"] = entry.by
    if entry.notes:
        record["notes"] = entry.notes
    if entry.parts:
        record["parts"] = [*entry.parts]
    return record


def _entry(seq: int, record: dict[str, Any]) -> Entry:
    get = record.get
    return Entry(seq, record["name"], record["body"], record["at"], get("by", ""), get("notes", ""))


def _info(line: dict[str, Any], info: LogInfo) -> LogInfo:
    summary = from_plain(Summary, line["summary"])
    return LogInfo(info.name, line["seq"], line["at"], info.begun_at, summary)
