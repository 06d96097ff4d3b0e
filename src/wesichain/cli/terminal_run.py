"""Runs at the terminal: one task, with its output, its recording, its approvals and its exit status."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
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

from .options import runs_words
from .target import StoredTarget, Target
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
    print_command,
    print_line,
    write,
)

_PIECE = 0.25  # seconds of text that are recorded as one delta


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


class Opened(Value):
    """An agent that is open, and the target that opened it, if it came from one."""

    agent: Agent[Any]
    target: Target | None = None

    @asynccontextmanager
    async def run_options(self) -> AsyncGenerator[dict[str, Any]]:
        """The keyword arguments of one run."""
        if self.target is None:
            yield {}
        else:
            async with self.target.run_options() as options:
                yield options

    def approvals(self) -> ApprovalFolder:
        """The folder of approvals, which stores the target beside the runs that wait."""
        stored = None if self.target is None else StoredTarget.of(self.target, self.agent).written()
        return ApprovalFolder(home_folder() / "approvals", program=stored)


Program: TypeAlias = Agent[Any] | Target
# Starts a run of the agent with these keyword arguments.
Start: TypeAlias = Callable[[Agent[Any], dict[str, Any]], Awaitable[Outcome[Any]]]


@asynccontextmanager
async def open_program(program: Program) -> AsyncGenerator[Opened]:
    """Open an agent, for the duration of a block."""
    if isinstance(program, Target):
        async with program.open() as agent:
            yield Opened(agent, program)
    else:
        yield Opened(program)


def run_task(program: Program, task: str, shown: DisplayOptions) -> int:
    """Run a task and return the exit status."""

    async def run() -> int:
        async with open_program(program) as opened:
            if opened.target is not None:
                opened.target.fetch_model()
            return await perform(opened, starting(task), shown)

    return asyncio.run(run())


def starting(task: str, **options: Any) -> Start:
    """The start of a new run of a task."""
    return lambda agent, shared: agent.outcome(task, **shared, **options)


def fork_run(recording: Recording, program: Program, from_step: int, shown: DisplayOptions) -> int:
    """Fork a recorded run: replay it up to a step and continue it live, as a new run."""

    async def run() -> int:
        async with open_program(program) as opened:
            return await perform(
                opened,
                lambda agent, shared: fork(recording, agent, from_step, run_id=uuid4().hex, **shared),
                shown,
            )

    return asyncio.run(run())


class CtrlC:
    """Cancels a token at Ctrl-C, during a block."""

    def __init__(self) -> None:
        self.token = CancellationToken()
        self.is_pressed = False

    def __enter__(self) -> CtrlC:
        self._restore = on_ctrl_c(self._press)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _press(self) -> None:
        self.is_pressed = True
        self.token.cancel("Ctrl-C")


async def perform(
    opened: Opened, start: Start, shown: DisplayOptions, memory: RunMemory | None = None
) -> int:
    """Run to the end, ask for approvals at a terminal, and return the exit status."""
    events = shown.sinks()
    try:
        with CtrlC() as ctrl_c:
            async with opened.run_options() as options:
                shared = {
                    **options,
                    "cancellation": ctrl_c.token,
                    "events": events,
                    "stream": shown.is_live,
                }
                outcome = await start(opened.agent, shared)
                while isinstance(outcome, Interrupted) and outcome.pending and is_interactive():
                    decisions = await ask_for_decisions(outcome.pending, ctrl_c.token)
                    if decisions is None:  # no decisions: the calls are not run
                        break
                    outcome = await resumed(opened.agent, outcome, decisions, memory, shared)
            return _end(outcome, opened, shown, pressed=ctrl_c.is_pressed)
    finally:
        for sink in events:
            if isinstance(sink, LiveRecorder):
                sink.close()


async def resumed(
    agent: Agent[Any],
    interrupted: Interrupted[Any],
    decisions: Mapping[str, Decision],
    memory: RunMemory | None,
    shared: dict[str, Any],
) -> Outcome[Any]:
    """Resume a run, and return its outcome, whatever that is."""
    try:
        result = await agent.resume(interrupted, decisions, conversation=memory, **shared)
    except (RunFailedError, RunInterruptedError) as ended:
        outcome: Outcome[Any] = ended.outcome
        return outcome
    return result.outcome


def _end(outcome: Outcome[Any], opened: Opened, shown: DisplayOptions, *, pressed: bool) -> int:
    match outcome:
        case Completed():
            return OK
        case Failed(error=error):
            if not shown.is_live:
                print_line("[red]failed:[/red] {}", str(error))
            if shown.record:
                words = ("trace", "show", outcome.run_id[:12], *runs_words(shown.runs))
                print_command("the run is recorded", *words)
            return FAILED
        case Interrupted(reason=reason):
            if outcome.pending:
                opened.approvals().put(outcome)
                names = ", ".join(item.call.name for item in outcome.pending)
                note(f"not run: {names}; it waits for a decision")
                print_command("decide in the browser", "serve")
                print_command("decide and continue", "resume", outcome.run_id)
                return CTRL_C if pressed else INTERRUPTED
            if pressed:
                note("cancelled; what happened until then is recorded" if shown.record else "cancelled")
                return CTRL_C
            if not shown.is_live:
                note(f"interrupted: {reason}")
            return INTERRUPTED
