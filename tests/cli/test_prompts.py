"""Prompts: whatever ends one, what was asked about is not run."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.stub_server import call, serving, text
from tests.cli.terminal import Terminal
from wesichain.agent import SqliteConversations

TOOLS = """
from pathlib import Path
from wesichain import Agent, tool
from wesichain.llm.openai import OpenAiClient

@tool(approval=True, effect="once")
def erase(name: str) -> str:
    "Erase a file."
    Path(__file__).with_name("ran.txt").open("a").write(name + "\\n")
    return "erased " + name

agent = Agent(OpenAiClient("stub", api_key="none"), tools=[erase])
"""
MODEL = ("--model", "openai:stub")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(TOOLS, encoding="utf-8")
    return path


def ran(program: Path) -> list[str]:
    path = program.with_name("ran.txt")
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def commands(program: Path) -> dict[str, tuple[str, ...]]:
    tools = ("--tools", str(program))
    return {
        "ask": ("ask", "clean up", *MODEL, *tools),
        "ask-json": ("ask", "clean up", *MODEL, *tools, "--json", "--no-record"),
        "run": ("run", f"{program}:agent", "clean up"),
        "chat": ("chat", *MODEL, *tools),
    }


@pytest.mark.parametrize("name", ["ask-json", "run", "chat"])
def test_ctrl_c_at_an_approval_runs_nothing_whatever_is_typed_after_it(name: str, program: Path) -> None:
    with serving(call("erase", {"name": "x"}), text("all done")) as url:
        terminal = Terminal(*commands(program)[name], url=url)
        if name == "chat":
            terminal.expect("you>")
            terminal.type("clean up")
        terminal.expect("approve?")
        terminal.press_ctrl_c()
        terminal.expect("not run: erase")
        if name == "chat":  # the conversation goes on; Ctrl-C ends it as well
            terminal.expect("you>", times=2)
            terminal.wait_until_it_reads()
            terminal.press_ctrl_c()
        else:
            terminal.type("y", always=False)
        assert terminal.end() == 130
    assert ran(program) == []
    assert "Traceback" not in terminal.shown


def test_ctrl_c_at_a_later_approval_keeps_what_was_done_and_runs_no_more(program: Path) -> None:
    with serving(call("erase", {"name": "x"}), call("erase", {"name": "y"}), text("all done")) as url:
        terminal = Terminal(*commands(program)["ask"], url=url)
        terminal.expect("approve?")
        terminal.type("y")
        terminal.expect("approve?", times=2)
        terminal.press_ctrl_c()
        assert terminal.end() == 130
    assert ran(program) == ["x"]


def test_a_run_left_at_its_prompt_waits_and_goes_on_when_it_is_resumed(
    program: Path, wesichain: Command
) -> None:
    with serving(call("erase", {"name": "x"}), text("all done")) as url:
        terminal = Terminal(*commands(program)["ask"], url=url)
        terminal.expect("approve?")
        terminal.press_ctrl_c()
        assert terminal.end() == 130
        found = re.search(r"wesichain (resume \w+)", terminal.shown)
        assert found
        again = found[1].split()
        for _ in range(2):  # Ctrl-C there leaves it waiting, as often as one likes
            terminal = Terminal(*again, url=url)
            terminal.expect("approve?")
            terminal.press_ctrl_c()
            assert terminal.end() == 130
            assert ran(program) == []
        terminal = Terminal(*again, url=url)
        terminal.expect("approve?")
        terminal.type("y")
        assert terminal.end() == 0
        assert ran(program) == ["x"]
        assert wesichain(*again, url=url).status == 2  # nothing waits any more


def test_ctrl_c_at_a_question_for_a_result_gives_none(tmp_path: Path) -> None:
    program = tmp_path / "bank.py"
    program.write_text(
        "from wesichain import tool\n@tool(external=True)\n"
        "def ask_the_bank(amount: int) -> str:\n    'Ask the bank.'\n    raise SystemExit('run')\n"
    )
    with serving(call("ask_the_bank", {"amount": 3}), text("granted, then")) as url:
        terminal = Terminal("ask", "borrow", *MODEL, "--tools", str(program), url=url)
        terminal.expect("its result")
        terminal.press_ctrl_c()
        terminal.expect("not run: ask_the_bank")
        terminal.type('"yes"', always=False)
        assert terminal.end() == 130
        found = re.search(r"wesichain (resume \w+)", terminal.shown)
        assert found
        terminal = Terminal(*found[1].split(), url=url)
        terminal.expect("its result")
        terminal.type("yes, by Monday")
        terminal.expect("granted, then")
        assert terminal.end() == 0


def test_another_signal_at_an_approval_ends_the_command_too(program: Path) -> None:
    with serving(call("erase", {"name": "x"}), text("all done")) as url:
        terminal = Terminal(*commands(program)["ask"], url=url)
        terminal.expect("approve?")
        terminal.signal(signal.SIGHUP)
        terminal.type("y", always=False)
        assert terminal.end() == -signal.SIGHUP
    assert ran(program) == []


def test_what_was_typed_before_the_question_is_no_answer_to_it(program: Path) -> None:
    with serving(call("erase", {"name": "x"}), text("all done")) as url:
        terminal = Terminal(*commands(program)["ask"], url=url)
        terminal.type("y")  # while it still loads
        terminal.expect("approve?")
        terminal.type("n")
        assert terminal.end() == 0
    assert ran(program) == []


def test_a_question_that_waited_for_a_person_is_part_of_the_chat(program: Path, home: Path) -> None:
    with serving(call("erase", {"name": "x"}), text("all done")) as url:
        terminal = Terminal(*commands(program)["chat"], "--conversation", "c", url=url)
        terminal.expect("you>")
        terminal.type("clean up")
        terminal.expect("approve?")
        terminal.type("y")
        terminal.expect("you>", times=2)
        terminal.press_ctrl_d()
        assert terminal.end() == 0
    assert ran(program) == ["x"]
    store = SqliteConversations(home / "conversations.sqlite")
    kept = asyncio.run(store.read("c"))
    store.close()
    assert [[message.text for message in turn] for turn in kept] == [["clean up", "all done"]]


def test_ctrl_c_while_the_question_is_read_ends_the_command(program: Path) -> None:
    with serving() as url:
        terminal = Terminal("ask", "-", *MODEL, url=url)
        terminal.wait_until_it_reads()
        terminal.press_ctrl_c()
        assert terminal.end() == 130
    assert "Traceback" not in terminal.shown


@pytest.mark.parametrize(("answer", "said"), [("n", "nothing was changed"), ("y", "1 changes made")])
def test_an_edited_page_is_loaded_on_a_yes(
    wesichain: Command, tmp_path: Path, answer: str, said: str
) -> None:
    page, book = str(tmp_path / "page.md"), str(tmp_path / "book")
    wesichain("playbook", "record", "shop", "Greet first.", "--path", book)
    wesichain("playbook", "export", page, "--path", book)
    wesichain("playbook", "forget", "--matching", "Greet", "--path", book)
    terminal = Terminal("playbook", "load", page, "--path", book, url="http://127.0.0.1:9/v1")
    terminal.expect("make these changes? [y/N]: ")
    terminal.type(answer)
    assert terminal.end() == 0
    assert "shop: add: Greet first." in terminal.shown
    assert said in terminal.shown
    assert ("Greet" in wesichain("playbook", "list", "shop", "--path", book).out) == (answer == "y")
