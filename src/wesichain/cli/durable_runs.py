"""runs and worker: run durable agents, and manage their runs."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from wesichain.agent import Agent, Interrupted
from wesichain.core.internal import PendingCall, dump_json, home_folder, to_plain
from wesichain.platform.terminal import ENDING_SIGNALS, handle_signal
from wesichain.tools import CancellationToken
from wesichain.trace import Recorder, redact
from wesichain.web.internal import AllRuns, Filter, RunStore

from .decisions import Run, approvals, approve, deciding_words, provide, query, refuse
from .options import AgentFilter, AgentName, Deps, Json, NoRecord, Url, database_words
from .target import Target
from .terminal import CTRL_C, OK, command, echo, fail, note, print_command, print_json, table
from .traces import After, durable_of, folder, is_stuck, list_runs, moment

if TYPE_CHECKING:
    from wesichain.durable import DurableAgent, DurableGraph, DurableRuns, PendingDecision, RunSummary

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Durable runs: list, count, show, decide, cancel, prune."
)


@app.command("list")
def list_(
    *,
    database_url: Url = None,
    status: Annotated[
        str | None,
        typer.Option(
            help="pending, running, completed, failed, interrupted or cancelled; with --runs also live or "
            "unfinished."
        ),
    ] = None,
    agent: AgentFilter = None,
    search: Annotated[str, typer.Option(help="Words in the task, the answer, the agent or the id.")] = "",
    tool: Annotated[str, typer.Option(help="Only runs that have called this tool.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of runs.")] = 100,
    after: After = None,
    runs: Annotated[
        Path | None, typer.Option("--runs", help="Also list the recordings of this folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List runs, the newest first."""
    from wesichain.durable import DurableRuns  # it takes a second to load: no other command pays for it

    if status is not None and status not in Filter.STATUSES:
        fail(f"--status {status!r}: use one of {', '.join(Filter.STATUSES)}")
    durable = DurableRuns(database_url, agent=agent)
    store = RunStore(home_folder() / "no recordings" if runs is None else folder(runs))
    wanted = Filter(search, status or "", tool)
    found = list_runs(AllRuns(store, durable), wanted, limit, after, as_json=as_json)
    versions = ", ".join(sorted({f"{run.agent} {run.version}" for run in durable_of(found) if is_stuck(run)}))
    if versions and not as_json:
        note(f"no worker serves {versions}: start one, or one with --adopt")


@app.command()
def stats(*, database_url: Url = None, agent: AgentFilter = None, as_json: Json = False) -> None:
    """Show the length of each queue and the number of its live workers, for people and autoscalers."""
    found = query(database_url, lambda runs: runs.stats(), agent=agent)
    if as_json:
        print_json([to_plain(one) for one in found])
        return
    rows = [
        (one.queue, one.queued, one.running, one.waiting, f"{one.oldest_queued_seconds:.0f}", one.workers)
        for one in found
    ]
    table(("QUEUE", "QUEUED", "RUNNING", "WAITING", "OLDEST QUEUED (S)", "WORKERS"), rows)


@app.command()
def show(run: Run, *, database_url: Url = None, as_json: Json = False) -> None:
    """Show the state of a run, and its waiting calls with the commands that decide on them."""
    folder = approvals()
    if folder.has(run):
        _show_waiting(folder.outcome(run), as_json=as_json)
        return

    async def read(runs: DurableRuns) -> tuple[RunSummary, list[PendingDecision]]:
        summary = await runs.show(run)
        return summary, [] if summary.parent else await runs.pending(run)

    summary, pending = query(database_url, read)
    if as_json:
        print_json({**to_plain(summary), "pending": [to_plain(item) for item in pending]})
        return
    for name, value in (
        ("run", summary.run_id),
        ("agent", summary.agent),
        ("inside", summary.parent or ""),
        ("task", summary.task),
        ("status", summary.status),
        ("version", summary.version + ("" if summary.served else " (no worker serves it)")),
        ("created", moment(summary.created_at)),
        ("updated", moment(summary.updated_at)),
        ("tokens", summary.tokens or ""),
        ("cost", "" if summary.cost is None else f"{summary.cost:.4f}"),
        ("error", summary.error or ""),
    ):
        if value:
            echo(f"{name:8} {value}")
    _show_pending(run, pending, database_url)


def _show_waiting(outcome: Interrupted[Any], *, as_json: bool) -> None:
    """Show a run of this user that waits in the folder of approvals."""
    shown = {"run_id": outcome.run_id, "task": outcome.user_input, "status": "interrupted"}
    if as_json:
        print_json({**shown, "pending": [to_plain(item) for item in outcome.pending]})
        return
    for name, value in shown.items():
        echo(f"{name.removesuffix('_id'):8} {value}")
    _show_pending(outcome.run_id, outcome.pending, None)
    echo(f"then     {command('resume', outcome.run_id)}")


def _show_pending(
    run: str, pending: Iterable[PendingCall | PendingDecision], database_url: str | None
) -> None:
    for item in pending:
        above = "".join(f"{agent} > " for agent in item.scope)
        echo(f"waits    {above}{item.call.name} {dump_json(redact(to_plain(item.call.args)))}")
        echo(f"         {command(*deciding_words(run, item, database_url))}")


app.command()(approve)
app.command()(refuse)
app.command()(provide)


@app.command()
def cancel(run: Run, *, database_url: Url = None) -> None:
    """Cancel a run, in any state and on any machine."""
    query(database_url, lambda runs: runs.cancel(run))
    url = database_words(database_url) or database_words(f"sqlite:///{home_folder() / 'durable.db'}")
    print_command(f"{run} is cancelled; continue it", "resume", run, *url)


@app.command()
def prune(
    *,
    database_url: Url = None,
    older_than: Annotated[float, typer.Option(min=0, help="Seconds since a run ended.")],
    agent: AgentFilter = None,
) -> None:
    """Erase runs that ended long ago. Runs that wait for a decision stay."""
    number = query(database_url, lambda runs: runs.prune(older_than=older_than), agent=agent)
    note(f"{number} runs were erased")


def worker(
    agent: AgentName,
    *,
    database_url: Url = None,
    name: Annotated[str | None, typer.Option(help="The name of the runs; by default the agent's.")] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="How many runs at once; by default the object's setting, or 10.")
    ] = None,
    deps: Deps = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Also continue runs of other versions of the program.")
    ] = False,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds that runs have to end when the worker stops.")
    ] = 30.0,
    no_record: NoRecord = False,
) -> None:
    """Run the queue of an agent, and continue the runs of dead workers. Ctrl-C or SIGTERM ends it."""
    settings = {
        "name": name,
        "database_url": database_url,
        "concurrency": concurrency,
        "on_change": "adopt" if adopt else None,
    }
    recorders = [] if no_record else [Recorder(home_folder() / "runs")]
    raise typer.Exit(asyncio.run(_serve(Target.of(agent, deps=deps), settings, recorders, grace=grace)))


@asynccontextmanager
async def open_durable(target: Target) -> AsyncGenerator[DurableAgent[Any] | DurableGraph[Any]]:
    """Open the durable agent or graph that a target names or makes, with its own settings.

    A plain agent becomes a durable one with the default settings.
    """
    from wesichain.durable import DurableAgent, DurableGraph  # slow to load: no other command pays for it

    async with target.open((Agent, DurableAgent, DurableGraph)) as found:
        durable: DurableAgent[Any] | DurableGraph[Any] = found
        if isinstance(found, Agent):
            deps = None if target.deps is None else target.open_deps
            durable = DurableAgent(cast("Any", found), deps=deps)
        yield durable


async def _serve(
    target: Target, settings: Mapping[str, Any], recorders: Sequence[Recorder], *, grace: float
) -> int:
    async with open_durable(target) as found:
        durable = found.configured(**settings, events=recorders)
        with _handling_signals(grace) as end:
            where = durable.database_url  # `note` leaves its password out
            note(f"serving {durable.name!r} {durable.version} from {where}; Ctrl-C ends it")
            serving = asyncio.ensure_future(durable.serve(end.stop, grace=grace))
            await asyncio.wait(
                (serving, asyncio.ensure_future(end.hurry.wait())), return_when=FIRST_COMPLETED
            )
            if not serving.done():
                serving.cancel()
                with suppress(asyncio.CancelledError):
                    await serving
            else:
                serving.result()
            return end.status


class _Shutdown:
    """Handles the signals to end: the first stops the worker, the second stops its runs, the third exits."""

    def __init__(self, grace: float) -> None:
        self.stop, self.hurry = CancellationToken(), CancellationToken()
        self.status = OK
        self._grace = grace

    def signal(self, number: int) -> None:
        if self.hurry.cancelled:
            os._exit(CTRL_C)  # other workers take its runs over when its lease expires
        self.status = CTRL_C if number == signal.SIGINT else OK
        if self.stop.cancelled:
            note("not waiting any longer: other workers continue the runs")
            self.hurry.cancel("the worker was stopped twice")
            return
        note(f"stopping: runs have {self._grace:g} s to end; other workers continue the rest")
        self.stop.cancel("the worker was stopped")


@contextmanager
def _handling_signals(grace: float) -> Generator[_Shutdown]:
    """Handle signals during the block, and ignore them afterwards, while Python exits."""
    end = _Shutdown(grace)
    restore = [handle_signal(number, partial(end.signal, number)) for number in ENDING_SIGNALS]
    try:
        yield end
    finally:
        for each in restore:
            each()
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
