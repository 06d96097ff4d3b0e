"""Client: connects to an MCP server, and provides its tools."""

from __future__ import annotations

import asyncio
import os
import re
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import ValidationError
from typing_extensions import Unpack

from wesichain.core import Message
from wesichain.core.internal import SecretIndex, is_object, mask_secrets
from wesichain.errors import ConfigError, RunInterruptedError, ToolError, ToolErrorKind
from wesichain.tools.context import ToolContext
from wesichain.tools.definition import Tool, ToolWarning

from .callbacks import Callbacks, decide
from .connection import QUESTION, Connection, first_issue
from .decode import McpPrompt, McpResource, read_prompt, read_resource, read_result, to_prompt, to_resource
from .inflight import InFlightCall, InFlightCalls, outside_calls
from .remote_tools import McpOptions, McpTool, ToolSelection
from .sdk import MODERN_PROTOCOL_VERSIONS, Client, MCPError, SubscriptionLost, anyio, httpx2, types
from .subscriptions import ResourceChanges, Watch
from .text import bounded
from .transports import ACCESS_DENIED, SESSION_LOST, ServerAddress, ServerProgram, Transport

T = TypeVar("T")
P = TypeVar("P", bound=types.PaginatedResult)
_MAX_PAGES = 100
_RESUBSCRIBE_SECONDS = 1.0
_REFRESH_SECONDS = 1.0  # between two refreshes for announced changes
# The SDK's errors for a body or an event that it cannot parse.
_NO_MESSAGE = re.compile(
    r"Failed to parse (?:JSON response|SSE message): .*(?:\n *(Invalid JSON: [^\[]*[^\[ ]))?"
)
_KINDS = {
    types.INVALID_PARAMS: ToolErrorKind.INVALID_INPUT,
    types.METHOD_NOT_FOUND: ToolErrorKind.NOT_FOUND,
}


class McpServer:
    """The tools of an MCP server: `async with McpServer.stdio("python", "server.py") as server: ...`.

    The protocol version is negotiated, from the newest that the SDK supports to the oldest. `tools` is read
    on entering, when the server announces a change, and by `refresh`; agents keep the tools that they were
    created with. `left_out` contains the tools that cannot be used, and the reasons, such as an invalid
    schema. Hints of the server can only add approvals (see `McpOptions`), not remove them.

    If the server cannot be reached or does not respond, entering and calls raise `ToolError` of kind
    unavailable. The same object can be entered again after it was left.
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
        self._refreshing: asyncio.Task[None] | None = None
        self._is_stale = False  # the list of tools has changed since it was read
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
        """A server that is a local program, which is started on entering and ended on leaving.

        Its environment is `env`, and PATH, HOME and a few others of this process.
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
        """A server at a URL, by streamable HTTP. Headers are only sent to that host.

        `auth` can be the SDK's `OAuthClientProvider`, which registers, asks for consent and renews tokens.
        If the server has lost the session, a new one is opened.
        """
        return cls(ServerAddress(url, headers=headers or {}, auth=auth), **options)

    async def __aenter__(self) -> Self:
        if self._connection is not None:
            raise ConfigError(f"MCP server {self.name!r} is already in use; create another McpServer")
        self._renewing, self._calls = asyncio.Lock(), InFlightCalls()
        try:
            self._connection = await self._open()
            await self._watch_tools(self._connection)
            await self.refresh()
        except BaseException:
            await self._close()
            raise
        return self

    async def _open(self) -> Connection:
        """Open a connection by the newest protocol that both support.

        Some programs end if the first request is not the handshake of older protocols. They are started
        again, with the handshake.
        """
        mode = "auto" if self._options.protocol in MODERN_PROTOCOL_VERSIONS else "legacy"
        try:
            return await self._connect(mode)
        except ToolError:
            if mode == "legacy" or not self._transport.knows_handshake_only():
                raise
            return await self._connect("legacy")

    async def _connect(self, mode: Any) -> Connection:
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
        await self._close()

    async def _close(self) -> None:
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
        """Read the list of tools again. Agents keep the tools that they were created with."""
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
        """Handle a notification of the server."""
        if isinstance(message, types.ToolListChangedNotification):
            self._is_stale = True
            if self._refreshing is None or self._refreshing.done():
                self._refreshing = self._in_background(self._refresh_stale())
        if isinstance(message, types.ResourceUpdatedNotification):
            for changes in self._changes:
                changes.announce(str(message.params.uri))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _refresh_stale(self) -> None:
        """Read the list of tools after changes: once for all that are announced while it is read."""
        while self._is_stale:
            self._is_stale = False
            await self._refresh_known()
            await asyncio.sleep(_REFRESH_SECONDS)  # a server may announce changes without end

    async def _refresh_known(self) -> None:
        """Read the list of tools again. If that fails, the known tools stay, and calls report the error."""
        with suppress(ToolError, ConfigError), warnings.catch_warnings(action="ignore", category=ToolWarning):
            await self.refresh()

    async def _invoke(self, tool: str, args: Mapping[str, Any], ctx: ToolContext) -> Any:
        """Call a tool for an `McpTool`, which needs a parameter for its context."""
        return await self.call(tool, args, ctx)

    async def call(self, tool: str, args: Mapping[str, Any], ctx: ToolContext | None = None) -> Any:
        """Call a tool by the server's name for it. All failures are `ToolError`.

        In a run, a question of the server interrupts the call with `RunInterruptedError`. The request stays
        open, and a call with the same idempotency key continues it.
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
            raise ToolError(self._redacted(str(error)), error.kind) from None

    def _check_new(self, tool: str, ctx: ToolContext | None) -> None:
        """Raise `ToolError` if the connection of a waiting call was lost, and its effect is 'once'."""
        if (
            self._options.effect == "once"
            and ctx is not None
            and getattr(ctx.link, "was_waiting_for_answer", False)
        ):
            raise ToolError(
                f"the outcome of {tool!r} is unknown: it waited for an answer, and its connection was lost. "
                f"It is not run again, since its effect is 'once'; find out whether it happened",
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
        """Return the server's result, after answering its questions."""
        while (open_question := await call.next_question()) is not None:
            decision = await decide(call, open_question)
            call.close(open_question)
            if not open_question.answer.done():
                open_question.answer.set_result(decision)
        try:
            result: types.CallToolResult = call.result()
        except asyncio.CancelledError:
            raise self._unavailable("has been left") from None
        return result

    # --- resources, prompts and completions --------------------------------------------------------

    async def resources(self) -> tuple[McpResource, ...]:
        """List the resources of the server, which `read` reads."""
        pages = await self._pages("resources", lambda cursor, by: by.list_resources(cursor=cursor))
        limit = self._options.max_description
        return tuple(to_resource(resource, limit) for page in pages for resource in page.resources)

    async def resource_templates(self) -> tuple[McpResource, ...]:
        """List the resource templates of the server, such as `notes://{day}`."""
        what = "resource templates"
        pages = await self._pages(what, lambda cursor, by: by.list_resource_templates(cursor=cursor))
        limit = self._options.max_description
        return tuple(to_resource(each, limit) for page in pages for each in page.resource_templates)

    async def read(self, uri: str) -> tuple[str | bytes, ...]:
        """Read the contents of a resource: text as str, other data as bytes."""
        return read_resource(await self._fetch(f"the resource {uri!r}", lambda by: by.read_resource(uri)))

    async def prompts(self) -> tuple[McpPrompt, ...]:
        """List the prompts of the server, which `prompt` renders."""
        pages = await self._pages("prompts", lambda cursor, by: by.list_prompts(cursor=cursor))
        limit = self._options.max_description
        return tuple(to_prompt(prompt, limit) for page in pages for prompt in page.prompts)

    async def prompt(self, name: str, args: Mapping[str, str] | None = None) -> tuple[Message, ...]:
        """Render a prompt as messages, for example for the history of a run."""
        given = dict(args or {})
        return read_prompt(await self._fetch(f"the prompt {name!r}", lambda by: by.get_prompt(name, given)))

    async def complete(
        self, of: str, argument: str, value: str = "", *, given: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """Return the values that the server suggests for an argument that begins with `value`.

        `of` is the name of a prompt, or a resource template (`notes://{day}`); `given` are the values of
        other arguments.
        """
        ref: Any = types.ResourceTemplateReference(uri=of) if "://" in of else types.PromptReference(name=of)
        typed, others = {"name": argument, "value": value}, dict(given) if given else None
        result = await self._fetch(f"completions for {of!r}", lambda by: by.complete(ref, typed, others))
        return tuple(bounded(each, self._options.max_description) for each in result.completion.values[:100])

    @asynccontextmanager
    async def subscribe(self, *uris: str) -> AsyncGenerator[ResourceChanges]:
        """Subscribe to resources: `async with server.subscribe(uri) as changes: async for uri in changes:`.

        The subscription ends with the context. It is renewed if the connection is lost.
        """
        self._connected()
        changes = ResourceChanges(uris)
        watch = Watch(changes)
        self._changes.append(changes)
        task = self._in_background(self._keep_subscribed(watch))
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
        """Unsubscribe at a server of older protocols; with the newest, the stream has been closed."""
        if self._connection is None or self._connection.is_modern:
            return
        still = {uri for changes in self._changes for uri in changes.uris}
        with suppress(ToolError):
            for uri in [uri for uri in uris if uri not in still]:
                request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
                await self._fetch("its answer", partial(_acknowledged, request))

    async def _watch_tools(self, connection: Connection) -> None:
        """Subscribe to changes of the list of tools, if needed, before it is read."""
        tools = connection.capabilities.tools
        if connection.is_modern and tools is not None and tools.list_changed:
            watch = Watch()
            self._in_background(self._keep_subscribed(watch))
            with suppress(ToolError, TimeoutError):  # its tools can be used nevertheless
                await asyncio.wait_for(watch.ready, self._options.connect_timeout)

    async def _keep_subscribed(self, watch: Watch) -> None:
        """Keep a subscription open until the server is left; renew it if it is lost."""
        while self._connection is not None:
            try:
                await self._subscribed(self._connection, watch)
            except (MCPError, SubscriptionLost, TimeoutError, ToolError, ValidationError) as error:
                refusal = error if isinstance(error, ToolError) else self._refused(error)
                if watch.refused(refusal):
                    return
            await asyncio.sleep(_RESUBSCRIBE_SECONDS)

    async def _subscribed(self, connection: Connection, watch: Watch) -> None:
        """Subscribe on one connection, and return when the subscription has ended."""
        if connection.is_modern:
            async with connection.listen(tools=watch.changes is None, uris=watch.uris) as stream:
                await self._reopened(watch)
                async for _ in stream:
                    pass  # `_receive` handles each
            return
        for uri in watch.uris:
            request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
            await self._fetch(f"a subscription to {uri!r}", partial(_acknowledged, request))
        await self._reopened(watch)
        await connection.retired.wait()

    async def _reopened(self, watch: Watch) -> None:
        if watch.opened() and watch.changes is None:
            await self._refresh_known()

    def _refused(self, error: Exception) -> ToolError:
        if isinstance(error, MCPError | ValidationError):
            return self._failed(error, "the subscription")
        return self._unavailable("does not keep the subscription")

    # --- requests --------------------------------------------------------------------------------

    async def _fetch(self, what: str, send: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request other than a tool call, with the timeout of a call."""
        seconds = self._options.timeout
        task = asyncio.create_task(self._outside_calls(what, send))
        try:
            async with asyncio.timeout(seconds):
                return await task
        except TimeoutError:
            raise self._unavailable(f"did not send {what} within {seconds:g} s") from None

    async def _outside_calls(self, what: str, send: Callable[[Client], Awaitable[T]]) -> T:
        outside_calls()  # in the context of this task
        return await self._send(what, send)

    async def _pages(self, what: str, ask: Callable[[str | None, Client], Awaitable[P]]) -> list[P]:
        """Return all pages of a list; `ask` requests the page at a cursor."""
        seconds = self._options.connect_timeout
        pages: list[P] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(seconds):
                for _ in range(_MAX_PAGES):
                    pages.append(await self._send(what, partial(ask, cursor)))
                    cursor = pages[-1].next_cursor
                    if cursor is None:
                        return pages
        except TimeoutError:
            raise self._unavailable(f"did not send {what} within {seconds:g} s") from None
        raise self._unavailable(f"lists {what} on more than {_MAX_PAGES} pages")

    async def _send(self, what: str, send: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request. If it was refused because the session is lost, send it again in a new session."""
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
        raise self._unavailable("loses each session as soon as it is opened")

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
            text = f"MCP server {self.name!r}: {what} is not valid: {first_issue(error)}"
            return ToolError(self._redacted(text), ToolErrorKind.SERIALIZATION)
        if error.code == types.PARSE_ERROR and (problem := _NO_MESSAGE.match(error.message)):
            reason = problem[1] or "it is JSON, but not a JSON-RPC message"
            text = f"MCP server {self.name!r}: {what} is not valid: {reason}"
            return ToolError(self._redacted(text), ToolErrorKind.SERIALIZATION)
        if error.code == types.CONNECTION_CLOSED:
            is_gone = error.message == "Connection closed"
            return self._unavailable("is gone" if is_gone else f"failed: {error.message}")
        if error.code in (SESSION_LOST, ACCESS_DENIED):
            return self._unavailable(f"cannot be used: {error.message}")
        if is_object(error.data) and QUESTION in error.data:
            text = f"MCP server {self.name!r} asks: {error.data[QUESTION]}; {error.message}"
            return ToolError(self._redacted(text), ToolErrorKind.PERMISSION)
        kind = _KINDS.get(error.code, ToolErrorKind.EXECUTION_FAILED)
        missing = f" cannot give {what}" if error.code == types.METHOD_NOT_FOUND else ""
        return ToolError(self._redacted(f"MCP server {self.name!r}{missing}: {error.message}"), kind)

    def _unavailable(self, what: str) -> ToolError:
        remarks = self._transport.remarks()
        text = f"MCP server {self.name!r} {what}{'; ' if remarks else ''}{remarks}"
        return ToolError(self._redacted(text), ToolErrorKind.UNAVAILABLE)

    def _redacted(self, text: str) -> str:
        for secret in self._transport.secrets:
            if len(secret) >= 6:  # shorter values would match ordinary text
                text = text.replace(secret, "[redacted]")
        # The values in its address and headers, which an HTTP server may repeat in any encoding.
        sent: SecretIndex | None = getattr(self._transport, "sent", None)
        return bounded(mask_secrets(text, sent=sent), 2_000)


async def _acknowledged(request: types.ClientRequest, by: Client) -> types.EmptyResult:
    return await by.session.send_request(request, types.EmptyResult)
