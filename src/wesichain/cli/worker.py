"""worker: serves the queue of a durable agent until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wesichain.agent import Agent
from wesichain.core import home_folder
from wesichain.errors import ConfigError, WesichainError
from wesichain.tools import CancellationToken
from wesichain.trace import Recorder

from .loading import load_object
from .terminal import CTRL_C, OK, fail, note

if TYPE_CHECKING:
    from wesichain.durable import DurableAgent, DurableGraph


def worker(
    agent: Annotated[str, typer.Argument(help="package.module:agent or file.py:agent, durable or not")],
    *,
    database_url: Annotated[
        str | None, typer.Option(help="sqlite:///FILE or postgresql://...; a file of yours by default.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What its runs are found by; its own name.")] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="How many runs at once; as the object says, or 10.")
    ] = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Go on with the runs of other versions of the program, too.")
    ] = False,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that runs have to end when it stops.")] = 30.0,
    no_record: Annotated[bool, typer.Option("--no-record", help="Keep no recordings of the runs.")] = False,
) -> None:
    """Run what is in the queue of an agent, and what dead workers have left. Ctrl-C or SIGTERM ends it."""
    try:
        recorders = [] if no_record else [Recorder(home_folder() / "runs")]
        durable = load_durable(agent).configured(
            name=name,
            database_url=database_url,
            concurrency=concurrency,
            on_change="adopt" if adopt else None,
            events=recorders,
        )
        raise typer.Exit(asyncio.run(_serve(durable, grace=grace)))
    except WesichainError as error:
        fail(error)


def load_durable(target: str) -> DurableAgent[Any] | DurableGraph[Any]:
    """The object that a name stands for, with its own settings; of an agent, a durable one with the usual."""
    from wesichain.durable import DurableAgent, DurableGraph  # slow to load: no other command pays for it

    found: Any = load_object(target, (Agent, DurableAgent, DurableGraph))
    if isinstance(found, DurableAgent | DurableGraph):
        return found  # pyright: ignore[reportUnknownVariableType]  # of what type it answers is the user's affair
    if not isinstance(found, Agent):
        kind = type(found).__name__
        raise ConfigError(f"{target!r} is a {kind}, not an Agent, a DurableAgent or a DurableGraph")
    return DurableAgent(found)  # pyright: ignore[reportUnknownArgumentType]  # likewise


async def _serve(durable: DurableAgent[Any] | DurableGraph[Any], *, grace: float) -> int:
    stop = CancellationToken()
    status = OK

    def end(number: int) -> None:
        nonlocal status
        status = CTRL_C if number == signal.SIGINT else OK
        note(f"stopping: runs have {grace:g} s to end; other workers go on with the rest")
        stop.cancel("the worker was told to stop")

    if sys.platform != "win32":  # there Ctrl-C ends the program at once
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, end, number)
    note(f"serving {durable.name!r} {durable.version} from {_shown(durable.database_url)}; Ctrl-C ends it")
    await durable.serve(stop, grace=grace)
    return status


def _shown(url: str) -> str:
    """A database's URL without its password."""
    scheme, mark, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    return f"{scheme}{mark}{user.partition(':')[0]}{at}{host}"
