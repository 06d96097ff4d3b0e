"""runs and worker: durable runs served, and what their operator does: list, show, decide, cancel, prune."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wesichain.agent import Agent, Approve, ApproveWith, Decision, Provide, Refuse
from wesichain.core import home_folder, parse_json, to_plain
from wesichain.errors import CodecError, ConfigError, WesichainError
from wesichain.tools import CancellationToken
from wesichain.trace import Recorder

from .loading import load_object
from .terminal import CTRL_C, OK, fail, note, print_json, say, table

if TYPE_CHECKING:
    from wesichain.durable import DurableAgent, DurableGraph, DurableRuns, PendingDecision, RunSummary

app = typer.Typer(no_args_is_help=True, help="Durable runs: list, show, decide, cancel, resume, prune.")

Url = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="sqlite:///FILE or postgresql://...",
        show_default="durable.db in $WESICHAIN_HOME",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Run = Annotated[str, typer.Argument(help="The id of a run.")]
Token = Annotated[str, typer.Argument(help="The token of a waiting call, as 'runs show' prints it.")]


@app.command("list")
def list_runs(
    *,
    database_url: Url = None,
    status: Annotated[
        str | None, typer.Option(help="pending, running, completed, failed, interrupted or cancelled.")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Of one agent only.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
    as_json: Json = False,
) -> None:
    """The runs, the newest first."""
    found = _ask(database_url, lambda runs: runs.list(status, limit), agent=agent)
    if as_json:
        print_json([to_plain(summary) for summary in found])
        return
    table(("RUN", "AGENT", "STATUS", "VERSION", "SINCE", ""), [_row(summary) for summary in found])
    waiting = [run for run in found if _is_stuck(run)]
    if waiting:
        versions = ", ".join(sorted({f"{run.agent} {run.version}" for run in waiting}))
        note(f"no worker serves {versions}: start one, or one with --adopt")


@app.command()
def show(run: Run, *, database_url: Url = None, as_json: Json = False) -> None:
    """One run: where it stands, and what it waits for."""

    async def look(runs: DurableRuns) -> tuple[RunSummary, list[PendingDecision]]:
        summary = await runs.show(run)
        return summary, [] if summary.parent else await runs.pending(run)

    summary, pending = _ask(database_url, look)
    if as_json:
        print_json({**to_plain(summary), "pending": [to_plain(item) for item in pending]})
        return
    for name, value in (
        ("run", summary.run_id),
        ("agent", summary.agent),
        ("inside", summary.parent or ""),
        ("status", summary.status),
        ("version", summary.version + ("" if summary.served else " (no worker serves it)")),
        ("created", _when(summary.created_at)),
        ("updated", _when(summary.updated_at)),
        ("error", summary.error or ""),
    ):
        if value:
            say(f"{name:8} {value}")
    for item in pending:
        above = "".join(f"{agent} > " for agent in item.scope)
        say(f"waits    {above}{item.call.name} {to_plain(item.call)['args']}")
        answer, end = ("provide", " --value JSON") if item.external else ("approve", "")
        say(f"         wesichain runs {answer} {run} {item.token}{end}")


@app.command()
def approve(
    run: Run,
    token: Token,
    *,
    database_url: Url = None,
    args: Annotated[str | None, typer.Option(help="Other arguments for the call, as JSON.")] = None,
) -> None:
    """Let a waiting call run, as it is or with other arguments."""
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
    reason: Annotated[str, typer.Option(help="What the model is told.")] = "",
) -> None:
    """Keep a waiting call from running."""
    _decide(database_url, run, token, Refuse(reason) if reason else Refuse())


@app.command()
def provide(
    run: Run,
    token: Token,
    *,
    database_url: Url = None,
    value: Annotated[str | None, typer.Option(help="The result of the call, as JSON.")] = None,
    error: Annotated[str | None, typer.Option(help="Why the call has failed, for the model.")] = None,
) -> None:
    """Give the result of a call that is run elsewhere, or say that it has failed."""
    if (value is None) == (error is None):
        fail("say what came of the call: --value JSON, or --error TEXT")
    try:
        decision = Provide(error=error) if value is None else Provide(parse_json(value))
    except CodecError as wrong:
        fail(f"--value: {wrong}")
    _decide(database_url, run, token, decision)


@app.command()
def cancel(run: Run, *, database_url: Url = None) -> None:
    """Stop a run, whatever it is doing and wherever."""
    _ask(database_url, lambda runs: runs.cancel(run))
    note(f"{run} is cancelled; 'wesichain runs resume {run}' takes it up again")


@app.command()
def resume(run: Run, *, database_url: Url = None) -> None:
    """Queue a run that was cancelled, refused or given up, or interrupted and decided on."""
    state = _ask(database_url, lambda runs: runs.resume(run))
    note(f"{run} is {state}")


@app.command()
def prune(
    *,
    database_url: Url = None,
    older_than: Annotated[float, typer.Option(min=0, help="Seconds since a run ended.")],
    agent: Annotated[str | None, typer.Option(help="Of one agent only.")] = None,
) -> None:
    """Erase runs that ended long ago. Those that wait for a person stay."""
    number = _ask(database_url, lambda runs: runs.prune(older_than=older_than), agent=agent)
    note(f"{number} runs were erased")


def _decide(database_url: str | None, run: str, token: str, decision: Decision) -> None:
    async def decide(runs: DurableRuns) -> tuple[str, int]:
        await runs.approve(run, token, decision)
        return await runs.status(run), len(await runs.pending(run))

    state, left = _ask(database_url, decide)
    note(f"decided; {run} is {state}" + (f", {left} more calls wait" if left else ""))


def _ask(
    database_url: str | None,
    question: Callable[[DurableRuns], Coroutine[Any, Any, Any]],
    *,
    agent: str | None = None,
) -> Any:
    """Ask a database; what is wrong is one line."""

    async def ask() -> Any:
        from wesichain.durable import DurableRuns  # it takes a second to load: no other command pays for it

        async with DurableRuns(database_url, agent=agent) as runs:
            return await question(runs)

    try:
        return asyncio.run(ask())
    except ConfigError as error:
        fail(error)
    except WesichainError as error:
        fail(error)


def _row(summary: RunSummary) -> tuple[str, ...]:
    inside = f"inside {summary.parent}" if summary.parent else ""
    what = summary.error or ("no worker of its version" if _is_stuck(summary) else inside)
    when = _when(summary.updated_at)
    return summary.run_id, summary.agent, summary.status, summary.version, when, what[:120]


def _is_stuck(summary: RunSummary) -> bool:
    return summary.status == "pending" and not summary.served


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")


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
