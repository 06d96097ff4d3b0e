"""The trace log: what a task was and how it went, one file a task, for a week."""

from __future__ import annotations

import os
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, cast

from wesichain.core.internal import Clock, SystemClock, dump_json, parse_json, to_plain
from wesichain.errors import CodecError, PlaybookError
from wesichain.trace import redact

from .entities.domains import hashed_name
from .entities.tasks import TaskInput, TaskOutput
from .storage.backend import write_file

_HOUR = 3_600.0
_DAY = 24 * _HOUR


class TraceLog:
    """Files are named by a hash of the task's id, readable by their owner alone, without secrets.

    What is older than `days`, by the clock that is handed in, is removed as others are written.
    """

    def __init__(self, path: str | PathLike[str], days: float = 7, clock: Clock | None = None) -> None:
        self._root = Path(path)
        self._days = days
        self._clock = clock or SystemClock()
        self._purged_at: float | None = None

    def write(self, task: TaskInput, output: TaskOutput) -> Path:
        """Keep a task and its output, in place of an earlier run of the same task."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        now = self._clock.time()
        record = {"at": now, "task": _portable(task), "output": _portable(output)}
        path = self._path(task.task_id)
        write_file(path, [dump_json(redact(record)).encode() + b"\n"], sync=False)
        os.utime(path, (now, now))  # its age is told by the clock that was handed in
        if self._purged_at is None or abs(now - self._purged_at) >= _HOUR:
            self.purge()
        return path

    def read(self, task_id: str) -> dict[str, Any] | None:
        """The task, its output and when it was written, as JSON data; None where nothing is kept."""
        try:
            return cast("dict[str, Any]", parse_json(self._path(task_id).read_bytes()))
        except FileNotFoundError:
            return None
        except CodecError as error:
            raise PlaybookError(f"the trace of {task_id!r} cannot be read: {error}") from error

    def purge(self) -> int:
        """Remove what is too old; how many files that were."""
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
    """As JSON data; what has none, metadata or half a character, is kept as text."""
    try:
        plain = to_plain(value)
        dump_json(plain)
    except CodecError:
        return {"task_id": value.task_id.encode(errors="replace").decode(), "text": repr(value)}
    return plain
