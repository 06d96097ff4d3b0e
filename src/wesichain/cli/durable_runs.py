"""runs: what the operator of durable runs does: list, show, decide, cancel, resume, prune."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wesichain.agent import Approve, ApproveWith, Decision, Provide, Refuse
from wesichain.core import parse_json, to_plain
from wesichain.errors import CodecError, ConfigError, WesichainError

from .terminal import fail, note, print_json, say, table

if TYPE_CHECKING:
    from wesichain.durable import DurableRuns, PendingDecision, RunSummary

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
