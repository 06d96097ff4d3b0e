"""All rows of a database of durable runs, and what every question to it returns: after one small run of each kind.

A database is in `whole_databases/` (see `tests/expected.py`), a line for each row.
"""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from tests import expected
from tests.durable.databases import database_in
from tests.durable.test_agent import add, delete, turns
from tests.graph.test_whole_threads import shown
from wesichain import Agent, Budget, Image, ModelSettings
from wesichain.agent import (
    Approve,
    ApproveWith,
    Completed,
    Conversation,
    Failed,
    Interrupted,
    Provide,
    Refuse,
    RunResult,
)
from wesichain.core import Message, Role, to_json
from wesichain.durable import DurableAgent, DurableGraph, DurableRuns
from wesichain.errors import LlmTransportError, WesichainError
from wesichain.graph import Append, GraphBuilder, interrupt
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.policy import FailFast
from wesichain.testing import FakeClock, FunctionLlm, calls
from wesichain.tools import JsonTool

FOLDER = Path(__file__).parent / "whole_databases"
EVENTS_OF_GRAPHS = ("operation_outputs", "workflow_output")  # which of them has an event depends on the time


@dataclass
class Desk:
    """A database in a folder, its clock, and the lines that it has shown."""

    folder: Path
    lines: list[str] = field(default_factory=list[str])
    clock: FakeClock = field(default_factory=lambda: FakeClock(1000.0))

    def __post_init__(self) -> None:
        self.url = database_in(self.folder)
        self.runs = DurableRuns(self.url, clock=self.clock)

    def agent(self, agent: Agent[Any, Any], name: str = "agent", **options: Any) -> DurableAgent[Any]:
        return DurableAgent(agent, name, database_url=self.url, version="v1", clock=self.clock, **options)

    async def show(self, what: str, asked: Awaitable[Any]) -> Any:
        """Show what came of it."""
        try:
            found = await asked
        except (WesichainError, TimeoutError) as error:
            self.lines.append(f"{what} ! {type(error).__name__}: {error}")
            return error
        outcome = found.outcome if isinstance(found, RunResult) else found
        text = to_json(outcome) if isinstance(outcome, Completed | Failed | Interrupted) else shown(found)
        self.lines.append(f"{what} = {text}")
        return found

    async def look(self, run_id: str) -> None:
        """Show all that can be asked about a run."""
        await self.show("show", self.runs.show(run_id))
        await self.show("pending", self.runs.pending(run_id))
        self.lines += [f"  {shown(event)}" async for event in self.runs.events(run_id)]

    def rows(self, *left_out: str) -> None:
        """Show every row of the database, but for those of these tables."""
        with closing(sqlite3.connect(self.folder / "runs.db")) as db:
            db.row_factory = sqlite3.Row
            names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for name in sorted(names):
                if "migration" in name or name.startswith("sqlite_") or name in left_out:
                    continue
                for row in db.execute(f"SELECT * FROM {name}"):
                    found = {key: unpacked(row[key]) for key in row.keys() if row[key] is not None}  # noqa: SIM118
                    self.lines.append(f"{name} {json.dumps(found, ensure_ascii=False)}")


# --- the kinds ---------------------------------------------------------------------------------------


def adder(**options: Any) -> Agent[Any, str]:
    return Agent(turns(calls(("add", {"a": 1, "b": 2})), "three"), tools=[add], **options)


def deleter(**options: Any) -> Agent[Any, str]:
    asks = calls(("delete", {"path": "a"}), ("delete", {"path": "b"}))
    return Agent(turns(asks, "as you wish"), tools=[delete], tool_concurrency=1, **options)


async def an_answer(desk: Desk) -> None:
    async with desk.agent(adder(instructions="be exact")) as durable:
        await desk.show("run", durable.run("1 + 2?", run_id="r"))
        await desk.show("again", durable.run("1 + 2?", run_id="r"))
        await desk.show("other", durable.run("2 + 2?", run_id="r"))
        await desk.show("stats", desk.runs.stats())
        await desk.look("r")


async def all_options(desk: Desk) -> None:
    memory = Conversation(1000)
    measure = JsonTool("measure", "Measure.", {"type": "object"}, external=True)
    task: list[Any] = ["What is it?", Image(data=b"\x89PNG", media_type="image/png")]
    async with desk.agent(adder(name="other")) as durable:
        run_id = await durable.enqueue(
            task,
            run_id="r",
            history=[Message(Role.USER, "hello")],
            conversation=memory,
            budget=Budget(3),
            settings=ModelSettings(seed=7),
            tools=[measure],
            priority=3,
            delay=999.0,
            key="ann",
        )
        await desk.show("show", desk.runs.show(run_id))
        await desk.show("conversation", durable.conversation("r"))
        await desk.show("cancel", durable.cancel("r"))
        await desk.show("show", desk.runs.show("r"))
        await desk.show("delete", durable.delete("r"))
        await desk.show("show", desk.runs.show("r"))
        for wrong in (
            {"priority": 0},
            {"priority": 1_000_001},
            {"delay": -1.0},
            {"delay": 1e9},
            {"model": 5},
        ):
            await desk.show(f"{wrong}", durable.enqueue("x", run_id="x", **wrong))


async def approvals(desk: Desk) -> None:
    async with desk.agent(deleter(approval_ttl=60.0)) as durable:
        await desk.show("run", durable.run("delete", run_id="r"))
        await desk.look("r")
        first, second = await durable.pending("r")
        await desk.show("resume", durable.outcome("r"))
        await desk.show("wrong", durable.decide("r", {first.token: Approve(), "nobody's": Approve()}))
        await desk.show("odd", durable.decide("r", {first.token: True}))  # type: ignore[dict-item]
        await desk.show("bare", durable.decide("r", Approve()))  # type: ignore[arg-type]
        await desk.show("provided", durable.approve("r", first.token, Provide(5)))
        await desk.show("first", durable.approve("r", first.token, ApproveWith({"path": "c"})))
        await desk.show("twice", durable.approve("r", first.token, Approve()))
        await desk.show("pending", durable.pending())
        desk.rows()
        desk.clock.jump(61)
        await desk.show("late", durable.approve("r", second.token, Approve()))
        desk.clock.jump(-61)
        await desk.show("refused", durable.approve("r", second.token, Refuse("no")))
        await desk.show("result", durable.result("r"))
        await desk.look("r")


async def an_agent_inside(desk: Desk) -> None:
    inner = deleter(name="inner", description="Deletes.")
    llm = turns(calls(("inner", {"task": "delete"}), ("add", {"a": 1, "b": 2})), "all done")
    async with desk.agent(
        Agent(llm, tools=[inner.as_tool(effect="idempotent"), add], tool_concurrency=1)
    ) as durable:
        await desk.show("run", durable.run("go", run_id="r"))
        desk.rows()
        (child,) = [one.run_id for one in await desk.runs.list() if one.parent]
        await desk.show("list", desk.runs.list())
        await desk.look(child)
        await desk.show("cancel", durable.cancel(child))
        given = {one.token: Approve() for one in await durable.pending("r")}
        await desk.show("decide", durable.decide("r", given))
        await desk.show("result", durable.result("r"))
        await desk.show("list", desk.runs.list())
        await desk.look("r")
        await desk.look(child)


async def a_failure(desk: Desk) -> None:
    replies = iter([LlmTransportError("busy"), "fine"])

    def answer(_: Any) -> Any:
        reply = next(replies)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async with desk.agent(Agent(FunctionLlm(answer), policy=FailFast())) as durable:
        await desk.show("run", durable.run("go", run_id="r"))
        await desk.look("r")
        await desk.show("resume", durable.resume("r"))
        await desk.show("cancel", durable.cancel("r"))
        await desk.show("status", durable.status("r"))
        await desk.show("prune", durable.prune(older_than=999))
        await desk.show("delete", durable.delete("r"))


async def a_run_that_is_cancelled(desk: Desk) -> None:
    async with desk.agent(deleter()) as durable:
        await desk.show("run", durable.run("delete", run_id="r"))
        await desk.show("cancel", durable.cancel("r"))
        await desk.look("r")
        await desk.show("outcome", durable.outcome("r"))
        desk.rows()
        await desk.show("resume", durable.resume("r"))
        await desk.show("totals", desk.runs.totals())


async def lists(desk: Desk) -> None:
    async with desk.agent(adder()) as durable, desk.agent(deleter(), "other") as other:
        for number in range(3):
            await durable.run(f"run {number}", run_id=f"r{number}")
        await desk.show("run", other.run("delete", run_id="o"))
        await other.enqueue("later", run_id="later", delay=999.0)
    runs = desk.runs
    await desk.show("all", runs.list())
    await desk.show("two", runs.list(limit=2))
    await desk.show("after", runs.list(limit=2, after="r2"))
    await desk.show("none", runs.list(limit=0))
    await desk.show("nobody", runs.list(after="nobody"))
    await desk.show("odd", runs.list("odd"))
    await desk.show("pending", runs.list("pending"))
    await desk.show("interrupted", runs.list("interrupted"))
    await desk.show("search", runs.list(search="RUN 1"))
    await desk.show("unknown", runs.list(text="run 1"))  # type: ignore[call-arg]
    await desk.show("tool", runs.list(tool="add", limit=1))
    await desk.show("tool", runs.list(tool="delete"))
    for limit in ("least_cost", "since", "least_seconds"):
        await desk.show(limit, runs.list(**{limit: 1e9 if limit == "since" else 1.0}))  # type: ignore[arg-type]
    for limit in ("most_cost", "until"):
        await desk.show(limit, runs.list(**{limit: 1.0}))  # type: ignore[arg-type]
    await desk.show("stats", runs.stats())
    await desk.show("totals", runs.totals())
    await desk.show("known", runs.known(["r1", "nobody"]))
    await desk.show("prune", runs.prune(older_than=-1))
    await desk.show("prune", runs.prune(older_than=999))
    await desk.show("prune", runs.prune(older_than=0))
    await desk.show("left", runs.list())
    async with DurableRuns(desk.url, agent="other") as others:
        await desk.show("stats", others.stats())
        await desk.show("pending", others.pending())
        await desk.show("not its own", others.show("r1"))


class Notes(TypedDict, total=False):
    said: Annotated[list[str], Append]
    output: str


def notes(desk: Desk) -> Any:
    builder = GraphBuilder(Notes).add_node("output", deleter(), task=lambda _: "delete")
    builder.add_node("ask", lambda _: {"said": [interrupt({"well?"})]}, blocking=False).add_node(
        "end", lambda _: {"said": ["end"]}
    )
    builder.add_edge("__start__", "output").add_edge("__start__", "ask").add_edge(["output", "ask"], "end")
    return builder.build(SqliteCheckpointer(desk.folder / "threads.db"), clock=desk.clock)


async def a_graph(desk: Desk) -> None:
    graph = notes(desk)
    async with DurableGraph[Any](
        graph, "notes", database_url=desk.url, version="v1", clock=desk.clock
    ) as durable:
        await desk.show("run", durable.run({"said": ["in"]}, run_id="r"))
        await desk.look("r")
        await desk.show("several", durable.answer("r", "well"))
        tokens = {one.call.name: one.token for one in await durable.pending("r")}
        await desk.show("wrong", durable.approve("r", tokens["ask"], Approve()))
        await desk.show("answer", durable.approve("r", tokens["ask"], Provide("well")))
        desk.rows(*EVENTS_OF_GRAPHS)
        for one in await durable.pending("r"):
            await desk.show("approve", durable.approve("r", one.token, Approve()))
        await desk.show("result", durable.result("r"))
        await desk.show("again", durable.answer("r", "again"))
        await desk.look("r")
        await desk.show("list", desk.runs.list())
    graph.checkpointer.close()


KINDS: dict[str, Callable[[Desk], Awaitable[None]]] = {
    "an-answer": an_answer,
    "all-options": all_options,
    "approvals": approvals,
    "an-agent-inside": an_agent_inside,
    "a-failure": a_failure,
    "a-run-that-is-cancelled": a_run_that_is_cancelled,
    "lists": lists,
    "a-graph": a_graph,
}

_TIME = re.compile(r"\b\d{10,13}(\.\d+)?\b")
# What differs whenever it is run again.
_VARIES = [
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(rf"{re.escape(socket.gethostname())}-\d+-[0-9a-f]{{8}}"), "EXECUTOR"),
    (re.compile(r'"(duration_ms|beat|pid)": ?[\d.e-]+'), r'"\1": 0'),
    (re.compile(r'"host": "[^"]+"'), '"host": ""'),
]


async def run(kind: Callable[[Desk], Awaitable[None]], folder: Path) -> list[str]:
    desk = Desk(folder)
    await kind(desk)
    await desk.runs.close()
    desk.rows(*(EVENTS_OF_GRAPHS if kind is a_graph else ()))
    return [steady(line) for line in desk.lines]


def unpacked(value: Any) -> Any:
    """A value of a row; JSON in it as what it is."""
    if isinstance(value, str) and value[:2] in ('{"', "[{", '"{'):
        return unpacked(json.loads(value))
    if isinstance(value, list):
        return [unpacked(one) for one in value]
    return {name: unpacked(one) for name, one in value.items()} if isinstance(value, dict) else value


def _steady_time(found: re.Match[str]) -> str:
    """A time of a minute ago or later is now, in seconds or milliseconds."""
    number, now = float(found[0]), time.time()
    for unit, word in ((1, "SECONDS"), (1000, "MILLISECONDS")):
        if -1 < now - number / unit < 60:
            return word
        if 0 < number / unit - now < 1000:
            return f"LATER_{word}"
    return found[0]


def steady(line: str) -> str:
    line = _TIME.sub(_steady_time, line)
    for pattern, word in _VARIES:
        line = pattern.sub(word, line)
    return line


@pytest.mark.parametrize("name", KINDS)
async def test_a_database_of_each_kind_is_as_it_was(name: str, tmp_path: Path) -> None:
    expected.check(FOLDER / f"{name}.txt", await run(KINDS[name], tmp_path))


def test_no_database_is_left_over() -> None:
    expected.check_names(FOLDER, KINDS)
