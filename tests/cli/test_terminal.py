"""Questions at a terminal: what is asked, and what an answer decides."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import select
import sys
import termios
import tty
from collections.abc import Iterator
from typing import Any

import pytest

from tests.waiting import PATIENCE, settle, until
from wesichain.agent import Approve, ApproveWith, Refuse
from wesichain.cli.terminal import ask_for_decisions, confirm, is_interactive
from wesichain.core import ToolCall
from wesichain.core.internal import PendingCall, Provide, Question, dump_json
from wesichain.tools import CancellationToken

CALL = ToolCall("c", "send", {"to": "ann"})
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
BOTH = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}},
    "required": ["n"],
}


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other end of the terminal that is standard input."""
    master, slave = pty.openpty()
    tty.setcbreak(slave)  # no echo
    with os.fdopen(slave, encoding="utf-8", closefd=True) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        yield master
    os.close(master)


async def asked(keyboard: int, capsys: Any, *lines: str, **waits: Any) -> tuple[Any, str]:
    """What comes of a question about a call, where each line is typed once something is asked."""
    stop, shown = CancellationToken(), ""
    asking = asyncio.create_task(ask_for_decisions([PendingCall(CALL, "t", **waits)], stop))
    for line in lines:
        while "]: " not in (said := capsys.readouterr().err) and "): " not in said:
            shown += said
            await asyncio.sleep(0.001)
        shown += said
        if line == "Ctrl-C":
            stop.cancel()
        else:
            os.write(keyboard, line.encode())
    decided = await asyncio.wait_for(asking, 30)
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing waits for Ctrl-C any more"
    return decided and decided["t"], shown + capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "decision"),
    [
        ("y\n", Approve()),
        ("YES \n", Approve()),
        ("n\n", Refuse()),
        ("No\n", Refuse()),
        ("\n", Refuse()),
        ("not today\n", Refuse("not today")),
        ('{"to": "bob"}\n', ApproveWith({"to": "bob"})),
        ('{"to": \n', Refuse('{"to":')),
        ("Ctrl-C", None),
    ],
)
async def test_an_approval(keyboard: int, capsys: Any, line: str, decision: Any) -> None:
    decided, shown = await asked(keyboard, capsys, line)
    assert decided == decision
    assert 'approval needed: send {"to":"ann"}\n' in shown
    assert "approve? [y]es, [n]o, or other arguments as JSON [n]: " in shown
    assert ("invalid arguments" in shown) == (line == '{"to": \n')


@pytest.mark.parametrize(
    ("line", "decision"),
    [
        ("5\n", Provide(5)),
        ("five\n", Provide("five")),
        ("\n", Provide(error="no result was given")),
        ("Ctrl-C", None),
    ],
)
async def test_the_result_of_an_external_call(keyboard: int, capsys: Any, line: str, decision: Any) -> None:
    decided, shown = await asked(keyboard, capsys, line, external=True)
    assert decided == decision
    assert 'a result is needed: send {"to":"ann"}\n' in shown
    assert "its result, as JSON or text (empty: it failed): " in shown


@pytest.mark.parametrize(
    ("schema", "lines", "decision", "says"),
    [
        (NAME, ["Ann\n"], Provide({"name": "Ann"}), ""),
        (NAME, ['{"name": "Ann"}\n'], Provide({"name": "Ann"}), ""),
        (NAME, ["5\n", "Ann\n"], Provide({"name": "Ann"}), "that is not a valid answer: "),
        (BOTH, ["5\n", '{"n": 5}\n'], Provide({"n": 5}), "that is not a valid answer: no object"),
        (BOTH, ['{"m": 5}\n', '{"n": 1}\n'], Provide({"n": 1}), "that is not a valid answer: "),
        (NAME, ["\n"], Refuse(), ""),
        (NAME, ["Ctrl-C"], None, ""),
    ],
)
async def test_the_answer_to_a_question(
    keyboard: int, capsys: Any, *, schema: Any, lines: list[str], decision: Any, says: str
) -> None:
    decided, shown = await asked(keyboard, capsys, *lines, question=Question("Who is it?", schema))
    assert decided == decision
    assert 'an answer is needed: send {"to":"ann"}\nWho is it?\n' in shown
    assert f"its fields: {dump_json(schema['properties'])}\n" in shown
    assert says in shown


async def test_nothing_is_asked_of_who_has_left_and_secrets_are_not_shown(keyboard: int, capsys: Any) -> None:
    left = CancellationToken()
    left.cancel()
    secret = ToolCall("c", "send", {"key": "sk-proj-abcdefghijklmnopqrstuvwxyz0123"})
    assert await ask_for_decisions([PendingCall(secret, "t")], left) is None
    shown = capsys.readouterr().err
    assert "sk-proj" not in shown
    assert "secrets in the arguments are hidden here; the call has them" in shown
    assert "approve?" not in shown


async def test_ctrl_d_leaves_the_call_undecided(keyboard: int, capsys: Any) -> None:
    settings = termios.tcgetattr(sys.stdin)
    settings[3] |= termios.ICANON  # Ctrl-D is the end of the input
    termios.tcsetattr(sys.stdin, termios.TCSANOW, settings)
    decided, shown = await asked(keyboard, capsys, "\x04")
    assert decided is None
    assert shown.endswith("[n]: \n")


async def test_a_line_that_arrives_in_pieces_is_read_to_its_end(keyboard: int, capsys: Any) -> None:
    asking = asyncio.create_task(ask_for_decisions([PendingCall(CALL, "t")], CancellationToken()))
    await until(lambda: "[n]: " in capsys.readouterr().err)
    os.write(keyboard, b"not ")
    select.select([sys.stdin], [], [], PATIENCE)  # until it has arrived
    await until(lambda: not select.select([sys.stdin], [], [], 0)[0])  # until it is read
    os.write(keyboard, b"today\n")
    assert await asyncio.wait_for(asking, PATIENCE) == {"t": Refuse("not today")}


@pytest.mark.parametrize(("reads", "writes"), [(True, True), (True, False), (False, True), (False, False)])
def test_questions_are_asked_only_at_a_terminal(
    keyboard: int, monkeypatch: pytest.MonkeyPatch, *, reads: bool, writes: bool
) -> None:
    terminal, pipe = sys.stdin, io.StringIO()
    monkeypatch.setattr(sys, "stdin", terminal if reads else pipe)
    monkeypatch.setattr(sys, "stderr", terminal if writes else pipe)
    assert is_interactive() is (reads and writes)


@pytest.mark.parametrize(
    ("line", "is_yes"), [("y\n", True), ("Y\n", True), (" Yes \n", True), ("\n", False), ("no\n", False)]
)
def test_a_confirmation_is_a_yes_in_any_case(
    keyboard: int, capsys: pytest.CaptureFixture[str], line: str, is_yes: bool
) -> None:
    os.write(keyboard, line.encode())
    assert confirm("go on?") is is_yes
    assert capsys.readouterr().err == "go on? [y/N]: "
