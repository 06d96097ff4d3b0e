"""The terminal: printing, prompting, and the exit statuses."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from functools import cache
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from wesichain.agent import Approve, ApproveWith, Decision, Refuse
from wesichain.core.internal import PendingCall, Provide, Question, dump_json, is_object, parse_json, to_plain
from wesichain.errors import CodecError
from wesichain.platform.terminal import discard_typed, handle_signal, typed_line
from wesichain.tools import CancellationToken, validate_json
from wesichain.trace import neutralise, redact

_PIPE_WIDTH = 100_000
OK, FAILED, WRONG_USE, INTERRUPTED, CTRL_C = 0, 1, 2, 3, 130


@cache
def _console(*, stderr: bool) -> Console:
    """A console, created on first use: it reads the terminal's properties and the environment then.

    What reads a pipe has no width: a table has its columns whole there.
    """
    width = None if (sys.stderr if stderr else sys.stdout).isatty() else _PIPE_WIDTH
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=True)


def fail(message: object, status: int = WRONG_USE) -> NoReturn:
    """Print an error in one line, without a traceback, and exit."""
    print_line("[red]error:[/red] {}", str(message))
    raise typer.Exit(status)


def print_line(form: str, text: str) -> None:
    """Print a line on standard error, with the text in place of `{}`, redacted and neutralised."""
    _console(stderr=True).print(form.replace("{}", escape(neutralise(redact(text)))))


def echo(text: str = "") -> None:
    """Print a line on standard output, without control characters."""
    _console(stderr=False).print(escape(neutralise(text)))


def write(text: str) -> None:
    """Write text to a pipe, without markup and control characters; ignore a closed pipe."""
    encoding = sys.stdout.encoding or "utf-8"
    with suppress(BrokenPipeError):
        sys.stdout.write(neutralise(text).encode(encoding, "replace").decode(encoding) + "\n")
        sys.stdout.flush()


def print_json(value: object) -> None:
    """Print a value as JSON, in one line."""
    print(dump_json(value))


def note(text: str) -> None:
    """Print a dim line on standard error."""
    print_line("[dim]{}[/dim]", text)


def print_command(purpose: str, *words: str, folder: str | None = None) -> None:
    """Print a command on standard error: it can be typed unchanged, in any folder."""
    line = f"{purpose}: {neutralise(command(*words, folder=folder), newlines=False)}"
    _console(stderr=True).print(f"[dim]{escape(line)}[/dim]")


def command(*words: str, folder: str | None = None) -> str:
    """A command line that can be typed unchanged, in any folder, or in the one that it changes to."""
    line = shlex.join(["wesichain", *words])
    return line if folder is None else f"cd {shlex.quote(folder)} && {line}"


def progress() -> Progress:
    """A progress bar with a count and the elapsed time; shown only if standard error is a terminal."""
    shown = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    err = _console(stderr=True)
    return Progress(*shown, console=err, disable=not err.is_terminal)


class WaitingLine:
    """An animated line with a text and the elapsed time; shown only if standard error is a terminal."""

    def __init__(self) -> None:
        self._line: Progress | None = None

    def begin(self, text: str) -> None:
        self.end()
        err = _console(stderr=True)
        if not err.is_terminal or err.is_dumb_terminal:
            return
        label = TextColumn(f"[dim]{escape(neutralise(text, newlines=False))}[/dim]")
        self._line = Progress(
            BarColumn(bar_width=12),
            label,
            TimeElapsedColumn(),
            console=err,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._line.add_task("", total=None)
        self._line.start()

    def end(self) -> None:
        if self._line is not None:
            self._line.stop()
            self._line = None


@contextmanager
def waiting(text: str) -> Generator[None]:
    """Show an animated line while the block runs."""
    line = WaitingLine()
    line.begin(text)
    try:
        yield
    finally:
        line.end()


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(*(escape(neutralise(str(cell))) for cell in row))
    _console(stderr=False).print(shown)


def on_ctrl_c(handler: Callable[[], object]) -> Callable[[], None]:
    """Call a function in the running event loop on Ctrl-C; return what ends that."""
    return handle_signal(signal.SIGINT, handler)


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


_QUESTION = "approve? [y]es, [n]o, or other arguments as JSON [n]: "
_FIELDS = "the answer, as JSON (empty: decline): "
_RESULT = "its result, as JSON or text (empty: it failed): "


def readable(text: str) -> str:
    """A text from the command line, whose bytes that are not UTF-8 are replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def read_line(question: str) -> str | None:
    """Read a line from standard input, outside an event loop; None at its end. Ctrl-C raises."""
    sys.stderr.write(question)
    sys.stderr.flush()
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


def confirm(question: str) -> bool:
    """Ask a yes-or-no question, outside an event loop; the default is no."""
    return (read_line(f"{question} [y/N]: ") or "").strip().lower() in ("y", "yes")


async def ask_line(question: str, stop: CancellationToken) -> str | None:
    """Read a line from the terminal without blocking the loop; None at its end, or if `stop` is cancelled."""
    if stop.cancelled:
        return None
    discard_typed()
    sys.stderr.write(question)
    sys.stderr.flush()
    stopped = asyncio.ensure_future(stop.wait())
    try:
        line = await typed_line(stopped)
    finally:
        stopped.cancel()
    if line is None:
        sys.stderr.write("\n")
    return line


async def ask_for_decisions(
    pending: Iterable[PendingCall], stop: CancellationToken
) -> dict[str, Decision] | None:
    """Ask for a decision on each waiting call; None if the input ends or `stop` is cancelled."""
    decisions: dict[str, Decision] = {}
    for item in pending:
        args = to_plain(item.call.args)
        shown = redact(args)
        what = "a result is needed" if item.external else "approval needed"
        if item.question is not None:
            what = "an answer is needed"
        print_line(f"[yellow]{what}:[/yellow] {{}}", f"{item.call.name} {dump_json(shown)}")
        if shown != args:
            note("secrets in the arguments are hidden here; the call has them")
        if item.why:
            note(str(redact(item.why)))
        if item.question is not None:
            answered = await _answer(item.question, stop)
            if answered is None:
                return None
            decisions[item.token] = answered
            continue
        answer = await ask_line(_RESULT if item.external else _QUESTION, stop)
        if answer is None:
            return None
        decisions[item.token] = _result(answer.strip()) if item.external else _decision(answer.strip())
    return decisions


async def _answer(question: Question, stop: CancellationToken) -> Decision | None:
    """Ask for the answer to a call's question, as JSON or the value of its only field, until it is valid."""
    fields = question.schema.get("properties")
    names = [*fields] if is_object(fields) else []
    print_line("{}", question.message)
    note(f"its fields: {dump_json(fields)}")
    while True:
        line = await ask_line(_FIELDS, stop)
        if line is None:
            return None
        if not line.strip():
            return Refuse()
        try:
            value = parse_json(line)
        except CodecError:
            value = line.strip()
        given = value if is_object(value) or len(names) != 1 else {names[0]: value}
        wrong = validate_json(question.schema, question.filled(given)) if is_object(given) else ["no object"]
        if not wrong:
            return Provide(given)
        note(f"that is not a valid answer: {wrong[0]}")


def _result(answer: str) -> Decision:
    """The result of an external call: JSON, else a text; an empty line is an error."""
    if not answer:
        return Provide(error="no result was given")
    try:
        return Provide(parse_json(answer))
    except CodecError:
        return Provide(answer)


def _decision(answer: str) -> Decision:
    if answer.lower() in ("y", "yes"):
        return Approve()
    if answer.startswith("{"):
        try:
            return ApproveWith(parse_json(answer))
        except CodecError as error:
            note(f"invalid arguments ({error}): refused")
    return Refuse("" if answer.lower() in ("n", "no", "") else answer)
