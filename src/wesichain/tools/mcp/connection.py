"""Connection: a session with a server, from the first word to the last, in a task of its own.

The SDK's task groups must be left by the task that entered them, while calls come from any task: so one
task, the owner, enters, waits and leaves, and those who call only send and await.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from math import inf
from typing import Any, TypeAlias, cast

from wesichain._version import __version__
from wesichain.errors import ConfigError, ToolError, ToolErrorKind

from .sdk import Client, ClientSession, MessageHandlerFnT, anyio, types
from .transports import Transport

Elicit: TypeAlias = Callable[..., Coroutine[Any, Any, types.ElicitResult | types.ErrorData]]
Sample: TypeAlias = Callable[..., Coroutine[Any, Any, types.CreateMessageResult | types.ErrorData]]

_GOODBYE = 5.0  # seconds to take leave of a server


class Connection:
    """Made in the loop that it is used in; `open` it once, then `close` it."""

    def __init__(
        self,
        transport: Transport,
        explain: Callable[[str], ToolError],
        *,
        seconds: float,
        on_message: Callable[[Any], Coroutine[Any, Any, None]],
        on_elicit: Elicit | None = None,
        on_sample: Sample | None = None,
    ) -> None:
        self._client = Client(
            transport.connect(),
            client_info=types.Implementation(name="wesichain", version=__version__),
            cache=None,
            mode="legacy",  # the handshake: every server knows it, and can then ask, and say what changed
            message_handler=cast("MessageHandlerFnT", on_message),
            elicitation_callback=on_elicit,  # pyright: ignore[reportArgumentType]  # a partial has no parameter names
            sampling_callback=on_sample,  # pyright: ignore[reportArgumentType]  # likewise
        )
        self._explain = explain
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._scope = anyio.CancelScope(deadline=anyio.current_time() + seconds)
        self._settled = asyncio.Event()
        self._leaving = asyncio.Event()
        self._fault: Exception | None = None
        self.waiting = 0  # requests that wait for an answer
        self._owner = asyncio.create_task(self._own())

    async def open(self) -> None:
        """Wait until the server has answered, or raise what keeps it from that."""
        await self._settled.wait()
        if self._fault is not None:
            raise self._fault

    async def close(self) -> None:
        """Wait until the session has ended, and with it the server's process; a cancellation waits, too."""
        cancelled = None
        self._leaving.set()
        if not self._settled.is_set():
            self._scope.cancel()
        while not self._owner.done():
            try:
                await asyncio.wait({self._owner})
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    async def close_when_idle(self) -> None:
        """Close, after those who still wait for an answer have got it; cancelled, at once."""
        try:
            while self.waiting:  # noqa: ASYNC110  # nobody is in a hurry
                await asyncio.sleep(0.05)
        finally:
            await self.close()

    @property
    def session(self) -> ClientSession:
        """The session that requests are sent through; raises where that is no longer possible."""
        if asyncio.get_running_loop() is not self._loop:
            raise self._explain("was entered in another event loop; use 'await agent.run(...)' in that one")
        if self._fault is not None:
            raise ToolError(str(self._fault), ToolErrorKind.UNAVAILABLE)
        return self._client.session

    async def _own(self) -> None:
        try:
            with self._scope:
                async with self._client:
                    self._scope.deadline = inf
                    self._settled.set()
                    await self._leaving.wait()
                    self._scope.deadline = anyio.current_time() + _GOODBYE
            if not self._settled.is_set():
                self._fault = self._explain(f"did not answer within {self._seconds:g} s")
        except Exception as error:  # noqa: BLE001  # whatever the SDK meets is told to those who wait
            cause = _first(error)
            self._fault = cause if isinstance(cause, ConfigError) else self._explain(f"failed: {cause}")
        finally:
            self._fault = self._fault or self._explain("has been left")
            self._settled.set()


def _first(error: Exception) -> Exception:
    """The first error, out of the groups that it comes in."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error
