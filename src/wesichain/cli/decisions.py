"""approve, refuse, provide and resume: decide on the calls of a run that waits, and continue it."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wesichain.agent import Approve, ApproveWith, Decision, Interrupted, Outcome, Provide, Refuse
from wesichain.agent.internal import check_decision
from wesichain.core.internal import PendingCall, home_folder, parse_json
from wesichain.errors import CodecError, ConfigError
from wesichain.web import ApprovalFolder

from .options import AgentOption, Database, Events, Quiet, Url, database_words
from .target import StoredTarget, Target
from .terminal import CTRL_C, INTERRUPTED, ask_for_decisions, fail, is_interactive, note, print_command
from .terminal_run import CtrlC, DisplayOptions, Opened, perform, resumed

if TYPE_CHECKING:
    from wesichain.durable import DurableRuns, PendingDecision

Run = Annotated[str, typer.Argument(help="The id of a run.")]
Token = Annotated[str, typer.Argument(help="The token of a waiting call, as 'runs show' prints it.")]


def approvals() -> ApprovalFolder:
    """The runs of this user that wait in the folder of approvals."""
    return ApprovalFolder(home_folder() / "approvals")


def deciding_words(
    run: str, item: PendingCall | PendingDecision, database_url: str | None
) -> tuple[str, ...]:
    """The words of the command that decides on a call."""
    verb, end = ("provide", ("--value", "-")) if item.external else ("approve", ())
    return ("runs", verb, run, item.token, *end, *database_words(database_url))


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


def refuse(
    run: Run,
    token: Token,
    *,
    database_url: Url = None,
    reason: Annotated[str, typer.Option(help="The reason, for the model.")] = "",
) -> None:
    """Refuse a waiting call."""
    _decide(database_url, run, token, Refuse(reason) if reason else Refuse())


def provide(
    run: Run,
    token: Token,
    *,
    database_url: Url = None,
    value: Annotated[
        str | None, typer.Option(help="The result of the call, as JSON; '-' reads it from standard input.")
    ] = None,
    error: Annotated[str | None, typer.Option(help="The error of the call, for the model.")] = None,
) -> None:
    """Provide the result, or the error, of an external call."""
    if (value is None) == (error is None):
        fail("give the result of the call: --value JSON, or --error TEXT")
    text = sys.stdin.read() if value == "-" else value
    try:
        decision = Provide(error=error) if text is None else Provide(parse_json(text))
    except CodecError as wrong:
        fail(f"--value: {wrong}")
    _decide(database_url, run, token, decision)


def _decide(database_url: str | None, run: str, token: str, decision: Decision) -> None:
    folder = approvals()
    if folder.has(run):
        folder.decide(token, decision)
        if waiting := _waiting(folder, run):
            note(f"decided; {len(waiting)} more calls wait")
            _print_deciding(run, waiting)
        else:
            print_command("decided; continue", "resume", run)
        return

    async def decide(runs: DurableRuns) -> tuple[str, int]:
        await runs.approve(run, token, decision)
        return await runs.status(run), len(await runs.pending(run))

    state, left = query(database_url, decide)
    note(f"decided; {run} is {state}" + (f", {left} more calls wait" if left else ""))


def query(
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


def resume(
    run: Run,
    *,
    agent: AgentOption = None,
    database_url: Database = None,
    as_json: Events = False,
    quiet: Quiet = False,
) -> None:
    """Continue a run that waits: with the agent that began it, after you have decided on its calls.

    Without a terminal it prints the commands that decide, and changes nothing (exit status 3). A durable run
    that was cancelled or has failed, or whose calls have been decided, is queued again for its worker.
    """
    folder = approvals()
    if folder.has(run):
        raise typer.Exit(_resume(folder, run, agent, as_json=as_json, quiet=quiet))
    if database_url is None and not (home_folder() / "durable.db").exists():
        fail(f"no run {run!r} waits here; a durable run needs its --database-url")
    note(f"{run} is {query(database_url, lambda runs: runs.resume(run))}")


def _resume(folder: ApprovalFolder, run: str, agent: str | None, *, as_json: bool, quiet: bool) -> int:
    waiting = _waiting(folder, run)
    if waiting and not is_interactive():
        note("nothing was changed: " + ", ".join(item.call.name for item in waiting) + " is not decided yet")
        _print_deciding(run, waiting)
        return INTERRUPTED
    stored = _stored(folder, run, agent)
    target = stored.target
    if agent is None:  # as it was begun; the folder of approvals stays where it is
        os.environ["WESICHAIN_HOME"] = str(home_folder().absolute())
        os.chdir(target.folder)
    runs = None if target.runs is None else Path(target.runs)
    shown = DisplayOptions(as_json, quiet, target.record, runs)
    return asyncio.run(_continue(folder, run, waiting, stored, shown))


async def _continue(
    folder: ApprovalFolder,
    run: str,
    waiting: list[PendingCall],
    stored: StoredTarget,
    shown: DisplayOptions,
) -> int:
    async with stored.target.open() as agent:
        stored.check(agent)
        with CtrlC() as ctrl_c:
            taken = await ask_for_decisions(waiting, ctrl_c.token)
            if taken is None:  # the run keeps waiting
                return CTRL_C if ctrl_c.is_pressed else INTERRUPTED
        decisions = {**folder.decisions(run), **taken}
        _check(folder.outcome(run), decisions, agent)
        memory = stored.target.memory()

        async def start(agent: Any, shared: dict[str, Any]) -> Outcome[Any]:
            return await resumed(agent, folder.claim(run, decisions), decisions, memory, shared)

        return await perform(Opened(agent, stored.target), start, shown, memory)


def _stored(folder: ApprovalFolder, run: str, agent: str | None) -> StoredTarget:
    text = folder.program(run)
    if agent is not None:
        info = folder.outcome(run).info
        return StoredTarget(Target.of(agent), info.opened_by or info.agent, ())
    if text is None:
        raise ConfigError(
            f"the run {run!r} was begun by a program of yours: continue it there with agent.resume(), or "
            f"name its agent with --agent file.py:NAME"
        )
    return StoredTarget.read(text)


def _check(outcome: Interrupted[Any], decisions: Mapping[str, Decision], agent: Any) -> None:
    """Raise for a decision that cannot be applied, before the run is taken out of the folder."""
    for item in outcome.pending:
        if item.token in decisions:
            refusal_of = agent.runtime.refusal_of
            check_decision(
                item, decisions[item.token], refusal_of, now=time.time(), remedy="run the task again"
            )


def _waiting(folder: ApprovalFolder, run: str) -> list[PendingCall]:
    return [item.pending for item in folder.pending() if item.run_id == run]


def _print_deciding(run: str, waiting: list[PendingCall]) -> None:
    for item in waiting:
        print_command(f"decide on {item.call.name}", *deciding_words(run, item, None))
    print_command("then", "resume", run)
