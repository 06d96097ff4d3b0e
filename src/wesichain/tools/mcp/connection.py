"""Connection: one session with a server, in a separate task.

The SDK's task groups have to be exited by the task that entered them, but requests come from any task. So one
task, the owner, opens and closes the session, and callers only send requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import Any, Literal, TypeVar, cast

from pydantic import ValidationError

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

_CLOSE_SECONDS = 5.0
_MAX_ROUNDS = 10_000  # of questions, and of polls for a result; the timeout limits them
QUESTION = "wesichain/question"  # in the data of an error: the question of the server without an answer


class Connection:
    """One session, in the event loop in which it is created. Call `open` once, and then `close`.

    `mode="auto"` tries the newest protocol, and falls back to the handshake of older ones; `mode="legacy"`
    begins with the handshake.
    """

    def __init__(
        self,
        transport: Transport,
        unavailable: Callable[[str], ToolError],
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
        self._unavailable = unavailable
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._scope = anyio.CancelScope(deadline=anyio.current_time() + seconds)
        self._opened = asyncio.Event()
        self._closing = asyncio.Event()
        self.retired = asyncio.Event()  # set when it is replaced or closed
        self._fault: Exception | None = None
        self._waiting = 0  # requests without a response
        self._owner = asyncio.create_task(self._run())

    async def open(self) -> None:
        """Wait until the session is open. Raises the error if that fails."""
        await self._opened.wait()
        if self._fault is not None:
            raise self._fault

    async def close(self) -> None:
        """End the session and the server's process, and wait for both, even if cancelled."""
        self.retired.set()
        self._closing.set()
        if not self._opened.is_set():
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
        """Whether the protocol is 2026-07-28 or newer, in which only the client sends requests."""
        return self._client.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def protocol_version(self) -> str:
        return self._client.protocol_version

    @property
    def capabilities(self) -> types.ServerCapabilities:
        return self._client.server_capabilities

    async def use(self, send: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request with the SDK's client, which also handles requests of the server."""
        self._check()
        self._waiting += 1
        try:
            return await send(self._client)
        except InputRequiredRoundsExceededError:
            why = f"it requests more input after {_MAX_ROUNDS} rounds"
            raise MCPError(types.INVALID_REQUEST, why) from None
        finally:
            self._waiting -= 1

    def listen(self, *, tools: bool = False, uris: Sequence[str] = ()) -> AbstractAsyncContextManager[Any]:
        """Open a stream of changes (protocol 2026-07-28), which are also passed to `on_message`."""
        self._check()
        return self._client.listen(tools_list_changed=tools, resource_subscriptions=uris)

    def _check(self) -> None:
        """Raise an error if no request can be sent."""
        if asyncio.get_running_loop() is not self._loop:
            raise self._unavailable("was entered in another event loop; use 'await agent.run(...)' there")
        if self._fault is not None:
            raise ToolError(str(self._fault), ToolErrorKind.UNAVAILABLE)

    async def _run(self) -> None:
        try:
            with self._scope:
                async with self._client:
                    _adapt_session(self._client.session)
                    self._scope.deadline = inf
                    self._opened.set()
                    await self._closing.wait()
                    self._scope.deadline = anyio.current_time() + _CLOSE_SECONDS
            if not self._opened.is_set():
                self._fault = self._unavailable(f"did not answer within {self._seconds:g} s")
        except Exception as error:  # noqa: BLE001  # raised by `open` and `use`
            cause = _first(error)
            reason = (
                f"its answer is not valid: {first_issue(cause)}"
                if isinstance(cause, ValidationError)
                else cause
            )
            self._fault = cause if isinstance(cause, ConfigError) else self._unavailable(f"failed: {reason}")
        finally:
            self._fault = self._fault or self._unavailable("has been left")
            self._opened.set()


def _adapt_session(session: Any) -> None:
    """Disable the SDK's validation of results, whose patterns can hang, and add questions to errors.

    Results are validated by the tool.
    """

    async def unchecked(*_: object) -> None:
        return None

    dispatch: Callable[[Any, types.InputRequest], Awaitable[Any]] = session.dispatch_input_request

    async def answered(context: Any, request: types.InputRequest) -> Any:
        response = await dispatch(context, request)
        if not isinstance(response, types.ErrorData):
            return response
        question: str = request.method
        if isinstance(request, types.ElicitRequest):
            question = bounded(request.params.message, 500)
        return response.model_copy(update={"data": {QUESTION: question}})

    session.validate_tool_result, session.dispatch_input_request = unchecked, answered


def first_issue(error: ValidationError) -> str:
    """Return the first issue of an invalid message, without the values of the server."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def _first(error: Exception) -> Exception:
    """Return the first error in nested exception groups."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error
