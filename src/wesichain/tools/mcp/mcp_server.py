"""The MCP client: a server, and its tools for as long as it is entered."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import ValidationError
from typing_extensions import Unpack

from wesichain.core import Message
from wesichain.errors import ConfigError, RunInterruptedError, ToolError, ToolErrorKind
from wesichain.tools.context import ToolContext
from wesichain.tools.definition import Tool, ToolWarning
from wesichain.tools.json_schema import shorten

from .answering import answer, answer_by_run, decide, sample_by_run
from .connection import Connection
from .held import HeldCall, HeldCalls
from .incoming import McpPrompt, McpResource, read_prompt, read_resource, read_result, to_prompt, to_resource
from .offer import McpOptions, McpTool, ServerOffer
from .sdk import ClientSession, MCPError, httpx2, types
from .transports import ACCESS_DENIED, SESSION_LOST, ServerAddress, ServerProgram, Transport

T = TypeVar("T")
_MOST_PAGES = 100
_KINDS = {
    types.INVALID_PARAMS: ToolErrorKind.INVALID_INPUT,
    types.METHOD_NOT_FOUND: ToolErrorKind.NOT_FOUND,
}


async def _asked(
    ask: Callable[[ClientSession, types.PaginatedRequestParams], Awaitable[T]],
    page: types.PaginatedRequestParams,
    session: ClientSession,
) -> T:
    return await ask(session, page)


class McpServer:
    """The tools of an MCP server: `async with McpServer.stdio("python", "server.py") as server: ...`.

    `tools` are what the server offers: as it said on being entered, when it said that they had changed, or at
    the last `refresh`. An agent keeps those it was made with. `left_out` says which are not among them
    and why: their schemas cannot be used, say.
    Hints of the server can make us more careful (see `McpOptions`), never less.

    A server that cannot be reached, or does not answer, is a `ToolError` of kind unavailable: on entering,
    and for each call. After leaving, the same object can be entered again.
    """

    def __init__(self, transport: Transport, **options: Unpack[McpOptions]) -> None:
        self._offer = ServerOffer(**options)
        self._transport = transport
        self._connection: Connection | None = None
        self.name = self._offer.name or transport.label
        self.tools: tuple[Tool, ...] = ()
        self.left_out: Mapping[str, str] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._renewing = asyncio.Lock()
        self._calls = HeldCalls()

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
        return cls(ServerProgram(command, args, env=env or {}, cwd=cwd), **options)

    @classmethod
    def http(
        cls,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        auth: httpx2.Auth | None = None,
        **options: Unpack[McpOptions],
    ) -> Self:
        """A server behind a URL, by streamable HTTP. Headers go to that host alone.

        `auth` may be the SDK's `OAuthClientProvider`, which registers, asks for consent and renews tokens.
        A session that the server has lost is opened anew.
        """
        return cls(ServerAddress(url, headers=headers or {}, auth=auth), **options)

    async def __aenter__(self) -> Self:
        if self._connection is not None:
            raise ConfigError(f"MCP server {self.name!r} is in use already; make another McpServer")
        self._renewing, self._calls = asyncio.Lock(), HeldCalls()
        self._connection = self._connect()
        try:
            await self._connection.open()
            await self.refresh()
        except BaseException:
            await self._leave()
            raise
        return self

    def _connect(self) -> Connection:
        ask = self._offer.on_elicit
        return Connection(
            self._transport,
            self._unavailable,
            seconds=self._offer.connect_timeout,
            on_message=self._hear,
            on_elicit=partial(answer_by_run, self._calls) if ask is None else partial(answer, ask),
            on_sample=partial(sample_by_run, self._calls) if self._offer.sampling else None,
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    async def _leave(self) -> None:
        connection, self._connection = self._connection, None
        for task in [*self._background]:
            task.cancel()
        await self._calls.close()
        if connection is not None:
            await connection.close()

    # --- tools -----------------------------------------------------------------------------------

    async def refresh(self) -> tuple[Tool, ...]:
        """Ask the server for its tools again. An agent keeps those that it was made with."""
        listed = await self._pages("its list of tools", lambda session, page: session.list_tools(params=page))
        tools = [tool for page in listed for tool in page.tools]
        self.tools, self.left_out = self._offer.choose(tools, self.name, self._invoke)
        for tool in self.tools:
            assert isinstance(tool, McpTool)
            tool.waits = self._calls.holds
        for name, why in self.left_out.items():
            said = f"MCP server {self.name!r}: tool {name!r} is left out: {why}"
            warnings.warn(said, ToolWarning, stacklevel=2)
        return self.tools

    async def _hear(self, message: object) -> None:
        """Follow the server where it says that its tools have changed."""
        if isinstance(message, types.ToolListChangedNotification):
            self._in_background(self._follow())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _follow(self) -> None:
        with suppress(ToolError, ConfigError), warnings.catch_warnings(action="ignore", category=ToolWarning):
            await (
                self.refresh()
            )  # where that fails, those that were known stay: a call will say what is wrong

    async def _invoke(self, tool: str, args: Mapping[str, Any], ctx: ToolContext) -> Any:
        return await self.call(tool, args, ctx)

    async def call(self, tool: str, args: Mapping[str, Any], ctx: ToolContext | None = None) -> Any:
        """Call a tool by the server's name for it; whatever goes wrong is a `ToolError`.

        A question of the server ends the call, in a run, with `RunInterruptedError`; the request lives on,
        and the same call (by its idempotency key) goes on with it.
        """
        held = self._calls.take(ctx)
        if held is None:
            self._check_new(tool, ctx)
            held = self._calls.begin(ctx)
            held.start(self._request(tool, args, held))
        try:
            result = await self._result(held)
        except RunInterruptedError:
            await self._calls.trim()
            raise
        except BaseException:
            self._calls.forget(held)
            await held.cancel()
            raise
        self._calls.forget(held)
        try:
            return read_result(result)
        except ToolError as error:
            raise ToolError(self._masked(str(error)), error.kind) from None

    def _check_new(self, tool: str, ctx: ToolContext | None) -> None:
        """A call that waited on a connection which is gone is made anew, unless it must not be."""
        if self._offer.effect == "once" and ctx is not None and getattr(ctx.link, "was_asking", False):
            raise ToolError(
                f"the outcome of {tool!r} is unknown: it waited for an answer, and the connection that it "
                f"waited on is gone. It is not run again, since its effect is 'once'; find out whether it "
                f"happened",
                ToolErrorKind.UNAVAILABLE,
            )

    async def _request(self, tool: str, args: Mapping[str, Any], held: HeldCall) -> types.CallToolResult:
        async def tell(progress: float, total: float | None, message: str | None) -> None:
            if held.ctx is not None:
                await held.ctx.progress(progress, total, message or "")

        request = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=dict(args)))
        # Not `Client.call_tool`: its check of results follows patterns that can hang. Ours comes later.
        return await self._ask(
            "its answer",
            lambda session: session.send_request(
                request, types.CallToolResult, progress_callback=None if held.ctx is None else tell
            ),
        )

    async def _result(self, held: HeldCall) -> types.CallToolResult:
        """The server's result, after the answers to what it asks meanwhile."""
        while (asked := await held.news()) is not None:
            decision = await decide(held, asked)
            held.close(asked)
            if not asked.answer.done():
                asked.answer.set_result(decision)
        assert held.task is not None
        if held.task.cancelled():
            raise self._unavailable("has been left")
        result: types.CallToolResult = held.task.result()
        return result

    # --- resources and prompts -------------------------------------------------------------------

    async def resources(self) -> tuple[McpResource, ...]:
        """The resources that can be read from the server, by `read`."""
        pages = await self._pages("its resources", lambda session, page: session.list_resources(params=page))
        return tuple(to_resource(resource) for page in pages for resource in page.resources)

    async def read(self, uri: str) -> tuple[str | bytes, ...]:
        """The contents of a resource: texts, and bytes."""
        params = types.ReadResourceRequestParams(uri=uri)
        result = await self._ask(
            f"the resource {uri!r}",
            lambda session: session.send_request(
                types.ReadResourceRequest(params=params), types.ReadResourceResult
            ),
        )
        return read_resource(result)

    async def prompts(self) -> tuple[McpPrompt, ...]:
        """The prompts that the server has; `prompt` gives one as messages."""
        pages = await self._pages("its prompts", lambda session, page: session.list_prompts(params=page))
        return tuple(to_prompt(prompt) for page in pages for prompt in page.prompts)

    async def prompt(self, name: str, args: Mapping[str, str] | None = None) -> tuple[Message, ...]:
        """A prompt as messages: the history of a run, say."""
        params = types.GetPromptRequestParams(name=name, arguments=dict(args or {}))
        result = await self._ask(
            f"the prompt {name!r}",
            lambda session: session.send_request(
                types.GetPromptRequest(params=params), types.GetPromptResult
            ),
        )
        return read_prompt(result)

    # --- asking ----------------------------------------------------------------------------------

    async def _pages(
        self,
        what: str,
        ask: Callable[[ClientSession, types.PaginatedRequestParams], Awaitable[T]],
    ) -> list[T]:
        seconds = self._offer.connect_timeout
        pages: list[T] = []
        page = types.PaginatedRequestParams()
        try:
            async with asyncio.timeout(seconds):
                for _ in range(_MOST_PAGES):
                    found = await self._ask(what, partial(_asked, ask, page))
                    pages.append(found)
                    cursor: str | None = getattr(found, "next_cursor", None)
                    if cursor is None:
                        return pages
                    page = types.PaginatedRequestParams(cursor=cursor)
        except TimeoutError:
            raise self._unavailable(f"did not give {what} within {seconds:g} s") from None
        raise self._unavailable(f"gives {what} on more than {_MOST_PAGES} pages")

    async def _ask(self, what: str, send: Callable[[ClientSession], Awaitable[T]]) -> T:
        """Send a request. One that was refused because the session is lost has not run: it is sent again."""
        for _ in range(2):
            session, connection = self._session(), self._connection
            assert connection is not None
            connection.waiting += 1
            try:
                return await send(session)
            except (MCPError, ValidationError) as error:
                if not isinstance(error, MCPError) or error.code != SESSION_LOST:
                    raise self._failed(error, what) from None
            finally:
                connection.waiting -= 1
            await self._renew(connection)
        raise self._unavailable("loses its session as soon as it is opened")

    async def _renew(self, lost: Connection) -> None:
        """Open a new session, once for all who have met the lost one."""
        async with self._renewing:
            if self._connection is not lost:
                return  # somebody else has, or the server has been left
            renewed = self._connect()
            try:
                await renewed.open()
            except BaseException:
                await renewed.close()
                raise
            self._connection = renewed
        self._in_background(lost.close_when_idle())

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
        if error.code in (SESSION_LOST, ACCESS_DENIED):
            return self._unavailable(f"cannot be used: {error.message}")
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
