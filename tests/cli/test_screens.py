"""Sessions at the command line: every command, its whole output, its status.

A session is in `screens/`: a line `$ COMMAND`, what it wrote to standard output, what it wrote to standard error
(behind `! `), and a line `= STATUS` where that is not 0. Commands are read from there, and what they show is
compared (see `tests/expected.py`).
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests import expected
from tests.cli import screen_program
from tests.cli.conftest import TOOLS, Command
from tests.cli.screen_program import buyer, lender, payer
from tests.cli.stub_server import call, serving, text
from tests.durable.databases import database_in
from tests.trace.runs import NOON, run
from wesichain.core import RunStarted
from wesichain.durable import DurableAgent
from wesichain.errors import RunInterruptedError
from wesichain.trace import Recorder

SCREENS = Path(__file__).with_name("screens")
# What differs from run to run: names get a letter, as long as they are, so that columns stay where they are.
NAME = re.compile(r"\b(?:[0-9a-f]{32}|[0-9a-f]{12})\b")
SETTLED: tuple[tuple[str, Any], ...] = (
    (r"\b20\d\d-\d\d-\d\d \d\d:\d\d\b(:\d\d)?", lambda found: "2000-01-01 00:00:00"[: len(found[0])]),
    (r"\b20\d{6}T\d{6}\.\d{6}Z", "TIME"),
    (r"\b1[78]\d{8}(\.\d+)?\b", "946684800"),
    (r"\b127\.0\.0\.1:\d{4,}", "ADDRESS"),
    (r"\.html: [\d,]+ bytes", ".html: SIZE bytes"),
)


@dataclass
class Session:
    """A folder, a home, and the names that were made there so far."""

    folder: Path
    home: Path
    names: list[str] = field(default_factory=list)

    def words(self, line: str) -> list[str]:
        """The words of a command, with the names for the letters that stand for them."""
        for number, name in enumerate(self.names):
            line = line.replace(f"{{{letter(number)}}}", name)
        return shlex.split(line)

    def settled(self, shown: str) -> str:
        for name in NAME.findall(shown):
            known = next((number for number, one in enumerate(self.names) if one[:12] == name[:12]), None)
            if known is None:
                self.names.append(name)
            else:
                self.names[known] = max(name, self.names[known], key=len)
        for number, name in enumerate(self.names):
            shown = shown.replace(name, letter(number) * len(name)).replace(name[:12], letter(number) * 12)
        for path, word in ((self.folder, "FOLDER"), (self.home, "HOME")):
            shown = shown.replace(str(path), word)
        for pattern, word in SETTLED:
            shown = re.sub(pattern, word, shown)
        return shown


def letter(number: int) -> str:
    return "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[number]


def recordings(folder: Path) -> None:
    """Three runs by hand, of which the last two differ from the first; and tools."""
    (folder / "tools.py").write_text(TOOLS)
    with Recorder(folder / "runs") as recorder:
        for number, (run_id, city) in enumerate((("one", "Paris"), ("two", "Rome"), ("three", "Rome"))):
            for event in run(run_id, 1 + number // 2, at=NOON - 100 + number, city=city):
                recorder.emit(replace(event, model="gpt-4o-mini") if isinstance(event, RunStarted) else event)


def labels(folder: Path) -> None:
    """Labels of runs, and files that hold none."""
    recordings(folder)
    marks = [
        {"run": "one", "good": False, "why": "Say the year.", "by": "owner"},
        {"run": "two", "good": True},
    ]
    lines_in(folder / "labels.jsonl", *map(json.dumps, marks), "")
    mark = '{"run": "x", "good": true'
    wrong = ("nonsense", "[]", '{"run": "x"}', '{"run": "", "good": true}', '{"run": "x", "good": 1}')
    for number, line in enumerate([*wrong, mark + ', "why": 1}', mark + ', "by": 1}'], 1):
        lines_in(folder / f"{number}.jsonl", line)
    lines_in(
        folder / "runs" / "labels.jsonl", '{"run": "two", "good": true}', '{"run": "gone", "good": true}'
    )


def durable(folder: Path) -> None:
    """Runs of two agents that wait for a person, and a recording of a run that has not ended."""
    with Recorder(folder / "recorded") as recorder:
        recorder.emit(run("r", 1, at=NOON)[0])

    async def begin() -> None:
        url = database_in(folder)
        for name, agent, ids in (("buyer", buyer(), ("b1", "b2", "b3")), ("lender", lender(), ("l1",))):
            async with DurableAgent(agent, name, database_url=url) as made:
                for run_id in ids:
                    with pytest.raises(RunInterruptedError):
                        await made.run(f"go {run_id}", run_id=run_id)

    asyncio.run(begin())


def refusing(folder: Path) -> None:
    (folder / "empty.db").touch()
    (folder / "tools.py").write_text(TOOLS)


def batches(folder: Path) -> None:
    lines_in(folder / "tasks.jsonl", '"Ann"', "", '{"task": "Ben", "id": "b"}', '{"task": "FAIL"}')
    lines_in(folder / "well.jsonl", '"Ann"', '"Cleo"')
    lines_in(folder / "bank.jsonl", '"BANK"')
    for number, line in enumerate(("{", "[1]", '{"task": "a", "id": 1}\n{"task": "b", "id": 1}'), 1):
        lines_in(folder / f"{number}.jsonl", line)


def cases(folder: Path) -> None:
    """Payments, of which the first is easy: nobody has to know that amounts are in cents."""
    rows: list[dict[str, Any]] = [
        {"id": f"c{n}", "task": f"Pay {n} euros", "expected": f"paid {n * 100}"} for n in range(1, 13)
    ]
    rows[0] |= {"expected": "paid 1", "tags": ["easy", "pair"]}
    rows[1] |= {"tags": ["pair"]}
    lines_in(folder / "pay.jsonl", *map(json.dumps, rows))


def drifting(folder: Path) -> None:
    cases(folder)
    with Recorder(folder / "recorded") as recorder:
        for number in (1, 2):
            payer.run_sync(f"Pay {number} euros", events=[recorder])


def lines_in(path: Path, *lines: str) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


PREPARED: dict[str, Callable[[Path], None]] = {
    "recordings": recordings,
    "learning": labels,
    "durable": durable,
    "batch": batches,
    "evals": cases,
    "drift": drifting,
    "refusals": refusing,
}
ADDED = call("add", {"a": 1, "b": 2})
QUERY = call("query_orders", {"sql": "SELECT quantity FROM orders WHERE customer = 'Cleo' AND item = 'lamp'"})


def shown(answer: str, service: str) -> list[dict[str, Any]]:
    """The replies of a demo that answers so, and sends the second order by this service."""
    done = text("done")
    return [QUERY, text(answer), ship("A17", "express"), done, ship("B23", service), done]


def ship(order: str, service: str) -> dict[str, Any]:
    return call("ship", {"order": order, "service": service})


REPLIES: dict[str, list[dict[str, Any]]] = {
    "recordings": [ADDED, text("it is 3"), text("three"), call("delete", {"path": "x"})],
    "demo": [
        *shown("5 lamps", "EXP-24"),
        *shown("3 lamps", "EXP-24"),
        *shown("5 lamps", "express"),
        *shown("5 lamps", "ECO-72"),
    ],
}


@pytest.mark.parametrize("name", [path.stem for path in sorted(SCREENS.glob("*.txt"))])
def test_a_session(
    name: str, wesichain: Command, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("WESICHAIN_MODELS", raising=False)
    monkeypatch.setitem(sys.modules, "bench", None)  # as where there is no checkout
    shutil.copy(screen_program.__file__, tmp_path / "program.py")
    if name in PREPARED:
        PREPARED[name](tmp_path)
    session = Session(tmp_path, home)
    file = SCREENS / f"{name}.txt"
    shown = ""
    with chdir(tmp_path), serving(*REPLIES.get(name, ())) as url:
        for line in re.findall(r"^\$ (.*)", file.read_text(encoding="utf-8"), re.MULTILINE):
            if line == "ls":
                names = sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__")
                shown += "$ ls\n" + "".join(f"{name}\n" for name in names)
                continue
            if line.startswith("cat "):
                shown += f"$ {line}\n{session.settled(Path(line[4:]).read_text())}"
                continue
            done = wesichain(*session.words(line), url=url)
            errors = "".join(f"! {one}\n" for one in session.settled(done.err).splitlines())
            status = f"= {done.status}\n" if done.status else ""
            shown += f"$ {line}\n{session.settled(done.out)}{errors}{status}"
    expected.check(file, shown)
