"""Pipes: standard output has the answer and nothing else; a fault is told once; defaults are in the help."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.stub_server import call, serving, text
from tests.cli.terminal import Terminal
from tests.warm import python
from wesichain import Agent
from wesichain.agent import SqliteConversations
from wesichain.testing import ScriptedLlm, calls
from wesichain.trace import Recorder, list_runs, load

MODEL = ("--model", "openai:stub")


@pytest.mark.parametrize("how", [(), ("--quiet",), ("--no-record",)])
def test_a_pipe_gets_the_answer_alone(wesichain: Command, tools: str, how: tuple[str, ...]) -> None:
    with serving(call("add", {"a": 1, "b": 2}), text("it is\n  3")) as url:
        done = wesichain("ask", "1 + 2?", *MODEL, "--tools", tools, *how, url=url)
    assert (done.status, done.out, done.err) == (0, "it is\n  3\n", "")


def test_a_person_beside_a_pipe_still_sees_the_way_to_the_answer(tools: str, tmp_path: Path) -> None:
    answer = tmp_path / "answer.txt"
    with serving(call("add", {"a": 1, "b": 2}), text("it is 3")) as url, answer.open("wb") as pipe:
        terminal = Terminal("ask", "1 + 2?", *MODEL, "--tools", tools, url=url, stdout=pipe.fileno())
        assert terminal.end() == 0
    assert 'add {"a":1,"b":2}' in terminal.shown
    assert "← 3" in terminal.shown
    assert answer.read_text(encoding="utf-8") == "it is 3\n"


def test_quiet_shows_a_person_the_answer_alone(tools: str) -> None:
    with serving(call("add", {"a": 1, "b": 2}), text("it is 3")) as url:
        terminal = Terminal("ask", "1 + 2?", *MODEL, "--tools", tools, "--quiet", url=url)
        assert terminal.end() == 0
    assert terminal.shown == "it is 3\r\n"


def test_a_chat_in_a_pipe_is_its_answers(tools: str) -> None:
    with serving(text("one"), text("two")) as url:
        done = subprocess.run(
            [*python(), "-m", "wesichain", "chat", *MODEL],
            input="first?\nsecond?\n",
            capture_output=True,
            text=True,
            env={**os.environ, "OPENAI_BASE_URL": url},
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n")


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


def recorded(folder: Path, tools: str) -> str:
    """A run in a folder of the user's own, as the pages of the documentation record it."""
    from wesichain.cli.loading import load_tools

    model = ScriptedLlm([calls(("add", {"a": 1, "b": 2}), content="I add."), "it is 3"])
    with Recorder(folder) as recorder:
        Agent(model, tools=load_tools(Path(tools)), events=recorder).run_sync("1 + 2?")
    (summary,) = list_runs(folder)
    return summary.run_id


def test_a_fork_is_a_run_of_its_own(wesichain: Command, tools: str, tmp_path: Path) -> None:
    run = recorded(tmp_path / "runs", tools)
    runs = ("--runs", str(tmp_path / "runs"))
    with serving(text("three")) as url:
        forked = wesichain("trace", "replay", run, "--from", "2", "--tools", tools, *MODEL, *runs, url=url)
    assert (forked.status, forked.out) == (0, "three\n")
    newest, oldest = (load(item.path) for item in list_runs(tmp_path / "runs"))
    assert oldest.run_id == run
    assert newest.run_id != run
    assert (newest.status, newest.output, newest.user_input) == ("completed", "three", "1 + 2?")
    assert newest.started_at > oldest.events[-1].at
    assert {event.run_id for event in newest.events} == {newest.run_id}
    assert [call.value for step in newest.steps for call in step.calls] == [3]


# --- what is missing, what is the default ----------------------------------------------------------


def test_defaults_are_in_the_help(wesichain: Command) -> None:
    for command, words in {
        ("ask",): ("[default: 12]", "WESICHAIN_MODEL", "WESICHAIN_HOME/runs"),
        ("serve",): ("8777", "127.0.0.1", "WESICHAIN_HOME/runs", "WESICHAIN_HOME/playbook"),
        ("trace", "list"): ("[default: 20]", "WESICHAIN_HOME/runs"),
    }.items():
        shown = " ".join(wesichain(*command, "--help").out.replace("│", " ").split())
        for word in words:
            assert word in shown, (command, word)
