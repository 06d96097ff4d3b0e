"""The frame of a function's run: its log and its stop, for one leg of the work on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from wesichain.core.internal import CancellationToken
from wesichain.errors import ConfigError, RunEndedError

from .log import JournalLog
from .suspended import Suspended
from .uniques import Uniques


class Stopping(Suspended):
    """The run was asked to stop: an act that the log does not have is not begun."""


class RunFrame:
    """One leg of the work on a function's run; without a token, the run is only read."""

    def __init__(
        self, log: JournalLog, *, token: CancellationToken | None, uniques: Uniques | None = None
    ) -> None:
        self.log = log
        self.token = token
        self.uniques = uniques
        self._has_ended = False
        self._acts = 0  # under way
        self._idle = asyncio.Event()
        self._idle.set()

    @asynccontextmanager
    async def acting(self, name: str) -> AsyncGenerator[None]:
        """An act that the log does not have. Raises if none may begin."""
        self.check_act(name)
        self._acts += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._acts -= 1
            if not self._acts:
                self._idle.set()

    def check_act(self, name: str) -> None:
        """Raise before an act, if the run was stopped, has been left, or is only read."""
        if self.token is None:
            raise ConfigError(
                f"the run {self.log.run_id!r} was opened for reading, and {name!r} is not in its log; "
                f"journals.run(...) continues it"
            )
        if self._has_ended:
            raise RunEndedError(
                f"{name!r} comes after the function of the run {self.log.run_id!r} has ended; await every "
                f"task that the function starts, for example with journal.gather(...)",
                run_id=self.log.run_id,
            )
        if self.token.cancelled:
            raise Stopping(self.token.reason or "stopped")

    def close(self) -> None:
        """Refuse new acts."""
        self._has_ended = True

    async def end(self) -> None:
        """Refuse new acts, and wait for those under way: what they return is recorded."""
        self.close()
        await self._idle.wait()
