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

from . import asking, durable_runs, learning, playbooks, traces
from .api import api
from .drifting import drift
from .machine import doctor, models
from .mcp import mcp
from .serving import serve
from .simulating import simulate
from .tasks import eval_
from .terminal import fail, note

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
app.command("eval")(eval_)
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


class Bench(StrEnum):
    """The benchmarks: things that can be measured."""

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
    if what is Bench.LEARNING and find_spec("bench.desk") is None:
        fail("the experiment is in the project's repository: run it in a checkout")
    if what is Bench.LEARNING:
        takes = "a few minutes" if short else "about an hour; what is stopped goes on where it was"
        note(f"a local model learns its way around a desk: {takes}")
        place = ["--out", str(out)] if out else []
        command = ["bench.desk", *place, *(["--short"] if short else [])]
    else:
        note("measuring, interleaved, in CPU time: about a minute")
        command = ["bench.speed", *(["--strict"] if strict else [])]
    done = subprocess.run([sys.executable, "-m", *command], check=False)  # noqa: S603  # our own module
    raise typer.Exit(done.returncode)
