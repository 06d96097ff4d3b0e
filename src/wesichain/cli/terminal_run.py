"""Runs at the terminal: one task, with its output, its recording, its approvals and its exit status."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from typing_extensions import override

from wesichain.agent import Agent, Completed, Decision, Failed, Interrupted, Outcome, RunMemory
from wesichain.core import Event, EventSink, RunCompleted, StepStarted, TextDelta, ToolDispatched, to_json
from wesichain.core.internal import Value, home_folder, replace, text_of
from wesichain.errors import RunFailedError, RunInterruptedError
from wesichain.tools import CancellationToken
from wesichain.trace import ConsoleSink, Recorder, Recording
from wesichain.web import ApprovalFolder, fork

from .terminal import (
    CTRL_C,
    FAILED,
    INTERRUPTED,
    OK,
    WaitingLine,
    ask_for_decisions,
    is_interactive,
    note,
    on_ctrl_c,
    print_line,
    write,
)

_PIECE = 0.25  # seconds of text that are recorded as one delta

# An agent, or an async factory of it, which puts what has to be closed on the stack.
Program: TypeAlias = Agent[Any] | Callable[[AsyncExitStack], Awaitable[Agent[Any]]]


class DisplayOptions(Value):
    """The output and recording options of a command that runs an agent."""

    as_json: bool = False
    quiet: bool = False
    record: bool = True
    runs: Path | None = None  # the folder of recordings; by default the user's own

    @property
    def is_live(self) -> bool:
        """Whether the run is shown live, so that its end need not be printed again."""
        return not (self.as_json or self.quiet) and (sys.stdout.isatty() or sys.stderr.isatty())

    def sinks(self) -> list[EventSink]:
        """The sinks of a run: the terminal or a pipe, and a recording."""
        shown: list[EventSink] = [JsonPrinter()] if self.as_json else []
        if self.is_live:
            shown.append(ConsoleDisplay())
        if not self.as_json and (self.quiet or not sys.stdout.isatty()):
            shown.append(AnswerPrinter())
        return [*shown, LiveRecorder(self.folder)] if self.record else shown

    @property
    def folder(self) -> Path:
        return self.runs or home_folder() / "runs"


class JsonPrinter(EventSink):
    """Prints every event as a line of JSON; ignores a closed pipe."""

    @override
    def emit(self, event: Event) -> None:
        with suppress(BrokenPipeError):
            print(to_json(event), flush=True)


class LiveRecorder(EventSink):
    """A recorder whose recordings show the text of a reply in other processes while the model writes it.

    Pieces of one reply that arrive within a quarter of a second are recorded as one, at the time of the
    first: single pieces would make up most of the file.
    """

    def __init__(self, folder: Path) -> None:
        self._recorder = Recorder(folder, deltas=True)
        self._held: TextDelta | None = None

    @override
    def emit(self, event: Event) -> None:
        held, self._held = self._held, None
        if isinstance(event, TextDelta):
            latest = event.at
            if held is not None and _reply_of(held) == _reply_of(event):
                event, held = replace(held, text=held.text + event.text), None
            if latest - event.at < _PIECE:
                self._held = event
        if held is not None:
            self._recorder.emit(held)
        if self._held is None:
            self._recorder.emit(event)

    def close(self) -> None:
        if self._held is not None:
            self._recorder.emit(self._held)
        self._recorder.close()


def _reply_of(piece: TextDelta) -> tuple[str, str, int]:
    """The reply that a piece of text belongs to."""
    return piece.run_id, piece.scope, piece.step_id


class AnswerPrinter(EventSink):
    """Prints only the answer, for a pipe."""

    @override
    def emit(self, event: Event) -> None:
        if isinstance(event, RunCompleted) and not event.scope:
            write(text_of(event.output))


class ConsoleDisplay(EventSink):
    """Shows a run live, with an animated line while it waits for the model or a tool.

    If standard output is a pipe, it writes to standard error, and the pipe receives only the answer.
    """

    def __init__(self) -> None:
        self._console = ConsoleSink(None if sys.stdout.isatty() else sys.stderr)
        self._waiting = WaitingLine()

    @override
    def emit(self, event: Event) -> None:
        self._waiting.end()
        if isinstance(event, RunCompleted) and not event.scope and not sys.stdout.isatty():
            return
        self._console.emit(event)
        match event:
            case StepStarted():
                self._waiting.begin("waiting for the model")
            case ToolDispatched(call=call):
                self._waiting.begin(f"running {call.name}")
            case _:
                pass


def run_task(agent: Program, task: str, shown: DisplayOptions, **options: Any) -> int:
    """Run a task and return the exit status."""

    async def start(agent: Agent[Any], shared: dict[str, Any]) -> Outcome[Any]:
        return await agent.outcome(task, **shared, **options)

    return _execute(agent, start, shown, options.get("conversation"))


def resume_run(agent: Program, run_id: str, shown: DisplayOptions) -> int:
    """Resume an interrupted run with the decisions in the folder of approvals, and those of the user."""
    folder = ApprovalFolder(home_folder() / "approvals")

    async def start(agent: Agent[Any], shared: dict[str, Any]) -> Outcome[Any] | None:
        decisions = dict(folder.decisions(run_id))
        waiting = [item.pending for item in folder.pending() if item.run_id == run_id]
        if waiting:
            taken = await ask_for_decisions(waiting, shared["cancellation"]) if is_interactive() else None
            if taken is None:  # the run keeps waiting
                names = ", ".join(item.call.name for item in waiting)
                note(f"no decision yet on {names}; decide in 'wesichain serve' or at a terminal")
                return None
            decisions |= taken
        return await agent.runtime.resume(folder.take(run_id), decisions, **shared)

    return _execute(agent, start, shown)


def fork_run(recording: Recording, agent: Program, from_step: int, shown: DisplayOptions) -> int:
    """Fork a recorded run: replay it up to a step and continue it live, as a new run."""

    async def start(agent: Agent[Any], shared: dict[str, Any]) -> Outcome[Any]:
        return await fork(recording, agent, from_step, run_id=uuid4().hex, **shared)

    return _execute(agent, start, shown)


Start: TypeAlias = Callable[[Agent[Any], dict[str, Any]], Awaitable[Outcome[Any] | None]]


def _execute(
    program: Program, start: Start, shown: DisplayOptions, conversation: RunMemory | None = None
) -> int:
    events = shown.sinks()
    running = _run(program, start, events, stream=shown.is_live, conversation=conversation)
    try:
        outcome, pressed = asyncio.run(running)
    finally:
        for sink in events:
            if isinstance(sink, LiveRecorder):
                sink.close()
    if outcome is None:
        return CTRL_C if pressed else INTERRUPTED
    return _end(outcome, shown, pressed=pressed)


async def _run(
    program: Program, start: Start, events: list[EventSink], *, stream: bool, conversation: RunMemory | None
) -> tuple[Outcome[Any] | None, bool]:
    """Run, ask for approvals at a terminal, and return the outcome and whether Ctrl-C was pressed."""
    token = CancellationToken()
    pressed = False

    def on_interrupt() -> None:
        nonlocal pressed
        pressed = True
        token.cancel("Ctrl-C")

    shared: dict[str, Any] = {"cancellation": token, "events": events, "stream": stream}
    async with AsyncExitStack() as stack:
        agent = await program(stack) if callable(program) else program
        on_ctrl_c(on_interrupt)
        outcome: Outcome[Any] | None = await start(agent, shared)
        while isinstance(outcome, Interrupted) and outcome.pending and is_interactive() and not pressed:
            decisions: Mapping[str, Decision] | None = await ask_for_decisions(outcome.pending, token)
            if decisions is None:  # no decisions: the calls are not run
                break
            try:
                resumed = await agent.resume(outcome, decisions, conversation=conversation, **shared)
            except (RunFailedError, RunInterruptedError) as ended:
                outcome = ended.outcome
            else:
                outcome = resumed.outcome
        return outcome, pressed


def _end(outcome: Outcome[Any], shown: DisplayOptions, *, pressed: bool) -> int:
    match outcome:
        case Completed():
            return OK
        case Failed(error=error):
            if not shown.is_live:
                print_line("[red]failed:[/red] {}", str(error))
            if shown.record:
                note(f"the run is recorded: wesichain trace show {outcome.run_id[:12]}")
            return FAILED
        case Interrupted(reason=reason):
            if outcome.pending:
                ApprovalFolder(home_folder() / "approvals").put(outcome)
                names = ", ".join(item.call.name for item in outcome.pending)
                note(f"not run: {names}; it waits for a decision")
                note(f"decide in 'wesichain serve', or continue: wesichain ask --resume {outcome.run_id}")
                return CTRL_C if pressed else INTERRUPTED
            if pressed:
                note("cancelled; what happened until then is recorded" if shown.record else "cancelled")
                return CTRL_C
            if not shown.is_live:
                note(f"interrupted: {reason}")
            return INTERRUPTED
