"""Pipes: standard output has the answer and nothing else; a fault is told once; defaults are in the help."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.stub_server import call, serving, text
from tests.cli.terminal import Terminal
from tests.warm import python
from wesichain.agent import SqliteConversations

MODEL = ("--model", "openai:stub")


def test_a_person_beside_a_pipe_still_sees_the_way_to_the_answer(tools: str, tmp_path: Path) -> None:
    answer = tmp_path / "answer.txt"
    with serving(call("add", {"a": 1, "b": 2}), text("it is 3")) as url, answer.open("wb") as pipe:
        terminal = Terminal("ask", "1 + 2?", *MODEL, "--tools", tools, url=url, stdout=pipe.fileno())
        assert terminal.end() == 0
    assert 'add {"a":1,"b":2}' in terminal.shown
    assert "← 3" in terminal.shown
    assert answer.read_text(encoding="utf-8") == "it is 3\n"


def test_a_chat_that_is_kept_goes_on_in_another_process(home: Path) -> None:
    def chat(id: str, line: str, url: str) -> str:
        done = subprocess.run(
            [*python(), "-m", "wesichain", "chat", *MODEL, "--no-record", "--conversation", id],
            input=line,
            capture_output=True,
            text=True,
            env={**os.environ, "OPENAI_BASE_URL": url},
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with serving(text("one"), text("two"), text("three")) as url:
        assert chat("tr'ip", "first?\n", url) == "one\n"
        assert chat("other", "second?\n", url) == "two\n"
        assert chat("tr'ip", "third?\n", url) == "three\n"
    store = SqliteConversations(home / "conversations.sqlite")
    kept = asyncio.run(store.read("tr'ip"))
    store.close()
    assert [[message.text for message in turn] for turn in kept] == [["first?", "one"], ["third?", "three"]]


FAILING = '''
from wesichain import Agent, FailFast, tool
from wesichain.testing import ScriptedLlm, calls

@tool
def fetch(url: str) -> str:
    """Fetch."""
    raise ConnectionError("the wire is cut")

agent = Agent(ScriptedLlm([calls(("fetch", {"url": "x"}))]), tools=[fetch], policy=FailFast())
'''


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_a_fault_is_told_once(wesichain: Command, tmp_path: Path, is_terminal: bool) -> None:
    path = tmp_path / "failing.py"
    path.write_text(FAILING, encoding="utf-8")
    if is_terminal:
        terminal = Terminal("run", f"{path}:agent", "go", url="http://127.0.0.1:9/v1")
        assert terminal.end() == 1
        shown = terminal.shown
    else:
        done = wesichain("run", f"{path}:agent", "go")
        assert (done.status, done.out) == (1, "")
        shown = done.err
    assert shown.count("the wire is cut") == 1


# --- any folder of recordings ---------------------------------------------------------------------


# --- what is missing, what is the default ----------------------------------------------------------


def test_defaults_are_in_the_help(wesichain: Command) -> None:
    for command, words in {
        ("serve",): (
            "[input, output]",
            "8777",
            "127.0.0.1",
            "WESICHAIN_HOME/runs",
            "WESICHAIN_HOME/playbook",
        ),
        ("ask",): ("[default: 12]", "WESICHAIN_MODEL", "WESICHAIN_HOME/runs"),
        ("trace", "list"): ("[default: 20]", "WESICHAIN_HOME/runs"),
    }.items():
        shown = " ".join(wesichain(*command, "--help").out.replace("│", " ").split())
        for word in words:
            assert word in shown, (command, word)


@pytest.mark.parametrize("way", ["a pipe", "an argument", "a chat", "a file of tasks"])
def test_bytes_that_are_not_utf8_are_no_traceback(way: str, tmp_path: Path) -> None:
    (tmp_path / "greet.py").write_text(
        "from wesichain import Agent\nfrom wesichain.testing import FunctionLlm\n"
        "agent = Agent(FunctionLlm(lambda request: f'got {request.messages[-1].text}'))\n"
    )
    (tmp_path / "tasks.jsonl").write_bytes(b'"caf\xe9"\n')
    with serving(text("got it")) as url:
        ways: dict[str, tuple[list[str | bytes], bytes, int]] = {
            "a pipe": (["ask", "-", *MODEL], b"caf\xe9", 0),
            "an argument": (["run", "greet.py:agent", b"caf\xe9"], b"", 0),
            "a chat": (["chat", "greet.py:agent"], b"caf\xe9\n", 0),
            "a file of tasks": (["run", "greet.py:agent", "tasks.jsonl"], b"", 2),
        }
        args, given, status = ways[way]
        done = subprocess.run(
            [sys.executable, "-m", "wesichain", *args],
            input=given,
            capture_output=True,
            env={**os.environ, "OPENAI_BASE_URL": url, "PYTHONUTF8": "1"},
            cwd=tmp_path,
            check=False,
            timeout=60,
        )
    assert (done.returncode, b"Traceback" in done.stderr) == (status, False), done.stderr
    if status == 0:
        assert done.stdout.decode() == ("got it\n" if way == "a pipe" else "got caf\ufffd\n")
