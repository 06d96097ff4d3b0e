"""The frame of a function's run: the log, the account and the stop of one leg of the work on it."""

from __future__ import annotations

from typing import Any

from wesichain.core.internal import CancellationToken, Clock
from wesichain.policy.internal import Account

from .claims import Claims
from .log import Log
from .suspended import Suspended


class Stopping(Suspended):
    """The run was asked to stop: an act that the log does not have is not begun."""


class Frame:
    """One leg of the work on a function's run."""

    def __init__(
        self,
        log: Log,
        account: Account,
        *,
        token: CancellationToken | None = None,
        scope: tuple[str, ...] = (),
    ) -> None:
        self.log = log
        self.account = account
        self.token = token or CancellationToken()
        self.scope = scope
        self.failure: Exception | None = None  # a mistake of the program in a run inside
        self._links: dict[str, FrameLink] = {}

    def check_act(self, name: str) -> None:
        """Raise before an act that the log does not have, if the run was stopped, or in a replay."""
        if self.log.refuse is not None:
            raise self.log.refuse(name)
        if self.token.cancelled:
            raise Stopping(self.token.reason or "stopped")

    def waits(self) -> None:
        """Something in the function waits. The log has what for."""

    def link_at(self, place: str) -> FrameLink:
        """What runs inside a place of this function need of it."""
        link = self._links.get(place)
        if link is None:
            link = self._links[place] = FrameLink(self, place)
        return link


class FrameLink:
    """The link between a function and an agent, a graph or another function that runs inside it."""

    suspends = True  # a run inside that waits suspends the function
    pressure = None
    deps = None

    def __init__(self, frame: Frame, place: str) -> None:
        self._frame = frame
        self._claims = Claims(frame.log, place, place, what="the function")

    @property
    def log(self) -> Log:
        return self._frame.log

    @property
    def account(self) -> Account:
        return self._frame.account

    @property
    def clock(self) -> Clock:
        return self._frame.log.clock

    @property
    def scope(self) -> tuple[str, ...]:
        return self._frame.scope

    @property
    def token(self) -> CancellationToken:
        return self._frame.token

    def claim(self, name: str, task: str, key: str | None = None, *, alone: bool = False) -> str:
        """The place of a run inside the function."""
        return self._claims.claim(name, task, key, alone=alone)

    def run_began(self, place: str, run: Any) -> None:
        del place, run

    def run_ended(self, place: str, outcome: Any) -> None:
        if getattr(outcome, "kind", "") != "interrupted":
            self._frame.log.settle(place)

    def run_failed(self, error: Exception) -> None:
        self._frame.failure = self._frame.failure or error
