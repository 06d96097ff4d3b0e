"""The journal of one run: what was done is told again, what is new is done and written down.

Steps are known by name, not by their order: calls that run side by side may end in any. A step whose record
answers to something else than what the program asks for now is a `ReplayMismatchError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from typing_extensions import override

from wesichain.core import Clock, from_json
from wesichain.errors import ReplayMismatchError
from wesichain.tools import CancellationToken

from .records import Deed, Record, fingerprint, written

Act: TypeAlias = Callable[[], Awaitable[Deed]]
Step: TypeAlias = Callable[[str, Callable[[], Awaitable[str]]], Awaitable[str]]

MAX_STEP = 4 * 1024 * 1024  # bytes


class LostRunError(BaseException):
    """The run is not this process's any more: it was cancelled, or another one has taken it over."""


class Journal(Clock):
    """Performs the steps of one run, and is its clock: time passes in steps alone, and is recorded with them.

    `recorded` has the texts of finished steps by name; `step` does a new one and keeps its text, or raises.
    """

    def __init__(
        self, recorded: Mapping[str, str], step: Step, *, clock: Clock, at: float, max_step: int = MAX_STEP
    ) -> None:
        self._recorded = dict(recorded)
        self._step = step
        self._clock = clock
        self._max_step = max_step
        self._at = at
        self._elapsed = 0.0
        self._sleeps = 0
        self.token: CancellationToken | None = None  # of the loop, once it drives the run

    def knows(self, name: str) -> bool:
        """Whether a step of this name has ended before, and has not been told again yet."""
        return name in self._recorded

    async def perform(self, name: str, asked: str, act: Act, *, step_id: int = 0) -> Deed:
        """What the step came to, now or then. `asked` is the fingerprint of what it answers to."""
        text = self._recorded.pop(name, None)
        record = None if text is None else from_json(Record, text)
        if record is None or record.deed.is_refusal:
            began, before = self._clock.monotonic(), self._elapsed

            async def act_and_write() -> str:
                deed = await act()
                elapsed = before + self._clock.monotonic() - began
                return written(Record(asked, self._clock.time(), elapsed, deed), limit=self._max_step)

            record = from_json(Record, await self._do(name, act_and_write))
        if record.asked != asked:
            raise ReplayMismatchError(
                f"step {name!r} of this run was recorded for something else: the prompt, the tools or their "
                f"arguments have changed since; resume it with the program that began it, or begin anew",
                step_id=step_id,
                expected=record.asked,
                actual=asked,
            )
        self._at, self._elapsed = record.at, max(self._elapsed, record.elapsed)
        return record.deed

    async def _do(self, name: str, act: Callable[[], Awaitable[str]]) -> str:
        try:
            return await self._step(name, act)
        except LostRunError as lost:
            if self.token is None:
                raise
            self.token.cancel(str(lost))
            return await asyncio.Future[str]()  # the loop watches the token, and ends this wait

    @override
    def time(self) -> float:
        return self._at

    @override
    def monotonic(self) -> float:
        return self._elapsed

    @override
    async def sleep(self, seconds: float) -> None:
        self._sleeps += 1

        async def sleep() -> Deed:
            await self._clock.sleep(seconds)
            return Deed()

        await self.perform(f"sleep {self._sleeps}", fingerprint(seconds), sleep)
