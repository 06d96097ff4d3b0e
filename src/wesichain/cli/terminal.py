"""The terminal: what is printed, how it is asked, and which status a command ends with."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from wesichain.core import dump_json
from wesichain.trace import neutralise, redact

OK, FAILED, WRONG_USE, INTERRUPTED, CTRL_C = 0, 1, 2, 3, 130

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def fail(message: object, status: int = WRONG_USE) -> NoReturn:
    """Say in one line what is wrong, and end. No traceback: the mistake is the user's, or the run's."""
    tell("[red]error:[/red] {}", str(message))
    raise typer.Exit(status)


def tell(form: str, text: str) -> None:
    """A line on standard error: the text, in place of `{}`, without its secrets and what could steer."""
    err.print(form.replace("{}", escape(neutralise(redact(text)))))


def say(text: str = "") -> None:
    """A line on standard output, with nothing in it that could steer the terminal."""
    out.print(escape(neutralise(text)))


def write(text: str) -> None:
    """Text for a pipe, as long as one reads it: nothing around it, and nothing in it that could steer."""
    encoding = sys.stdout.encoding or "utf-8"
    with suppress(BrokenPipeError):
        sys.stdout.write(neutralise(text).encode(encoding, "replace").decode(encoding) + "\n")
        sys.stdout.flush()


def print_json(value: object) -> None:
    """Data for a machine: plain JSON, whatever the width of the terminal."""
    print(dump_json(value))


def note(text: str) -> None:
    """A line for the person, not for the pipe."""
    tell("[dim]{}[/dim]", text)


def progress() -> Progress:
    """A bar that counts what is done of many, and how long it took: on a terminal's standard error alone."""
    shown = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*shown, console=err, disable=not err.is_terminal)


class Waiting:
    """A moving line that says what is waited for, and how long: on a terminal's standard error alone."""

    def __init__(self) -> None:
        self._line: Progress | None = None

    def begin(self, text: str) -> None:
        self.end()
        if not err.is_terminal or err.is_dumb_terminal:
            return
        said = TextColumn(f"[dim]{escape(neutralise(text, newlines=False))}[/dim]")
        self._line = Progress(
            BarColumn(bar_width=12),
            said,
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
    """Say what a person waits for, until it is there."""
    line = Waiting()
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
    out.print(shown)


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()
