"""The file of claims and charges that the logs of a folder share: a line for each append that changed them.

A line is written before that of the log, which has its id: it counts once the log has it. Only the last line
can be without, which the next writer cuts off. When the file has grown, another one replaces it, whose first
line says what all lines said.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any

from wesichain.core.internal import dump_json, parse_json
from wesichain.errors import CodecError, StoreError
from wesichain.platform.files import open_file

from .lines import APPENDING, append_all, replace_file
from .log_rules import SharedChange, SharedState

_HEAD = 32  # bytes that no two files have in common
_LONG = 1 << 20  # bytes after which the file is made again, if it has grown to four times its beginning


class SharedFile:
    """The claims and charges of a folder, as far as they were read. `is_written` asks the file of a log.

    Used by one thread. Only who has the lock of the file changes it.
    """

    def __init__(self, path: Path, is_written: Callable[[str, str], bool]) -> None:
        self._path = path
        self._is_written = is_written
        self.state = SharedState()
        self._head: bytes = b""
        self._end = self._first = 0
        self._last_log = ""  # whose append wrote the last line
        self._unconfirmed: tuple[SharedChange, int] | None = None

    def read(self) -> int:
        """Read what is new; return how many bytes of the file count no longer."""
        try:
            descriptor = open_file(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return 0
        with os.fdopen(descriptor, "rb") as file:
            head: bytes = file.read(_HEAD)
            if head != self._head:
                self.state, self._head, self._end, self._first = SharedState(), head, 0, 0
            file.seek(self._end)
            data = file.read()
        *lines, torn = data.split(b"\n")
        for number, line in enumerate(lines, 1):
            if not self._take(line, is_last=number == len(lines)):
                return len(line) + 1 + len(torn)
            self._end += len(line) + 1
            self._first = self._first or self._end
        return len(torn)

    def _take(self, line: bytes, *, is_last: bool) -> bool:
        try:
            found: dict[str, Any] = parse_json(line)
        except CodecError as error:
            if is_last and self._end:
                return False
            raise StoreError(f"{self._path} is damaged: a line cannot be read: {error}") from error
        if "log" not in found:
            self._restore(found)
        elif is_last and not self._is_written(found["log"], found["id"]):
            return False
        else:
            self.state.apply(_change(found))
        self._last_log = found.get("log", "")
        return True

    def _restore(self, found: dict[str, Any]) -> None:
        self.state.claims |= {unique: (log, name) for unique, log, name in found.get("claims", ())}
        for limit, period, bucket, amount in found.get("amounts", ()):
            self.state.amounts.setdefault((limit, period), {})[bucket] = amount

    # --- with the lock -------------------------------------------------------------------------------

    def settle(self) -> None:
        """Read what is new, and cut off what does not count."""
        if self.read():
            descriptor = open_file(self._path, os.O_RDWR)
            try:
                os.ftruncate(descriptor, self._end)
            finally:
                os.close(descriptor)

    def seal(self, log: str) -> None:
        """Make the last line count without its log, which is about to be deleted or made again."""
        self.settle()
        if self._last_log == log:
            self._write({"id": token_hex(12)})

    def write(self, change: SharedChange) -> str:
        """Write a change after `settle`; it counts once the log has the id that is returned."""
        if self._end == 0 or self._end > max(_LONG, 4 * self._first):
            self._make_again()
        token = token_hex(12)
        self._unconfirmed = change, self._write({"id": token, **change._asdict()})
        return token

    def confirm(self) -> None:
        """Take over what was written: the log has its id."""
        assert self._unconfirmed is not None
        change, self._end = self._unconfirmed
        self.state.apply(change)
        self._last_log, self._unconfirmed = change.log, None

    def _write(self, line: dict[str, Any]) -> int:
        descriptor = open_file(self._path, APPENDING)
        try:
            return append_all(descriptor, dump_json(line).encode() + b"\n", sync=True, is_locked=True)
        finally:
            os.close(descriptor)

    def _make_again(self) -> None:
        claims = [[unique, *holder] for unique, holder in self.state.claims.items()]
        amounts = [
            [*place, bucket, amount]
            for place, buckets in self.state.amounts.items()
            for bucket, amount in buckets.items()
        ]
        line = dump_json({"id": token_hex(12), "claims": claims, "amounts": amounts})
        replace_file(self._path, [line.encode() + b"\n"], sync=True)
        self.settle()


def _change(found: dict[str, Any]) -> SharedChange:
    claims = [(unique, name) for unique, name in found["claims"]]
    charges: Any = [tuple(charge) for charge in found["charges"]]
    return SharedChange(found["log"], found["seq"], found["releases"], claims, charges)
