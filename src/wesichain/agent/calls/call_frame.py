"""The journal of a call: what a tool does and waits for under names, below the place of its call."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from wesichain.core.internal import CancellationToken, Suspended
from wesichain.errors import RunEndedError
from wesichain.journal.internal import Journal, JournalLog, Stopping, call_place, next_record, wait_for

if TYPE_CHECKING:
    from .open_call import OpenCall


class CallFrame:
    """What a `Journal` stands on inside one attempt at a call.

    A run that has no store waits for signals and moments where it is; any other one ends this leg of its work,
    and the call is entered again when what it waits for has come.
    """

    __slots__ = ("_call",)

    def __init__(self, call: OpenCall) -> None:
        self._call = call

    @property
    def log(self) -> JournalLog:
        return self._call.log

    @property
    def token(self) -> CancellationToken:
        return self._call.run_token

    @property
    def uniques(self) -> Any:
        journals = self.log.journals
        return None if journals is None else journals.uniques

    @asynccontextmanager
    async def acting(self, name: str) -> AsyncGenerator[None]:
        """An act that the log does not have."""
        self.check_act(name)
        yield

    def check_act(self, name: str) -> None:
        """Raise if the call has ended, if the run was stopped, or in a replay."""
        call = self._call
        if call.is_closed:
            raise RunEndedError(
                f"{name!r} comes after the call of {call.call.name!r} has ended; await everything that the tool "
                f"starts before it returns",
                run_id=self.log.run_id,
            )
        if self.log.refuse is not None:
            raise self.log.refuse(name)
        if self.token.cancelled:
            raise Stopping(self.token.reason or "stopped")

    async def pause(self, place: str, kind: str, name: str, due: float | None) -> None:
        """Wait for a signal or a moment."""
        log = self.log
        if log.writer is None:
            await next_record(log, None if due is None else due - log.clock.time())
            self.check_act(f"{place}{kind} {name}")
            return
        log.wait(place, wait_for(kind, name, at=due))
        raise Suspended(f"{self._call.call.name!r} waits for the {kind} {name!r}")

    def link_at(self, place: str) -> OpenCall:
        """What runs need that a tool starts: those inside a call stand below the call itself."""
        del place
        return self._call


def journal_of(call: OpenCall) -> Journal:
    """The journal of an attempt at a call. A step that is done once stands below the call, for all attempts."""
    return Journal(CallFrame(call), call.place, call_place(call.run.log.place, call.call.id))
