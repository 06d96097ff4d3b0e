"""The frame of a function's run: its log, its account and its stop, for one leg of the work on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from wesichain.core.internal import CancellationToken, Clock, Suspended
from wesichain.errors import ConfigError, RunEndedError
from wesichain.policy.internal import Account

from .claims import Claims
from .log import JournalLog
from .uniques import Uniques
from .waiting import wait_for


class Frame(Protocol):
    """What a `Journal` stands on: the log, and what may be done in it now."""

    @property
    def log(self) -> JournalLog: ...

    @property
    def token(self) -> CancellationToken | None: ...

    @property
    def uniques(self) -> Uniques | None: ...

    def acting(self, name: str) -> AbstractAsyncContextManager[None]:
        """An act that the log does not have. Raises if none may begin."""
        ...

    def check_act(self, name: str) -> None:
        """Raise if an act that the log does not have may not begin."""
        ...

    async def pause(self, place: str, kind: str, name: str, due: float | None) -> None:
        """Wait for a signal or a moment, or raise `Suspended`, so that this leg of the work ends."""
        ...

    def link_at(self, place: str) -> Any:
        """What agents, graphs and functions need that run inside a place."""
        ...


class Stopping(Suspended):
    """The run was asked to stop: an act that the log does not have is not begun."""


class RunFrame:
    """One leg of the work on a function's run; without a token, the run is only read.

    Runs inside the function, of agents and graphs, spend from its `account`.
    """

    def __init__(
        self,
        log: JournalLog,
        *,
        token: CancellationToken | None,
        account: Account | None = None,
    ) -> None:
        self.log = log
        self.token = token
        self.account = account
        self.uniques: Uniques | None = None if log.journals is None else log.journals.uniques
        self.failure: Exception | None = None  # a mistake of the program, in a run inside
        self._links: dict[str, FrameLink] = {}
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
        """Raise before an act, if the run was stopped, has been left, is only read or only replayed."""
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
        if self.log.refuse is not None:
            raise self.log.refuse(name)
        if self.token.cancelled:
            raise Stopping(self.token.reason or "stopped")

    async def pause(self, place: str, kind: str, name: str, due: float | None) -> None:
        """Note what the run waits for, and end this leg of the work on it."""
        self.log.wait(place, wait_for(kind, name, at=due))
        raise Suspended(f"the run {self.log.run_id!r} waits for the {kind} {name!r}")

    def link_at(self, place: str) -> FrameLink:
        """What runs inside a place of this function need of it."""
        link = self._links.get(place)
        if link is None:
            link = self._links[place] = FrameLink(self, place)
        return link

    def close(self) -> None:
        """Refuse new acts."""
        self._has_ended = True

    async def end(self) -> None:
        """Refuse new acts, and wait for those under way: what they return is recorded."""
        self.close()
        await self._idle.wait()


class FrameLink:
    """The link between a function and an agent, a graph or another function that runs inside it."""

    suspends = True  # a run inside that waits suspends the function
    pressure = None
    deps = None
    scope: tuple[str, ...] = ()

    def __init__(self, frame: RunFrame, place: str) -> None:
        self._frame = frame
        self._claims = Claims(frame.log, place, place, what="the function")

    @property
    def log(self) -> JournalLog:
        return self._frame.log

    @property
    def account(self) -> Account | None:
        return self._frame.account

    @property
    def clock(self) -> Clock:
        return self._frame.log.clock

    @property
    def token(self) -> CancellationToken | None:
        return self._frame.token

    def claim(self, name: str, task: str, key: str | None = None, *, alone: bool = False) -> str:
        """The place of a run inside the function."""
        return self._claims.claim(name, task, key, alone=alone)

    def run_began(self, place: str, run: Any) -> None:
        """A run inside begins."""
        del place, run

    def run_ended(self, place: str, outcome: Any) -> None:
        """A run inside has ended: nobody asks for its entries again, unless it was interrupted."""
        if getattr(outcome, "kind", "") != "interrupted":
            self._frame.log.settle(place)

    def run_failed(self, error: Exception) -> None:
        """A run inside was ended by a mistake of the program, which ends the function too."""
        self._frame.failure = self._frame.failure or error
