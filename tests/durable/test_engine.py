"""The engine on its own, with a program that is a function: what it takes, runs, hands on, and leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.durable.looks import several_looks
from tests.waiting import until
from wesichain.durable.engine import Engine, engine_for, release
from wesichain.durable.store.ledger import NewRun, WorkflowResult, WorkflowRow
from wesichain.durable.store.queue import Concurrency, Serving
from wesichain.durable.store.step_table import CANCELLED, LostRunError
from wesichain.durable.work import ServedProgram, Work

Program = Callable[[Work], Awaitable[WorkflowResult]]


async def done(work: Work) -> WorkflowResult:
    return WorkflowResult("completed", f"did {work.order}", value=work.order)


class Gate:
    """A program that waits until it may go on, or its token is cancelled."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.entered = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, work: Work) -> WorkflowResult:
        self.begun.append(work.workflow_id)
        self.entered.set()
        waits = [asyncio.ensure_future(self.open.wait()), asyncio.ensure_future(work.token.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()
        if work.token.cancelled:
            return WorkflowResult("interrupted", f"stopped: {work.token.reason}")
        return await done(work)


@asynccontextmanager
async def engine_of(
    url: str, program: Program, *, grace: float = 0.0, **limits: Any
) -> AsyncIterator[Engine]:
    engine = Engine(url, lease=0.5)
    engine.users.add(1)
    serving = Serving("a", "v", **limits)
    try:
        await engine.serve(ServedProgram(serving, program))
        yield engine
    finally:
        await engine.close(grace=grace)


def service_of(engine: Engine) -> ServedProgram:
    (service,) = engine._services.values()
    return service


def new(run_id: str, **more: Any) -> NewRun:
    return NewRun(run_id, "a", "v", f"order of {run_id}", "asked", **more)


def row_of(engine: Engine, run_id: str) -> WorkflowRow:
    row = engine.store.ledger.find(run_id)
    assert row is not None
    return row


def is_empty(engine: Engine) -> bool:
    return not (engine.active or engine._claimed or engine._suspects or engine._endings or engine._tasks)


async def test_what_is_queued_is_taken_as_many_at_once_as_a_worker_may(url: str) -> None:
    gate = Gate()
    async with engine_of(url, gate, concurrency=Concurrency(2)) as engine:
        for number in range(3):
            engine.store.ledger.begin(new(f"r{number}"))
        engine.wake()
        await until(lambda: len(gate.begun) == 2)
        service = service_of(engine)
        assert engine._claim_runs(service) == 0
        await engine.serve(ServedProgram(Serving("b", "v", concurrency=Concurrency(1)), gate))
        engine.store.ledger.begin(NewRun("other", "b", "v", "", "asked"))
        engine.wake()
        await until(lambda: len(gate.begun) == 3)
        assert engine._claim_runs(service) == 0
        assert {*gate.begun} == {"r0", "r1", "other"}, "each has a concurrency of its own"
        gate.open.set()
        await until(lambda: row_of(engine, "r2").run.status == "completed")
        await until(lambda: is_empty(engine))


async def test_an_idle_engine_keeps_no_connection_of_its_pool_open(url: str) -> None:
    gate = Gate()
    gate.open.set()
    async with engine_of(url, gate) as engine:
        engine.store.ledger.begin(new("r"))
        engine.wake()
        await until(lambda: row_of(engine, "r").run.status == "completed")

        def connections() -> int:
            pool: Any = engine.store.database.engine.pool
            return int(pool.checkedin())

        assert connections() > 0
        await until(lambda: connections() == 0)


async def test_a_cancelled_run_keeps_what_it_had_come_to(url: str) -> None:
    gate = Gate()
    async with engine_of(url, gate) as engine:
        ending = await engine.start(service_of(engine), new("r"))
        assert ending is not None
        await gate.entered.wait()
        engine.store.ledger.cancel("r")  # as another process does
        engine.wake()
        assert await ending is None
        assert row_of(engine, "r").run.status == "cancelled"
        assert engine.store.ledger.cancelled_ending("r") == f"stopped: {CANCELLED}"
        await until(lambda: is_empty(engine))


async def test_a_cancelled_start_cancels_only_the_run_that_it_has_begun(url: str) -> None:
    gate = Gate()
    async with engine_of(url, gate) as engine:
        assert engine.store.ledger.begin(new("theirs"))
        for run_id in ("theirs", "own"):
            starting = asyncio.create_task(engine.start(service_of(engine), new(run_id)))
            await asyncio.sleep(0)  # until it waits for the database
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
        assert [row_of(engine, run_id).is_cancelled for run_id in ("theirs", "own")] == [False, True]
        gate.open.set()


async def test_what_another_has_taken_over_is_ended_by_nobody_here(url: str) -> None:
    async def lost(_: Work) -> WorkflowResult:
        if len(runs) == 1:
            return await done(_)
        runs.append("")
        raise LostRunError("another process has taken the run over")

    runs: list[str] = []
    async with engine_of(url, lost) as engine:
        ending = await engine.start(service_of(engine), new("r"))
        assert ending is not None
        assert await ending is None
        # It is this one's all the same, as the database sees it: it is put back after a while, and run again.
        await until(lambda: row_of(engine, "r").run.status == "completed")


async def test_an_engine_that_ends_lets_runs_end_and_hands_on_the_others(url: str) -> None:
    gate = Gate()
    async with engine_of(url, gate, grace=30.0) as engine:
        await engine.start(service_of(engine), new("ends"))
        await gate.entered.wait()
        asyncio.get_running_loop().call_later(0.1, gate.open.set)
    async with engine_of(url, done) as other:
        assert row_of(other, "ends").run.status == "completed"
        assert [lease.executor for lease in leases_of(other)] == [other._executor]
    stuck = Gate()
    async with engine_of(url, stuck) as engine:
        await engine.start(service_of(engine), new("stays"))
        await stuck.entered.wait()
        executor = engine._executor
    async with engine_of(url, done) as other:
        await until(lambda: row_of(other, "stays").run.status == "completed")
        assert not other.store.leases.is_living(executor)


def leases_of(engine: Engine) -> list[Any]:
    with engine.store.database.transaction() as db:
        return engine.store.leases.all(db)


async def test_nothing_is_taken_by_an_engine_that_ends(url: str) -> None:
    async with engine_of(url, done) as engine:
        engine._stop_claiming()
        engine.store.ledger.begin(new("r"))
        assert engine._claim_runs(service_of(engine)) == 0
        assert row_of(engine, "r").run.status == "pending"


async def test_a_suspect_is_run_alone_until_it_has_finished_a_step(url: str) -> None:
    gate, stepped = Gate(), asyncio.Event()

    async def program(work: Work) -> WorkflowResult:
        gate.begun.append(work.workflow_id)
        await stepped.wait()

        async def act() -> str:
            return "{}"

        await work.step("one", act)
        return await gate(work)

    engine = Engine(url, lease=0.5)
    store = engine.store
    for run_id in ("r0", "r1"):
        store.ledger.begin(new(run_id))
    assert len(store.queue.claim("dead", Serving("a", "v"), free=8)) == 2
    store.leases.recover("dead")
    await engine.serve(ServedProgram(Serving("a", "v"), program))
    await until(lambda: len(gate.begun) == 1)
    await several_looks(engine)
    assert (len(gate.begun), len(engine._suspects)) == (1, 1)
    stepped.set()
    gate.open.set()
    await until(lambda: all(row_of(engine, run_id).run.status == "completed" for run_id in ("r0", "r1")))
    assert store.database.read("SELECT id FROM wesichain_suspects") == []
    await engine.close(grace=1.0)


async def test_an_engine_is_shared_by_its_users_and_ends_with_the_last(url: str) -> None:
    engine = await engine_for(url, lease=0.5)
    assert await engine_for(url, lease=0.5) is engine
    engine.users |= {1, 2}
    await release(engine, 1, grace=0.0)
    assert await engine_for(url, lease=0.5) is engine
    await release(engine, 2, grace=0.0)
    other = await engine_for(url, lease=0.5)
    assert other is not engine
    await release(other, 3, grace=0.0)


def test_the_engine_of_a_loop_that_is_gone_is_not_used_again(url: str) -> None:
    first = asyncio.run(engine_for(url, lease=0.5))

    async def again() -> None:
        engine = await engine_for(url, lease=0.5)
        assert engine is not first
        assert [lease.executor for lease in leases_of(engine)] == [engine._executor]
        await release(engine, 1, grace=0.0)

    asyncio.run(again())


async def test_a_look_is_the_sooner_the_more_there_is_to_do(url: str) -> None:
    engine = Engine(url, lease=20.0)
    now = engine.loop.time()
    assert engine._next_pause(is_quick=True) == 0.2
    engine._last_active = now - 10
    assert engine._next_pause(is_quick=False) == 1.05
    engine.active["r"] = None  # type: ignore[assignment]
    assert engine._next_pause(is_quick=False) == 0.5
    engine.active.clear()
    engine._pause = 0.1
    assert engine._next_pause(is_quick=True) == 0.1
    await engine.close(grace=0.0)
