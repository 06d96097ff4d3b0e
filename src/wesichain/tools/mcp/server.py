"""Server: serves tools, resources and prompts to MCP clients."""

from __future__ import annotations

import hmac
import logging
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import redirect_stdout
from functools import partial
from typing import Any, get_args
from uuid import uuid4
from weakref import WeakKeyDictionary

from typing_extensions import override

from wesichain._version import __version__
from wesichain.core import ToolCall
from wesichain.core.internal import announce_when_started, dump_json, listening_socket
from wesichain.errors import ConfigError, ToolError
from wesichain.tools.context import ToolContext
from wesichain.tools.registry import ToolLike, ToolRegistry, ToolSet
from wesichain.tools.results import PreparedCall

from .callbacks import CONSENT
from .changes import ServedChanges, Subscribers, connection_of
from .encode import refused, to_listed, to_result
from .resources import Contents, ServedPrompt, ServedResource
from .sdk import (
    MODERN_PROTOCOL_VERSIONS,
    EventMessage,
    EventStore,
    MCPError,
    NotificationOptions,
    Server,
    ServerRequestContext,
    TransportSecuritySettings,
    stdio_server,
    types,
    uvicorn,
)
from .served_call import LOGGER, MissingCapabilityError, ServedCall, ToClients

Tools = ToolRegistry | Iterable[Any]  # tools, functions, agents
_MAX_WAITING = 256  # calls that wait for a repeated request; the oldest are cancelled first
_RETRY_MS = 500  # until a client reconnects to a lost stream


async def serve_stdio(
    tools: Tools,
    *,
    name: str = "wesichain",
    approved: bool = False,
    resources: Iterable[ServedResource] = (),
    prompts: Iterable[ServedPrompt] = (),
    changes: ServedChanges | None = None,
) -> None:
    """Serve tools over the standard input and output of this process until the client disconnects.

    Output of tools goes to standard error. If a call needs approval, the client's user is asked; if the
    client does not support this, the call is refused. `approved=True` means that the client asks for approval
    itself. An agent in `tools` is served as one tool, and its pending calls are decided in the same way. With
    `changes` clients can subscribe to resources and lists.
    """
    offered = _Served(tools, name, Contents(resources, prompts), approved=approved, changes=changes)
    server = offered.server()
    async with stdio_server() as (incoming, outgoing):
        with redirect_stdout(sys.stderr):
            try:
                await server.run(incoming, outgoing, server.create_initialization_options())
            finally:
                await offered.close()


async def serve_http(
    tools: Tools,
    port: int = 0,
    *,
    name: str = "wesichain",
    approved: bool = False,
    token: str | None = None,
    resources: Iterable[ServedResource] = (),
    prompts: Iterable[ServedPrompt] = (),
    changes: ServedChanges | None = None,
    announce: Callable[[str], object] = print,
) -> None:
    """Serve tools at http://127.0.0.1:PORT/mcp until stopped.

    Port 0 selects a free port; `announce` is called with the URL. Web pages cannot call the tools, because
    Host and Origin are checked. All programs on this machine can, unless there is a `token`, which requests
    send as `Authorization: Bearer TOKEN`. With `changes` clients can subscribe to resources and lists.
    """
    if token is not None and (
        len(token) < 8 or not token.isascii() or not token.isprintable() or " " in token
    ):
        raise ConfigError("the token has to be 8 ASCII characters or more, without spaces")
    with listening_socket("127.0.0.1", port) as listener:
        here = [f"{host}:{listener.getsockname()[1]}" for host in ("127.0.0.1", "localhost")]
        security = TransportSecuritySettings(
            allowed_hosts=here, allowed_origins=[f"http://{host}" for host in here]
        )
        offered = _Served(tools, name, Contents(resources, prompts), approved=approved, changes=changes)
        server = offered.server()
        app: Any = server.streamable_http_app(
            transport_security=security, event_store=RecentEvents(), retry_interval=_RETRY_MS
        )
        config = uvicorn.Config(
            app if token is None else _with_token_check(app, token),
            log_level="warning",
            access_log=False,
            ws="none",
            timeout_graceful_shutdown=2,
        )
        listening = uvicorn.Server(config)
        announce_when_started(listening, lambda: announce(f"http://{here[0]}/mcp"))
        try:
            await listening.serve(sockets=[listener])
        except BaseException:
            if listening.started:  # or the loop would watch closed sockets, whose numbers are reused
                for each in listening.servers:
                    each.close()
                await listening.lifespan.shutdown()
            raise
        finally:
            await offered.close()


def _with_token_check(app: Any, token: str) -> Any:
    """Return the app with a check of the token; other requests receive 401."""
    wanted = f"Bearer {token}".encode()

    async def guard(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, wanted):
                body = dump_json({"error": "unauthorized: send Authorization: Bearer TOKEN"}).encode()
                headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": body})
                return
        await app(scope, receive, send)

    return guard


class _Served:
    """The tools, resources and prompts of one server, and its request handlers."""

    def __init__(
        self, tools: Tools, name: str, contents: Contents, *, approved: bool, changes: ServedChanges | None
    ) -> None:
        registry = (
            tools
            if isinstance(tools, ToolRegistry)
            else ToolSet.of([_as_tool(item) for item in tools]).build()
        )
        if registry.sources:
            kind = type(registry.sources[0]).__name__
            raise ConfigError(f"{kind} needs the runs of an agent; pass the tools to the server themselves")
        self._registry = registry
        self._name = name
        self._contents = contents
        self._approved = approved
        self._subscribers = None if changes is None else Subscribers(changes)
        self._waiting: dict[str, tuple[str, ServedCall]] = {}  # by their state, with their methods and names
        self._levels: WeakKeyDictionary[Any, types.LoggingLevel] = WeakKeyDictionary()

    def server(self) -> Server[Any]:
        logger = logging.getLogger(LOGGER)
        if not any(isinstance(handler, ToClients) for handler in logger.handlers):
            logger.addHandler(ToClients())
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.DEBUG)  # each client sets its own level
        subscribers = self._subscribers
        with warnings.catch_warnings(action="ignore"):  # the SDK deprecates log levels
            server: Server[Any] = Server(  # pyright: ignore[reportDeprecated]  # clients still use log levels
                self._name,
                version=__version__,
                get_tool_input_schema=self._input_schema,
                on_list_tools=self._list,
                on_call_tool=self._call_tool,
                on_set_logging_level=self._set_level,
                **self._contents.handlers(self._handler),
                **({} if subscribers is None else subscribers.handlers),
            )
        if subscribers is not None:
            server.middleware.append(subscribers.remember)
            options = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
            announced = partial(server.create_initialization_options, options)
            setattr(server, "create_initialization_options", announced)  # noqa: B010  # no other way over HTTP
        return server

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self._registry.get(name)
        return None if tool is None else tool.spec.parameters

    async def _list(self, *_: object) -> types.ListToolsResult:
        registry = self._registry
        offered = {spec.name: spec for spec in registry.specs()}
        return types.ListToolsResult(
            tools=[to_listed(tool, offered[tool.name]) for tool in registry if tool.name in offered]
        )

    async def _set_level(
        self, ctx: ServerRequestContext[Any], params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        self._levels[connection_of(ctx)] = params.level
        return types.EmptyResult()

    def _level(self, ctx: ServerRequestContext[Any]) -> types.LoggingLevel | None:
        """Return the client's log level, which newer clients send with each request."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return self._levels.get(connection_of(ctx), "info")
        wanted: Any = dict(ctx.meta or {}).get("io.modelcontextprotocol/logLevel")
        return wanted if wanted in get_args(types.LoggingLevel) else None

    # --- requests with questions to the client ---------------------------------------------------

    def _handler(self, function: Callable[[Any], Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
        """Return a request handler for `function`, which can send requests to the client while it runs."""

        async def handle(ctx: ServerRequestContext[Any], params: Any) -> Any:
            async def work() -> Any:
                try:
                    return await function(params)
                except MissingCapabilityError as error:
                    raise error.to_wire() from error
                except ToolError as error:
                    raise MCPError(types.INTERNAL_ERROR, str(error)) from error

            return await self._serve(ctx, params, lambda _: work())

        return handle

    async def _call_tool(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        call = ToolCall(str(ctx.request_id), params.name, params.arguments or {})
        prepared = self._registry.prepare(call)
        if not isinstance(prepared, PreparedCall):
            return refused(prepared)
        result: types.CallToolResult | types.InputRequiredResult
        result = await self._serve(ctx, params, lambda served: self._run(served, prepared))
        return result

    async def _serve(
        self,
        ctx: ServerRequestContext[Any],
        params: Any,
        work: Callable[[ServedCall], Coroutine[Any, Any, Any]],
    ) -> Any:
        """Return the result of a request, or its questions; it then waits for the repeated request."""
        about = f"{ctx.method} {getattr(params, 'name', '') or getattr(params, 'uri', '')}"
        if params.request_state is None:
            served = ServedCall(ctx, self._level(ctx), self._approved)
            served.begin(work(served))
        else:
            waiting = self._waiting.get(params.request_state)
            if waiting is None or waiting[0] != about:
                raise MCPError(types.INVALID_PARAMS, "the requestState is not known; send the request again")
            served = self._waiting.pop(params.request_state)[1]
            served.resume(ctx, params.input_responses or {})
        result = await served.result()
        if isinstance(result, types.InputRequiredResult):
            self._waiting[served.state] = (about, served)
            if len(self._waiting) > _MAX_WAITING:
                await self._waiting.pop(next(iter(self._waiting)))[1].cancel()
        return result

    async def _run(self, served: ServedCall, prepared: PreparedCall) -> types.CallToolResult:
        call = prepared.call
        ctx = ToolContext[Any](correlation_id=call.id, call_id=call.id, link=served)
        try:
            if not self._approved and prepared.asks_approval(ctx):
                refusal = await _refusal(served, prepared)
                if refusal is not None:
                    return refused(refusal)
            result = await self._registry.run(prepared, ctx)
        finally:
            await served.close()
        missing = None if result.error is None else result.error.__cause__
        if served.is_modern and isinstance(missing, MissingCapabilityError):
            raise missing.to_wire() from missing
        return to_result(result, prepared.tool, any_data=served.is_modern)

    async def close(self) -> None:
        """End subscriptions, and cancel calls that wait for a repeated request."""
        if self._subscribers is not None:
            self._subscribers.close()
        for _, served in self._waiting.values():
            await served.cancel()


async def _refusal(served: ServedCall, prepared: PreparedCall) -> str | None:
    """Return why a call is not approved; None if the client's user approves it."""
    call = prepared.call
    if not served.can_ask:
        return f"{call.name!r} needs human approval, and this server has no way to ask for it"
    try:
        answer = await served.elicit(f"Allow {call.name}({dump_json(call.args)})?", CONSENT)
    except ToolError as error:
        return f"{call.name!r} needs human approval: {error}"
    return None if answer and answer["approve"] else f"{call.name!r} was not approved by the user"


def _as_tool(item: Any) -> ToolLike:
    tool: ToolLike = item if isinstance(item, type) or not hasattr(item, "as_tool") else item.as_tool()
    return tool


_MAX_EVENTS = 1_000  # the oldest are removed first


class RecentEvents(EventStore):
    """The most recent events of all streams of a server, in memory."""

    def __init__(self) -> None:
        self._events: OrderedDict[str, tuple[str, Any]] = OrderedDict()

    @override
    async def store_event(self, stream_id: str, message: Any) -> str:
        event = uuid4().hex
        self._events[event] = (stream_id, message)
        if len(self._events) > _MAX_EVENTS:
            self._events.popitem(last=False)
        return event

    @override
    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        if last_event_id not in self._events:
            return None
        stream, _ = self._events[last_event_id]
        is_later = False
        for event, (its_stream, message) in list(self._events.items()):
            if is_later and its_stream == stream and message is not None:
                await send_callback(EventMessage(message, event))
            is_later = is_later or event == last_event_id
        return stream
