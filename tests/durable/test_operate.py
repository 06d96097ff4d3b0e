"""Operating durable runs: lists, inboxes, events, retention, decisions in one transaction, and other users of DBOS."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import dbos
import pytest
import sqlalchemy as sa
from bench.durable import agent as weatherman
from bench.durable import bytes_of

from tests.conftest import ROOT
from tests.durable.test_agent import Slow, adder, deleter, served
from tests.warm import python
from wesichain import Agent, tool
from wesichain.agent import Approve, Interrupted
from wesichain.core import Role
from wesichain.durable import DurableAgent, DurableRuns, RunState
from wesichain.durable.store.database import Database
from wesichain.durable.store.dbos_tables import COLUMNS
from wesichain.errors import DurableError, RunInterruptedError
from wesichain.testing import FunctionLlm, calls


async def test_events_come_as_they_happen_whichever_process_runs_the_run(url: str) -> None:
    gate = asyncio.Event()

    async def reply(request: Any) -> Any:
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        if turn == 1:
            await gate.wait()
        return [calls(("delete", {"path": "a"})), calls(("delete", {"path": "b"})), "done"][turn]

    @tool
    def delete(path: str) -> str:
        """Delete."""
        return path

    worker = DurableAgent(Agent(FunctionLlm(reply), tools=[delete]), "agent", database_url=url)
    async with DurableRuns(url) as runs, served(worker):
        await worker.enqueue("go", run_id="r")
        told: list[Any] = []
        async for event in runs.events("r"):
            told.append(event)
            if event.kind == "tool_dispatched" and not gate.is_set():
                assert await runs.status("r") == RunState.RUNNING
                gate.set()
        result = await worker.result("r")
    assert told == [*result.events]
    assert [event.seq for event in told] == [*range(1, len(told) + 1)]


async def test_no_event_is_missed_where_the_first_of_two_records_is_written_slowly(url: str) -> None:
    """Calls that run side by side end together; a database may take its time over either of them."""

    @tool
    async def look(place: str) -> str:
        """Look at a place."""
        return place

    def reply(request: Any) -> Any:
        is_first = not any(message.role is Role.ASSISTANT for message in request.messages)
        return calls(("look", {"place": "a"}), ("look", {"place": "b"})) if is_first else "done"

    slow: list[str] = []

    def delay(_: Any, __: Any, ___: Any, values: Any, *rest: Any) -> None:
        name = next((str(one) for one in values if str(one).startswith("call ")), "")
        if name and not slow:
            slow.append(name)
            time.sleep(0.5)

    worker = DurableAgent(Agent(FunctionLlm(reply), tools=[look]), "looker", database_url=url)
    async with DurableRuns(url) as runs, served(worker):
        engine = await worker._serving()
        sa.event.listen(engine.store.database.engine, "before_cursor_execute", delay)
        await worker.enqueue("go", run_id="r")
        told = [event async for event in runs.events("r")]
    assert len(slow) == 1
    assert [event.seq for event in told] == [*range(1, len(told) + 1)]


async def test_what_was_done_is_written_though_its_record_waits_for_another(url: str) -> None:
    """A process that ends hands on what it has done, and not only what was written by then."""
    done: list[str] = []
    both = asyncio.Event()

    @tool(effect="once")
    async def send(letter: str) -> str:
        """Send a letter."""
        done.append(letter)
        if len(done) == 2:
            both.set()
        await both.wait()
        return letter

    def reply(request: Any) -> Any:
        is_first = not any(message.role is Role.ASSISTANT for message in request.messages)
        return calls(("send", {"letter": "a"}), ("send", {"letter": "b"})) if is_first else "sent"

    def agent() -> Agent[Any, str]:
        return Agent(FunctionLlm(reply), tools=[send])

    def delay(_: Any, __: Any, ___: Any, values: Any, *rest: Any) -> None:
        if any(str(one).startswith("call ") for one in values):
            time.sleep(0.3)

    worker = DurableAgent(agent(), "post", database_url=url)
    engine = await worker._serving()
    sa.event.listen(engine.store.database.engine, "before_cursor_execute", delay)
    await worker.enqueue("go", run_id="r")
    await both.wait()
    await worker.close(grace=0.0)
    async with DurableAgent(agent(), "post", database_url=url) as other:
        result = await other.run("go", run_id="r")
    assert sorted(done) == ["a", "b"]
    assert not [message for message in result.messages if "unknown" in message.text]


async def test_a_decision_and_what_follows_from_it_are_one_transaction(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with DurableAgent(deleter(), "deleter", database_url=url) as durable:
        with pytest.raises(RunInterruptedError):
            await durable.run("delete", run_id="r")
        first, second = await durable.pending("r")
        await durable.approve("r", first.token, Approve())

        def away(*_: Any, **__: Any) -> None:
            raise sa.exc.OperationalError("INSERT", {}, Exception("server closed the connection"))

        monkeypatch.setattr(dbos.DBOSClient, "enqueue_in_transaction", away)  # between the two halves
        with pytest.raises(DurableError, match="cannot be reached"):
            await durable.approve("r", second.token, Approve())
        monkeypatch.undo()
        assert await durable.status("r") == RunState.INTERRUPTED
        assert await durable.pending("r") == [second], "nothing was decided, and it can be decided again"
        await durable.approve("r", second.token, Approve())
        assert (await durable.resume("r")).output == "as you wish"


async def test_storage_is_linear_in_steps(url: str) -> None:
    sizes: dict[int, float] = {}
    for hops in (6, 30):
        async with DurableAgent(weatherman(hops), database_url=url) as durable:
            await durable.run("How is the weather?", run_id=f"hops-{hops}")
        sizes[hops] = bytes_of(url, f"hops-{hops}") / (2 * hops + 2)
    assert sizes[30] < 1.1 * sizes[6], sizes


# --- DBOS and its other users ------------------------------------------------------------------------


def run_code(code: str) -> str:
    done = subprocess.run(
        [*python(), "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=60,
        env={**os.environ},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_other_users_of_dbos_are_left_alone(tmp_path: Path) -> None:
    code = f"""
import asyncio, logging
from dbos import DBOS
import wesichain.durable
from tests.durable.test_agent import adder
from wesichain.durable import DurableAgent
from wesichain.errors import DurableError

logging.getLogger("dbos").setLevel(logging.WARNING)

class Thing:
    def __eq__(self, other): return isinstance(other, Thing)

@DBOS.workflow()
def theirs(thing):  # pickled, as DBOS does by default
    return DBOS.run_step({{"name": "s"}}, lambda: thing)

async def ours():
    async with DurableAgent(adder(), "adder", database_url="sqlite:///{tmp_path}/ours.db") as durable:
        return (await durable.run("1 + 2?")).output

print(asyncio.run(ours()))
assert logging.getLogger("dbos").level == logging.WARNING
DBOS(config={{"name": "theirs", "system_database_url": "sqlite:///{tmp_path}/theirs.db"}})
DBOS.launch()
handle = DBOS.start_workflow(theirs, Thing())
print(handle.get_result() == Thing())
print(asyncio.run(ours()))  # beside it, in the same process
print(DBOS.start_workflow(theirs, Thing()).get_result() == Thing())
DBOS.destroy()
print(asyncio.run(ours()))
"""
    assert run_code(code).splitlines() == ["three", "True", "three", "True", "three"]


def test_one_file_knows_the_tables_of_dbos() -> None:
    """Every column of theirs is named in `dbos_tables.py` alone, and listed there for the check at launch."""
    folder = ROOT / "src/wesichain/durable"
    theirs = {"workflow_uuid", "owner_xid", "executor_id", "function_id", "workflow_status",
              "operation_outputs", "application_version", "started_at_epoch_ms", "{workflows}", "{steps}"}  # fmt: skip
    own = folder / "store/dbos_tables.py"
    for path in folder.rglob("*.py"):
        found = {name for name in theirs if name in path.read_text(encoding="utf-8")}
        assert path == own or not found - {"{workflows}"}, (path.name, found)  # the mark, in a docstring
    words = {*re.findall(r"\b[a-z]+_[a-z_]+\b", own.read_text(encoding="utf-8"))}
    listed = set().union(*COLUMNS.values())
    assert listed <= words | {"status", "name", "priority", "output", "error", "inputs", "serialization"}


def test_the_columns_that_are_written_are_all_that_dbos_wants() -> None:
    """If this fails, see what has changed in DBOS before the pin is moved."""
    from dbos import DBOSClient
    from dbos._schemas.system_database import SystemSchema
    from dbos._sys_db import WorkflowStatusString

    assert hasattr(DBOSClient, "enqueue_in_transaction")
    for table in (SystemSchema.operation_outputs, SystemSchema.workflow_output):
        must = {column.name for column in table.c if not column.nullable and column.server_default is None}
        assert must <= COLUMNS[table.name], "a column that has to be given"
    assert [column.name for column in SystemSchema.operation_outputs.primary_key] == [
        "workflow_uuid",
        "function_id",
    ]
    assert {status.value for status in WorkflowStatusString} == {
        "PENDING", "SUCCESS", "ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED", "CANCELLED", "ENQUEUED", "DELAYED",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("table", "column"), [("workflow_status", "owner_xid"), ("operation_outputs", "output")]
)
async def test_a_database_of_a_dbos_with_another_column_is_refused_by_name(
    url: str, table: str, column: str
) -> None:
    path = url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO another")
        db.commit()
        before = db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    for ask in (
        DurableRuns(url).list,
        lambda: DurableAgent(adder(), "adder", database_url=url).run("1 + 2?"),
    ):
        with pytest.raises(DurableError, match=f"{table} has no column '{column}'.*DBOS 3"):
            await ask()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall() == before


# --- runs inside runs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("python", "library", "is_refused"),
    [
        pytest.param((3, 11, 7), (3, 40, 1), False, id="python-3.11"),
        pytest.param((3, 12, 1), (3, 40, 1), True, id="python-3.12-and-an-older-sqlite"),
        pytest.param((3, 13, 0), (3, 41, 9), True, id="python-3.13-and-an-older-sqlite"),
        pytest.param((3, 12, 1), (3, 42, 0), False, id="python-3.12-and-a-newer-sqlite"),
    ],
)
def test_a_sqlite_that_dbos_cannot_use_is_named(
    python: tuple[int, ...], library: tuple[int, ...], is_refused: bool, url: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "version_info", python)
        patch.setattr(sqlite3, "sqlite_version_info", library)
        with pytest.raises(DurableError, match="a Postgres URL") if is_refused else nullcontext():
            Database(url).close()


@pytest.mark.parametrize(
    ("said", "calls"), [("table runs already exists", 2), ("syntax error", 1)], ids=["by-another", "broken"]
)
def test_tables_that_another_process_makes_at_the_same_time_are_found_made(
    said: str, calls: int, url: str
) -> None:
    tried: list[str] = []

    def migrate() -> None:
        tried.append("")
        if len(tried) == 1:
            raise sa.exc.OperationalError("CREATE", {}, Exception(said))

    database = Database(url)
    with nullcontext() if calls > 1 else pytest.raises(DurableError, match=said):
        database.make(migrate, lambda: None)
    assert len(tried) == calls
    database.close()


async def test_a_full_disk_is_named(url: str) -> None:
    async with DurableAgent(adder(), "adder", database_url=url) as durable:
        await durable.run("1 + 2?")

        def fill(store: Any) -> None:
            with store.database.engine.connect() as db:
                pages = db.exec_driver_sql("PRAGMA page_count").scalar_one()
                db.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
                text = "x" * 1_000_000
                db.exec_driver_sql(f"INSERT INTO wesichain_decisions VALUES ('r', 't', '{text}')")

        with pytest.raises(DurableError, match="the disk of the database is full"):
            await durable._runs.ask(fill)
        assert len(await durable.list()) == 1


async def test_hundreds_of_waiting_runs_are_an_inbox_of_few_questions(url: str) -> None:
    async with DurableAgent(deleter(), "deleter", database_url=url) as durable:
        with pytest.raises(RunInterruptedError):
            await durable.run("delete", run_id="r")
        copy_run(url.removeprefix("sqlite:///"), "r", 200)
    async with DurableRuns(url) as runs:
        await runs.stats()
        asked: list[str] = []
        engine = runs._opened.database.engine  # type: ignore[union-attr]  # it was asked

        def hear(_: Any, __: Any, statement: str, *rest: Any) -> None:
            asked.append(statement)

        sa.event.listen(engine, "before_cursor_execute", hear)
        inbox = await runs.pending()
        assert len({item.run_id for item in inbox}) == 201
        assert {item.task for item in inbox} == {"delete"}
        assert len(asked) <= 2
        assert await least_cpu(runs.pending) < 0.1
        asked.clear()
        assert len(await runs.list(limit=100)) == 100
        assert len(asked) <= 3


async def test_any_page_of_thousands_of_finished_runs_costs_little(url: str) -> None:
    async with DurableAgent(adder(), "adder", database_url=url) as durable:
        await durable.run("1 + 2?", run_id="r")
    copy_run(url.removeprefix("sqlite:///"), "r", 3_000)
    wanted: dict[str, dict[str, Any]] = {
        "the first": {},
        "one in the middle": {"after": "r-1500"},
        "the last": {"after": "r-1"},
        "found by words": {"search": "2? r-77"},
        "found by words that none has": {"search": "nobody"},
        "in a state": {"status": "completed"},
        "in a state that none is in": {"status": "failed"},
        "of a tool": {"tool": "add"},
        "of a tool that none called": {"tool": "subtract"},
        "of a cost that none has": {"least_cost": 1.0},
        "of a time": {"since": 1.0, "until": 10.0**10},
        "of long ones": {"least_seconds": 3600.0},
    }
    async with DurableRuns(url) as runs:
        await runs.list()

        figures = {
            name: await least_cpu(partial(runs.list, limit=50, **filters)) for name, filters in wanted.items()
        }
        figures["totals"] = await least_cpu(runs.totals)
        assert [run.run_id for run in await runs.list(search="2? r-77", limit=2)] == ["r-779", "r-778"]
        assert [(total.state, total.runs) for total in await runs.totals()] == [("completed", 3_001)]
    print({name: f"{one * 1000:.0f} ms" for name, one in figures.items()})
    assert max(figures.values()) < 0.05


async def least_cpu(work: Callable[[], Awaitable[Any]]) -> float:
    """The CPU seconds of this process that the work costs: the least of some tries.

    What a loaded machine adds to one of them, caches that others have emptied, is not added to all.
    """
    spent: list[float] = []
    for _ in range(5):
        began = time.process_time()
        await work()
        spent.append(time.process_time() - began)
    return min(spent)


def copy_run(path: str, run_id: str, times: int) -> None:
    """The rows of a run, so many times more under ids of their own."""
    with closing(sqlite3.connect(path)) as db:
        for table, column in (
            ("wesichain_runs", "run"),
            ("workflow_status", "workflow_uuid"),
            ("workflow_input", "workflow_uuid"),
            ("workflow_output", "workflow_uuid"),
        ):
            names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            made = ", ".join(
                f"'{run_id}-' || number" if name in (column, "current") else f'"{name}"' for name in names
            )
            db.execute(
                f"WITH RECURSIVE numbers(number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM numbers LIMIT {times}) "
                f"INSERT INTO {table} SELECT {made} FROM numbers, {table} WHERE {column} = '{run_id}'"
            )
        db.commit()


async def test_a_run_that_was_cancelled_in_its_queue_has_come_to_nothing(url: str) -> None:
    async with DurableAgent(adder(), "adder", database_url=url) as durable:
        await durable.enqueue("1 + 2?", run_id="r")
        await durable.cancel("r")
        outcome = await durable.outcome("r")
        assert isinstance(outcome, Interrupted)
        assert outcome.reason == "the run was cancelled"
        assert not outcome.pending
        assert not outcome.steps
        assert [message.text for message in outcome.messages] == ["1 + 2?"]
        with pytest.raises(RunInterruptedError, match="the run was cancelled"):
            await durable.run("1 + 2?", run_id="r")


async def test_a_run_that_is_cancelled_between_two_workers_has_come_to_its_recorded_steps(url: str) -> None:
    slow = Slow("model 1")
    async with served(DurableAgent(slow.agent(), "slow", database_url=url)) as durable:
        await durable.enqueue("work", run_id="r")
        await slow.begun.wait()
    async with DurableAgent(slow.agent(), "slow", database_url=url) as durable:
        assert await durable.status("r") == RunState.PENDING
        await durable.cancel("r")
        outcome = await durable.outcome("r")
        assert isinstance(outcome, Interrupted)
        assert outcome.reason == "the run was cancelled"
        assert [message.role for message in outcome.messages] == [Role.USER, Role.ASSISTANT, Role.TOOL]
        assert outcome.messages[-1].text == "worked"
        slow.phase = ""
        assert (await durable.resume("r")).output == "done"


async def test_a_run_that_is_cancelled_after_its_decisions_has_come_to_what_waited(url: str) -> None:
    async with DurableAgent(deleter(), "deleter", database_url=url) as durable:
        with pytest.raises(RunInterruptedError):
            await durable.run("delete", run_id="r")
    async with DurableRuns(url) as runs:
        tokens = [item.token for item in await runs.pending("r")]
        await runs.decide("r", dict.fromkeys(tokens, Approve()))
        await runs.cancel("r")
    async with DurableAgent(deleter(), "deleter", database_url=url) as durable:
        outcome = await durable.outcome("r")
        assert isinstance(outcome, Interrupted)
        assert outcome.reason == "the run was cancelled"
        assert [message.role for message in outcome.messages] == [Role.USER, Role.ASSISTANT]
        assert (await durable.resume("r")).output == "as you wish"
