"""Uniques: what became of an act that may be done once in all runs of a store."""

from __future__ import annotations

import asyncio
from typing import Protocol

from wesichain.core.internal import Clock
from wesichain.store import Logs

from .entries import Performed
from .log import JournalLog
from .sealing import Cipher
from .written import read_log

_POLL = 0.05  # seconds between two looks at an act that another run does, at first
_MOST_POLL = 1.0


class LivingProcesses(Protocol):
    """Says who works on runs."""

    async def is_worked_on(self, run_id: str) -> bool:
        """Whether a living process works on a run."""
        ...


class Uniques:
    """Reads what other runs of the store have done."""

    def __init__(self, logs: Logs, workers: LivingProcesses, clock: Clock, cipher: Cipher | None) -> None:
        self._logs = logs
        self._workers = workers
        self._clock = clock
        self._cipher = cipher

    async def outcome(self, run_id: str, name: str) -> Performed | None:
        """What came of a step of another run, once its process has done it; None if nobody knows."""
        poll = _POLL
        while True:
            is_worked_on = await self._workers.is_worked_on(run_id)
            log = JournalLog(run_id, self._clock)
            read_log(log, await self._logs.read(run_id), self._cipher)
            found = log.find(name, Performed)
            if found is not None or not is_worked_on:
                return found
            await asyncio.sleep(poll)
            poll = min(poll * 2, _MOST_POLL)
