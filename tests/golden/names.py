"""Every name that is stored: tags, keys, tables, columns, step names and format numbers.

`python -m tests.golden.names` prints them; `names.json` holds those of the present version. A name that goes
from there is a database that cannot be read any more: what is stored keeps its name, or gets a reader.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from tests.golden import durable_program
from tests.golden.programs import KINDS, agent, playbook, record, thread_graph
from wesichain import Agent, Recovery, tool
from wesichain.agent import SqliteConversations
from wesichain.core import Event, LlmRequest, LlmResponse, Role
from wesichain.core.codec.forms import shape_of
from wesichain.core.internal import Decision
from wesichain.durable import DurableAgent
from wesichain.durable.journal.records import JournalRecord
from wesichain.durable.questions import GraphEnding
from wesichain.durable.workflow_ids import BeginWorkflow, Resume
from wesichain.errors import (
    GraphInterruptedError,
    LlmTransportError,
    ModelTransportError,
    RunInterruptedError,
)
from wesichain.graph import ExecutionOptions
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.policy import Retry
from wesichain.testing import FunctionLlm, calls

ROOTS: dict[str, Any] = {
    "event": Event,
    "decision": Decision,
    "durable order": BeginWorkflow | Resume,
    "durable step": JournalRecord,
    "durable graph": GraphEnding,
}


def tags() -> dict[str, list[str]]:
    """The keys of each stored value: by its tag, or, where it has none, by where it was first met."""
    found: dict[str, list[str]] = {}
    seen: set[Any] = set()

    def visit(type_: Any, where: str) -> None:
        for one in _classes(type_):
            if one in seen or hasattr(one, "to_plain"):
                continue
            seen.add(one)
            kind, always, sometimes = shape_of(one)
            name = kind or where
            found[name] = sorted([*always, *(key for key, _ in sometimes)])
            for key, hint in get_type_hints(one).items():
                if key in found[name]:
                    visit(hint, f"{name}.{key}")

    for name, root in ROOTS.items():
        visit(root, name)
    return dict(sorted(found.items()))


def _classes(type_: Any) -> Iterator[Any]:
    if isinstance(type_, type) and is_dataclass(type_):
        yield type_
    for part in get_args(type_):
        yield from _classes(part)


async def outcomes(folder: Path) -> dict[str, list[str]]:
    """The keys of stored outcomes, of those that are kept as they are or with a recording."""
    found: dict[str, set[str]] = {}
    for kind in KINDS:
        await record(kind, folder)
    for file in folder.glob("*-*.json"):
        plain = json.loads(file.read_text())
        found.setdefault(plain["kind"], set()).update(plain)
    return {kind: sorted(keys) for kind, keys in sorted(found.items())}


async def steps(url: str) -> list[str]:
    """The names of the steps of durable runs, with their numbers and ids taken out."""

    @tool(effect="once")
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    faults = [LlmTransportError("away", retryable=True)]

    def reply(request: LlmRequest) -> LlmResponse | str | Exception:
        if faults:
            return faults.pop()
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        return "done" if turn else calls(("pay", {"amount": 1}), ("helper", {"task": "look"}))

    helper = Agent(FunctionLlm(lambda _: "looked"), instructions=lambda: "Help.", name="helper")
    policy = Recovery({ModelTransportError: Retry()}, backoff=0.01)
    durable: Any = Agent(
        FunctionLlm(reply), tools=[pay, helper.as_tool()], policy=policy, output_checks=[lambda text: text]
    )
    async with DurableAgent(durable, "names", database_url=url) as runs:
        await runs.run("go", run_id="names")
    async with durable_program.durable(url) as runs:
        with suppress(RunInterruptedError):
            await runs.run("send", run_id="waits")
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
        rows = database.execute("SELECT function_name FROM operation_outputs").fetchall()
    return sorted({_pattern(name) for (name,) in rows})


def _pattern(name: str) -> str:
    """`call 3 c1 2` as `call # * #`; what stands before a / is the scope of a run inside."""
    scope, slash, own = name.rpartition("/")
    head = "intent " if scope.startswith("intent ") or own.startswith("intent ") else ""
    words = own.removeprefix("intent ").split(" ")
    rest = ["#" if re.fullmatch(r"\d+", word) else "*" for word in words[1:]]
    return head + ("*/" if slash else "") + " ".join([words[0], *rest])


def stores(folder: Path, url: str) -> tuple[dict[str, Any], dict[str, dict[str, list[str]]]]:
    """The format number of each store, and the columns of its tables."""
    asyncio.run(_use(folder))
    playbook(folder)
    files = {
        "checkpoints": folder / "threads.db",
        "conversations": folder / "talks.db",
        "durable": Path(url.removeprefix("sqlite:///")),
    }
    tables = {name: _tables(path) for name, path in files.items()}
    header = json.loads((folder / "answered.jsonl").read_text().partition("\n")[0])
    return {
        "recordings": header["version"],
        "playbooks": json.loads((folder / "playbook/playbook.json").read_text())["format"],
        "checkpoints": _user_version(files["checkpoints"]),
        "conversations": _user_version(files["conversations"]),
        "durable": _one(files["durable"], "SELECT number FROM wesichain_format WHERE store = 'durable'"),
    }, tables


async def _use(folder: Path) -> None:
    """Keep a thread and a conversation."""
    saver = SqliteCheckpointer(folder / "threads.db")
    with suppress(GraphInterruptedError):
        await thread_graph(saver).invoke({"input": "Tell Ada."}, ExecutionOptions(thread_id="t"))
    saver.close()
    talk = SqliteConversations(folder / "talks.db").open("c")
    await agent("answered").run("Where?", conversation=talk)


def _tables(path: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(path)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        ours = [name for name in names if path.name != "runs.db" or name.startswith("wesichain_")]
        return {
            name: sorted(row[1] for row in database.execute(f"PRAGMA table_info({name})"))
            for name in sorted(ours)
            if not name.startswith("sqlite_")
        }


def _user_version(path: Path) -> int:
    return int(_one(path, "PRAGMA user_version"))


def _one(path: Path, sql: str) -> Any:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(sql).fetchone()[0]


def collect() -> dict[str, Any]:
    """All of it, as `names.json` has it."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        url = f"sqlite:///{folder}/runs.db"
        kept = asyncio.run(outcomes(folder))
        named = asyncio.run(steps(url))
        formats, tables = stores(folder, url)
    return {"formats": formats, "tables": tables, "steps": named, "tags": tags(), "outcomes": kept}


if __name__ == "__main__":
    os.environ.setdefault("WESICHAIN_HOME", tempfile.gettempdir())
    print(json.dumps(collect(), indent=1, sort_keys=True))
