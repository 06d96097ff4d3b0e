"""Running: one task through an agent at the terminal, with its recording, its approvals and its end."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, TypeAlias

import typer
from typing_extensions import override

from wesichain.agent import (
    Agent,
    Approve,
    ApproveWith,
    Completed,
    Decision,
    Failed,
    Interrupted,
    Outcome,
    Refuse,
)
from wesichain.core import (
    Event,
    EventSink,
    PendingCall,
    StepStarted,
    ToolDispatched,
    dump_json,
    home_folder,
    parse_json,
    to_json,
    to_plain,
)
from wesichain.errors import CodecError, WesichainError
from wesichain.tools import CancellationToken
from wesichain.trace import ConsoleSink, Recorder, redact
from wesichain.web import ApprovalFolder

from .terminal import CTRL_C, FAILED, INTERRUPTED, OK, Waiting, fail, is_interactive, note, tell

# An agent, or how it is made inside the loop that it runs in: what it needs there is put on the stack.
Program: TypeAlias = Agent[Any] | Callable[[AsyncExitStack], Awaitable[Agent[Any]]]


class Printer(EventSink):
    """Every event as a line of JSON, for machines, as long as one reads them."""

    @override
    def emit(self, event: Event) -> None:
        with suppress(BrokenPipeError):
            print(to_json(event), flush=True)


class Watched(EventSink):
    """The run as it happens, for a person; while nothing happens, what it waits for."""

    def __init__(self) -> None:
        self._console = ConsoleSink()
        self._waiting = Waiting()

    @override
    def emit(self, event: Event) -> None:
        self._waiting.end()
        self._console.emit(event)
        match event:
            case StepStarted():
                self._waiting.begin("waiting for the model")
            case ToolDispatched(call=call):
                self._waiting.begin(f"running {call.name}")
            case _:
                pass


def sinks(*, as_json: bool, record: bool) -> list[EventSink]:
    """Where the events of a run go: the terminal or a pipe, and a recording."""
    shown: EventSink = Printer() if as_json else Watched()
    return [shown, Recorder(home_folder() / "runs")] if record else [shown]


def carry_out(agent: Program, task: str, *, as_json: bool, record: bool, **options: Any) -> int:
    """Run a task and return the status that the command ends with."""
    return _carry(agent, task, None, as_json=as_json, record=record, options=options)


def carry_on(agent: Program, run_id: str, *, as_json: bool, record: bool) -> int:
    """Go on with an interrupted run, with the decisions that were taken for it meanwhile."""
    folder = ApprovalFolder(home_folder() / "approvals")
    try:
        decisions = dict(folder.decisions(run_id))
        waiting = [item.pending for item in folder.pending() if item.run_id == run_id]
        if waiting and is_interactive():
            decisions |= ask_person(waiting)
        elif waiting:
            names = ", ".join(item.call.name for item in waiting)
            fail(f"no decision yet on {names}; decide in 'wesichain serve' or at a terminal", INTERRUPTED)
        interrupted = folder.take(run_id)
    except WesichainError as error:
        fail(error)
    return _carry(agent, interrupted, decisions, as_json=as_json, record=record, options={})


def _carry(
    program: Program,
    task: str | Interrupted[Any],
    decisions: Mapping[str, Decision] | None,
    *,
    as_json: bool,
    record: bool,
    options: dict[str, Any],
) -> int:
    events = sinks(as_json=as_json, record=record)
    try:
        run = partial(_run, task, decisions, events, as_json=as_json, options=options)
        outcome, pressed = asyncio.run(_made(program, run))
    except WesichainError as error:
        fail(error)
    finally:
        for sink in events:
            if isinstance(sink, Recorder):
                sink.close()
    return _end(outcome, pressed=pressed, record=record)


async def _made(
    program: Program, run: Callable[[Agent[Any]], Awaitable[tuple[Outcome[Any], bool]]]
) -> tuple[Outcome[Any], bool]:
    async with AsyncExitStack() as stack:
        return await run(await program(stack) if callable(program) else program)


async def _run(
    task: str | Interrupted[Any],
    decisions: Mapping[str, Decision] | None,
    events: list[EventSink],
    agent: Agent[Any],
    *,
    as_json: bool,
    options: dict[str, Any],
) -> tuple[Outcome[Any], bool]:
    """Run, asking for approvals as long as there is a person; Ctrl-C cancels the run, and is remembered."""
    token = CancellationToken()
    pressed = False

    def on_interrupt() -> None:
        nonlocal pressed
        pressed = True
        token.cancel("Ctrl-C")

    if sys.platform != "win32":  # there Ctrl-C ends the program at once
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, on_interrupt)
    shared: dict[str, Any] = {"cancellation": token, "events": events, "stream": not as_json}
    if isinstance(task, Interrupted):
        outcome = await agent.runtime.resume(task, decisions, **shared)
    else:
        outcome = await agent.outcome(task, **shared, **options)
    while isinstance(outcome, Interrupted) and outcome.pending and is_interactive() and not pressed:
        outcome = await agent.runtime.resume(outcome, ask_person(outcome.pending), **shared)
    return outcome, pressed


def ask_person(pending: tuple[PendingCall, ...] | list[PendingCall]) -> dict[str, Decision]:
    """Show each waiting call and take a decision on it."""
    decisions: dict[str, Decision] = {}
    for item in pending:
        args = to_plain(item.call.args)
        tell("[yellow]approval needed:[/yellow] {}", f"{item.call.name} {dump_json(redact(args))}")
        if redact(args) != args:
            note("secrets in the arguments are hidden here; the call has them")
        answer = typer.prompt("approve? [y]es, [n]o, or other arguments as JSON", default="n", err=True)
        decisions[item.token] = _decision(str(answer).strip())
    return decisions


def _decision(answer: str) -> Decision:
    if answer.lower() in ("y", "yes"):
        return Approve()
    if answer.startswith("{"):
        try:
            return ApproveWith(parse_json(answer))
        except CodecError as error:
            note(f"not taken as arguments ({error}): refused")
    return Refuse("" if answer.lower() in ("n", "no", "") else answer)


def _end(outcome: Outcome[Any], *, pressed: bool, record: bool) -> int:
    match outcome:
        case Completed():
            return OK
        case Failed(error=error):
            tell("[red]failed:[/red] {}", str(error))
            if record:
                note(f"the run is recorded: wesichain trace show {outcome.run_id[:12]}")
            return FAILED
        case Interrupted(reason=reason):
            if pressed:
                note("cancelled; what happened until then is recorded" if record else "cancelled")
                return CTRL_C
            note(f"interrupted: {reason}")
            if outcome.pending:
                ApprovalFolder(home_folder() / "approvals").put(outcome)
                note(f"decide in 'wesichain serve', or go on with: wesichain ask --resume {outcome.run_id}")
            return INTERRUPTED
