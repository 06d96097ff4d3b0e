"""Every command has its help, and ends at a terminal with a status and without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from tests.cli.conftest import Command
from tests.cli.terminal import Terminal
from tests.draws import sampled
from wesichain import __version__
from wesichain.cli.app import app

NOWHERE = "http://127.0.0.1:9/v1"


def every(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """The words that lead to each command there is."""
    yield path
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from every(command.get_command(None, name), *path, name)


HELPED = [*every(get_command(app))]


def test_the_version(wesichain: Command) -> None:
    done = wesichain("--version")
    assert (done.status, done.out, done.err) == (0, f"wesichain {__version__}\n", "")


@pytest.mark.parametrize("args", [["frobnicate"], ["ask", "x", "--steps", "0"]], ids=" ".join)
def test_what_typer_refuses(wesichain: Command, args: list[str]) -> None:
    done = wesichain(*args)
    assert (done.status, args[-2 if "--steps" in args else -1] in done.err) == (2, True)


@pytest.mark.sampled
def test_each_has_its_help(wesichain: Command) -> None:
    for words in sampled(HELPED, 6):
        done = wesichain(*words, "--help")
        assert (done.status, "Usage:" in done.out) == (0, True), words


CONTRACT = {
    "": "ask chat demo run resume serve api worker mcp doctor eval improve drift simulate",
    "runs ": "list show approve refuse provide cancel prune stats",
    "trace ": "list show replay diff export",
    "playbook ": "learn list show search record promote quarantine forget rollback consolidate",
}


def test_the_contract_is_there() -> None:
    wanted = {f"{group}{name}" for group, names in CONTRACT.items() for name in names.split()}
    assert wanted <= {" ".join(words) for words in HELPED}


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (["doctor"], 0),
        (["ask", "x", "--model", "nobody:x"], 2),
    ],
    ids=lambda part: "-".join(part) if isinstance(part, list) else "",
)
def test_at_a_terminal(args: list[str], status: int) -> None:
    terminal = Terminal(*args, url=NOWHERE)
    assert terminal.end() == status
    assert "Traceback" not in terminal.shown
    if status == 2:
        assert terminal.shown.count("error:") == 1
