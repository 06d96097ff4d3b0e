"""A database that is away, refuses or loses an answer, or in which another process has taken a run."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.durable.databases import database
from tests.durable.looks import several_looks
from tests.durable.test_agent import add, adder, served, turns
from wesichain import Agent, FailFast, ObserveErrors, ToolContext, tool
from wesichain.core import LlmRequest, RunInterrupted
from wesichain.durable import DurableAgent, DurableRuns, RunState
from wesichain.durable.store.database import Database, escape_nul, unescape_nul
from wesichain.errors import DurableError, RunFailedError
from wesichain.testing import FunctionLlm, calls
from wesichain.trace import CollectingSink


class Outage:
    """Statements of an engine that fail as those of a database which cannot be reached."""

    def __init__(self, database: sa.Engine, text: str, *, after: int = 0) -> None:
        self.left = 1
        self._after = after
        self._text = text
        sa.event.listen(database, "before_cursor_execute", self._fail)

    def _fail(self, _: Any, __: Any, statement: str, *rest: Any) -> None:
        if self._text not in statement:
            return
        self._after -= 1
        if self._after < 0 and self.left > 0:
            self.left -= 1
            raise sa.exc.OperationalError(statement, {}, Exception("the server is away"))


@pytest.mark.parametrize(
    ("statement", "asked"),
    [
        pytest.param("INSERT INTO wesichain_leases", 2, id="a-look"),
        pytest.param("i.inputs", 2, id="what-a-claimed-run-was-given"),
        pytest.param("SELECT function_id AS number", 2, id="its-steps"),
        pytest.param("INSERT INTO operation_outputs", 2, id="the-record-of-a-step"),
        pytest.param("SET status = ?, deduplication_id", 2, id="its-ending"),
    ],
)
async def test_a_database_that_was_away_costs_a_run_nothing(url: str, statement: str, asked: int) -> None:
    requests: list[LlmRequest] = []

    def reply(request: LlmRequest) -> Any:
        requests.append(request)
        return calls(("add", {"a": 1, "b": 2})) if len(request.messages) == 1 else "three"

    durable = DurableAgent(Agent(FunctionLlm(reply), tools=[add]), "adder", database_url=url, lease=0.5)
    async with durable, served(durable):
        engine = await durable._serving()
        outage = Outage(engine.store.database.engine, statement)
        await durable.enqueue("1 + 2?", run_id="r")
        assert (await durable.result("r", timeout=30)).output == "three"
        assert outage.left == 0
        assert len(requests) == asked, "what is done is not done again"
        assert (engine._claimed, engine._suspects, engine.active) == ({}, set(), {})


async def test_what_is_asked_of_a_database_that_is_away_is_an_error_or_is_waited_for(url: str) -> None:
    async with DurableAgent(adder(), "adder", database_url=url) as durable:
        await durable.run("1 + 2?", run_id="r")
        store = await durable._runs.ask(lambda store: store)
        outage = Outage(store.database.engine, "FROM wesichain_runs r")
        with pytest.raises(DurableError, match=r"cannot be reached: OperationalError: .*the server is away"):
            await durable.status("r")
        outage.left = 1
        assert (await durable.result("r")).output == "three"
        assert outage.left == 0
        events = [event async for event in durable.events("r")]
        for text, after in (("FROM wesichain_runs r", 0), ("FROM wesichain_runs r", 1), ("AS number", 0)):
            outage = Outage(store.database.engine, text, after=after)
            assert [event async for event in durable._runs.events("r")] == events
            assert outage.left == 0


@pytest.mark.parametrize("table", ["wesichain_leases", "wesichain_runs"])
async def test_a_database_that_refuses_a_write_is_one_line_and_is_left_closed(url: str, table: str) -> None:
    with database(url) as db:
        db.execute(f"CREATE TRIGGER no BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'not here'); END")
    async with DurableAgent(adder(), "adder", database_url=url) as durable:
        with pytest.raises(DurableError, match=r"the database refused this: IntegrityError: .*not here"):
            await durable.run("1 + 2?")
    assert not [name for name in open_files() if name.startswith(url.removeprefix("sqlite:///"))]


def open_files() -> list[str]:
    return [os.path.realpath(one) for one in Path("/proc/self/fd").iterdir()]


async def test_a_file_that_is_no_database_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("not a database at all " * 100)
    async with DurableRuns(f"sqlite:///{tmp_path / 'notes'}") as runs:
        with pytest.raises(DurableError, match="file is not a database"):
            await runs.list()


# --- runs that are taken away ------------------------------------------------------------------------


async def test_a_caller_who_leaves_while_the_run_is_being_stored_cancels_it(url: str) -> None:
    storing, has_left, asked = threading.Event(), threading.Event(), 0

    def reply(_: LlmRequest) -> str:
        nonlocal asked
        asked += 1
        return "never"

    def delay(_: Any, __: Any, statement: str, *rest: Any) -> None:
        if "INSERT INTO wesichain_runs" in statement:
            storing.set()
            has_left.wait(60)

    async with DurableAgent(Agent(FunctionLlm(reply)), "a", database_url=url, lease=0.5) as durable:
        engine = await durable._serving()
        sa.event.listen(engine.store.database.engine, "before_cursor_execute", delay)
        running = asyncio.create_task(durable.run("hi", run_id="r"))
        await asyncio.to_thread(storing.wait)
        running.cancel()
        await asyncio.sleep(0)  # it hears of it
        has_left.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await durable.status("r") == RunState.CANCELLED
        await several_looks(engine)
        assert await durable.status("r") == RunState.CANCELLED
        assert asked == 0


@pytest.mark.parametrize("when", ["its-prompt-is-made", "its-model-answers"])
async def test_a_run_that_another_process_has_taken_over_is_left_to_that(url: str, when: str) -> None:
    """What it did here last is recorded by nobody, and is done again where it goes on."""
    prompts, asked, sink = 0, 0, CollectingSink()

    def take() -> None:
        with database(url) as db:
            db.execute("UPDATE workflow_status SET owner_xid = 'another', executor_id = 'another'")
            lease = ("another", "another machine", 1, 0, 0, 30_000)
            db.execute(
                "INSERT INTO wesichain_leases (executor, host, pid, beat, beat_at, lease) VALUES (?, ?, ?, ?, ?, ?)",
                lease,
            )

    def prompt() -> str:
        nonlocal prompts
        prompts += 1
        if when == "its-prompt-is-made" and prompts == 1:
            take()
        return "Be brief."

    def reply(_: LlmRequest) -> str:
        nonlocal asked
        asked += 1
        if when == "its-model-answers" and asked == 1:
            take()
        return "done"

    agent = Agent(FunctionLlm(reply), instructions=prompt)
    durable = DurableAgent(agent, "a", database_url=url, events=sink, lease=30.0)
    async with durable, served(durable):
        await durable.enqueue("go", run_id="r")
        engine = await durable._serving()
        async with asyncio.timeout(30):
            while not prompts or engine.active:
                await asyncio.sleep(0.02)
        assert await durable.status("r") == RunState.RUNNING, "it is the other's"
        if when == "its-model-answers":
            assert isinstance(sink.events[-1], RunInterrupted)
            assert sink.events[-1].reason == "another process has taken the run over"
        with database(url) as db:
            db.execute("UPDATE workflow_status SET status = 'ENQUEUED', owner_xid = NULL")
        assert (await durable.result("r", timeout=30)).output == "done"
    again = (2, 1) if when == "its-prompt-is-made" else (1, 2)
    assert (prompts, asked) == again


# --- characters that Postgres does not store ---------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "a", "\0", "\x1a", "\x1a0", "\x1a1", "\0\x1a", "\x1a0\0\x1a1"], ids=ascii
)
def test_an_escaped_text_has_no_nul_and_is_read_back_as_it_was(text: str) -> None:
    escaped = escape_nul(text)
    assert "\0" not in escaped
    assert unescape_nul(escaped) == text


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_texts_with_nul_are_stored_as_they_are(kind: str, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue("url" if kind == "sqlite" else "postgres")
    odd = "x\0\x1a0\x1ay"
    inner = Agent(turns(ValueError(odd)), name=f"in {odd}", policy=FailFast())

    @tool(effect="idempotent")
    async def ask(question: str, ctx: ToolContext) -> str:
        """Ask."""
        await inner.run(question, parent=ctx)
        return "never"

    agent = Agent(
        turns(calls(("ask", {"question": odd})), calls((odd, {})), f"said {odd}"),
        tools=[ask],
        policy=ObserveErrors(),
    )
    async with DurableAgent(agent, "nul", database_url=url) as durable, DurableRuns(url) as runs:
        assert (await durable.run(f"task {odd}", run_id="nul")).output == f"said {odd}"
        child, run = [row for row in await runs.list() if row.run_id.startswith("nul")]
        assert (run.task, run.result, run.tools) == (f"task {odd}", f"said {odd}", ("ask", odd))
        assert (child.agent, child.task) == (f"in {odd}", odd)
        assert (child.error or "").endswith(odd)
        for found in (await durable.list(search=odd), await durable.list(tool=odd)):
            assert run in found
        assert await durable.list(search="x\0z") == []
        assert await runs.known(["nul", odd]) == {"nul"}
        with pytest.raises(DurableError, match="there is no run"):
            await runs.list(after=odd)
        queued = await durable.enqueue("later", run_id="nul-2", key=odd)
        assert (await durable.result(queued)).output == f"said {odd}"
        assert (await durable.show(queued)).key == odd
    failing = Agent(turns(ValueError(odd)), policy=FailFast())
    async with DurableAgent(failing, "nul-3", database_url=url) as durable:
        with pytest.raises(RunFailedError):
            await durable.run("go", run_id="nul-3")
        assert ((await durable.show("nul-3")).error or "").endswith(odd)


def test_a_transaction_of_a_process_that_hangs_is_ended_by_postgres_after_a_minute(postgres: str) -> None:
    database = Database(postgres)
    try:
        for _ in range(2):  # the setting has to outlive the first transaction of its connection
            (row,) = database.read("SHOW idle_in_transaction_session_timeout")
            assert row[0] == "1min"
    finally:
        database.close()
