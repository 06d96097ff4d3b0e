"""serve: the viewer of recordings and durable runs in the browser, with a chat with an agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wesichain.core import from_json
from wesichain.core.internal import Price, home_folder
from wesichain.errors import ConfigError

from .loading import load_agent
from .options import Database, Host, Port, Runs
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

    home, place = home_folder(), folder(runs)

    def announce(address: str) -> None:
        note(f"serving the runs of {place}; Ctrl-C ends it")
        print(address, flush=True)

    run_server(
        host,
        port,
        runs=place,
        agent=None if agent is None else load_agent(agent),
        database=None if database_url is None else open_database(database_url),
        playbook=playbook or home / "playbook",
        approvals=home / "approvals",
        prices=None if prices is None else read_prices(prices),
        allow_remote=bool(allow_remote),
        hosts=allow_remote or (),
        announce=announce,
    )


def read_prices(path: Path) -> dict[str, Price]:
    """Read a file of prices: dollars per million input and output tokens, by model."""
    try:
        plain = from_json(dict[str, list[float]], path.read_bytes())
        return {model: Price(read, written) for model, (read, written) in plain.items()}
    except (OSError, ValueError, ConfigError) as error:
        raise ConfigError(f'--prices {path}: {error}; write {{"MODEL": [input, output]}}') from error
