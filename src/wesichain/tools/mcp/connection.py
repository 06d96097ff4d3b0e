"""Connection: one session with a server, in a task of its own.

The SDK's task groups must be left by the task that entered them, while calls come from any task: so one
task, the owner, enters, waits and leaves, and callers only send and await.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import Any, Literal, TypeVar, cast

from wesichain._version import __version__
from wesichain.errors import ConfigError, ToolError, ToolErrorKind
from wesichain.tools.running import settled

from .callbacks import Callbacks
from .sdk import (
    MODERN_PROTOCOL_VERSIONS,
    Client,
    InputRequiredRoundsExceededError,
    MCPError,
    MessageHandlerFnT,
    anyio,
    types,
)
from .text import bounded
from .transports import Transport

T = TypeVar("T")

_GOODBYE = 5.0  # seconds that closing a session may take
_MAX_ROUNDS = 10_000  # of questions, and of polls for a result that is not ready: time is what bounds them
QUESTION = "wesichain/question"  # in the data of an error: a server asked for this first, and has no answer


class Connection:
    """One session, created in the event loop that it is used in: `open` it once, then `close` it.

    `mode="auto"` asks for the newest protocol and falls back to the handshake of the older ones;
    `mode="legacy"` begins with the handshake.
    """

    def __init__(
        self,
        transport: Transport,
        explain: Callable[[str], ToolError],
        *,
        seconds: float,
        callbacks: Callbacks,
        sampling: bool,
        on_message: Callable[[Any], Coroutine[Any, Any, None]],
        mode: Literal["auto", "legacy"] = "auto",
    ) -> None:
        self._client = Client(
            transport.connect(),
            client_info=types.Implementation(name="wesichain", version=__version__),
            cache=None,
            mode=mode,
            input_required_max_rounds=_MAX_ROUNDS,
            message_handler=cast("MessageHandlerFnT", on_message),
            elicitation_callback=callbacks.elicit,
            sampling_callback=callbacks.sample if sampling else None,
        )
        self._explain = explain
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._scope = anyio.CancelScope(deadline=anyio.current_time() + seconds)
        self._settled = asyncio.Event()
        self._leaving = asyncio.Event()
        self.retired = asyncio.Event()  # set when another connection takes its place, or it is closed
        self._fault: Exception | None = None
        self._waiting = 0  # requests without a response
        self._owner = asyncio.create_task(self._own())

    async def open(self) -> None:
        """Wait until the server has answered; raises the error that keeps it from that."""
        await self._settled.wait()
        if self._fault is not None:
            raise self._fault

    async def close(self) -> None:
        """Wait until the session has ended, and with it the server's process, also when cancelled."""
        self.retired.set()
        self._leaving.set()
        if not self._settled.is_set():
            self._scope.cancel()
        await settled(self._owner)

    async def close_when_idle(self) -> None:
        """Close once all requests have their response."""
        self.retired.set()
        while self._waiting:  # noqa: ASYNC110  # nobody is in a hurry
            await asyncio.sleep(0.05)
        await self.close()

    @property
    def is_modern(self) -> bool:
        """Whether the session speaks protocol 2026-07-28 or newer: only the client sends requests."""
        return self._client.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def protocol_version(self) -> str:
        return self._client.protocol_version

    @property
    def capabilities(self) -> types.ServerCapabilities:
        return self._client.server_capabilities

    async def use(self, send: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request with the SDK's client, which answers what the server asks for first."""
        self._check()
        self._waiting += 1
        try:
            return await send(self._client)
        except InputRequiredRoundsExceededError:
            why = f"it asks for more input after {_MAX_ROUNDS} rounds"
            raise MCPError(types.INVALID_REQUEST, why) from None
        finally:
            self._waiting -= 1

    def listen(self, *, tools: bool = False, uris: Sequence[str] = ()) -> AbstractAsyncContextManager[Any]:
        """Open a stream of changes (protocol 2026-07-28); they also go to `on_message`."""
        self._check()
        return self._client.listen(tools_list_changed=tools, resource_subscriptions=uris)

    def _check(self) -> None:
        """Raise where no request can be sent."""
        if asyncio.get_running_loop() is not self._loop:
            raise self._explain("was entered in another event loop; use 'await agent.run(...)' in that one")
        if self._fault is not None:
            raise ToolError(str(self._fault), ToolErrorKind.UNAVAILABLE)

    async def _own(self) -> None:
        try:
            with self._scope:
                async with self._client:
                    _adapt(self._client.session)
                    self._scope.deadline = inf
                    self._settled.set()
                    await self._leaving.wait()
                    self._scope.deadline = anyio.current_time() + _GOODBYE
            if not self._settled.is_set():
                self._fault = self._explain(f"did not answer within {self._seconds:g} s")
        except Exception as error:  # noqa: BLE001  # whatever the SDK raises is raised to those who wait
            cause = _first(error)
            self._fault = cause if isinstance(cause, ConfigError) else self._explain(f"failed: {cause}")
        finally:
            self._fault = self._fault or self._explain("has been left")
            self._settled.set()


def _adapt(session: Any) -> None:
    """Leave the check of results to our tools: the SDK's follows patterns that can hang.

    And let an error say which question of the server had no answer.
    """

    async def unchecked(*_: object) -> None:
        return None

    answer: Callable[[Any, types.InputRequest], Awaitable[Any]] = session.dispatch_input_request

    async def answered(context: Any, request: types.InputRequest) -> Any:
        given = await answer(context, request)
        if not isinstance(given, types.ErrorData):
            return given
        question: str = request.method
        if isinstance(request, types.ElicitRequest):
            question = bounded(request.params.message, 500)
        return given.model_copy(update={"data": {QUESTION: question}})

    session.validate_tool_result, session.dispatch_input_request = unchecked, answered


def _first(error: Exception) -> Exception:
    """The first error, out of the groups that it comes in."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error
