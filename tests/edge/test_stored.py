"""The runs of a durable agent as the app keeps them: whose they are, how they stand, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from tests.durable.databases import database_in
from wesichain import ToolCall
from wesichain.agent import MemoryConversations
from wesichain.core import TextDelta
from wesichain.core.internal import Price
from wesichain.durable import DurableAgent
from wesichain.edge.runs import ConversationDirectory, Order
from wesichain.edge.stored_runs import DurableRun, StoredRuns
from wesichain.tools import JsonTool

from .kit import say, scripted

REFUND = say(ToolCall("r1", "refund", {"amount": 5}))


@asynccontextmanager
async def stored(folder: Path, *replies: Any, url: str = "") -> AsyncIterator[StoredRuns]:
    agent = DurableAgent(scripted(*replies), "desk", database_url=url or database_in(folder))
    prices = {agent.agent.runtime.model: Price(1_000_000, 0)}
    runs = StoredRuns(agent, ConversationDirectory(MemoryConversations(), 1000), prices=prices)
    try:
        yield runs
    finally:
        await runs.close()
        await agent.close()


def order(run_id: str = "r", owner: str = "ann", task: str = "go", **more: Any) -> Order:
    return Order(run_id, owner, task, **more)


async def state_of(run: DurableRun) -> str | None:
    now = await run.now()
    return None if now is None else now.state


async def refused(work: Any) -> tuple[int, str]:
    with pytest.raises(HTTPException) as error:
        await work
    return error.value.status_code, error.value.detail


async def test_a_run_that_nobody_has_taken_yet_is_running_and_can_be_cancelled(tmp_path: Path) -> None:
    async with DurableAgent(scripted("x"), "desk", database_url=database_in(tmp_path)) as agent:
        await agent.enqueue("go", run_id="r")
        run = DurableRun(agent, "r", None, None, None)
        assert run.number(TextDelta("r", 1, 0, 0.0, "x")) is None, "it is not stored"
        assert await run.now() is None
        await run.cancel()
        end = await run.ending()
        assert (end.state, end.is_dropped, end.pending) == ("cancelled", True, ())
        assert await state_of(run) == "cancelled"


async def test_a_run_that_is_deleted_while_it_is_followed_ends_with_500(tmp_path: Path) -> None:
    async with DurableAgent(scripted("x"), "desk", database_url=database_in(tmp_path)) as agent:
        run = DurableRun(agent, "gone", None, None, None)
        assert await refused(run.ending()) == (500, "there is no run 'gone' in this database")


async def test_what_cannot_be_started_is_refused(tmp_path: Path) -> None:
    async with stored(tmp_path, "done") as runs:
        again = JsonTool("weather", "x", {"type": "object", "properties": {}}, external=True)
        status, words = await refused(runs.start(order(tools=(again,))))
        assert (status, "weather" in words) == (400, True)
    async with stored(tmp_path, "done", url="postgresql://ann:secret@127.0.0.1:9/none") as runs:
        status, words = await refused(runs.start(order()))
        assert (status, "secret" in words) == (503, False)
