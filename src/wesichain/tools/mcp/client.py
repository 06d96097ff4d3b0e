"""The MCP client: a server, and its tools for as long as it is entered."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import ValidationError
from typing_extensions import Unpack

from wesichain.core import Message
from wesichain.core.internal import is_object
from wesichain.errors import ConfigError, RunInterruptedError, ToolError, ToolErrorKind
from wesichain.tools.context import ToolContext
from wesichain.tools.definition import Tool, ToolWarning

from .callbacks import Callbacks, decide
from .connection import QUESTION, Connection
from .decode import McpPrompt, McpResource, read_prompt, read_resource, read_result, to_prompt, to_resource
from .inflight import InFlightCall, InFlightCalls, outside_calls
from .remote_tools import McpOptions, McpTool, ToolSelection
from .sdk import MODERN_PROTOCOL_VERSIONS, Client, MCPError, SubscriptionLost, anyio, httpx2, types
from .subscriptions import ResourceChanges, Watch
from .text import bounded
from .transports import ACCESS_DENIED, SESSION_LOST, ServerAddress, ServerProgram, Transport

T = TypeVar("T")
P = TypeVar("P", bound=types.PaginatedResult)
_MOST_PAGES = 100
_WATCH_AGAIN = 1.0  # seconds after which a lost subscription is made anew
_KINDS = {
    types.INVALID_PARAMS: ToolErrorKind.INVALID_INPUT,
    types.METHOD_NOT_FOUND: ToolErrorKind.NOT_FOUND,
}


class McpServer:
    """The tools of an MCP server: `async with McpServer.stdio("python", "server.py") as server: ...`.

    The protocol is negotiated, from the newest version that the SDK knows to the oldest.
    `tools` are those that the server lists: when it is entered, when it announces that they have changed, and
    at each `refresh`. An agent keeps those it was made with. `left_out` says which are not among them
    and why, for example because their schemas cannot be used.
    Hints of the server can make us more careful (see `McpOptions`), never less.

    A server that cannot be reached, or does not answer, is a `ToolError` of kind unavailable: on entering,
    and for each call. After leaving, the same object can be entered again.
    """

    def __init__(self, transport: Transport, **options: Unpack[McpOptions]) -> None:
        self._options = ToolSelection(**options)
        self._transport = transport
        self._connection: Connection | None = None
        self.name = self._options.name or transport.label
        self.tools: tuple[Tool, ...] = ()
        self.left_out: Mapping[str, str] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._replaced: set[Connection] = set()  # lost sessions whose last requests have not ended
        self._renewing = asyncio.Lock()
        self._calls = InFlightCalls()
        self._changes: list[ResourceChanges] = []

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
        A session that the server has lost is opened again.
        """
        return cls(ServerAddress(url, headers=headers or {}, auth=auth), **options)

    async def __aenter__(self) -> Self:
        if self._connection is not None:
            raise ConfigError(f"MCP server {self.name!r} is in use already; make another McpServer")
        self._renewing, self._calls = asyncio.Lock(), InFlightCalls()
        try:
            self._connection = await self._open()
            await self._watch_tools(self._connection)
            await self.refresh()
        except BaseException:
            await self._leave()
            raise
        return self

    async def _open(self) -> Connection:
        """A connection by the newest protocol that both know.

        Some programs end when the first request is not the handshake of the older protocols: they are
        started once more, with the handshake.
        """
        mode = "auto" if self._options.protocol in MODERN_PROTOCOL_VERSIONS else "legacy"
        try:
            return await self._connected_by(mode)
        except ToolError:
            if mode == "legacy" or not self._transport.knows_handshake_only():
                raise
            return await self._connected_by("legacy")

    async def _connected_by(self, mode: Any) -> Connection:
        sampling = self._options.allowed_sampling
        connection = Connection(
            self._transport,
            self._unavailable,
            seconds=self._options.connect_timeout,
            callbacks=Callbacks(self.name, self._calls, self._options.on_elicit, sampling),
            sampling=sampling is not None,
            on_message=self._receive,
            mode=mode,
        )
        try:
            await connection.open()
        except BaseException:
            await connection.close()
            raise
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    async def _leave(self) -> None:
        connection, self._connection = self._connection, None
        for changes in self._changes:
            changes.close()
        tasks = [*self._background]
        for task in tasks:
            task.cancel()
        connections = [*self._replaced, *([] if connection is None else [connection])]
        self._replaced.clear()
        try:
            await self._calls.close()
        finally:
            closing = [each.close() for each in connections]
            await asyncio.gather(*tasks, *closing, return_exceptions=True)

    @property
    def protocol_version(self) -> str:
        """The version of the protocol that was negotiated."""
        return self._connected().protocol_version

    # --- tools -----------------------------------------------------------------------------------

    async def refresh(self) -> tuple[Tool, ...]:
        """Ask the server for its tools again. An agent keeps those that it was made with."""
        pages = await self._pages("its list of tools", lambda cursor, by: by.list_tools(cursor=cursor))
        listed = [tool for page in pages for tool in page.tools]
        self.tools, self.left_out = self._options.choose(listed, self.name, self._invoke)
        for tool in self.tools:
            assert isinstance(tool, McpTool)
            tool.has_open_call = self._calls.is_waiting
        for name, why in self.left_out.items():
            text = f"MCP server {self.name!r}: tool {name!r} is left out: {why}"
            warnings.warn(text, ToolWarning, stacklevel=2)
        return self.tools

    async def _receive(self, message: object) -> None:
        """Follow what the server announces."""
        if isinstance(message, types.ToolListChangedNotification):
            self._in_background(self._follow())
        if isinstance(message, types.ResourceUpdatedNotification):
            for changes in self._changes:
                changes.announce(str(message.params.uri))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _follow(self) -> None:
        """Read the list of tools again; where that fails, the known ones stay, and a call says why."""
        with suppress(ToolError, ConfigError), warnings.catch_warnings(action="ignore", category=ToolWarning):
            await self.refresh()

    async def _invoke(self, tool: str, args: Mapping[str, Any], ctx: ToolContext) -> Any:
        """What a tool runs: it needs its context, and so is given one."""
        return await self.call(tool, args, ctx)

    async def call(self, tool: str, args: Mapping[str, Any], ctx: ToolContext | None = None) -> Any:
        """Call a tool by the server's name for it; whatever goes wrong is a `ToolError`.

        In a run, a question of the server ends the call with `RunInterruptedError`; the request stays open,
        and the same call (by its idempotency key) continues it.
        """
        call = self._calls.resume(ctx)
        if call is None:
            self._check_new(tool, ctx)
            call = self._calls.add(ctx)
            call.start(self._request(tool, args, call))
        try:
            result = await self._result(call)
        except RunInterruptedError:
            await self._calls.trim()
            raise
        except BaseException:
            self._calls.remove(call)
            await call.cancel()
            raise
        self._calls.remove(call)
        try:
            return read_result(result)
        except ToolError as error:
            raise ToolError(self._masked(str(error)), error.kind) from None

    def _check_new(self, tool: str, ctx: ToolContext | None) -> None:
        """A call whose connection was lost while it waited is made anew, unless its effect is 'once'."""
        if (
            self._options.effect == "once"
            and ctx is not None
            and getattr(ctx.link, "was_waiting_for_answer", False)
        ):
            raise ToolError(
                f"the outcome of {tool!r} is unknown: it waited for an answer, and the connection that it "
                f"waited on is gone. It is not run again, since its effect is 'once'; find out whether it "
                f"happened",
                ToolErrorKind.UNAVAILABLE,
            )

    async def _request(self, tool: str, args: Mapping[str, Any], call: InFlightCall) -> types.CallToolResult:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            if call.ctx is not None:
                await call.ctx.progress(progress, total, bounded(message or "", 1_000))

        on_progress = None if call.ctx is None else report
        return await self._send(
            "its answer", lambda by: by.call_tool(tool, dict(args), progress_callback=on_progress)
        )

    async def _result(self, call: InFlightCall) -> types.CallToolResult:
        """The server's result, after the answers to what it asks meanwhile."""
        while (asked := await call.next_question()) is not None:
            decision = await decide(call, asked)
            call.close(asked)
            if not asked.answer.done():
                asked.answer.set_result(decision)
        try:
            result: types.CallToolResult = call.result()
        except asyncio.CancelledError:
            raise self._unavailable("has been left") from None
        return result

    # --- resources, prompts and completions --------------------------------------------------------

    async def resources(self) -> tuple[McpResource, ...]:
        """The resources that can be read from the server, by `read`."""
        pages = await self._pages("resources", lambda cursor, by: by.list_resources(cursor=cursor))
        limit = self._options.max_description
        return tuple(to_resource(resource, limit) for page in pages for resource in page.resources)

    async def resource_templates(self) -> tuple[McpResource, ...]:
        """The templates of addresses that can be read from the server: `notes://{day}`."""
        what = "resource templates"
        pages = await self._pages(what, lambda cursor, by: by.list_resource_templates(cursor=cursor))
        limit = self._options.max_description
        return tuple(to_resource(each, limit) for page in pages for each in page.resource_templates)

    async def read(self, uri: str) -> tuple[str | bytes, ...]:
        """The contents of a resource: texts, and bytes."""
        return read_resource(await self._fetch(f"the resource {uri!r}", lambda by: by.read_resource(uri)))

    async def prompts(self) -> tuple[McpPrompt, ...]:
        """The prompts that the server has; `prompt` gives one as messages."""
        pages = await self._pages("prompts", lambda cursor, by: by.list_prompts(cursor=cursor))
        limit = self._options.max_description
        return tuple(to_prompt(prompt, limit) for page in pages for prompt in page.prompts)

    async def prompt(self, name: str, args: Mapping[str, str] | None = None) -> tuple[Message, ...]:
        """A prompt as messages: the history of a run, for example."""
        given = dict(args or {})
        return read_prompt(await self._fetch(f"the prompt {name!r}", lambda by: by.get_prompt(name, given)))

    async def complete(
        self, of: str, argument: str, value: str = "", *, given: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """The values that the server suggests for an argument that begins with `value`.

        `of` is the name of a prompt, or the template of a resource (`notes://{day}`); `given` are the other
        arguments so far.
        """
        ref: Any = types.ResourceTemplateReference(uri=of) if "://" in of else types.PromptReference(name=of)
        typed, others = {"name": argument, "value": value}, dict(given) if given else None
        result = await self._fetch(f"completions for {of!r}", lambda by: by.complete(ref, typed, others))
        return tuple(bounded(each, self._options.max_description) for each in result.completion.values[:100])

    @asynccontextmanager
    async def subscribe(self, *uris: str) -> AsyncGenerator[ResourceChanges]:
        """Follow resources: `async with server.subscribe(uri) as changes: async for uri in changes: ...`.

        The subscription lasts as long as the context, also over lost connections.
        """
        self._connected()
        changes = ResourceChanges(uris)
        watch = Watch(changes)
        self._changes.append(changes)
        task = self._in_background(self._keep(watch))
        try:
            async with asyncio.timeout(self._options.connect_timeout):
                await watch.ready
            yield changes
        except TimeoutError:
            if watch.ready.done():
                raise
            raise self._unavailable("did not confirm the subscription") from None
        finally:
            self._changes.remove(changes)
            changes.close()
            task.cancel()
            await self._unsubscribe(uris)

    async def _unsubscribe(self, uris: tuple[str, ...]) -> None:
        """Tell a server of the older protocols; in the newest, closing the stream did."""
        if self._connection is None or self._connection.is_modern:
            return
        still = {uri for changes in self._changes for uri in changes.uris}
        with suppress(ToolError):
            for uri in [uri for uri in uris if uri not in still]:
                request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
                await self._fetch("its answer", partial(_acknowledged, request))

    async def _watch_tools(self, connection: Connection) -> None:
        """Subscribe to changes of the list of tools, if needed: before it is read, to miss none."""
        tools = connection.capabilities.tools
        if connection.is_modern and tools is not None and tools.list_changed:
            watch = Watch()
            self._in_background(self._keep(watch))
            with suppress(ToolError, TimeoutError):  # its tools can be used all the same
                await asyncio.wait_for(watch.ready, self._options.connect_timeout)

    async def _keep(self, watch: Watch) -> None:
        """Keep a subscription open for as long as the server is entered; one that is lost is made anew."""
        while self._connection is not None:
            try:
                await self._subscribed(self._connection, watch)
            except (MCPError, SubscriptionLost, TimeoutError, ToolError, ValidationError) as error:
                refusal = error if isinstance(error, ToolError) else self._refused(error)
                if watch.refused(refusal):
                    return
            await asyncio.sleep(_WATCH_AGAIN)

    async def _subscribed(self, connection: Connection, watch: Watch) -> None:
        """Subscribe on one connection, and return when the subscription has ended."""
        if connection.is_modern:
            async with connection.listen(tools=watch.changes is None, uris=watch.uris) as stream:
                await self._reopened(watch)
                async for _ in stream:
                    pass  # `_receive` is given each, too
            return
        for uri in watch.uris:
            request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
            await self._fetch(f"a subscription to {uri!r}", partial(_acknowledged, request))
        await self._reopened(watch)
        await connection.retired.wait()

    async def _reopened(self, watch: Watch) -> None:
        if watch.opened() and watch.changes is None:
            await self._follow()

    def _refused(self, error: Exception) -> ToolError:
        if isinstance(error, MCPError | ValidationError):
            return self._failed(error, "the subscription")
        return self._unavailable("does not keep the subscription")

    # --- requests --------------------------------------------------------------------------------

    async def _fetch(self, what: str, send: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request that is no call of a tool, within the timeout of one."""
        seconds = self._options.timeout
        task = asyncio.create_task(self._outside_calls(what, send))
        try:
            async with asyncio.timeout(seconds):
                return await task
        except TimeoutError:
            raise self._unavailable(f"did not give {what} within {seconds:g} s") from None

    async def _outside_calls(self, what: str, send: Callable[[Client], Awaitable[T]]) -> T:
        outside_calls()  # in this task's own context
        return await self._send(what, send)

    async def _pages(self, what: str, ask: Callable[[str | None, Client], Awaitable[P]]) -> list[P]:
        """All pages of a list: `ask` asks for the page at a cursor."""
        seconds = self._options.connect_timeout
        pages: list[P] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(seconds):
                for _ in range(_MOST_PAGES):
                    pages.append(await self._send(what, partial(ask, cursor)))
                    cursor = pages[-1].next_cursor
                    if cursor is None:
                        return pages
        except TimeoutError:
            raise self._unavailable(f"did not give {what} within {seconds:g} s") from None
        raise self._unavailable(f"gives {what} on more than {_MOST_PAGES} pages")

    async def _send(self, what: str, send: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request. One that was refused because the session is lost has not run: it is sent again."""
        for _ in range(2):
            connection = self._connected()
            try:
                return await connection.use(send)
            except (MCPError, ValidationError) as error:
                if not isinstance(error, MCPError) or error.code != SESSION_LOST:
                    raise self._failed(error, what) from None
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                raise self._unavailable("is gone") from None
            await self._renew(connection)
        raise self._unavailable("loses its session as soon as it is opened")

    async def _renew(self, lost: Connection) -> None:
        """Replace a lost session, once for all requests that it has refused."""
        async with self._renewing:
            if self._connection is not lost:
                return  # another request has replaced it, or the server has been left
            connection = await self._open()
            if self._connection is not lost:  # the server was left meanwhile, and may have been entered again
                await connection.close()
                return
            self._connection = connection
        self._replaced.add(lost)
        self._in_background(self._close_replaced(lost))

    async def _close_replaced(self, lost: Connection) -> None:
        await lost.close_when_idle()
        self._replaced.discard(lost)

    def _connected(self) -> Connection:
        if self._connection is None:
            raise self._unavailable("is not connected: use its tools inside its 'async with'")
        return self._connection

    # --- errors ----------------------------------------------------------------------------------

    def _failed(self, error: MCPError | ValidationError, what: str) -> ToolError:
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            text = f"MCP server {self.name!r}: {what} is not valid: {where}: {first['msg']}"
            return ToolError(self._masked(text), ToolErrorKind.SERIALIZATION)
        if error.code == types.CONNECTION_CLOSED:
            is_gone = error.message == "Connection closed"
            return self._unavailable("is gone" if is_gone else f"failed: {error.message}")
        if error.code in (SESSION_LOST, ACCESS_DENIED):
            return self._unavailable(f"cannot be used: {error.message}")
        if is_object(error.data) and QUESTION in error.data:
            text = f"MCP server {self.name!r} asks: {error.data[QUESTION]}; {error.message}"
            return ToolError(self._masked(text), ToolErrorKind.PERMISSION)
        kind = _KINDS.get(error.code, ToolErrorKind.EXECUTION_FAILED)
        missing = f" cannot give {what}" if error.code == types.METHOD_NOT_FOUND else ""
        return ToolError(self._masked(f"MCP server {self.name!r}{missing}: {error.message}"), kind)

    def _unavailable(self, what: str) -> ToolError:
        remarks = self._transport.remarks()
        text = f"MCP server {self.name!r} {what}{'; ' if remarks else ''}{remarks}"
        return ToolError(self._masked(text), ToolErrorKind.UNAVAILABLE)

    def _masked(self, text: str) -> str:
        for secret in self._transport.secrets:
            if len(secret) >= 6:  # less is no secret, and would be found in any text
                text = text.replace(secret, "[redacted]")
        return bounded(text, 2_000)


async def _acknowledged(request: types.ClientRequest, by: Client) -> types.EmptyResult:
    return await by.session.send_request(request, types.EmptyResult)
