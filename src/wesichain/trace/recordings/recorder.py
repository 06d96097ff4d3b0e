"""The recorder: a sink that writes the log of each run to its own file while it runs."""

from __future__ import annotations

import os
import threading
import weakref
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from wesichain.core import Event
from wesichain.core.internal import Clock
from wesichain.errors import ConfigError
from wesichain.journal.internal import JournalLog
from wesichain.trace.redaction.redactor import Redactor

from .folder import latest_file, new_files, prune
from .run_file import RunFile

_PRUNE_EVERY: Final = 64  # runs


class Recorder:
    """Writes each run to `folder` as lines of JSON (see `trace.load`); any number of runs at once.

    Files have mode 0600, a new folder 0700. Secrets are redacted before they are written.

    Entries are written in batches: the start of a run in the next iteration of the event loop, its end at
    once, and the others every half second, or every 512 records while the loop is blocked. A process that is
    killed loses at most one batch, and never writes part of a line. `durable=True` writes and syncs each
    entry before the run continues.

    Entries are dropped when the file has reached `max_bytes` (the end of the run is still written) or the
    disk is full; they are counted in the file and in `dropped`, and logged. `keep` (a number) and `days`
    (since the last change) remove old recordings.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        max_bytes: int = 64 * 1024 * 1024,
        durable: bool = False,
        keep: int | None = None,
        days: float | None = None,
        redactor: Redactor | None = None,
        clock: Clock | None = None,
    ) -> None:
        if max_bytes < 1 or (keep is not None and keep < 1) or (days is not None and days <= 0):
            raise ConfigError("max_bytes, keep and days of a Recorder must be above zero")
        self.folder = Path(folder)
        self._max_bytes = max_bytes
        self._durable = durable
        self._keep, self._days, self._clock = keep, days, clock
        self._redactor = redactor or Redactor()
        self._lock = threading.RLock()
        self._runs: list[RunFile] = []
        self._opened = 0
        self._dropped = 0
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._prune()
        weakref.finalize(self, _flush_last, self._runs, os.getpid())  # also at the exit of the program

    @property
    def dropped(self) -> int:
        """The number of entries of all runs that were dropped."""
        return self._dropped + sum(run.dropped for run in list(self._runs))

    def emit(self, event: Event) -> None:
        """A recorder reads the log of a run, and not its events: see `follow`."""
        raise ConfigError(
            f"a Recorder writes the log of a run, and was passed a {event.kind}: pass the recorder itself as "
            f"events= of the agent, the run or the graph"
        )

    def follow(self, log: JournalLog) -> RunFile:
        """Write the log of a run that starts, or goes on."""
        self._redactor.refresh()  # the environment may have new secrets
        with self._lock:
            self._forget_ended()
            known = latest_file(self.folder, log.run_id) if log.known else None
            run = RunFile(
                log,
                iter((known,)) if known else new_files(self.folder, log.run_id, log.clock.time()),
                is_new=known is None,
                redactor=self._redactor,
                max_bytes=self._max_bytes,
                durable=self._durable,
            )
            self._runs.append(run)
            self._opened += 1
        if self._opened % _PRUNE_EVERY == 0:
            self._prune()
        return run

    def flush(self) -> None:
        """Write all pending entries."""
        for run in list(self._runs):
            run.flush()

    def close(self) -> None:
        """Write all pending entries and forget the active runs. The recorder can still be used."""
        self.flush()
        with self._lock:
            self._dropped = self.dropped
            self._runs.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _forget_ended(self) -> None:
        ended = [run for run in self._runs if run.is_over]
        self._dropped += sum(run.dropped for run in ended)
        self._runs[:] = [run for run in self._runs if not run.is_over]

    def _prune(self) -> None:
        if self._keep is not None or self._days is not None:
            active = {Path(run.path) for run in list(self._runs) if not run.is_over}
            prune(self.folder, keep=self._keep, days=self._days, spare=active, clock=self._clock)


def _flush_last(runs: list[RunFile], process: int) -> None:
    if os.getpid() == process:  # a forked child has a copy of its parent's entries
        for run in list(runs):
            run.flush()
