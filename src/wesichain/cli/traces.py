"""trace: list, show, replay, diff and export recordings."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from wesichain.agent import Agent, Completed, replay
from wesichain.core import home_folder, to_plain
from wesichain.errors import ReplayMismatchError, WesichainError
from wesichain.trace import ConsoleSink, Metrics, Recording, diff, find_run, list_runs, load

from .loading import chosen_model, load_agent, load_tools
from .terminal import FAILED, OK, fail, note, print_json, say, table, waiting

app = typer.Typer(no_args_is_help=True, help="Recordings: list, show, replay, diff, export.")
Run = Annotated[str, typer.Argument(help="A run's id, the beginning of it, or the path of its file.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON.")]


def folder() -> Path:
    return home_folder() / "runs"


def recording(run: str) -> Recording:
    """The recording that an id or a path stands for."""
    try:
        path = Path(run)
        return load(path if path.is_file() else find_run(folder(), run))
    except WesichainError as error:
        fail(error)


@app.command("list")
def list_(
    *,
    search: Annotated[str, typer.Option(help="Only runs that hold every one of these words.")] = "",
    limit: Annotated[int, typer.Option(min=1)] = 20,
    as_json: Json = False,
) -> None:
    """The newest runs."""
    found = list_runs(folder(), limit=limit, search=search)
    if as_json:
        print_json([_summary(item) for item in found])
        return
    if not found:
        note(f"no run has {search!r}" if search else f"no runs in {folder()}; 'wesichain ask' records one")
        return
    table(
        ("run", "started", "status", "steps", "tokens", "task"),
        (
            (
                item.run_id[:12],
                datetime.fromtimestamp(item.started_at, tz=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S"),
                item.status,
                "" if item.steps is None else item.steps,
                "" if item.usage is None else item.usage.total_tokens,
                " ".join(item.user_input[:60].split()),
            )
            for item in found
        ),
    )


def _summary(item: Any) -> dict[str, Any]:
    return {
        "run_id": item.run_id,
        "started_at": item.started_at,
        "status": item.status,
        "model": item.model,
        "steps": item.steps,
        "task": item.user_input,
        "result": item.result,
    }


@app.command()
def show(run: Run, *, as_json: Json = False) -> None:
    """One run, as it happened, and its figures."""
    found = recording(run)
    if as_json:
        print_json([to_plain(event) for event in found.events])
        return
    sink, metrics = ConsoleSink(), Metrics()
    for event in found.events:
        sink.emit(event)
        metrics.emit(event)
    say()
    say(metrics.table())


@app.command("replay")
def replay_(
    run: Run,
    *,
    agent: Annotated[
        str | None, typer.Option(help="The agent: file.py:agent. Else one of the options below.")
    ] = None,
    tools: Annotated[Path | None, typer.Option(help="The tools that the run had.")] = None,
    instructions: Annotated[str | None, typer.Option(help="The instructions that the run had.")] = None,
    from_step: Annotated[int | None, typer.Option("--from", min=1, help="Go on live from this step.")] = None,
    model: Annotated[str | None, typer.Option(help="The model that goes on, with --from.")] = None,
) -> None:
    """Run the agent again from the recording, offline, to the same events; or fork at a step."""
    found = recording(run)
    try:
        program = _program(agent, tools, instructions, found, model, live=from_step is not None)
        with waiting(f"replaying {len(found.events):,} events"):
            outcome = asyncio.run(replay(found, program, from_step))
            differences = [] if from_step is not None else diff(found, outcome.events)
    except ReplayMismatchError as error:
        hint = "; --tools or --agent says what it ran with" if found.tools and not (agent or tools) else ""
        fail(f"{error}{hint}", FAILED)
    except WesichainError as error:
        fail(error)
    if from_step is not None:
        sink = ConsoleSink()
        for event in outcome.events:
            if event.step_id >= from_step:
                sink.emit(event)
        raise typer.Exit(OK if isinstance(outcome, Completed) else FAILED)
    for difference in differences:
        say(str(difference))
    say(
        f"{len(outcome.events)} events replayed, "
        + ("all the same" if not differences else f"{len(differences)} differ")
    )
    raise typer.Exit(FAILED if differences else OK)


class _Nobody:
    """Stands for the model in a replay: it is never asked."""

    def __init__(self, model: str) -> None:
        self.model = model

    async def complete(self, request: Any) -> Any:
        del request
        raise ReplayMismatchError("the replay asked the model, which a recording should have answered")


def _program(
    agent: str | None,
    tools: Path | None,
    instructions: str | None,
    found: Recording,
    model: str | None,
    *,
    live: bool,
) -> Agent[Any]:
    if agent is not None:
        return load_agent(agent)
    chosen: Any = chosen_model(model) if live else _Nobody(found.model)
    return Agent(chosen, tools=load_tools(tools) if tools else [], instructions=instructions)


@app.command("diff")
def diff_(a: Run, b: Run) -> None:
    """Where two runs part."""
    ours, theirs = recording(a), recording(b)
    with waiting("comparing the runs"):
        differences = diff(ours, theirs)
    for difference in differences:
        say(str(difference))
    if not differences:
        say("the runs are the same")
    raise typer.Exit(FAILED if differences else OK)


@app.command()
def export(
    run: Run,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The HTML file to write; else the run's id names it."),
    ] = None,
) -> None:
    """One self-contained HTML file of a run."""
    from wesichain.web import export_html

    found = recording(run)
    html = export_html(found)
    output = output or Path(f"{re.sub('[^A-Za-z0-9_-]', '_', found.run_id)[:64]}.html")
    try:
        output.write_text(html, encoding="utf-8")
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}")
    say(f"{output}: {len(html.encode()):,} bytes")
