"""api: an agent over HTTP, for frontends and other agents."""

from __future__ import annotations

import asyncio
import hmac
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wesichain.core.internal import announce_when_started, home_folder, is_loopback, listening_socket
from wesichain.errors import ConfigError, MissingDependencyError
from wesichain.trace import Recorder

from .options import AgentName, Deps, Host, NoRecord, Port, Runs
from .target import Target
from .terminal import OK, note

if TYPE_CHECKING:
    from starlette.requests import Request

_VARIABLE = "WESICHAIN_API_TOKEN"
_SHORTEST = 16
_GRACE = 5  # seconds that streams have to end when the server stops


def api(
    agent: AgentName,
    *,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            help="The bearer token that clients send: 16 characters or more.", show_default=f"${_VARIABLE}"
        ),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="An origin whose pages may use it, such as http://localhost:3000."
        ),
    ] = None,
    path: Annotated[str, typer.Option(help="A prefix of every route, such as /v1.")] = "",
    deps: Deps = None,
    runs: Runs = None,
    no_record: NoRecord = False,
) -> None:
    """Serve an agent over HTTP: runs and streams, AG-UI, the AI SDK and A2A. Ctrl-C ends it."""
    secret = _checked_token(token or os.environ.get(_VARIABLE), host)
    target = Target.of(agent, deps=deps, runs=runs, record=not no_record)
    asyncio.run(_serve(target, host, port, token=secret, cors=cors or [], path=path))


def _checked_token(token: str | None, host: str) -> str | None:
    if token is not None and (len(token) < _SHORTEST or not token.isascii() or not token.isprintable()):
        raise ConfigError(
            f"a token has {_SHORTEST} or more ASCII characters; 'openssl rand -hex 16' makes one"
        )
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"{host!r} can be reached from other machines; set --token, or ${_VARIABLE}, to what clients send"
        )
    return token


async def _serve(
    target: Target, host: str, port: int, *, token: str | None, cors: list[str], path: str
) -> None:
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise MissingDependencyError("an agent over HTTP", package="uvicorn", extra="edge") from error
    from wesichain.edge import Limits, create_app
    from wesichain.edge.internal import ConnectionGuard

    recorders = [Recorder(target.runs or home_folder() / "runs")] if target.record else []
    async with target.open(kinds=()) as found:
        # Without a token, other host names are refused: DNS rebinding would let any web page use it.
        hosts = [] if token else ["127.0.0.1", "localhost", "[::1]", host]
        limits = Limits()
        is_durable = hasattr(found, "configured")
        app = create_app(
            found.configured(events=recorders) if is_durable else found,
            deps=None if target.deps is None else target.open_deps,
            authorize=_bearer(token),
            cors=cors,
            hosts=hosts,
            path=path,
            events=() if is_durable else recorders,
            limits=limits,
        )
        with listening_socket(host, port) as listener:
            config = ConnectionGuard(limits).config(
                app, log_level="warning", server_header=False, timeout_graceful_shutdown=_GRACE
            )
            name = f"[{host}]" if ":" in host else host
            address = f"http://{name}:{listener.getsockname()[1]}{path}"

            def announce() -> None:
                who = "clients with the token" if token else "this machine only"
                note(f"{target.agent}, for {who}; Ctrl-C ends it")
                print(address, flush=True)

            server = uvicorn.Server(config)
            announce_when_started(server, announce)
            # After its requests have ended, the server raises the signal again. Exit then, so that
            # the agent's context managers are closed.
            signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(OK))
            await server.serve(sockets=[listener])


def _bearer(token: str | None) -> Any:
    """Accept requests with the token in exactly one Authorization header; all requests without a token."""
    if token is None:
        return None
    expected = f"Bearer {token}".encode()

    def authorize(request: Request) -> bool:
        given = request.headers.getlist("authorization")
        return len(given) == 1 and hmac.compare_digest(given[0].encode("latin-1"), expected)

    return authorize
