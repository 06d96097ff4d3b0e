"""trace: list, show, replay, diff and export recordings."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wesichain.agent import Agent, Outcome, replay
from wesichain.core import to_json
from wesichain.core.internal import home_folder, to_plain
from wesichain.errors import ReplayMismatchError
from wesichain.evals import case_of
from wesichain.platform.files import replace
from wesichain.policy import cost_of_events, find_cost
from wesichain.testing import ScriptedLlm
from wesichain.trace import (
    ConsoleSink,
    Metrics,
    Recorder,
    Recording,
    RunSummary,
    diff,
    find_run,
    load,
    parts_folder,
)
from wesichain.web import export_html
from wesichain.web.internal import AllRuns, Filter, RunStore

from .loading import load_tools
from .options import Database, Instructions, Json, NoRecord, Runs, Tools
from .target import Target
from .terminal import FAILED, OK, echo, fail, note, print_json, table, waiting
from .terminal_run import DisplayOptions, Program, fork_run, open_program

if TYPE_CHECKING:
    from wesichain.durable import DurableRuns
    from wesichain.durable import RunSummary as DurableRun

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Recordings: list, show, replay, diff, export."
)
Run = Annotated[str, typer.Argument(help="A run's id, the beginning of it, or the path of its file.")]
After = Annotated[str | None, typer.Option(metavar="RUN", help="The last run of the previous page.")]


def folder(runs: Path | None) -> Path:
    """The folder of recordings: the option, which must exist, or the default."""
    if runs is not None and not runs.is_dir():
        fail(f"--runs {runs}: there is no such folder")
    return runs or home_folder() / "runs"


def recording(run: str, runs: Path | None, database_url: str | None = None) -> Recording:
    """Load a recording by its path or by the id of its run."""
    if database_url is not None:
        return asyncio.run(_recorded(open_database(database_url), run))
    path = Path(run)
    return load(path if path.is_file() else find_run(folder(runs), run))


@app.command("list")
def list_(
    *,
    search: Annotated[str, typer.Option(help="Only runs that contain all of these words.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of runs.")] = 20,
    after: After = None,
    runs: Runs = None,
    database_url: Database = None,
    as_json: Json = False,
) -> None:
    """The newest runs."""
    where = folder(runs)
    durable = None if database_url is None else open_database(database_url)
    found = list_runs(AllRuns(RunStore(where), durable), Filter(search), limit, after, as_json=as_json)
    if not (found or as_json):
        note(
            f"no run has {search!r}"
            if search
            else f"no runs in {where}; 'wesichain ask --help' says how to record one"
        )


def list_runs(
    runs: AllRuns, wanted: Filter, limit: int, after: str | None, *, as_json: bool
) -> list[RunSummary | DurableRun]:
    """Print a page of recorded and durable runs, the newest first."""

    async def listed() -> tuple[list[RunSummary | DurableRun], str | None]:
        try:
            return await runs.list(wanted, limit=limit, after=after)
        finally:
            if runs.database is not None:
                await runs.database.close()

    found, following = asyncio.run(listed())
    if as_json:
        print_json([_plain(run, runs.store) for run in found])
    elif found:
        table(
            ("RUN", "AGENT", "STATUS", "SINCE", "STEPS", "TOKENS", "COST", "TASK"),
            [_row(run, runs.store) for run in found],
        )
        if following is not None:
            note(f"more follow: --after {following}")
    return found


def _plain(run: RunSummary | DurableRun, store: RunStore) -> dict[str, Any]:
    if not isinstance(run, RunSummary):
        return {**to_plain(run)}
    return {
        "run_id": run.run_id,
        "started_at": run.started_at,
        "status": store.status(run),
        "agent": run.agent,
        "model": run.model,
        "steps": run.steps,
        "task": run.user_input,
        "result": run.result,
        "tokens": None if run.usage is None else run.usage.total_tokens,
        "cost": None if run.usage is None else find_cost(run.usage, run.model),
    }


def _row(run: RunSummary | DurableRun, store: RunStore) -> tuple[object, ...]:
    plain = _plain(run, store)
    durable = None if isinstance(run, RunSummary) else run
    what, when = "", moment(run.started_at if isinstance(run, RunSummary) else run.updated_at)
    if durable is not None:
        inside = f"inside {durable.parent}" if durable.parent else ""
        what = durable.error or ("no worker of its version" if is_stuck(durable) else inside)
    task = "\n".join(filter(None, (what[:120], " ".join(str(plain["task"])[:60].split()))))
    figures = ("" if plain[name] is None else plain[name] for name in ("steps", "tokens"))
    cost = "" if plain["cost"] is None else f"{plain['cost']:.4f}"
    # Commands take the whole id of a durable run, and the beginning of a recording's.
    name = run.run_id[:12] if durable is None else run.run_id
    return name, plain["agent"], plain["status"], when[:16], *figures, cost, task


def durable_of(runs: Sequence[RunSummary | DurableRun]) -> list[DurableRun]:
    """The durable runs in a list of runs."""
    return [run for run in runs if not isinstance(run, RunSummary)]


def is_stuck(run: DurableRun) -> bool:
    """Whether a durable run is pending and no worker serves its version."""
    return run.status == "pending" and not run.served


def moment(seconds: float) -> str:
    """Format a time in the local time zone."""
    return datetime.fromtimestamp(seconds, tz=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


@app.command()
def show(run: Run, *, runs: Runs = None, database_url: Database = None, as_json: Json = False) -> None:
    """Show the events and metrics of a run."""
    found = recording(run, runs, database_url)
    if as_json:
        print_json([to_plain(event) for event in found.events])
        return
    sink, metrics = ConsoleSink(), Metrics()
    for event in found.events:
        sink.emit(event)
        metrics.emit(event)
    echo()
    echo(metrics.table())
    if cost := cost_of_events(found.events):
        echo(f"cost: {cost:.6f} dollars")


@app.command("replay")
def replay_(
    run: Run,
    *,
    agent: Annotated[
        str | None, typer.Option(help="The agent, file.py:agent; else the options below make one.")
    ] = None,
    tools: Tools = None,
    instructions: Instructions = None,
    from_step: Annotated[
        int | None, typer.Option("--from", min=1, help="Continue live from this step.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="With --from: the model that continues.")] = None,
    runs: Runs = None,
    no_record: NoRecord = False,
) -> None:
    """Replay a run offline and check that the agent does the same, or fork it at a step.

    Exit status 1: the agent differs from the recording. The first difference is printed.
    """
    found = recording(run, runs)
    try:
        program = _program(agent, tools, instructions, found, model, live=from_step is not None)
        if from_step is not None:
            raise typer.Exit(
                fork_run(found, program, from_step, DisplayOptions(record=not no_record, runs=runs))
            )
        with waiting(f"replaying {len(found.events):,} events"):
            outcome = asyncio.run(_replayed(found, program))
    except ReplayMismatchError as error:
        hint = "; give its tools by --tools or --agent" if found.tools and not (agent or tools) else ""
        fail(f"{error}{hint}", FAILED)
    echo(f"{len(outcome.events)} events replayed, all the same")


async def _replayed(found: Recording, program: Program) -> Outcome[Any]:
    async with open_program(program) as opened:
        return await replay(found, opened.agent)


def _program(
    agent: str | None,
    tools: Path | None,
    instructions: str | None,
    found: Recording,
    model: str | None,
    *,
    live: bool,
) -> Program:
    if agent is not None or live:
        return Target.of(agent, model=model, tools=tools, instructions=instructions)
    not_called = ScriptedLlm((), model=found.model)
    return Agent(not_called, tools=load_tools(tools) if tools else [], instructions=instructions)


@app.command("diff")
def diff_(a: Run, b: Run, *, runs: Runs = None) -> None:
    """Show where two runs differ."""
    ours, theirs = recording(a, runs), recording(b, runs)
    with waiting("comparing the runs"):
        differences = diff(ours, theirs)
    for difference in differences:
        echo(str(difference))
    if not differences:
        echo("the runs are the same")
    raise typer.Exit(FAILED if differences else OK)


@app.command()
def export(
    run: Run,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="FILE.html, or FILE.jsonl for a recording.", show_default="RUN.html"
        ),
    ] = None,
    runs: Runs = None,
    database_url: Database = None,
) -> None:
    """Write a run as one HTML file with its images, or its recording with a folder of its parts."""
    found = recording(run, runs, database_url)
    output = output or Path(f"{re.sub('[^A-Za-z0-9_-]', '_', found.run_id)[:64]}.html")
    try:
        if output.suffix == ".jsonl":
            _write_recording(found, output)
        else:
            output.write_text(export_html(found), encoding="utf-8", newline="\n")
        size = output.stat().st_size
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}")
    echo(f"{output}: {size:,} bytes")


def _write_recording(found: Recording, output: Path) -> None:
    """Write a recording to a file, and the bytes of its parts to `FILE.parts/`."""
    with TemporaryDirectory(dir=output.parent) as draft:
        with Recorder(draft, max_bytes=sys.maxsize, deltas=True) as recorder:
            for event in found.events:
                recorder.emit(event)
        path = find_run(draft, found.run_id)
        if (parts := parts_folder(path)).is_dir():
            shutil.copytree(parts, parts_folder(output), dirs_exist_ok=True)
        replace(path, output)


@app.command()
def cases(
    run: Annotated[list[str], typer.Argument(help="Ids of completed runs, or their files.")],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file to append to.", show_default="standard output"),
    ] = None,
    runs: Runs = None,
    database_url: Database = None,
) -> None:
    """Make cases for evaluations from good runs: task, answer and tools, to be reviewed."""
    lines = [f"{to_json(case_of(recording(name, runs, database_url)))}\n" for name in run]
    if output is None:
        echo("".join(lines).rstrip())
        return
    try:
        with output.open("a", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}")
    echo(f"{output}: {len(lines)} cases")


def open_database(url: str) -> DurableRuns:
    """The durable runs of all agents in a database."""
    from wesichain.durable import DurableRuns

    return DurableRuns(url)


async def _recorded(database: DurableRuns, run_id: str) -> Recording:
    """The events of a durable run so far, as a recording."""
    async with database:
        return Recording(run_id, tuple([event async for event in database.events(run_id, wait=False)]))
