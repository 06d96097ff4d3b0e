"""The application: an agent over HTTP, as an ASGI app to serve or to mount in another one."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from wesichain.agent import Agent, Conversations, MemoryConversations
from wesichain.core import EventSink
from wesichain.core.internal import Prices
from wesichain.errors import ConfigError, MissingDependencyError

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
except ModuleNotFoundError as error:
    raise MissingDependencyError("an agent over HTTP", package="starlette", extra="edge") from error

from .gate import Gate
from .http_api import HttpApi
from .limits import Limits
from .openapi import document
from .plain_runs import PlainRuns
from .runs import ConversationDirectory, Inbox, RunDirectory
from .service import Authorize, MakeDeps, Service
from .stored_runs import DurableRunner, StoredRuns

AnyAgent: TypeAlias = Agent[Any, Any] | DurableRunner
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

_PACKAGES = {"ag_ui": "ag-ui-protocol", "a2a": "a2a-sdk", "google": "a2a-sdk"}
_log = logging.getLogger("wesichain.edge")


def create_app(
    agent: AnyAgent | Mapping[str, AnyAgent],
    *,
    deps: MakeDeps | None = None,
    conversations: Conversations | None = None,
    authorize: Authorize | None = None,
    prices: Prices | None = None,
    path: str = "",
    cors: Sequence[str] = (),
    hosts: Sequence[str] = (),
    limits: Limits | None = None,
    events: Iterable[EventSink] = (),
    inbox: Inbox | None = None,
    protocols: bool = True,
) -> Starlette:
    """Return an ASGI app that serves an agent over HTTP, or several by name (the first is the default).

    `authorize(request)` decides who may use the app: False is a 401, True allows the request, any other value
    (such as an `Identity`) is the identity that runs and conversations belong to; by default every request
    is allowed.
    `deps(request)` returns the deps of a run of an `Agent`; a `DurableAgent` has its own. Both may be async,
    and `deps` may be an async context manager, which is closed when the run has ended or waits.
    `conversations` is a store, in memory by default. `prices` are used for the cost of runs, beside those of
    the agent. `path` is a prefix of every route. `cors` lists the origins whose pages may use the app: none
    by default. `hosts` lists the hosts, without ports, that requests may be for: any by default. `events`
    receive the events of every run of an `Agent`, beside its own sinks. `inbox` stores waiting runs for other
    programs, as `wesichain.web.ApprovalFolder` does. `protocols=False` leaves out AG-UI, the AI SDK and A2A,
    whose packages are then not needed.

    `app.state.runs` is the `RunDirectory`, for code beside the app that starts, decides or cancels runs.
    """
    agents = _checked(agent, path, cors)
    limits, sinks = limits or Limits(), tuple(events)
    directory = ConversationDirectory(conversations or MemoryConversations(), limits.conversation_tokens)
    registries: dict[str, PlainRuns | StoredRuns] = {
        name: PlainRuns(one, directory, limits=limits, prices=prices, sinks=sinks, inbox=inbox)
        if isinstance(one, Agent)
        else StoredRuns(one, directory, prices=prices)
        for name, one in agents.items()
    }
    if (deps or sinks or inbox) and not any(
        isinstance(registry, PlainRuns) for registry in registries.values()
    ):
        raise ConfigError(
            "a DurableAgent has its own deps and events: DurableAgent(..., deps=..., events=...); "
            "waiting runs are in its database and need no inbox"
        )
    runs = RunDirectory(registries)
    service = Service(runs, limits, authorize, deps)
    api = HttpApi(service)
    endpoints: dict[str, tuple[str, Endpoint]] = {
        "/runs": ("POST", api.run),
        "/runs/stream": ("POST", api.stream),
        "/runs/{id}/events": ("GET", api.events),
        "/runs/{id}/decisions": ("POST", api.decide),
        "/runs/{id}/cancel": ("POST", api.cancel),
    }
    if protocols:
        described = {name: _description_of(one) for name, one in agents.items()}
        endpoints |= _protocols(service, agents=described)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        for registry in registries.values():
            if isinstance(registry, StoredRuns):
                registry.serve()
        try:
            yield
        finally:
            for registry in registries.values():
                await registry.close()

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def openapi(_: Request) -> Response:
        return JSONResponse(document(path, [*agents]))

    endpoints |= {"/health": ("GET", health), "/openapi.json": ("GET", openapi)}
    app = Starlette(
        routes=[
            Route(f"{path}{at}", _safe(endpoint), methods=[method])
            for at, (method, endpoint) in endpoints.items()
        ],
        middleware=[Middleware(Gate, limits=limits, cors=cors, hosts=hosts)],
        exception_handlers={HTTPException: _refused},
        lifespan=lifespan,
    )
    app.state.runs = runs
    return app


def _protocols(service: Service, *, agents: Mapping[str, str]) -> dict[str, tuple[str, Endpoint]]:
    """The endpoints of the protocols, imported here because the plain API does not need their packages."""
    try:
        from .a2a import CARD, A2a
        from .ag_ui import AgUi
        from .ai_sdk import AiSdk
    except ModuleNotFoundError as error:
        module = str(error.name).partition(".")[0]
        package = _PACKAGES.get(module, module)
        raise MissingDependencyError("an agent over HTTP", package=package, extra="edge") from error
    a2a = A2a(service, agents=agents)
    ai_sdk = AiSdk(service)
    return {
        "/ag-ui": ("POST", AgUi(service)),
        "/ai-sdk": ("POST", ai_sdk),
        "/ai-sdk/{chat}/stream": ("GET", ai_sdk.reconnect),
        "/a2a": ("POST", a2a),
        CARD: ("GET", a2a.card),
    }


def _checked(
    agent: AnyAgent | Mapping[str, AnyAgent], path: str, cors: Sequence[str]
) -> Mapping[str, AnyAgent]:
    """The agents by name; a `ConfigError` if they, the path or the origins are not valid."""
    alone = {str(getattr(agent, "name", "agent")): agent}
    agents: dict[str, Any] = dict(agent) if isinstance(agent, Mapping) else alone
    if not agents:
        raise ConfigError("an app needs at least one agent")
    for name, one in agents.items():
        if not isinstance(one, Agent | DurableRunner):
            raise ConfigError(
                f"{name!r} has the type {type(one).__name__}: an app serves an Agent or a DurableAgent"
            )
    if path and not (path.startswith("/") and not path.endswith("/")):
        raise ConfigError(f"path={path!r} must begin with a slash and must not end with one")
    if isinstance(cors, str) or not all(_is_origin(origin) for origin in cors):
        raise ConfigError(f"cors={cors!r}: use a list of origins, such as ['https://example.com']")
    return agents


def _description_of(agent: AnyAgent) -> str:
    inside: Any = agent if isinstance(agent, Agent) else getattr(agent, "agent", agent)
    return str(getattr(inside, "description", "") or agent.name)


def _safe(endpoint: Endpoint) -> Endpoint:
    """The endpoint; its unexpected errors are logged and not sent to the client."""

    async def answered(request: Request) -> Response:
        try:
            return await endpoint(request)
        except HTTPException:
            raise
        except Exception:  # noqa: BLE001  # no details for the client
            _log.exception("%s %s failed", request.method, request.url.path)
            return JSONResponse({"error": "something went wrong; the server's log says what"}, 500)

    return answered


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


def _is_origin(value: Any) -> bool:
    is_url = isinstance(value, str) and value.startswith(("http://", "https://"))
    return is_url and value.count("/") == 2 and value == value.lower()
