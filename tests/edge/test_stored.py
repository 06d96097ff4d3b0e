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
from wesichain.agent import Approve, ApproveWith, Completed, MemoryConversations
from wesichain.core import TextDelta
from wesichain.core.internal import Price
from wesichain.durable import DurableAgent
from wesichain.edge import create_app
from wesichain.edge.runs import Order, Talks, new_run_id
from wesichain.edge.stored_runs import DurableRun, StoredRuns
from wesichain.tools import JsonTool

from .kit import say, scripted

REFUND = say(ToolCall("r1", "refund", {"amount": 5}))


@asynccontextmanager
async def stored(folder: Path, *replies: Any, url: str = "") -> AsyncIterator[StoredRuns]:
    agent = DurableAgent(scripted(*replies), "desk", database_url=url or database_in(folder))
    prices = {agent.agent.runtime.model: Price(1_000_000, 0)}
    runs = StoredRuns(agent, Talks(MemoryConversations(), 1000), prices=prices)
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


async def test_a_run_is_its_owners_and_stands_as_it_is_stored(tmp_path: Path) -> None:
    async with stored(tmp_path, REFUND, "done") as runs:
        run = await runs.start(order())
        assert (await run.ending()).state == "waiting"
        assert await runs.find("bob", "r") is None
        assert await runs.find("ann", "nobody") is None
        found = await runs.find("ann", "r")
        assert found is not None
        assert await state_of(found) == "waiting"
        assert await refused(runs.start(order(owner="bob"))) == (404, "there is no such run")
        status, words = await refused(runs.start(order(task="other")))
        assert (status, "other input" in words) == (409, True)
        wrong: Any = await refused(found.decide({"x": Approve()}, {}, is_streamed=False))
        assert wrong == (409, "no call of this run waits for one of these tokens")
        ((item,),) = ((await found.ending()).pending,)
        status, words = await refused(found.decide({item.token: ApproveWith({})}, {}, is_streamed=False))
        assert (status, "amount" in words) == (400, True)
        await found.decide({item.token: Approve()}, {}, is_streamed=False)
        end = await found.ending()
        assert (end.state, end.cost, type(end.outcome)) == ("completed", 20.0, Completed)
        assert await refused(found.cancel()) == (409, "the run has ended")
        assert await refused(found.decide({item.token: Approve()}, {}, is_streamed=False)) == (
            409,
            "the run does not wait for a decision",
        )
        events = [event async for batch in found.follow(0) for event in batch]
        assert [found.number(event) for event in events] == [*range(1, len(events) + 1)]
        assert found.number(TextDelta("r", 1, 0, 0.0, "x")) is None


async def test_a_run_that_nobody_has_taken_yet_is_running_and_can_be_cancelled(tmp_path: Path) -> None:
    async with DurableAgent(scripted("x"), "desk", database_url=database_in(tmp_path)) as agent:
        await agent.enqueue("go", run_id="r")
        run = DurableRun(agent, "r", None, None, None)
        assert await run.now() is None
        await run.cancel()
        end = await run.ending()
        assert (end.state, end.is_dropped, end.pending) == ("cancelled", True, ())
        assert await state_of(run) == "cancelled"


async def test_the_run_of_a_conversation_that_waits_is_found_by_its_thread(tmp_path: Path) -> None:
    async with stored(tmp_path, REFUND, "done") as runs:
        run_id = new_run_id("ann", "c")
        await (await runs.start(order(run_id, conversation="c"))).ending()
        found = await runs.waiting("ann", "c")
        assert found is not None
        assert (found.run_id, found.conversation) == (run_id, "c")
        assert await runs.waiting("bob", "c") is None
        assert await runs.waiting("ann", "d") is None


async def test_what_cannot_be_started_is_refused(tmp_path: Path) -> None:
    async with stored(tmp_path, "done") as runs:
        again = JsonTool("weather", "x", {"type": "object", "properties": {}}, external=True)
        status, words = await refused(runs.start(order(tools=(again,))))
        assert (status, "weather" in words) == (400, True)
    async with stored(tmp_path, "done", url="postgresql://ann:secret@127.0.0.1:9/none") as runs:
        status, words = await refused(runs.start(order()))
        assert (status, "secret" in words) == (503, False)


async def test_an_app_serves_the_queue_of_its_agent_unasked(tmp_path: Path) -> None:
    url = database_in(tmp_path)
    async with DurableAgent(scripted("done"), "desk", database_url=url) as client:
        await client.enqueue("go", run_id="r")
        app = create_app(DurableAgent(scripted("done"), "desk", database_url=url), protocols=False)
        async with app.router.lifespan_context(app):
            assert (await client.result("r", timeout=30)).output == "done"
            assert (await client.show("r")).served
        assert not (await client.show("r")).served, "it ends with the app"
