"""Every command, at a terminal and in a pipe: it ends, with a status, and without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from tests.cli.conftest import Command
from tests.cli.terminal import Terminal
from wesichain import __version__
from wesichain.cli.app import app

NOWHERE = "http://127.0.0.1:9/v1"
WORK = "tests.durable.work"
COMMANDS = [
    (["--version"], 0, __version__),
    (["trace", "list"], 0, "no runs in"),
    (["trace", "show", "nope"], 2, "no run 'nope'"),
    (["trace", "show", "/etc/passwd"], 2, ""),
    (["trace", "replay", "nope"], 2, ""),
    (["trace", "diff", "a", "b"], 2, ""),
    (["trace", "export", "nope"], 2, ""),
    (["trace", "cases", "nope"], 2, ""),
    (["eval", "nofile.jsonl", "--agent", "nofile.py:agent"], 2, ""),
    (["simulate", "nofile.py:scenario"], 2, ""),
    (["drift", "nofile.py:agent", "nowhere"], 2, ""),
    (["playbook", "list"], 0, "domain"),
    (["playbook", "list", "../x"], 2, "../x"),
    (["playbook", "show", "nope"], 2, "there is no bullet 'nope'"),
    (["models"], 0, "qwen2.5-coder-0.5b"),
    (["doctor"], 0, "python"),
    (["ask", "x", "--model", "nobody:x"], 2, ""),
    (["ask", "x", "--model", "gpt-4"], 2, "did you mean 'openai:gpt-4'"),
    (["ask", "x", "--model", " "], 2, "--model is empty"),
    (["ask", "x", "--tools", "/no/such.py"], 2, "no file"),
    (["ask", "x", "--tools", "/etc/passwd"], 2, "is not a Python file"),
    (["ask", ""], 2, "no question"),
    (["ask", "--resume", "nope"], 2, "no run 'nope' waits"),
    (["run", "nofile.py:agent", "x"], 2, ""),
    (["run", "nofile", "x"], 2, "names no agent"),
    (["run", "no.module:agent", "x"], 2, "no module"),
    (["run", f"{WORK}:agent"], 2, "there is no task"),
    (["chat", "--model", "nobody:x"], 2, ""),
    (["demo", "--model", "nobody:x"], 2, ""),
    (["serve", "--runs", "/nowhere"], 2, ""),
    (["serve", "--host", "0.0.0.0"], 2, "0.0.0.0"),
    (["serve", "--prices", "none.json"], 2, '{"MODEL": [input, output]}'),
    (["serve", "nofile.py:agent"], 2, ""),
    (["api", "nofile.py:agent"], 2, ""),
    (["api", "nofile.py:agent", "--host", "0.0.0.0"], 2, "set --token"),
    (["mcp", "nofile.py"], 2, ""),
    (["mcp", "nofile.py", "--token", "x"], 2, ""),
    (["bench"], 2, "are in the project's repository"),
    (["worker", "nofile.py:agent"], 2, ""),
    (["runs", "list"], 2, ""),
    (["runs", "show", "nope"], 2, ""),
    (["runs", "approve", "nope", "t"], 2, ""),
    (["runs", "refuse", "nope", "t"], 2, ""),
    (["runs", "provide", "nope", "t", "--value", "1"], 2, ""),
    (["runs", "cancel", "nope"], 2, ""),
    (["runs", "resume", "nope"], 2, ""),
    (["runs", "prune", "--older-than", "1"], 2, ""),
    (["learn", "nope", "--good"], 2, ""),
]


def every(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """The words that lead to each command there is."""
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from every(inner, *path, name)


HELPED = [*every(get_command(app))]


@pytest.mark.parametrize(
    ("args", "status", "words"), COMMANDS, ids=lambda part: "-".join(part) if isinstance(part, list) else ""
)
def test_in_a_pipe(
    wesichain: Command, monkeypatch: pytest.MonkeyPatch, args: list[str], status: int, words: str
) -> None:
    monkeypatch.setitem(sys.modules, "bench", None)  # as where there is no checkout
    done = wesichain(*args)
    assert done.status == status, done.err + done.out
    assert "Traceback" not in done.err
    assert words in (done.err + done.out)
    if status == 2:
        assert done.out == ""
        assert done.err.count("error:") == 1
        assert done.err.count("\n") == 1


@pytest.mark.parametrize("args", [["frobnicate"], ["ask", "x", "--steps", "0"]], ids=" ".join)
def test_what_typer_refuses(wesichain: Command, args: list[str]) -> None:
    done = wesichain(*args)
    assert (done.status, args[-2 if "--steps" in args else -1] in done.err) == (2, True)


@pytest.mark.parametrize("words", HELPED, ids=" ".join)
def test_each_has_its_help(wesichain: Command, words: tuple[str, ...]) -> None:
    done = wesichain(*words, "--help")
    assert done.status == 0
    assert "Usage:" in done.out


CONTRACT = {
    "": "ask chat demo run serve worker models bench mcp doctor eval learn",
    "runs ": "list show approve refuse provide cancel resume prune",
    "trace ": "list show replay diff export",
    "playbook ": "list show search record promote quarantine forget rollback consolidate",
}


def test_the_contract_is_there() -> None:
    wanted = {f"{group}{name}" for group, names in CONTRACT.items() for name in names.split()}
    assert wanted <= {" ".join(words) for words in HELPED}


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
