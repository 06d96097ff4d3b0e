"""The law: a command that the product prints can be typed unchanged, by a shell, in another folder.

Each scenario prints commands, which are collected and typed. Every place in the sources that prints one has to be
seen in an output of a scenario.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.cli.conftest import Command
from tests.cli.stub_server import serving, text
from tests.cli.test_targets import PROGRAM
from tests.cli.typed import Shell, printed
from tests.conftest import ROOT
from tests.trace.runs import run
from wesichain.cli.app import app
from wesichain.durable import DurableAgent
from wesichain.errors import RunInterruptedError
from wesichain.learning import Playbook
from wesichain.trace import Recorder

Say: TypeAlias = Callable[..., str]
Scenario: TypeAlias = Callable[[Path, Say], str]


def lines(folder: Path, name: str, *rows: object) -> str:
    path = folder / name
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return str(path)


def waiting(folder: Path, say: Say) -> str:
    """A run that waits; how it is shown and decided; what is left when it is decided."""
    shown = say("run", "program.py:agent", "x.txt", "--runs", "recorded runs")
    (resume,) = [one for one in printed(shown) if " resume " in one]
    shown += say(*resume.split()[1:]) + say("runs", "show", resume.split()[-1])
    return shown


def decided(folder: Path, say: Say) -> str:
    shown = say("run", "program.py:agent", "x.txt")
    told = say(*printed(shown)[-1].split()[1:])
    return say(*printed(told)[0].split()[1:])


def two_calls(folder: Path, say: Say) -> str:
    """Of two calls that wait, one is decided."""
    source = PROGRAM.replace('calls(("erase"', 'calls(("erase", {"name": "other"}), ("erase"')
    (folder / "twice.py").write_text(source, encoding="utf-8")
    shown = say("run", "twice.py:agent", "x.txt")
    told = say(*printed(shown)[-1].split()[1:])
    return say(*printed(told)[0].split()[1:])


def external(folder: Path, say: Say) -> str:
    source = PROGRAM.replace('approval=True, effect="once"', "external=True")
    (folder / "bank.py").write_text(source, encoding="utf-8")
    shown = say("run", "bank.py:agent", "x.txt")
    return shown + say(*printed(shown)[-1].split()[1:])


def failed(folder: Path, say: Say) -> str:
    (folder / "fails.py").write_text(
        "from wesichain import Agent\nfrom wesichain.testing import FunctionLlm\n"
        "def reply(request): raise ValueError('no')\nagent = Agent(FunctionLlm(reply))\n"
    )
    return say("run", "fails.py:agent", "x", "--runs", "recorded runs")


def batch(folder: Path, say: Say) -> str:
    return say("run", "program.py:agent", lines(folder, "my tasks.jsonl", "x.txt"), "--out", "out.jsonl")


def stored(folder: Path, say: Say) -> str:
    url = "sqlite:///my runs.db"

    async def begin() -> None:
        from tests.cli.screen_program import buyer

        async with DurableAgent(buyer(), "buyer", database_url=url) as durable:
            for run_id in ("r1", "r2"):
                with pytest.raises(RunInterruptedError):
                    await durable.run("go", run_id=run_id)

    asyncio.run(begin())
    shown = say("runs", "show", "r1", "--database-url", url)
    return shown + say("runs", "cancel", "r2", "--database-url", url)


def evaluated(folder: Path, say: Say) -> str:
    (folder / "greeter.py").write_text(
        "from wesichain import Agent\nfrom wesichain.testing import FunctionLlm\n"
        "agent = Agent(FunctionLlm(lambda request: 'hello'))\n"
    )
    cases = lines(folder, "cases.jsonl", {"task": "greet", "expected": "hello"})
    return say("eval", cases, "--agent", "greeter.py:agent", "--runs", "recorded runs")


def refused(*args: str) -> Scenario:
    return lambda folder, say: say(*args)


def unknown_run(folder: Path, say: Say) -> str:
    with Recorder(folder / "runs") as recorder:
        for event in run("one", 1):
            recorder.emit(event)
    return say("trace", "show", "nope", "--runs", "runs")


def bullet(folder: Path, say: Say) -> str:
    say("playbook", "record", "shop", "Greet first.", "--path", "my book")
    return say("playbook", "show", "nope", "--path", "my book")


def exported(folder: Path, say: Say) -> str:
    with Playbook.open(folder / "book") as book:
        book.export(folder / "PLAYBOOK.md")
    return (folder / "PLAYBOOK.md").read_text(encoding="utf-8")


def demo(folder: Path, say: Say) -> str:
    with serving(text("5 lamps"), text("done"), text("done"), text("done")) as url:
        return say("demo", "--model", "openai:stub", url=url)


def pages(folder: Path, say: Say) -> str:
    """What the pages of the viewer advise."""
    found: list[str] = []
    for path in sorted((ROOT / "src/wesichain/web/static").glob("*.js")):
        found += re.findall(r"[\"'](wesichain [a-z].*)[\"']\)", path.read_text(encoding="utf-8"))
    assert len(found) == 2
    return "\n".join(found)


def without_an_agent(folder: Path, say: Say) -> str:
    from starlette.testclient import TestClient

    from wesichain.web import create_app

    made = create_app(folder, token="t" * 16, hosts=["testserver"])
    with TestClient(made, headers={"authorization": f"Bearer {'t' * 16}"}) as client:
        return str(client.post("/api/runs/x/fork", json={"step": 1}).json())


SCENARIOS: dict[str, Scenario] = {
    "no runs": refused("trace", "list"),  # the first: there are some later
    "waiting": waiting,
    "decided": decided,
    "two calls": two_calls,
    "external": external,
    "failed": failed,
    "batch": batch,
    "stored": stored,
    "evaluated": evaluated,
    "demo": demo,
    "no question": refused("ask"),
    "no task": refused("run", "program.py:agent"),
    "unknown run": unknown_run,
    "no label": refused("playbook", "learn"),
    "no playbook": refused("ask", "x", "--playbook", "none"),
    "no bullet": bullet,
    "doctor": refused("doctor"),
    "a page": exported,
    "the pages": pages,
    "no agent": without_an_agent,
}
OFFLINE = "wesichain doctor --fetch"  # the model is on another machine


@pytest.fixture
def say(wesichain: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Say]:
    """Runs a command in a folder of its own; returns all that it prints."""
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("WESICHAIN_MODELS", str(tmp_path / "models"))
    folder = tmp_path / "my work"
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")

    def say(*args: str, **options: str) -> str:
        done = wesichain(*args, **options)
        return f"{done.out}\n{done.err}\n"

    with chdir(folder):
        yield say


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_printed_can_be_typed(name: str, say: Say, tmp_path: Path) -> None:
    shown = SCENARIOS[name](Path.cwd(), say)
    commands = printed(shown)
    assert commands, shown
    shell = Shell(tmp_path)
    for command in dict.fromkeys(commands):
        if re.search(r"wesichain serve(?! --help)", command):
            assert address_of(shell, command).startswith("http://127.0.0.1:"), command
        elif not command.startswith(OFFLINE):
            done = shell.type(command, stdin='"a result"', PYTHONPATH=str(ROOT))
            assert done.status in (0, 1, 3), (command, done)
            assert "Traceback" not in done.err, (command, done)


def address_of(shell: Shell, command: str) -> str:
    """The address that a server prints; it is ended then."""
    process = shell.start(f"{command} --port 0")
    assert process.stdout is not None
    address = str(process.stdout.readline())
    process.terminate()
    process.communicate(timeout=60)
    return address


# --- every place in the sources -----------------------------------------------------------------------


def test_every_place_that_prints_a_command_is_in_a_scenario(say: Say, tmp_path: Path) -> None:
    shown = ""
    for number, scenario in enumerate(SCENARIOS.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
        with chdir(folder):
            shown += scenario(folder, say)
    missing = [f"{where}: {text}" for where, text in places() if text.strip() not in shown]
    assert missing == []


def places() -> Iterator[tuple[str, str]]:
    """Where the sources print a command: texts that have one, and the purposes of those put together."""
    commands = "|".join(app_commands())
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        is_cli = path.is_relative_to(ROOT / "src/wesichain/cli")
        silent = {id(node.body[0].value) for node in ast.walk(tree) if is_documented(node, is_cli=is_cli)}  # type: ignore[attr-defined]  # they have one
        for node in ast.walk(tree):
            where = f"{path.name}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
                for line in node.value.splitlines():
                    if re.search(rf"wesichain ({commands})\b", line):
                        yield where, line
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print_command":
                first = node.args[0]
                parts = first.values if isinstance(first, ast.JoinedStr) else [first]
                texts = [str(one.value) for one in parts if isinstance(one, ast.Constant)]
                yield where, max(texts, key=len)


def app_commands() -> list[str]:
    from typer.main import get_command

    tree: Any = get_command(app)
    return [*tree.list_commands(None)]


def is_documented(node: ast.AST, *, is_cli: bool) -> bool:
    """Whether a node has a docstring that no help prints: those of functions of the command line are printed."""
    kinds = (
        (ast.Module, ast.ClassDef)
        if is_cli
        else (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    )
    return (
        isinstance(node, kinds)
        and bool(node.body)
        and isinstance(node.body[0], ast.Expr)
        and isinstance(node.body[0].value, ast.Constant)
    )
