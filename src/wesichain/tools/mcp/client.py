"""Client: an MCP server, and its tools for as long as it is entered.

The SDK's task groups must be left by the task that entered them, and calls come from any task: so one
task, the owner, enters, waits and leaves, and whoever calls only sends and awaits.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Mapping
from math import inf
from types import TracebackType
from typing import Any, Self, cast

from pydantic import ValidationError
from typing_extensions import Unpack

from wesichain._version import __version__
from wesichain.core import JsonValue
from wesichain.errors import ConfigError, ToolError, ToolErrorKind
from wesichain.tools.definition import Tool, ToolWarning
from wesichain.tools.json_schema import shorten

from .offer import McpOptions, Offer
from .sdk import Client, MCPError, anyio, types
from .translate import read_result
from .transports import Address, Program, Transport

_MOST_PAGES = 100
_GOODBYE = 5.0  # seconds to take leave of a server
_KINDS = {
    types.INVALID_PARAMS: ToolErrorKind.INVALID_INPUT,
    types.METHOD_NOT_FOUND: ToolErrorKind.NOT_FOUND,
    types.CONNECTION_CLOSED: ToolErrorKind.UNAVAILABLE,
}


class McpServer:
    """The tools of an MCP server: `async with McpServer.stdio("python", "server.py") as server: ...`.

    `tools` are what the server offered when it was entered, or at the last `refresh`; they never change
    behind a run's back. `left_out` says which are not among them and why: their schemas cannot be used.
    Hints of the server can make us more careful (see `McpOptions`), never less.

    A server that cannot be reached, or does not answer, is a `ToolError` of kind unavailable: on entering,
    and for each call. After leaving, the same object can be entered again.
    """

    def __init__(self, transport: Transport, **options: Unpack[McpOptions]) -> None:
        self._offer = Offer(**options)
        self.name = self._offer.name or transport.label
        self.tools: tuple[Tool, ...] = ()
        self.left_out: dict[str, str] = {}
        self._transport = transport
        self._patience = self._offer.connect_timeout
        self._client: Client | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner: asyncio.Task[None] | None = None
        self._scope = anyio.CancelScope()
        self._settled = asyncio.Event()
        self._leaving = asyncio.Event()
        self._fault: Exception | None = None

    @classmethod
    def stdio(
        cls,
        command: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        **options: Unpack[McpOptions],
    ) -> Self:
        """A server that is a program, started on entering and ended on leaving.

        Of our environment it gets PATH, HOME and their like alone, and all of `env`.
        """
        return cls(Program(command, args, env=env or {}, cwd=cwd), **options)

    @classmethod
    def http(
        cls, url: str, *, headers: Mapping[str, str] | None = None, **options: Unpack[McpOptions]
    ) -> Self:
        """A server behind a URL, by streamable HTTP. Headers go to that host alone."""
        return cls(Address(url, headers=headers or {}), **options)

    # --- the connection --------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._owner is not None:
            raise ConfigError(f"MCP server {self.name!r} is in use already; make another McpServer")
        self._loop = asyncio.get_running_loop()
        self._settled, self._leaving, self._fault = asyncio.Event(), asyncio.Event(), None
        self._scope = anyio.CancelScope(deadline=self._loop.time() + self._patience)
        self._owner = asyncio.create_task(self._own())
        try:
            await self._settled.wait()
            await self.refresh()
        except BaseException:
            self._scope.cancel()
            await self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    async def _own(self) -> None:
        client = Client(
            self._transport.connect(),
            client_info=types.Implementation(name="wesichain", version=__version__),
            cache=None,
        )
        try:
            with self._scope:
                async with client:
                    self._client = client
                    self._scope.deadline = inf
                    self._settled.set()
                    await self._leaving.wait()
                    self._scope.deadline = anyio.current_time() + _GOODBYE
            if not self._settled.is_set():
                self._fault = self._unavailable(f"did not answer within {self._patience:g} s")
        except Exception as error:  # noqa: BLE001  # whatever the SDK meets is told to whoever waits
            cause = _root(error)
            self._fault = cause if isinstance(cause, ConfigError) else self._unavailable(f"failed: {cause}")
        finally:
            self._client = None
            self._settled.set()

    async def _leave(self) -> None:
        """Wait until the owner has gone, and with it the server's process; a cancellation waits, too."""
        owner, cancelled = self._owner, None
        assert owner is not None
        self._leaving.set()
        while not owner.done():
            try:
                await asyncio.wait({owner})
            except asyncio.CancelledError as error:
                cancelled = error
        self._owner = None
        if cancelled is not None:
            raise cancelled

    # --- the tools -------------------------------------------------------------------------------

    async def refresh(self) -> tuple[Tool, ...]:
        """Ask the server for its tools again. An agent keeps those that it was made with."""
        self.tools, self.left_out = self._offer.choose(await self._list(), self.name, self.call)
        for name, why in self.left_out.items():
            said = f"MCP server {self.name!r}: tool {name!r} is left out: {why}"
            warnings.warn(said, ToolWarning, stacklevel=2)
        return self.tools

    async def _list(self) -> list[types.Tool]:
        listed: list[types.Tool] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(self._patience):
                for _ in range(_MOST_PAGES):
                    page = await self._connected().list_tools(cursor=cursor)
                    listed += page.tools
                    cursor = page.next_cursor
                    if cursor is None:
                        return listed
        except TimeoutError:
            raise self._unavailable(f"did not list its tools within {self._patience:g} s") from None
        except (MCPError, ValidationError) as error:
            raise self._failed(error, "its list of tools") from error
        raise self._unavailable(f"lists its tools on more than {_MOST_PAGES} pages")

    async def call(self, tool: str, args: Mapping[str, Any]) -> JsonValue:
        """Call a tool by the server's name for it; whatever goes wrong is a `ToolError`."""
        params = types.CallToolRequestParams(name=tool, arguments=dict(args))
        session = self._connected().session
        try:
            # Not `Client.call_tool`: it checks results with patterns that can hang; our own check follows.
            result = await session.send_request(types.CallToolRequest(params=params), types.CallToolResult)
        except (MCPError, ValidationError) as error:
            raise self._failed(error, "its answer") from error
        try:
            return read_result(result)
        except ToolError as error:
            raise ToolError(self._masked(str(error)), error.kind) from None

    def _connected(self) -> Client:
        if self._client is None:
            raise self._fault or self._unavailable("is not connected: use its tools inside its 'async with'")
        if asyncio.get_running_loop() is not self._loop:
            raise self._unavailable(
                "was entered in another event loop; use 'await agent.run(...)' in that one"
            )
        return self._client

    # --- what goes wrong -------------------------------------------------------------------------

    def _failed(self, error: MCPError | ValidationError, what: str) -> ToolError:
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            said = f"MCP server {self.name!r}: {what} is not valid: {where}: {first['msg']}"
            return ToolError(self._masked(said), ToolErrorKind.SERIALIZATION)
        kind = _KINDS.get(error.code, ToolErrorKind.EXECUTION_FAILED)
        if kind is ToolErrorKind.UNAVAILABLE:
            closed = error.message == "Connection closed"
            return self._unavailable("is gone" if closed else f"failed: {error.message}")
        return ToolError(self._masked(f"MCP server {self.name!r}: {error.message}"), kind)

    def _unavailable(self, what: str) -> ToolError:
        remarks = self._transport.remarks()
        said = f"MCP server {self.name!r} {what}{'; ' if remarks else ''}{remarks}"
        return ToolError(self._masked(said), ToolErrorKind.UNAVAILABLE)

    def _masked(self, text: str) -> str:
        for secret in self._transport.secrets:
            if len(secret) >= 6:
                text = text.replace(secret, "[redacted]")
        return shorten(text, 2_000)


def _root(error: Exception) -> Exception:
    """What went wrong first, out of the groups that it comes in."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error
