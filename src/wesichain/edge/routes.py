"""The routes of the app, and what they share."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wesichain.agent import Agent, Conversations, MemoryConversations
from wesichain.core import Prices
from wesichain.errors import ConfigError

from .a2a import A2a
from .ag_ui import AgUi
from .ai_sdk import AiSdk
from .callers import Authorize, Callers, MakeDeps
from .gate import Gate
from .http_api import HttpApi
from .limits import Limits
from .openapi import document
from .plain_runs import PlainRuns
from .runs import RunDirectory, Talks
from .stored_runs import DurableRunner, StoredRuns

AnyAgent: TypeAlias = Agent[Any, Any] | DurableRunner
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

_log = logging.getLogger("wesichain.edge")


def build(
    agent: AnyAgent | Mapping[str, AnyAgent],
    *,
    deps: MakeDeps | None,
    conversations: Conversations | None,
    authorize: Authorize | None,
    prices: Prices | None,
    path: str,
    cors: Sequence[str],
    limits: Limits,
) -> Starlette:
    """The app of an agent, or of several by name."""
    agents = _checked(agent, path, cors)
    talks = Talks(conversations or MemoryConversations())
    keepers: dict[str, PlainRuns | StoredRuns] = {
        name: PlainRuns(one, talks, limits=limits, prices=prices)
        if isinstance(one, Agent)
        else StoredRuns(one, talks, prices=prices)
        for name, one in agents.items()
    }
    if deps is not None and not any(isinstance(keeper, PlainRuns) for keeper in keepers.values()):
        raise ConfigError("a DurableAgent makes its own deps: DurableAgent(..., deps=function_of_the_run_id)")
    callers = Callers(authorize, deps)
    runs = RunDirectory(keepers)
    api = HttpApi(runs, callers, limits)
    described = {name: _description_of(one) for name, one in agents.items()}
    a2a = A2a(runs, callers, limits, agents=described, path=path)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        for keeper in keepers.values():
            if isinstance(keeper, StoredRuns):
                keeper.serve()
        try:
            yield
        finally:
            for keeper in keepers.values():
                await keeper.close()

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def openapi(_: Request) -> Response:
        return JSONResponse(document(path, [*agents]))

    def route(at: str, endpoint: Endpoint, method: str) -> Route:
        return Route(f"{path}{at}", _safe(endpoint), methods=[method])

    return Starlette(
        routes=[
            route("/runs", api.run, "POST"),
            route("/runs/stream", api.stream, "POST"),
            route("/runs/{id}/events", api.events, "GET"),
            route("/runs/{id}/decisions", api.decide, "POST"),
            route("/runs/{id}/cancel", api.cancel, "POST"),
            route("/ag-ui", AgUi(runs, callers, limits), "POST"),
            route("/ai-sdk", AiSdk(runs, callers, limits), "POST"),
            route("/a2a", a2a, "POST"),
            route("/.well-known/agent-card.json", a2a.card, "GET"),
            route("/health", health, "GET"),
            route("/openapi.json", openapi, "GET"),
        ],
        middleware=[Middleware(Gate, limits=limits, cors=tuple(cors))],
        exception_handlers={HTTPException: _refused},
        lifespan=lifespan,
    )


def _checked(
    agent: AnyAgent | Mapping[str, AnyAgent], path: str, cors: Sequence[str]
) -> Mapping[str, AnyAgent]:
    """The agents by name; a `ConfigError` where they, the path or the origins cannot be served."""
    agents: dict[str, Any] = dict(agent) if isinstance(agent, Mapping) else {_name_of(agent): agent}
    if not agents:
        raise ConfigError("an app needs at least one agent")
    for name, one in agents.items():
        if not isinstance(one, Agent | DurableRunner):
            raise ConfigError(f"{name!r} is a {type(one).__name__}: an app runs an Agent or a DurableAgent")
    if path and not (path.startswith("/") and not path.endswith("/")):
        raise ConfigError(f"path={path!r} begins with a slash and does not end with one")
    if isinstance(cors, str) or not all(_is_origin(origin) for origin in cors):
        raise ConfigError(f"cors={cors!r}: a list of origins, such as ['https://example.com']")
    return agents


def _description_of(agent: AnyAgent) -> str:
    inside: Any = agent if isinstance(agent, Agent) else getattr(agent, "agent", agent)
    return str(getattr(inside, "description", "") or agent.name)


def _name_of(agent: Any) -> str:
    return str(getattr(agent, "name", "agent"))


def _safe(endpoint: Endpoint) -> Endpoint:
    """The endpoint, whose bugs are in the log and not in the answer."""

    async def answered(request: Request) -> Response:
        try:
            return await endpoint(request)
        except HTTPException:
            raise
        except Exception:  # noqa: BLE001  # whatever it is, the client learns nothing of it
            _log.exception("%s %s failed", request.method, request.url.path)
            return JSONResponse({"error": "something went wrong; the server's log says what"}, 500)

    return answered


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


def _is_origin(value: Any) -> bool:
    is_url = isinstance(value, str) and value.startswith(("http://", "https://"))
    return is_url and value.count("/") == 2 and value == value.lower()
