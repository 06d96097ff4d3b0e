"""A database that is away, refuses or loses an answer, and a run that another process has taken or cancelled."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa

from tests.durable.looks import several_looks
from tests.durable.test_agent import Slow, add, adder, deleter, served
from tests.durable.test_graph import Notes, graph
from wesichain import Agent, tool
from wesichain.agent import Approve, Conversation, Interrupted, Provide
from wesichain.core import LlmRequest, Role, RunInterrupted, to_json
from wesichain.durable import DurableAgent, DurableGraph, DurableRuns, RunState
from wesichain.durable.store import leases
from wesichain.durable.store.ledger import NewRun
from wesichain.durable.store.queue import Serving
from wesichain.durable.store.step_table import CancelledRunError, LostRunError, StepRow
from wesichain.durable.store.store import Store
from wesichain.errors import (
    ConfigError,
    DurableError,
    GraphInterruptedError,
    ReplayMismatchError,
    RunInterruptedError,
    WesichainError,
)
from wesichain.graph import ExecutionOptions, GraphBuilder, interrupt
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.testing import FunctionLlm, calls
from wesichain.trace import CollectingSink, Redactor


@contextmanager
def database(url: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db, db:
        yield db


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


def test_a_step_is_written_once_by_the_one_who_has_the_run(url: str) -> None:
    with closing(Store(url)) as store:
        store.ledger.begin(NewRun("r", "a", "v", "{}", ""))
        (mine,) = store.queue.claim("me", Serving("a", "v"), free=1)
        step = StepRow("r", mine.owner, 1, "ask 1", "{}", 0, 0)
        store.steps.keep(step)
        store.steps.keep(step)  # the answer to the first try was lost
        assert [(one.number, one.name) for one in store.steps.read("r")] == [(1, "ask 1")]
        with pytest.raises(LostRunError, match="another process has taken the run over"):
            store.steps.keep(StepRow("r", mine.owner, 1, "ask 2", "{}", 0, 0))  # another one's first
        with pytest.raises(LostRunError, match="another process has taken the run over"):
            store.steps.keep(StepRow("r", "another", 1, "ask 1", "{}", 0, 0))
        store.ledger.cancel("r")
        for run_id in ("r", "one that was deleted"):
            with pytest.raises(CancelledRunError, match="the run was cancelled"):
                store.steps.keep(StepRow(run_id, mine.owner, 2, "ask 2", "{}", 0, 0))


@pytest.mark.parametrize("act", ["cancel", "uncancel", "follow", "decide"])
def test_a_run_that_was_deleted_meanwhile_is_named(url: str, act: str) -> None:
    more: Any = {"follow": [lambda _: "{}"], "decide": [lambda *_: {}, lambda _: None]}.get(act, [])
    missing = pytest.raises(DurableError, match="there is no run 'r' in this database")
    with closing(Store(url)) as store, missing:
        getattr(store.ledger, act)("r", *more)


def test_a_machine_without_proc_is_known_by_its_card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = leases.this_machine()
    monkeypatch.setattr(leases, "_BOOT", tmp_path / "nothing")
    name, card = leases.this_machine().split()
    assert (name, leases.this_machine()) == (here.split()[0], f"{name} {card}")
    assert int(card, 16) > 0


# --- what a cancelled run had come to, where its process cannot say so -------------------------------


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


# --- what else is refused or left out ----------------------------------------------------------------


async def test_a_program_that_is_not_the_same_again_is_refused_in_every_process(url: str) -> None:
    slow = Slow("model 1")
    async with served(DurableAgent(slow.agent(), "slow", database_url=url)) as durable:
        await durable.enqueue("work", run_id="r")
        await slow.begun.wait()
    with database(url) as db:  # as if another request had been recorded
        db.execute(
            'UPDATE operation_outputs SET output = REPLACE(output, \'"asked":"\', \'"asked":"0\') '
            "WHERE function_name = 'ask 1'"
        )
    for _ in range(2):
        async with DurableAgent(slow.agent(), "slow", database_url=url) as durable:
            with pytest.raises(ReplayMismatchError, match="step 'ask 1' of this run was recorded for"):
                await durable.resume("r")


async def test_a_model_that_returns_no_reply_is_named(url: str) -> None:
    class Odd:
        async def complete(self, _: LlmRequest) -> Any:
            return 5

    async with DurableAgent(Agent(cast("Any", Odd())), "odd", database_url=url) as durable:
        with pytest.raises(Exception, match="the model returned int, not a reply"):
            await durable.run("hi")


async def test_events_of_a_run_that_nobody_has_begun(url: str) -> None:
    async with DurableAgent(adder(), "adder", database_url=url) as durable:
        with pytest.raises(DurableError, match="there is no run 'nobody'"):
            await anext(durable.events("nobody"))


async def test_the_turn_of_a_refused_run_is_not_added_and_that_is_logged(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    def reply(_: LlmRequest) -> str:
        raise ConfigError("there is no key")

    talk = Conversation()
    async with DurableAgent(Agent(FunctionLlm(reply)), "a", database_url=url) as durable, served(durable):
        with caplog.at_level(logging.WARNING, "wesichain.durable"):
            await durable.enqueue("hi", run_id="r", conversation=talk)
            async with asyncio.timeout(30):
                while not any("is not added to its conversation" in one.message for one in caplog.records):
                    await asyncio.sleep(0.02)
    assert [*await talk.read()] == []


async def test_a_call_that_an_older_version_did_not_run_is_not_run_by_the_one_that_adopts_it(
    url: str,
) -> None:
    ran: list[str] = []

    @tool
    def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    def program(*tools: Any, waits: bool) -> Agent[Any, str]:
        async def reply(request: LlmRequest) -> Any:
            turn = sum(message.role is Role.ASSISTANT for message in request.messages)
            if turn == 2 and waits:
                reached.set()
                await asyncio.sleep(3600)
            return [calls(("add", {"a": 1, "b": 2}), ("look", {})), calls(("add", {"a": 3, "b": 4})), "done"][
                turn
            ]

        return Agent(FunctionLlm(reply), tools=[add, *tools])

    reached = asyncio.Event()
    async with served(DurableAgent(program(waits=True), "a", database_url=url)) as old:
        await old.enqueue("go", run_id="r")
        await asyncio.wait_for(reached.wait(), 30)
    made = DurableAgent(program(look, waits=False), "a", database_url=url, on_change="adopt", lease=1.0)
    async with served(made) as new:
        result = await new.result("r", timeout=30)
    assert (result.output, ran) == ("done", [])
    shown = [message.text for message in result.messages if message.role is Role.TOOL]
    assert any("did not run this call, and has gone on without it" in text for text in shown), shown


async def test_runs_that_an_older_version_ended_are_explained_by_their_endings(
    url: str, tmp_path: Path
) -> None:
    def refuse(_: LlmRequest) -> str:
        raise ConfigError("there is no key")

    asking = graph(tmp_path, asks=True)
    async with (
        DurableAgent(deleter(), "deleter", database_url=url) as waits,
        DurableAgent(Agent(FunctionLlm(lambda _: ValueError("ill"))), "ill", database_url=url) as fails,
        DurableAgent(Agent(FunctionLlm(refuse)), "refused", database_url=url) as refused,
        DurableGraph[Any](asking, "notes", database_url=url) as notes,
        DurableRuns(url) as runs,
    ):
        for durable in (waits, fails, refused, notes):
            with pytest.raises(WesichainError):
                await durable.run(cast("Any", {} if durable is notes else "hi"), run_id=durable.name)
        explained = {run.run_id: run.error for run in await runs.list()}
        inbox = {(item.run_id, item.token, item.call.name) for item in await runs.pending()}
        assert len(inbox) == 3
        with database(url) as db:
            db.execute("UPDATE wesichain_runs SET noted = NULL, error = NULL, waiting = NULL")
        assert {run.run_id: run.error for run in await runs.list()} == explained
        assert {(item.run_id, item.token, item.call.name) for item in await runs.pending()} == inbox
        with database(url) as db:
            db.execute("UPDATE workflow_status SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'")
        why = "the process that ran it died again and again: it is not run again"
        assert {run.error for run in await runs.list()} == {why}
        with pytest.raises(
            DurableError, match=f"the run 'ill' has failed: {why}; resume it to try once more"
        ):
            await fails.outcome("ill")


# --- graphs ------------------------------------------------------------------------------------------


async def test_a_question_that_was_asked_before_its_process_died_waits_for_its_answer(
    url: str, tmp_path: Path
) -> None:
    asking = graph(tmp_path, asks=True)
    with pytest.raises(GraphInterruptedError):
        await asking.invoke({}, ExecutionOptions(thread_id="r"))  # its run was not ended
    async with DurableGraph[Any](asking, "notes", database_url=url) as durable:
        with pytest.raises(GraphInterruptedError, match="the run 'r' waits for an answer"):
            await durable.run({}, run_id="r")
        assert (await durable.show("r")).error == "it waits for an answer"
        assert [item.call.args for item in await durable.pending("r")] == ["well?"]
        assert await durable.resume("r", "yes") == {"said": ["first", "yes"]}
        with pytest.raises(DurableError, match="the run 'r' waits for no answer"):
            await durable.answer("r", "no")
    assert (tmp_path / "effects").read_text().split() == ["first", "second", "second"]


@pytest.mark.parametrize(
    "asked",
    [
        {"reason": "why", "calls": "none"},
        {"reason": "why", "calls": []},
        {"reason": "why", "calls": [{"token": 1}]},
        {"reason": "why", "calls": [], "more": 1},
    ],
    ids=["a-text", "none", "other-fields", "more-fields"],
)
async def test_a_question_that_only_looks_like_one_about_calls_is_answered_as_a_whole(
    url: str, tmp_path: Path, asked: Any
) -> None:
    def ask(_: Notes) -> Any:
        return {"said": [str(interrupt(asked))]}

    made = GraphBuilder(Notes).add_node("ask", ask).set_entry("ask")
    asking = made.build(SqliteCheckpointer(tmp_path / "threads.db"))
    async with DurableGraph[Any](asking, "notes", database_url=url) as durable:
        with pytest.raises(GraphInterruptedError):
            await durable.run({}, run_id="r")
        (item,) = await durable.pending("r")
        assert (item.call.name, item.call.args, item.external) == ("ask", asked, True)
        await durable.approve("r", item.token, Provide("yes"))
        assert await durable.result("r") == {"said": ["yes"]}


async def test_events_are_stored_as_the_redactor_of_the_agent_leaves_them(url: str) -> None:
    agent = Agent(
        FunctionLlm(lambda _: "call 555-0199"),
        redactor=Redactor(lambda text: text.replace("555-0199", "[phone]")),
    )
    async with DurableAgent(agent, "a", database_url=url) as durable:
        result = await durable.run("hi", run_id="r")
        assert result.output == "call 555-0199"
        told = "".join([to_json(event) async for event in durable.events("r")])
        assert "555-0199" not in told
        assert "run_completed" in told
