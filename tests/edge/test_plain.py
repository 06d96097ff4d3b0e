"""The runs of a plain agent as the app keeps them, without a server: whose they are, how they stand, how long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from wesichain import Agent, ToolCall
from wesichain.agent import Approve, MemoryConversations, Refuse
from wesichain.core.internal import Price
from wesichain.edge import Limits, create_app
from wesichain.edge.plain_runs import PlainRun, PlainRuns
from wesichain.edge.runs import ConversationDirectory, Order
from wesichain.errors import (
    ConfigError,
)
from wesichain.testing import FunctionLlm
from wesichain.tools import JsonTool

from .kit import say, scripted

REFUND = say(ToolCall("r1", "refund", {"amount": 5}))


def runs_of(agent: Agent[Any, Any], **more: Any) -> PlainRuns:
    limits = Limits(**{name: more.pop(name) for name in [*more] if name in Limits.__struct_fields__})
    prices = {agent.runtime.model: Price(1_000_000, 0)}
    return PlainRuns(
        agent, ConversationDirectory(MemoryConversations(), 1000), limits=limits, prices=prices, **more
    )


def order(run_id: str = "r", owner: str = "ann", task: str = "go", **more: Any) -> Order:
    return Order(run_id, owner, task, **more)


async def refused(work: Any) -> tuple[int, str]:
    with pytest.raises(HTTPException) as error:
        await work
    return error.value.status_code, error.value.detail


async def state_of(run: PlainRun) -> str | None:
    end = await run.now()
    return None if end is None else end.state


class Stuck:
    """A model that waits until it may answer."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    def agent(self) -> Agent[Any, Any]:
        async def reply(_: Any) -> str:
            await self.gate.wait()
            return "late"

        return Agent(FunctionLlm(reply))


async def test_a_run_is_cancelled_by_its_last_client_who_leaves_unless_it_stays() -> None:
    for stay in (False, True):
        runs = runs_of(Stuck().agent())
        run = await runs.start(order(stay=stay))
        run.join()
        run.join()
        run.leave()
        await asyncio.sleep(0)
        assert await state_of(run) is None
        run.leave()
        if stay:
            assert await state_of(run) is None
            await run.cancel()
        end = await run.ending()
        assert (end.state, end.outcome.reason) == (  # type: ignore[union-attr]
            "cancelled",
            "cancelled by the client" if stay else "the client left",
        )


async def test_a_run_ends_when_its_time_is_over() -> None:
    run = await runs_of(Stuck().agent(), run_seconds=0.05).start(order())
    end = await run.ending()
    assert (end.state, end.outcome.reason) == ("cancelled", "the run has reached the limit of run_seconds")  # type: ignore[union-attr]


async def test_no_more_runs_at_once_than_the_limit_says() -> None:
    stuck = Stuck()
    runs = runs_of(stuck.agent(), runs=2)
    first, second = [await runs.start(order(f"r{number}")) for number in range(2)]
    assert await refused(runs.start(order("r2"))) == (503, "too many runs at once; try again")
    assert await runs.start(order("r1")) is second
    await first.cancel()
    third = await runs.start(order("r2"))
    stuck.gate.set()
    assert [(await one.ending()).state for one in (second, third)] == ["completed", "completed"]


async def test_runs_that_have_ended_are_kept_for_a_while_and_the_oldest_go_first() -> None:
    runs = runs_of(scripted("done"), keep_runs=2)
    for number in range(3):
        await (await runs.start(order(f"r{number}"))).ending()
    assert [await runs.find("ann", f"r{number}") is not None for number in range(3)] == [False, True, True]
    short = runs_of(scripted("done"), keep_seconds=0.02)
    await (await short.start(order())).ending()
    assert await short.find("ann", "r") is not None
    await asyncio.sleep(0.03)
    assert await short.find("ann", "r") is None
    waiting = runs_of(scripted(REFUND), keep_runs=1, keep_seconds=0.001)
    await (await waiting.start(order("waits"))).ending()
    await asyncio.sleep(0.01)
    assert await waiting.find("ann", "waits") is not None, "what waits is kept longer"


async def test_the_newest_run_of_a_conversation_that_waits_and_what_takes_its_place() -> None:
    runs = runs_of(scripted(REFUND, "done"))
    first = await runs.start(order("one", conversation="c"))
    await first.ending()
    assert await runs.waiting("ann", "c") is first
    assert await runs.waiting("bob", "c") is None
    assert await runs.waiting("ann", "d") is None
    second = await runs.start(order("two", conversation="c"))
    await second.ending()
    assert await runs.waiting("ann", "c") is second
    end = await first.now()
    assert end is not None
    assert (end.state, end.pending) == ("cancelled", ()), "the user has asked something else instead"


class Inbox:
    """Keeps what waits, and may have given it away."""

    def __init__(self) -> None:
        self.put_in: list[str] = []
        self.taken: list[str] = []
        self.is_gone = False

    def put(self, outcome: Any) -> None:
        self.put_in.append(outcome.run_id)

    def claim(self, run_id: str, decisions: Any) -> None:
        self.take(run_id)

    def take(self, run_id: str) -> None:
        if self.is_gone:
            raise ConfigError("somebody has taken it")
        self.taken.append(run_id)


async def test_a_run_that_waits_is_in_the_inbox_until_it_is_decided_on_or_dropped() -> None:
    inbox = Inbox()
    runs = runs_of(scripted(REFUND, "done"), inbox=inbox)
    for run_id in ("decided", "dropped", "gone"):
        run = await runs.start(order(run_id))
        (item,) = (await run.ending()).pending
        inbox.is_gone = run_id == "gone"
        if run_id == "decided":
            await run.decide({item.token: Refuse("no")}, {}, is_streamed=False)
            assert (await run.ending()).state == "completed"
        elif run_id == "dropped":
            await run.cancel()
        else:
            wrong = await refused(run.decide({item.token: Approve()}, {}, is_streamed=False))
            assert wrong == (409, "somebody has taken it")
            await run.cancel()
            assert await state_of(run) == "cancelled"
    assert (inbox.put_in, inbox.taken) == (["decided", "dropped", "gone"], ["decided", "dropped"])


async def test_what_cannot_begin_is_refused_and_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    runs = runs_of(scripted("done"))
    again = JsonTool("weather", "x", {"type": "object", "properties": {}}, external=True)
    status, words = await refused(runs.start(order(tools=(again,))))
    assert (status, "weather" in words) == (400, True)
    assert await runs.find("ann", "r") is None
    needy = runs_of(Agent(FunctionLlm(lambda _: "x"), deps_type=dict))
    status, words = await refused(needy.start(order()))
    assert (status, "deps" in words) == (400, True)
    assert await needy.find("ann", "r") is None
    logged = [(one.levelname, one.getMessage().partition(": ")[0]) for one in caplog.records]
    assert logged == [("WARNING", "the run r was refused")]


async def test_an_app_that_ends_cancels_the_runs_of_this_process() -> None:
    async def reply(_: Any) -> str:
        await asyncio.Event().wait()
        return "never"

    app = create_app(Agent(FunctionLlm(reply)), protocols=False)
    async with app.router.lifespan_context(app):
        run = await app.state.runs.keeper(None).start(Order("r", "", "go", stay=True))
        assert await run.now() is None
    end = await run.now()
    assert end is not None, "its end is waited for"
    assert (end.state, end.outcome.reason) == ("cancelled", "the service is shutting down")
