"""The server of the viewer, with a token in its printed address."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from wesichain.agent import Agent
from wesichain.core.internal import Prices, announce_when_started, is_loopback, listening_socket
from wesichain.errors import ConfigError, MissingDependencyError

from .app import create_app
from .approvals import ApprovalFolder

try:
    import uvicorn
except ModuleNotFoundError as error:
    raise MissingDependencyError("the web viewer", package="uvicorn", extra="web") from error

if TYPE_CHECKING:
    from wesichain.durable import DurableRuns
    from wesichain.learning import Playbook

_GRACE = 1  # seconds that open streams have to end


def run_server(
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    runs: Path,
    playbook: Path | Playbook | None = None,
    approvals: Path | ApprovalFolder | None = None,
    agent: Agent[Any] | AbstractAsyncContextManager[Agent[Any]] | None = None,
    deps: Callable[..., Any] | None = None,
    resume: Callable[[str], bool] | None = None,
    database: DurableRuns | None = None,
    token: str | None = None,
    hosts: Sequence[str] = (),
    prices: Prices | None = None,
    allow_remote: bool = False,
    announce: Callable[[str], object] = print,
) -> None:
    """Serve the viewer until Ctrl-C. Port 0 uses a free port. `announce` is called with the address.

    `agent` may be a context manager that opens the agent while the server runs. `create_app` explains `deps`
    and `resume`. Only this machine can reach it. `allow_remote=True` allows others, which need the token too;
    `hosts` are then the names by which they reach it.
    """
    if token is not None and not re.fullmatch(r"[A-Za-z0-9_~.-]{16,}", token):
        raise ConfigError("a token has 16 or more letters, digits and any of '_-.~'; leave it out to get one")
    if not is_loopback(host) and not (allow_remote and hosts):
        raise ConfigError(
            f"{host!r} can be reached from other machines, and recordings hold what your agents read and "
            f"wrote; use 127.0.0.1, or say allow_remote=True and name the hosts it is reached by "
            f"(--allow-remote NAME:PORT)"
        )
    token = token or secrets.token_urlsafe(32)
    with listening_socket(host, port) as listener:
        taken = listener.getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        served = [*hosts, *(f"{each}:{taken}" for each in {name, "127.0.0.1", "localhost", "[::1]"})]
        address = f"http://{hosts[0] if hosts else f'{name}:{taken}'}/#token={token}"

        async def serve() -> None:
            async with AsyncExitStack() as stack:
                chatting = agent
                if isinstance(chatting, AbstractAsyncContextManager):
                    chatting = await stack.enter_async_context(chatting)
                app = create_app(
                    runs,
                    playbook=playbook,
                    approvals=approvals,
                    agent=chatting,
                    deps=deps,
                    resume=resume,
                    database=database,
                    token=token,
                    hosts=served,
                    prices=prices,
                )
                Thread(target=app.state.read_ahead, daemon=True).start()
                server = uvicorn.Server(_configured(app))
                announce_when_started(server, lambda: announce(address))
                await server.serve(sockets=[listener])

        with suppress(KeyboardInterrupt):  # the usual way to stop it
            asyncio.run(serve())


def _configured(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
    )
