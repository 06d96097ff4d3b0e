"""Runs inside runs: an agent that another one uses is a run of its own, listed, followed, and never run again whole."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.draws import sampled
from tests.durable.databases import database
from tests.durable.test_agent import cut_off, turns
from wesichain import Agent, Budget, ToolContext, tool
from wesichain.core import LlmRequest, LlmResponse, Role
from wesichain.durable import DurableAgent, DurableRuns, RunState, RunSummary
from wesichain.errors import DurableError, RunInterruptedError
from wesichain.testing import FunctionLlm, calls


def told(rows: list[RunSummary]) -> list[tuple[str, str, str, str | None]]:
    return [(row.run_id, row.agent, str(row.status), row.parent) for row in rows]


class Mine:
    """A boss whose agent digs; the digging may wait."""

    def __init__(self) -> None:
        self.dug: list[str] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    def agent(self, *, approval: bool = False, replies: tuple[Any, ...] = ("gold",)) -> Agent[str]:
        @tool(approval=approval)
        async def dig(ctx: ToolContext) -> str:
            """Dig."""
            self.dug.append(ctx.idempotency_key)
            self.begun.set()
            await self.gate.wait()
            return "found"

        miner = Agent(turns(calls(("dig", {})), *replies), tools=[dig], name="miner")
        return Agent(turns(calls(("miner", {"task": "dig"})), "rich"), tools=[miner.as_tool()], name="boss")


async def test_an_agent_below_is_listed_with_its_parent_and_can_be_followed(url: str) -> None:
    mine = Mine()
    mine.gate.clear()
    async with (
        DurableAgent(mine.agent(), "boss", database_url=url) as durable,
        DurableRuns(url) as runs,
        DurableAgent(mine.agent(), "other", database_url=url) as other,
    ):
        running = asyncio.create_task(durable.run("go", run_id="r"))
        await asyncio.wait_for(mine.begun.wait(), 30)
        child = "r:1:miner-0"
        assert told(await runs.list()) == [
            (child, "miner", "running", "r"),
            ("r", "boss", "running", None),
        ]
        assert told(await durable.list("running")) == told(await runs.list())
        assert [row.task for row in await runs.list()] == ["dig", "go"]
        assert await other.list() == []
        status = await runs.status(child)
        assert (status, status.version, status.served) == ("running", durable.version, True)
        mine.gate.set()
        result = await running
        assert told(await runs.list("completed")) == [
            (child, "miner", "completed", "r"),
            ("r", "boss", "completed", None),
        ]
        assert await runs.list("running") == []
        own = [event async for event in runs.events(child)]
        assert [event.kind for event in own] == [e.kind for e in result.events if e.scope == "miner-0"]
        assert [(event.run_id, event.seq, event.scope) for event in own] == [
            (child, number, "") for number in range(1, len(own) + 1)
        ]
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db, db:  # as 0.2.0 has listed it
            db.execute("UPDATE wesichain_children SET scope = 'miner-0'")
        assert [event async for event in runs.events(child)] == own
        shown = await runs.show(child)
        assert (shown.agent, shown.parent, shown.error) == ("miner", "r", None)
        for refused in (runs.cancel(child), runs.delete(child), runs.resume(child), runs.pending(child)):
            with pytest.raises(DurableError, match="is inside 'r'"):
                await refused
        with pytest.raises(DurableError, match="inside a run of 'boss'"):
            await other.status(child)
        await runs.delete("r")
        assert await runs.list() == []


@pytest.mark.sampled
@pytest.mark.parametrize("after", sampled(range(9, 15), 3))
async def test_one_that_was_cut_off_anywhere_goes_on_as_the_same_run(url: str, after: int) -> None:
    mine = Mine()
    await cut_off(url, mine.agent(), after=after)
    async with DurableAgent(mine.agent(), "agent", database_url=url) as durable:
        assert (await durable.resume("r")).output == "rich"
        rows = told(await durable.list())
    assert rows == [("r:1:miner-0", "miner", "completed", "r"), ("r", "agent", "completed", None)]
    assert {*mine.dug} == {"r:1:miner-0:1:dig-0"}, "the key of a call is its own, whenever it is run"


async def test_a_database_without_their_tasks_is_read_and_its_older_version_can_write(url: str) -> None:
    async with DurableAgent(Mine().agent(), "boss", database_url=url) as durable:
        await durable.run("go", run_id="r")
    with database(url) as db:
        db.execute("ALTER TABLE wesichain_children DROP COLUMN task")
    async with DurableRuns(url) as runs:
        assert [row.task for row in await runs.list()] == ["", "go"], "an unknown task is not the outer run's"
    with database(url) as db:  # as an older version lists a run
        db.execute(
            "INSERT INTO wesichain_children (run, scope, id, parent, agent, outcome, created_at, updated_at) "
            "VALUES ('r', '@r:2:miner-0', 'r:2:miner-0', 'r', 'miner', 'completed', 0, 0)"
        )
    async with DurableAgent(Mine().agent(), "boss", database_url=url) as durable:
        await durable.run("again", run_id="s")
        found = {row.run_id: row.task for row in await durable.list()}
    assert found == {"s:1:miner-0": "dig", "s": "again", "r:1:miner-0": "", "r:2:miner-0": "", "r": "go"}


async def test_one_that_fails_says_why_and_one_whose_run_is_cancelled_is_cancelled(url: str) -> None:
    mine = Mine()
    async with DurableAgent(mine.agent(replies=(ValueError("ill"),)), "boss", database_url=url) as durable:
        assert (await durable.run("go", run_id="r")).output == "rich", "its caller goes on without it"
        (failed,) = [row for row in await durable.list("failed") if row.parent]
        assert failed.error is not None
        assert "ill" in failed.error
    mine = Mine()
    mine.gate.clear()
    async with DurableAgent(mine.agent(), "boss", database_url=url, lease=1.0) as durable:
        running = asyncio.create_task(durable.run("go", run_id="c"))
        await asyncio.wait_for(mine.begun.wait(), 30)
        await durable.cancel("c")
        with pytest.raises(RunInterruptedError):
            await running
        assert [row.run_id for row in await durable.list("cancelled")] == ["c:1:miner-0", "c"]


async def test_eight_agents_in_one_call_and_an_agent_below_an_agent_are_runs_each(postgres: str) -> None:
    def leaf(request: LlmRequest) -> LlmResponse | str:
        return f"leaf of {request.messages[-1].text}"

    def middle(request: LlmRequest) -> LlmResponse | str:
        is_done = any(message.role is Role.TOOL for message in request.messages)
        return "middle" if is_done else calls(("leaf", {"task": request.messages[-1].text}))

    inner = Agent(FunctionLlm(leaf), name="leaf")
    outer = Agent(FunctionLlm(middle), tools=[inner.as_tool()], name="middle")

    @tool(effect="idempotent")
    async def spread(ctx: ToolContext) -> list[str]:
        """Ask eight."""
        asked = [outer.run(f"part {number}", parent=ctx) for number in range(8)]
        return [result.output for result in await asyncio.gather(*asked)]

    def boss() -> Agent[str]:
        return Agent(turns(calls(("spread", {})), "done"), tools=[spread], budget=Budget(steps=100))

    async with DurableAgent(boss(), "boss", database_url=postgres) as durable:
        assert (await durable.run("go", run_id="eight")).output == "done"
        rows = [row for row in await durable.list() if row.run_id.startswith("eight:")]
        middles = {row.run_id for row in rows if row.agent == "middle"}
        assert middles == {"eight:1:spread-0", *(f"eight:1:spread-0~{number}" for number in range(2, 9))}
        assert {row.parent for row in rows if row.agent == "leaf"} == middles
        assert {row.status for row in rows} == {RunState.COMPLETED}
        assert len(rows) == 16
        some = next(row for row in rows if row.run_id == "eight:1:spread-0~3")
        kinds = [(event.kind, event.scope) async for event in durable.events(some.run_id)]
        assert kinds[0] == ("run_started", "")
        assert kinds[-1] == ("run_completed", "")
        assert ("run_completed", "leaf-0") in kinds
