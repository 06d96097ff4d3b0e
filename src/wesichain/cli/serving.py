"""serve: the viewer of recordings and durable runs in the browser, with a chat with an agent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from wesichain.agent import Agent
from wesichain.core import from_json
from wesichain.core.internal import Price, home_folder
from wesichain.errors import ConfigError
from wesichain.platform.processes import OWN_GROUP
from wesichain.web import ApprovalFolder

from .decisions import approvals
from .options import Database, Deps, Host, Port, Runs
from .target import StoredTarget, Target
from .terminal import note
from .traces import folder, open_database


def serve(
    agent: Annotated[
        str | None,
        typer.Argument(
            help="An agent to chat with: file.py:agent or package.module:agent.",
            show_default="none",
        ),
    ] = None,
    *,
    deps: Deps = None,
    runs: Runs = None,
    database_url: Database = None,
    host: Host = "127.0.0.1",
    port: Port = 8777,
    playbook: Annotated[
        Path | None,
        typer.Option(help="The playbook's folder.", show_default="$WESICHAIN_HOME/playbook"),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='JSON: {"MODEL": \\[input, output]}, dollars a million tokens.',
            show_default="the published prices",
        ),
    ] = None,
    allow_remote: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:PORT", help="Allow access from other machines, under this name."),
    ] = None,
) -> None:
    """Show runs in the browser, live; fork, compare and label them; approve calls; chat with an agent."""
    from wesichain.web import run_server

    home, place, waiting = home_folder(), folder(runs), approvals()
    target = None if agent is None else Target.of(agent, deps=deps, runs=runs)

    def announce(address: str) -> None:
        note(f"serving the runs of {place}; Ctrl-C ends it")
        print(address, flush=True)

    run_server(
        host,
        port,
        runs=place,
        agent=None if target is None else _opened(target, waiting),
        deps=None if target is None or target.deps is None else target.open_deps,
        database=None if database_url is None else open_database(database_url),
        playbook=playbook or home / "playbook",
        approvals=waiting,
        resume=_resume,
        prices=None if prices is None else read_prices(prices),
        allow_remote=bool(allow_remote),
        hosts=allow_remote or (),
        announce=announce,
    )


@asynccontextmanager
async def _opened(target: Target, waiting: ApprovalFolder) -> AsyncGenerator[Agent[Any]]:
    """Open the agent of the chat; its runs that wait are continued by `resume` too."""
    async with target.open() as agent:
        waiting.stored_program = StoredTarget.of(target, agent).written()
        yield agent


def _resume(run_id: str) -> bool:
    """Continue a run whose calls are decided, in a process of its own, in its working folder.

    Ctrl-C does not reach that process: the run has been taken out of the folder of approvals.
    """
    if approvals().program(run_id) is None:
        return False
    command = [sys.executable, "-m", "wesichain", "resume", run_id, "--quiet"]
    subprocess.Popen(  # noqa: S603  # our own module
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **OWN_GROUP
    )
    return True


def read_prices(path: Path) -> dict[str, Price]:
    """Read a file of prices: dollars per million input and output tokens, by model."""
    try:
        plain = from_json(dict[str, list[float]], path.read_bytes())
        return {model: Price(read, written) for model, (read, written) in plain.items()}
    except (OSError, ValueError, ConfigError) as error:
        raise ConfigError(f'--prices {path}: {error}; write {{"MODEL": [input, output]}}') from error
