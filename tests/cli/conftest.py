"""What the tests of the command line share: tools in a file, and commands without the price of a process."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest
import typer.main

from wesichain.cli import main, terminal

TOOLS = '''
from wesichain import tool

@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

@tool(approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    return "deleted " + path
'''
NOWHERE = "http://127.0.0.1:9/v1"


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str


Command: TypeAlias = Callable[..., Done]


@pytest.fixture
def tools(tmp_path: Path) -> str:
    path = tmp_path / "tools.py"
    path.write_text(TOOLS, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="session", autouse=True)
def one_tree_of_commands() -> Iterator[None]:
    """A process builds the tree of its commands once; so does this one, however many commands are run in it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


@pytest.fixture
def wesichain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the program's `main` with arguments, as a process would: with pipes, until it exits."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "path", [*sys.path])
    terminal._console.cache_clear()  # pyright: ignore[reportPrivateUsage]  # made by another test in its width

    def run(*args: str, url: str = NOWHERE, stdin: str = "") -> Done:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setattr(sys, "argv", ["wesichain", *args])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main()
        shown = capsys.readouterr()
        return Done(int(exit_.value.code or 0), shown.out, shown.err)

    return run
