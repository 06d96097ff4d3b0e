"""runs and worker: run durable agents, and manage their runs."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from wesichain.agent import Agent, Approve, ApproveWith, Decision, Provide, Refuse
from wesichain.core.internal import dump_json, home_folder, parse_json, to_plain
from wesichain.errors import CodecError
from wesichain.platform.terminal import ENDING_SIGNALS, handle_signal
from wesichain.tools import CancellationToken
from wesichain.trace import Recorder, redact
from wesichain.web.internal import AllRuns, Filter, RunStore

from .loading import open_target
from .options import AgentFilter, AgentName, Json, NoRecord, Url
from .terminal import CTRL_C, OK, echo, fail, note, print_json, table
from .traces import After, durable_of, folder, is_stuck, list_runs, moment

if TYPE_CHECKING:
    from wesichain.durable import DurableAgent, DurableGraph, DurableRuns, PendingDecision, RunSummary

app = typer.Typer(
    no_args_is_help=True, help="Durable runs: list, count, show, decide, cancel, resume, prune."
)

Run = Annotated[str, typer.Argument(help="The id of a run.")]
Token = Annotated[str, typer.Argument(help="The token of a waiting call, as 'runs show' prints it.")]


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
    found = _query(database_url, lambda runs: runs.stats(), agent=agent)
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
    """Show the state of a run, and its waiting calls."""

    async def read(runs: DurableRuns) -> tuple[RunSummary, list[PendingDecision]]:
        summary = await runs.show(run)
        return summary, [] if summary.parent else await runs.pending(run)

    summary, pending = _query(database_url, read)
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
    for item in pending:
        above = "".join(f"{agent} > " for agent in item.scope)
        echo(f"waits    {above}{item.call.name} {dump_json(redact(to_plain(item.call.args)))}")
        answer, end = ("provide", " --value JSON") if item.external else ("approve", "")
        echo(f"         wesichain runs {answer} {run} {item.token}{end}")


@app.command()
def approve(
    run: Run,
    token: Token,
    *,
    database_url: Url = None,
    args: Annotated[str | None, typer.Option(help="Other arguments for the call, as JSON.")] = None,
) -> None:
    """Approve a waiting call, unchanged or with other arguments."""
    decision: Decision = Approve()
    if args is not None:
        try:
            decision = ApproveWith(parse_json(args))
        except CodecError as error:
            fail(f"--args: {error}")
    _decide(database_url, run, token, decision)


@app.command()
def refuse(
    run: Run,
    token: Token,
    *,
    database_url: Url = None,
    reason: Annotated[str, typer.Option(help="The reason, for the model.")] = "",
) -> None:
    """Refuse a waiting call."""
    _decide(database_url, run, token, Refuse(reason) if reason else Refuse())


@app.command()
def provide(
    run: Run,
    token: Token,
    *,
    database_url: Url = None,
    value: Annotated[str | None, typer.Option(help="The result of the call, as JSON.")] = None,
    error: Annotated[str | None, typer.Option(help="The error of the call, for the model.")] = None,
) -> None:
    """Provide the result, or the error, of an external call."""
    if (value is None) == (error is None):
        fail("give the result of the call: --value JSON, or --error TEXT")
    try:
        decision = Provide(error=error) if value is None else Provide(parse_json(value))
    except CodecError as wrong:
        fail(f"--value: {wrong}")
    _decide(database_url, run, token, decision)


@app.command()
def cancel(run: Run, *, database_url: Url = None) -> None:
    """Cancel a run, in any state and on any machine."""
    _query(database_url, lambda runs: runs.cancel(run))
    note(f"{run} is cancelled; 'wesichain runs resume {run}' continues it")


@app.command()
def resume(run: Run, *, database_url: Url = None) -> None:
    """Queue a run again that was cancelled or has failed, or whose calls have been decided."""
    state = _query(database_url, lambda runs: runs.resume(run))
    note(f"{run} is {state}")


@app.command()
def prune(
    *,
    database_url: Url = None,
    older_than: Annotated[float, typer.Option(min=0, help="Seconds since a run ended.")],
    agent: AgentFilter = None,
) -> None:
    """Erase runs that ended long ago. Runs that wait for a decision stay."""
    number = _query(database_url, lambda runs: runs.prune(older_than=older_than), agent=agent)
    note(f"{number} runs were erased")


def _decide(database_url: str | None, run: str, token: str, decision: Decision) -> None:
    async def decide(runs: DurableRuns) -> tuple[str, int]:
        await runs.approve(run, token, decision)
        return await runs.status(run), len(await runs.pending(run))

    state, left = _query(database_url, decide)
    note(f"decided; {run} is {state}" + (f", {left} more calls wait" if left else ""))


def _query(
    database_url: str | None,
    question: Callable[[DurableRuns], Coroutine[Any, Any, Any]],
    *,
    agent: str | None = None,
) -> Any:
    """Open the database and run a query."""

    async def ask() -> Any:
        from wesichain.durable import DurableRuns  # it takes a second to load: no other command pays for it

        async with DurableRuns(database_url, agent=agent) as runs:
            return await question(runs)

    return asyncio.run(ask())


def worker(
    agent: AgentName,
    *,
    database_url: Url = None,
    name: Annotated[str | None, typer.Option(help="The name of the runs; by default the agent's.")] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="How many runs at once; by default the object's setting, or 10.")
    ] = None,
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
    raise typer.Exit(asyncio.run(_serve(agent, settings, recorders, grace=grace)))


@asynccontextmanager
async def open_durable(target: str) -> AsyncGenerator[DurableAgent[Any] | DurableGraph[Any]]:
    """Open the durable agent or graph that a target names or makes, with its own settings.

    A plain agent becomes a durable one with the default settings.
    """
    from wesichain.durable import DurableAgent, DurableGraph  # slow to load: no other command pays for it

    async with open_target(target, Agent, DurableAgent, DurableGraph) as found:
        durable: DurableAgent[Any] | DurableGraph[Any] = found
        if isinstance(found, Agent):
            durable = DurableAgent(cast("Any", found))
        yield durable


async def _serve(
    target: str, settings: Mapping[str, Any], recorders: Sequence[Recorder], *, grace: float
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
