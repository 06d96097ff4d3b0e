"""Every command, at a terminal and in a pipe: it ends, with a status, and without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from tests.cli.conftest import Command
from tests.cli.terminal import Terminal
from wesichain.cli.app import app

NOWHERE = "http://127.0.0.1:9/v1"
COMMANDS = [
    (["--version"], 0),
    (["trace", "list"], 0),
    (["trace", "show", "nope"], 2),
    (["trace", "replay", "nope"], 2),
    (["trace", "diff", "a", "b"], 2),
    (["trace", "export", "nope"], 2),
    (["trace", "cases", "nope"], 2),
    (["eval", "nofile.jsonl", "--agent", "nofile.py:agent"], 2),
    (["simulate", "nofile.py:scenario"], 2),
    (["drift", "nofile.py:agent", "nowhere"], 2),
    (["playbook", "list"], 0),
    (["models"], 0),
    (["doctor"], 0),
    (["ask", "x", "--model", "nobody:x"], 2),
    (["run", "nofile.py:agent", "x"], 2),
    (["chat", "--model", "nobody:x"], 2),
    (["demo", "--model", "nobody:x"], 2),
    (["serve", "--runs", "/nowhere"], 2),
    (["serve", "nofile.py:agent"], 2),
    (["api", "nofile.py:agent"], 2),
    (["api", "nofile.py:agent", "--host", "0.0.0.0"], 2),
    (["mcp", "nofile.py"], 2),
    (["worker", "nofile.py:agent"], 2),
    (["runs", "list"], 2),
    (["runs", "show", "nope"], 2),
    (["runs", "approve", "nope", "t"], 2),
    (["runs", "refuse", "nope", "t"], 2),
    (["runs", "provide", "nope", "t", "--value", "1"], 2),
    (["runs", "cancel", "nope"], 2),
    (["runs", "resume", "nope"], 2),
    (["runs", "prune", "--older-than", "1"], 2),
    (["learn", "nope", "--good"], 2),
]


def every(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """The words that lead to each command there is."""
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from every(inner, *path, name)


HELPED = [*every(get_command(app))]


@pytest.mark.parametrize(
    ("args", "status"), COMMANDS, ids=lambda part: "-".join(part) if isinstance(part, list) else ""
)
def test_in_a_pipe(wesichain: Command, args: list[str], status: int) -> None:
    done = wesichain(*args)
    assert done.status == status, done.err + done.out
    assert "Traceback" not in done.err
    if status == 2:
        assert done.out == ""
        assert done.err.count("error:") == 1


@pytest.mark.parametrize("words", HELPED, ids=" ".join)
def test_each_has_its_help(wesichain: Command, words: tuple[str, ...]) -> None:
    done = wesichain(*words, "--help")
    assert done.status == 0
    assert "Usage:" in done.out


def test_the_contract_is_there() -> None:
    named = {" ".join(words) for words in HELPED}
    assert {
        f"runs {name}"
        for name in ["list", "show", "approve", "refuse", "provide", "cancel", "resume", "prune"]
    } <= named
    assert {f"trace {name}" for name in ["list", "show", "replay", "diff", "export"]} <= named
    plays = "list show search record promote quarantine forget rollback consolidate"
    assert {f"playbook {name}" for name in plays.split()} <= named
    assert {
        *[
            "ask",
            "chat",
            "demo",
            "run",
            "serve",
            "worker",
            "models",
            "bench",
            "mcp",
            "doctor",
            "eval",
            "learn",
        ]
    } <= named


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (["trace", "list"], 0),
        (["doctor"], 0),
        (["ask", "x", "--model", "nobody:x"], 2),
        (["serve", "--runs", "/nowhere"], 2),
    ],
    ids=lambda part: "-".join(part) if isinstance(part, list) else "",
)
def test_at_a_terminal(args: list[str], status: int) -> None:
    terminal = Terminal(*args, url=NOWHERE)
    assert terminal.end() == status
    assert "Traceback" not in terminal.shown
    if status == 2:
        assert terminal.shown.count("error:") == 1
