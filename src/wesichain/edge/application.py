"""The application: an agent over HTTP, as an ASGI app to serve alone or to mount in another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from wesichain.errors import MissingDependencyError

from .limits import Limits

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from wesichain.agent import Conversations
    from wesichain.core import EventSink
    from wesichain.core.internal import Prices

    from .callers import Authorize, MakeDeps
    from .routes import AnyAgent
    from .runs import Inbox

_PACKAGES = {"starlette": "starlette", "uvicorn": "uvicorn", "ag_ui": "ag-ui-protocol", "a2a": "a2a-sdk"}


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
    """An ASGI app that runs an agent, or several by name (the first is the default).

    `authorize(request)` decides who may use it: False is a 401, True lets pass, any other value is the
    identity that runs and conversations belong to; without it everybody may. `deps(request)` gives the deps
    of a run of an `Agent`; a `DurableAgent` makes its own. Both may be async. `conversations` keeps what was
    said, in memory unless given. `prices` are used for the cost of runs, beside those of the agent. `path`
    is put before every route. `cors` names the origins whose pages may use it: none unless given. `hosts`
    names the hosts, without ports, that requests may be for: any unless given. `events`
    hear every run of an `Agent`, beside the agent's own. `inbox` keeps its runs that wait for a decision
    where other programs see them, as `wesichain.web.ApprovalFolder` does. `protocols=False` leaves AG-UI, the
    AI SDK and A2A out: the plain API needs none of their packages.

    `app.state.runs` is the `RunDirectory`, for code beside the app that starts, decides or cancels runs.
    """
    try:
        from .routes import build

        return build(
            agent,
            deps=deps,
            conversations=conversations,
            authorize=authorize,
            prices=prices,
            path=path,
            cors=cors,
            hosts=hosts,
            limits=limits or Limits(),
            events=tuple(events),
            inbox=inbox,
            protocols=protocols,
        )
    except ModuleNotFoundError as error:
        package = _PACKAGES.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        raise MissingDependencyError("an agent over HTTP", package=package, extra="edge") from error
