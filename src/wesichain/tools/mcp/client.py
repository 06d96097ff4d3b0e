"""Client: an MCP server, and its tools for as long as it is entered."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError
from typing_extensions import Unpack

from wesichain.core import JsonValue
from wesichain.errors import ConfigError, ToolError, ToolErrorKind
from wesichain.tools.definition import Tool, ToolWarning
from wesichain.tools.json_schema import shorten

from .connection import Connection
from .offer import McpOptions, Offer
from .sdk import ClientSession, MCPError, types
from .translate import read_result
from .transports import Address, Program, Transport

_MOST_PAGES = 100
_KINDS = {
    types.INVALID_PARAMS: ToolErrorKind.INVALID_INPUT,
    types.METHOD_NOT_FOUND: ToolErrorKind.NOT_FOUND,
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
        self._transport = transport
        self._connection: Connection | None = None
        self.name = self._offer.name or transport.label
        self.tools: tuple[Tool, ...] = ()
        self.left_out: Mapping[str, str] = {}

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

    async def __aenter__(self) -> Self:
        if self._connection is not None:
            raise ConfigError(f"MCP server {self.name!r} is in use already; make another McpServer")
        seconds = self._offer.connect_timeout
        self._connection = Connection(self._transport, self._unavailable, seconds=seconds)
        try:
            await self._connection.open()
            await self.refresh()
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    async def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def refresh(self) -> tuple[Tool, ...]:
        """Ask the server for its tools again. An agent keeps those that it was made with."""
        self.tools, self.left_out = self._offer.choose(await self._list(), self.name, self.call)
        for name, why in self.left_out.items():
            said = f"MCP server {self.name!r}: tool {name!r} is left out: {why}"
            warnings.warn(said, ToolWarning, stacklevel=2)
        return self.tools

    async def _list(self) -> list[types.Tool]:
        session, seconds = self._session(), self._offer.connect_timeout
        listed: list[types.Tool] = []
        page = types.PaginatedRequestParams()
        try:
            async with asyncio.timeout(seconds):
                for _ in range(_MOST_PAGES):
                    found = await session.list_tools(params=page)
                    listed += found.tools
                    if found.next_cursor is None:
                        return listed
                    page = types.PaginatedRequestParams(cursor=found.next_cursor)
        except TimeoutError:
            raise self._unavailable(f"did not list its tools within {seconds:g} s") from None
        except (MCPError, ValidationError) as error:
            raise self._failed(error, "its list of tools") from None
        raise self._unavailable(f"lists its tools on more than {_MOST_PAGES} pages")

    async def call(self, tool: str, args: Mapping[str, Any]) -> JsonValue:
        """Call a tool by the server's name for it; whatever goes wrong is a `ToolError`."""
        params = types.CallToolRequestParams(name=tool, arguments=dict(args))
        session = self._session()
        try:
            # Not `Client.call_tool`: its check of results follows patterns that can hang. Ours comes later.
            result = await session.send_request(types.CallToolRequest(params=params), types.CallToolResult)
            return read_result(result)
        except (MCPError, ValidationError) as error:
            raise self._failed(error, "its answer") from None
        except ToolError as error:
            raise ToolError(self._masked(str(error)), error.kind) from None

    def _session(self) -> ClientSession:
        if self._connection is None:
            raise self._unavailable("is not connected: use its tools inside its 'async with'")
        return self._connection.session

    # --- what goes wrong -------------------------------------------------------------------------

    def _failed(self, error: MCPError | ValidationError, what: str) -> ToolError:
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            said = f"MCP server {self.name!r}: {what} is not valid: {where}: {first['msg']}"
            return ToolError(self._masked(said), ToolErrorKind.SERIALIZATION)
        if error.code == types.CONNECTION_CLOSED:
            is_gone = error.message == "Connection closed"
            return self._unavailable("is gone" if is_gone else f"failed: {error.message}")
        kind = _KINDS.get(error.code, ToolErrorKind.EXECUTION_FAILED)
        return ToolError(self._masked(f"MCP server {self.name!r}: {error.message}"), kind)

    def _unavailable(self, what: str) -> ToolError:
        remarks = self._transport.remarks()
        said = f"MCP server {self.name!r} {what}{'; ' if remarks else ''}{remarks}"
        return ToolError(self._masked(said), ToolErrorKind.UNAVAILABLE)

    def _masked(self, text: str) -> str:
        for secret in self._transport.secrets:
            if len(secret) >= 6:  # less is no secret, and would be found in any text
                text = text.replace(secret, "[redacted]")
        return shorten(text, 2_000)
