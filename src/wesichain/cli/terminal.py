"""The terminal: what is printed, how it is asked, and which status a command ends with."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wesichain.core import dump_json
from wesichain.trace import neutralise

OK, FAILED, WRONG_USE, INTERRUPTED, CTRL_C = 0, 1, 2, 3, 130

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def fail(message: object, status: int = WRONG_USE) -> NoReturn:
    """Say in one line what is wrong, and end. No traceback: the mistake is the user's, or the run's."""
    err.print(f"[red]error:[/red] {escape(neutralise(str(message)))}")
    raise typer.Exit(status)


def say(text: str = "") -> None:
    """A line on standard output, with nothing in it that could steer the terminal."""
    out.print(escape(neutralise(text)))


def print_json(value: object) -> None:
    """Data for a machine: plain JSON, whatever the width of the terminal."""
    print(dump_json(value))


def note(text: str) -> None:
    """A line for the person, not for the pipe."""
    err.print(f"[dim]{escape(neutralise(text))}[/dim]")


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(*(escape(neutralise(str(cell))) for cell in row))
    out.print(shown)


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()
