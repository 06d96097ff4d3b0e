"""The command line's table of contents."""

from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from wesichain import __version__
from wesichain.core import home_folder
from wesichain.errors import WesichainError

from . import asking, playbooks, traces
from .doctor import doctor
from .mcp import mcp
from .models import models
from .terminal import fail, note
from .worker import worker

app = typer.Typer(
    name="wesichain",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Tool-calling ReAct agents that are correct by construction, fast, and learn from their runs.",
)
app.command()(asking.ask)
app.command()(asking.chat)
app.command()(asking.run)
app.command()(asking.demo)
app.command()(mcp)
app.command()(models)
app.command()(doctor)
app.command()(worker)
app.add_typer(traces.app, name="trace")
app.add_typer(playbooks.app, name="playbook")


def _version(wanted: bool) -> None:  # the form of a typer callback
    if wanted:
        typer.echo(f"wesichain {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of every command."""


@app.command()
def serve(
    *,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8777,
    playbook: Annotated[Path | None, typer.Option(help="The playbook's folder.")] = None,
    allow_remote: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:PORT", help="Let other machines in, who reach it by this name."),
    ] = None,
) -> None:
    """Look at runs in the browser: live, searchable, side by side; approve waiting calls."""
    from wesichain.web import run_server

    home = home_folder()
    note(f"the runs of {home / 'runs'}, as long as this goes on; Ctrl-C ends it")
    try:
        run_server(
            host,
            port,
            runs=home / "runs",
            playbook=playbook or home / "playbook",
            approvals=home / "approvals",
            allow_remote=bool(allow_remote),
            hosts=allow_remote or (),
        )
    except WesichainError as error:
        fail(error)


class Bench(StrEnum):
    """What can be measured."""

    SPEED = "speed"
    LEARNING = "learning"


@app.command()
def bench(
    what: Annotated[Bench, typer.Argument(help="speed, or what a playbook saves.")] = Bench.SPEED,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="speed: end with 1 past a limit.")] = False,
    short: Annotated[bool, typer.Option("--short", help="learning: minutes, not an hour.")] = False,
    out: Annotated[Path | None, typer.Option(help="learning: where the transcripts go.")] = None,
) -> None:
    """Measure: a run against a loop written by hand, or a model that learns. Needs a checkout."""
    if find_spec("bench") is None or find_spec("bench.speed") is None:
        fail("the benchmarks are in the project's repository: run 'wesichain bench' in a checkout of it")
    if what is Bench.LEARNING:
        takes = "a few minutes" if short else "about an hour; what is stopped goes on where it was"
        note(f"a local model learns its way around a help desk: {takes}")
        place = ["--out", str(out)] if out else []
        command = ["bench.helpdesk", *place, *(["--short"] if short else [])]
    else:
        note("measuring, interleaved, in CPU time: about a minute")
        command = ["bench.speed", *(["--strict"] if strict else [])]
    done = subprocess.run([sys.executable, "-m", *command], check=False)  # noqa: S603  # our own module
    raise typer.Exit(done.returncode)
