"""The parts of the command line in this process: questions at a terminal, faults while it loads, what it finds."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import pty
import signal
import sys
import tty
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from tests.cli.conftest import Command
from wesichain.agent import Approve, ApproveWith, Refuse
from wesichain.cli import machine, main
from wesichain.cli.api import _bearer
from wesichain.cli.durable_runs import _End
from wesichain.cli.loading import DEFAULT_MODEL, chosen_model, load_object, load_tools
from wesichain.cli.serving import read_prices
from wesichain.cli.tasks.batch import BatchTask, read_tasks
from wesichain.cli.tasks.evaluating import _compared, _execute
from wesichain.cli.terminal import ask_person, read_line
from wesichain.cli.traces import _row, moment
from wesichain.core import ToolCall, Usage
from wesichain.core.internal import PendingCall, Price, Provide, Question, dump_json
from wesichain.durable import RunState
from wesichain.durable import RunSummary as DurableRun
from wesichain.errors import ConfigError
from wesichain.evals import Comparison, Report, Result
from wesichain.llm.local import MODELS
from wesichain.llm.local.files.cache import proof_of
from wesichain.tools import CancellationToken
from wesichain.trace import RunSummary as RecordedRun

# --- questions at a terminal -------------------------------------------------------------------------

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
    asking = asyncio.create_task(ask_person([PendingCall(CALL, "t", **waits)], stop))
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
    assert ("not taken as arguments" in shown) == (line == '{"to": \n')


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
    assert await ask_person([PendingCall(secret, "t")], left) is None
    shown = capsys.readouterr().err
    assert "sk-proj" not in shown
    assert "secrets in the arguments are hidden here; the call has them" in shown
    assert "approve?" not in shown


@pytest.mark.parametrize(("typed", "line"), [("hello\n", "hello"), ("\n", ""), ("", None)])
def test_a_line_of_a_chat(monkeypatch: pytest.MonkeyPatch, capsys: Any, typed: str, line: str | None) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    assert read_line("you> ") == line
    assert capsys.readouterr().err == "you> "


# --- faults while it loads ---------------------------------------------------------------------------


class Failing:
    """Fails when the commands are loaded."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def find_spec(self, name: str, *_: object) -> None:
        if name == "wesichain.cli.app":
            raise self.error


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (KeyboardInterrupt(), 130, ""),
        (ConfigError("no \x1b[2J"), 2, "error: no "),
        (ModuleNotFoundError("x", name="faiss.swig"), 2, "error: this command needs the 'faiss' package: "),
        (ModuleNotFoundError("x", name="rich"), 2, "error: the command line needs the 'rich' package: "),
        (BrokenPipeError(), 0, None),
        (OSError(28, "No space left on device", "/a/b"), 2, "error: /a/b: No space left on device\n"),
        (OSError("odd"), 2, "error: odd\n"),
        (ModuleNotFoundError("x", name="mine"), None, ""),
    ],
)
def test_a_fault_while_the_commands_are_loaded(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int | None, says: str | None
) -> None:
    shown = io.StringIO()
    monkeypatch.delitem(sys.modules, "wesichain.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Failing(error), *sys.meta_path])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "stderr", shown)
    with pytest.raises(SystemExit if status is not None else ModuleNotFoundError) as ended:
        main()
    assert sys.path[0] == "", "agents of the folder that the command is given in are found"
    if status is not None:
        assert getattr(ended.value, "code", None) == status
    assert shown.closed == (says is None)
    if says is not None:
        assert shown.getvalue().startswith(says)
        assert "\x1b" not in shown.getvalue()


def test_a_folder_of_runs_that_cannot_be_used_is_explained(
    monkeypatch: pytest.MonkeyPatch, home: Path, capsys: Any
) -> None:
    error = PermissionError(13, "Permission denied", str(home / "runs"))
    monkeypatch.delitem(sys.modules, "wesichain.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Failing(error), *sys.meta_path])
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit):
        main()
    says = f"error: {home / 'runs'}: Permission denied; $WESICHAIN_HOME says where runs are kept\n"
    assert capsys.readouterr().err == says


def test_a_factory_that_needs_a_loop_is_named_and_leaves_nothing_to_wait_for(tmp_path: Path) -> None:
    (tmp_path / "maker.py").write_text("async def make(): return 1\n")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(ConfigError, match="makes its agent in an event loop"):
            load_object(f"{tmp_path}/maker.py:make", str)
        gc.collect()
    assert not [one for one in warned if "never awaited" in str(one.message)]


# --- what is stopped ---------------------------------------------------------------------------------


async def test_an_evaluation_that_is_stopped_keeps_what_was_done_and_nothing_that_was_cut(
    tmp_path: Path,
) -> None:
    results, runs = tmp_path / "out" / "results.jsonl", tmp_path / "runs"
    tokens: list[CancellationToken] = []

    def result(case: str) -> Result:
        return Result(case, case, 1, "completed")

    async def work(*, events: Any, on_result: Any, cancellation: CancellationToken) -> Report:
        tokens.append(cancellation)
        on_result(result("done"))
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            on_result(result("cut"))
        raise AssertionError

    assert await _execute(work, 0, 2, results, runs) == (None, True)
    assert tokens[0].reason == "Ctrl-C"
    for path in (results, runs / "scores.jsonl"):
        (line,) = path.read_text().splitlines()
        assert '"done"' in line


async def test_an_evaluation_that_is_cancelled_otherwise_was_not_stopped_by_a_person(tmp_path: Path) -> None:
    async def work(**_: Any) -> Report:
        raise asyncio.CancelledError

    assert await _execute(work, 0, 1, tmp_path / "results.jsonl", tmp_path) == (None, False)


def test_a_worker_is_asked_to_stop_then_to_hurry_and_ends_as_the_signal_says(capsys: Any) -> None:
    end = _End(2.5)
    end.signal(signal.SIGTERM)
    assert (end.stop.reason, end.hurry.cancelled, end.status) == ("the worker was told to stop", False, 0)
    end.signal(signal.SIGINT)
    assert (end.hurry.reason, end.status) == ("the worker was stopped twice", 130)
    assert capsys.readouterr().err == (
        "stopping: runs have 2.5 s to end; other workers continue the rest\n"
        "not waiting any longer: other workers continue the runs\n"
    )


# --- what it finds on this machine -------------------------------------------------------------------


def test_a_model_in_the_cache_is_named_and_not_fetched(
    wesichain: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    card = MODELS[0]
    path = tmp_path / card.file
    monkeypatch.setenv("WESICHAIN_MODELS", str(tmp_path))
    rows = {line.split()[0]: line for line in models(wesichain)}
    assert " no " in rows[f"local:{card.name}"]
    with path.open("wb") as file:
        file.truncate(card.size)  # a file without a block
    proof = {"size": card.size, "mtime_ns": path.stat().st_mtime_ns, "sha256": card.sha256}
    proof_of(path).write_text(dump_json(proof))
    rows = {line.split()[0]: line for line in models(wesichain)}
    assert " yes " in rows[f"local:{card.name}"]
    assert f"{card.size / 1e6:.0f} MB" in rows[f"local:{card.name}"]
    done = wesichain("models", "--fetch", card.name)
    assert (done.status, done.out) == (0, f"{path}\n")
    assert "1 in " in wesichain("doctor").out


def models(wesichain: Command) -> list[str]:
    done = wesichain("models")
    assert done.status == 0
    return [line for line in done.out.splitlines() if line.startswith("local:")]


def test_a_model_that_cannot_be_stored_is_one_line(
    wesichain: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WESICHAIN_MODELS", "/proc/none")
    for args in (("ask", "hi", "--model"), ("chat", "--model")):
        done = wesichain(*args, f"local:{MODELS[0].name}")
        assert (done.status, "cannot be stored in /proc/none" in done.err) == (2, True)


def test_the_doctor_says_what_is_missing(
    wesichain: Command, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    def version(package: str) -> str:
        if package == "typer":
            raise PackageNotFoundError
        return "1.0"

    assert machine._version("no-such-package") is None
    monkeypatch.setattr(machine, "version", version)
    monkeypatch.setattr(os, "access", lambda *_: False)
    for names in machine.KEYS:
        for name in names:
            monkeypatch.delenv(name, raising=False)
    rows = [*machine._extras(), *machine._keys(), *machine._home()]
    assert ("--", "cli", "typer not installed", "pip install 'wesichain[cli]'") in rows
    assert (
        "!!",
        "data folder",
        f"{home} cannot be written",
        "set WESICHAIN_HOME to a folder of yours",
    ) in rows
    assert {row[0] for row in machine._keys()} == {"--"}
    assert wesichain("doctor").status == 1


# --- what it shows -----------------------------------------------------------------------------------


def test_a_recording_as_a_row_of_a_list() -> None:
    made = RecordedRun(
        Path("x"), "0123456789abcdef", 1_700_000_000.0, "m", "a \n b" + "c" * 90, "completed", 5
    )
    name, agent, status, when, steps, tokens, cost, task = _row(made)
    assert (name, agent, status, steps, tokens, cost) == ("0123456789ab", "", "completed", "", "", "")
    assert (when, task) == (moment(1_700_000_000.0)[:16], "a b" + "c" * 55)
    done = replace(made, steps=3, usage=Usage(4, 5), model="gpt-4o-mini")
    assert _row(done)[4:7] == (3, 9, "0.0000")
    assert _row(replace(made, steps=0, usage=Usage()))[4:6] == (0, 0)


@pytest.mark.parametrize(
    ("state", "more", "task"),
    [
        ("pending", {"served": True}, "do it"),
        ("pending", {"served": False}, "no worker of its version\ndo it"),
        ("failed", {"error": "e" * 130}, "e" * 120 + "\ndo it"),
        ("running", {"parent": "top"}, "inside top\ndo it"),
    ],
)
def test_a_durable_run_as_a_row_of_a_list(state: str, more: dict[str, Any], task: str) -> None:
    made = DurableRun("r" * 40, "desk", RunState(state), "v", 1.0, 2.0, task="do it", cost=0.25, **more)
    row = _row(made)
    assert row[:3] == ("r" * 40, "desk", state)
    assert row[3:] == (moment(2.0)[:16], "", "", "0.2500", task)


def test_a_comparison_in_lines() -> None:
    found = Comparison(
        4, 0.5, 0.75, -0.1, 0.6, ("a",), ("b", "c"), (3.0, 2.5), (1000.0, 900.0), ("d",), ("e",)
    )
    assert _compared(found) == [
        "over 4 cases: 50% -> 75%, a difference of +25.0% (95 %: -10.0% to +60.0%)",
        "where both pass: 3.0 -> 2.5 steps, 1,000 -> 900 tokens",
        "better: a",
        "worse: b, c",
        "in one of the two only: d, e",
    ]
    bare = Comparison(1, 1.0, 1.0, 0.0, 0.0, (), (), None, None)
    assert _compared(bare) == ["over 1 cases: 100% -> 100%, a difference of +0.0% (95 %: +0.0% to +0.0%)"]


@pytest.mark.parametrize(
    ("lines", "tasks"),
    [
        (
            '"one"\n\n{"task": "two", "id": "b"}\n{"task": "three"}\n',
            [("1", "one"), ("b", "two"), ("4", "three")],
        ),
        ('{"task": 5}\n', 'line 1: write a text, or {"task": TEXT, "id": ID}'),
        ("[1]\n", 'line 1: write a text, or {"task": TEXT, "id": ID}'),
        (
            '{"task": "a", "id": 1}\n"b"\n{"task": "c", "id": "2"}\n',
            "the id '2' is given twice; each task needs one of its own",
        ),
    ],
)
def test_the_tasks_of_a_file(tmp_path: Path, lines: str, tasks: Any) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(lines)
    if isinstance(tasks, str):
        with pytest.raises(ConfigError) as refused:
            read_tasks(path)
        assert str(refused.value).endswith(tasks)
    else:
        assert [(task.id, task.text) for task in read_tasks(path)] == tasks


def test_the_run_of_a_task_is_the_same_whenever_its_file_is_run() -> None:
    run_id = BatchTask("1", "go").run_id
    assert (len(run_id), run_id) == (30, BatchTask("1", "go").run_id)
    assert len({run_id, BatchTask("2", "go").run_id, BatchTask("1", "stay").run_id}) == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", ""), ('{"m": [1]}', ""), ('{"m": [1, 2, 3]}', ""), ('{"m": [-1, 2]}', ""), (None, "No such file")],
)
def test_prices_that_are_none_are_named(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "prices.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=r'--prices .*; write \{"MODEL": \[input, output\]\}') as refused:
        read_prices(path)
    assert says in str(refused.value)
    path.write_text('{"m": [1, 2.5]}')
    assert read_prices(path) == {"m": Price(1, 2.5)}


@pytest.mark.parametrize(
    ("given", "is_let_in"),
    [
        (["Bearer secret"], True),
        (["bearer secret"], False),
        (["Bearer secret2"], False),
        ([], False),
        (["Bearer secret", "Bearer secret"], False),
        (["Bearer s\xe9cret"], False),
    ],
)
def test_a_token_is_sent_in_the_one_header_that_is_for_it(given: list[str], is_let_in: bool) -> None:
    headers = [(b"authorization", one.encode("latin-1")) for one in given]
    assert _bearer(None) is None
    assert _bearer("secret")(Request({"type": "http", "headers": headers})) is is_let_in


def test_the_model_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WESICHAIN_MODEL", raising=False)
    assert chosen_model(None) == DEFAULT_MODEL
    monkeypatch.setenv("WESICHAIN_MODEL", "openai:x")
    assert (chosen_model(None), chosen_model("ollama:y")) == ("openai:x", "ollama:y")
    with pytest.raises(ConfigError, match="--model is empty"):
        chosen_model(" ")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def a(x: int) -> int: return x\ndef _b(): ...\nfrom math import sqrt\n", ["a"]),
        ('from wesichain import tool\n@tool\ndef a() -> int:\n    "A."\n    return 1\ndef b(): ...\n', ["a"]),
        ("def a(): ...\ndef b(): ...\ntools = (b,)\n", ["b"]),
        ("x = 1\n", "has no tools: write a function, or make a list named 'tools'"),
        (None, "there is no file "),
        ("def a(:\n", "tools.py cannot be loaded: SyntaxError"),
        (
            "import math\nmath.nothing\n",
            r"tools.py cannot be loaded: AttributeError: .* \(tools.py, line 2\)",
        ),
    ],
)
def test_the_tools_of_a_file(tmp_path: Path, text: str | None, names: Any) -> None:
    path = tmp_path / "tools.py"
    if text is not None:
        path.write_text(text)
    before = [*sys.path]
    if isinstance(names, str):
        with pytest.raises(ConfigError, match=names):
            load_tools(path)
    else:
        found = load_tools(path)
        assert [getattr(one, "__name__", None) or one.spec.name for one in found] == names
    assert sys.path == before
