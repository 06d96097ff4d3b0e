"""The recorder: a sink that writes each run to its own file while it runs."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast

from wesichain.core import Event, RunStarted
from wesichain.core.internal import Clock
from wesichain.errors import ConfigError
from wesichain.trace.redaction.redactor import Redactor

from .folder import latest_file, new_files, prune
from .format import STATUS_OF, VERSION, End, Header, RecordedEnd, excerpt, without_surrogates
from .lines import DELTAS, PendingEvents
from .run_file import RunFile

_log = logging.getLogger("wesichain.trace")

_PRUNE_EVERY: Final = 64  # runs


class Recorder:
    """Writes each run to `folder` as lines of JSON (see `trace.load`); any number of runs at once.

    Files have mode 0600, a new folder 0700. Secrets are redacted before they are written.

    Events are written in batches: the start of a run in the next iteration of the event loop, its end at
    once, and the others every half second, or every 512 events while the loop is blocked. A process that is
    killed loses at most one batch, and never writes part of a line. `durable=True` writes and syncs each
    event before the run continues.

    Events are dropped when the file has reached `max_bytes` (the end of the run is still written) or the
    disk is full; they are counted in the file and in `dropped`, and logged. `keep` (a number) and `days`
    (since the last change) remove old recordings. `deltas=True` also records the deltas of streamed
    replies, which are otherwise recorded as a whole; a secret that is split over deltas is not redacted.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        max_bytes: int = 64 * 1024 * 1024,
        durable: bool = False,
        deltas: bool = False,
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
        self._deltas = deltas
        self._keep, self._days, self._clock = keep, days, clock
        self._redactor = redactor or Redactor()
        self._lock = threading.RLock()
        self._runs: dict[str, RunFile] = {}
        self._opened = 0
        self._dropped = 0
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._prune()
        weakref.finalize(self, _flush_last, self._runs, os.getpid())  # also at the exit of the program

    @property
    def dropped(self) -> int:
        """The number of events of all runs that were dropped."""
        return self._dropped + sum(run.dropped for run in list(self._runs.values()))

    def emit(self, event: Event) -> None:
        self._take(event)

    def run_listeners(
        self, run_id: str, log: list[Any] | None = None, before: int = 0
    ) -> tuple[Callable[[Event], None], Callable[[Event], None] | None]:
        """Two faster functions in place of `emit`, for the events of one run. They raise nothing.

        The second is for events that are followed by others. It is None where the recorder reads those from
        the `log` of the run (`events_in`), which has all events after number `before`: they are written no
        later than if they had been emitted.
        """
        pending = PendingEvents(run_id, log, before, with_deltas=self._deltas)
        failed = False

        def receive(event: Event) -> None:
            nonlocal failed
            try:
                self._take(event, pending)
            except Exception:  # noqa: BLE001  # a sink must never change the run
                if not failed:
                    _log.exception("the run %s cannot be recorded in %s", run_id, self.folder)
                failed = True

        return receive, receive if log is None or self._durable else None

    def _take(self, event: Event, pending: PendingEvents | None = None) -> None:
        kind = type(event)
        if kind in DELTAS and not self._deltas:
            return
        run = self._runs.get(event.run_id)
        if run is None or kind is RunStarted:
            run = self._open(event, pending or PendingEvents(event.run_id))
        if kind not in STATUS_OF or event.scope:
            run.add(event)
        else:
            event = self._redactor.event(event)
            run.end(event, RecordedEnd.of(cast("End", event), run.nested))
            self._forget(event.run_id, run)

    def flush(self) -> None:
        """Write all pending events."""
        _flush_all(self._runs)

    def close(self) -> None:
        """Write all pending events and close the files of active runs. The recorder can still be used."""
        for run_id, run in list(self._runs.items()):
            run.flush()
            self._forget(run_id, run)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self, event: Event, pending: PendingEvents) -> RunFile:
        """Open a file for a run: a new one, or the existing one of a resumed run."""
        is_new = isinstance(event, RunStarted) and not event.scope and not event.resumed
        self._redactor.refresh()  # the environment may have new secrets
        with self._lock:
            before = self._runs.get(event.run_id)
            if before is not None and not is_new:
                return before
            known = None if is_new else latest_file(self.folder, event.run_id)
            run = self._runs[event.run_id] = RunFile(
                iter((known,)) if known else new_files(self.folder, event.run_id, event.at),
                None if known else _header(self._redactor.event(event)),
                pending=pending,
                redactor=self._redactor,
                max_bytes=self._max_bytes,
                durable=self._durable,
            )
            self._opened += 1
        if before is not None:  # another run has the id of an active one
            before.flush()
        if self._opened % _PRUNE_EVERY == 0:
            self._prune()
        return run

    def _forget(self, run_id: str, run: RunFile) -> None:
        with self._lock:
            self._dropped += run.dropped
            if self._runs.get(run_id) is run:
                del self._runs[run_id]

    def _prune(self) -> None:
        if self._keep is not None or self._days is not None:
            active = {Path(run.path) for run in list(self._runs.values())}
            prune(self.folder, keep=self._keep, days=self._days, spare=active, clock=self._clock)


def _flush_all(runs: dict[str, RunFile]) -> None:
    for run in list(runs.values()):
        run.flush()


def _flush_last(runs: dict[str, RunFile], process: int) -> None:
    if os.getpid() == process:  # a forked child has a copy of its parent's events
        _flush_all(runs)


def _header(event: Event) -> Header:
    model, user_input, agent = "", "", ""
    if isinstance(event, RunStarted):
        model, user_input, agent = event.model, event.user_input, event.agent
    run_id = without_surrogates(event.run_id)
    return Header(VERSION, run_id, event.at, excerpt(model), excerpt(user_input), excerpt(agent))
