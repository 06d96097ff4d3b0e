"""The trace log: tasks and their outputs, one file per task, kept for a week by default."""

from __future__ import annotations

import os
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, cast

from wesichain.core.internal import Clock, SystemClock, dump_json, parse_json, to_plain
from wesichain.errors import CodecError, PlaybookError
from wesichain.platform.names import hashed_name
from wesichain.trace import redact

from .entities.tasks import TaskInput, TaskOutput
from .storage.backend import write_file

_HOUR = 3_600.0
_DAY = 24 * _HOUR


class TraceLog:
    """Redacted traces in files that only their owner can read, named by a hash of the task's id.

    Files older than `days` are removed when others are written.
    """

    def __init__(self, path: str | PathLike[str], days: float = 7, clock: Clock | None = None) -> None:
        self._root = Path(path)
        self._days = days
        self._clock = clock or SystemClock()
        self._purged_at: float | None = None

    def write(self, task: TaskInput, output: TaskOutput) -> Path:
        """Write a task and its output, replacing an earlier run of the task."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        now = self._clock.time()
        record = {"at": now, "task": _portable(task), "output": _portable(output)}
        path = self._path(task.task_id)
        write_file(path, [dump_json(redact(record)).encode() + b"\n"], sync=False)
        os.utime(path, (now, now))  # `purge` compares it with the same clock
        if self._purged_at is None or abs(now - self._purged_at) >= _HOUR:
            self.purge()
        return path

    def read(self, task_id: str) -> dict[str, Any] | None:
        """Return the task, its output and the time of writing as JSON data; None if there is no file."""
        try:
            return cast("dict[str, Any]", parse_json(self._path(task_id).read_bytes()))
        except FileNotFoundError:
            return None
        except CodecError as error:
            raise PlaybookError(f"the trace of {task_id!r} cannot be read: {error}") from error

    def purge(self) -> int:
        """Remove files that are too old, and return their number."""
        self._purged_at = self._clock.time()
        oldest = self._purged_at - self._days * _DAY
        removed = 0
        for path in self._root.glob("*.json"):
            with suppress(FileNotFoundError):  # another process purges too
                if path.stat().st_mtime < oldest:
                    path.unlink()
                    removed += 1
        return removed

    def _path(self, task_id: str) -> Path:
        return self._root / f"{hashed_name(task_id)}.json"


def _portable(value: TaskInput | TaskOutput) -> Any:
    """The value as JSON data, or as text if JSON cannot represent it (metadata, lone surrogates)."""
    try:
        plain = to_plain(value)
        dump_json(plain)
    except CodecError:
        return {"task_id": value.task_id.encode(errors="replace").decode(), "text": repr(value)}
    return plain
