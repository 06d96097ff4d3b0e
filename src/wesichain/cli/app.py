"""The Typer application: all commands and their common options."""

from __future__ import annotations

import logging
import subprocess
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from wesichain import __version__

from . import ask, durable_runs, learning, playbooks, traces
from .agent_ci import drift, simulate
from .api import api
from .machine import doctor, models
from .mcp import mcp
from .serving import serve
from .tasks import eval_, improve
from .terminal import fail, note

app = typer.Typer(
    name="wesichain",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Agents that call tools: every call validated, every run limited and recorded, lessons drawn "
    "from runs.",
)
app.command()(ask.ask)
app.command()(ask.chat)
app.command()(ask.run)
app.command()(ask.demo)
app.command("eval")(eval_)
app.command()(improve)
app.command()(learning.learn)
app.command()(drift)
app.command()(simulate)
app.command()(mcp)
app.command()(models)
app.command()(doctor)
app.command()(durable_runs.worker)
app.command()(serve)
app.command()(api)
app.add_typer(traces.app, name="trace")
app.add_typer(durable_runs.app, name="runs")
app.add_typer(playbooks.app, name="playbook")


def _version(wanted: bool) -> None:  # the signature of a Typer callback
    if wanted:
        typer.echo(f"wesichain {__version__}")
        raise typer.Exit


_PRINTS_TOOL_ERRORS = {
    "ask",
    "chat",
    "run",
    "demo",
}  # in one line each, themselves
_SILENT = logging.NullHandler()


@app.callback()
def options(
    context: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001  # its callback does the work
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of every command."""
    if context.invoked_subcommand in _PRINTS_TOOL_ERRORS:
        # Without a handler Python would print the traceback too. The root logger still gets the error.
        logging.getLogger("wesichain.tools").addHandler(_SILENT)


@app.command()
def bench(
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Exit status 1 if a limit is exceeded.")] = False,
) -> None:
    """Measure a run against a minimal hand-written loop. Needs a checkout of the repository."""
    if find_spec("bench") is None or find_spec("bench.speed") is None:
        fail("the benchmarks are in the project's repository: run 'wesichain bench' in a checkout of it")
    note("measuring, interleaved, in CPU time: about a minute")
    command = [sys.executable, "-m", "bench.speed", *(["--strict"] if strict else [])]
    done = subprocess.run(command, check=False)  # noqa: S603  # our own module
    raise typer.Exit(done.returncode)
