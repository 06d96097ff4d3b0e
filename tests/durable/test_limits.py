"""Limits: how many runs go on and begin, in which order, and what ends a run that kills its process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.durable.poison import durable as poison
from tests.durable.test_agent import Slow, served, turns
from tests.warm import python
from wesichain import Agent
from wesichain.core import LlmRequest
from wesichain.durable import Concurrency, DurableAgent, DurableGraph, Rate, RunState
from wesichain.durable.store.leases import Lease
from wesichain.durable.store.ledger import NewRun, WorkflowResult, queue_of
from wesichain.durable.store.queue import Claimed, Serving, rates_of
from wesichain.durable.store.store import Store
from wesichain.errors import ConfigError, DurableError
from wesichain.graph import GraphBuilder, MemoryCheckpointer
from wesichain.testing import FunctionLlm


class Crowd:
    """A model that stays until so many are there, and a moment; it knows how many were there at once."""

    def __init__(self, wanted: int = 1, seconds: float = 0.3) -> None:
        self.wanted = wanted
        self.seconds = seconds
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.order: list[str] = []
        self.began: list[float] = []

    def agent(self) -> Agent[Any, str]:
        async def reply(request: LlmRequest) -> str:
            task = request.messages[-1].text
            kind = task.split()[0]
            self.order.append(task)
            self.began.append(time.monotonic())
            self.now.update([kind, "all"])
            for key in (kind, "all"):
                self.most[key] = max(self.most[key], self.now[key])
            deadline = time.monotonic() + 20
            while self.most["all"] < self.wanted and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
            await asyncio.sleep(self.seconds)
            self.now.subtract([kind, "all"])
            return "done"

        return Agent(FunctionLlm(reply))


async def finish(client: DurableAgent[Any], run_ids: list[str]) -> None:
    for run_id in run_ids:
        assert (await client.result(run_id, timeout=60)).output == "done"


async def test_a_queue_and_each_key_have_theirs(postgres: str) -> None:
    crowd = Crowd(4, seconds=0.3)
    limits = Concurrency(worker=8, queue=4, key=2)
    durable = DurableAgent(crowd.agent(), "keys", database_url=postgres, concurrency=limits)
    run_ids = [await durable.enqueue(f"a {n}", key="a") for n in range(6)]
    run_ids += [await durable.enqueue(f"b {n}", key="b") for n in range(3)]
    run_ids += [await durable.enqueue(f"c {n}") for n in range(3)]
    async with served(durable):
        await finish(durable, run_ids)
    assert crowd.most["a"] == 2
    assert crowd.most["b"] <= 2
    assert crowd.most["all"] == 4


@pytest.mark.parametrize(
    ("per", "first", "second"),
    [
        pytest.param("queue", ["a0", "b0"], [], id="of-the-queue"),
        pytest.param("worker", ["a0", "b0"], ["a1", "free"], id="of-each-worker"),
        pytest.param("key", ["a0", "a1", "b0", "free"], [], id="of-each-key"),
    ],
)
def test_a_rate_counts_what_has_begun(url: str, per: Any, first: list[str], second: list[str]) -> None:
    store, serving = Store(url), Serving("a", "v", rates=(Rate(2, 0.4, per=per),))
    for run_id, key in (("a0", "a"), ("a1", "a"), ("a2", "a"), ("b0", "b"), ("free", None)):
        assert store.ledger.begin(NewRun(run_id, "a", "v", "{}", "x", key=key))
        time.sleep(0.002)  # they are served in the order of their milliseconds

    def claimed(executor: str) -> list[str]:
        return sorted(row.id for row in store.queue.claim(executor, serving, free=8))

    assert (claimed("one"), claimed("two")) == (first, second)
    time.sleep(0.45)
    assert claimed("one"), "its time is over"
    store.close()


def test_workers_claim_in_turn_only_where_a_limit_counts_the_runs_of_all(postgres: str) -> None:
    store = Store(postgres)
    shared = Serving("a", "v", concurrency=Concurrency(queue=2))
    alone = Serving("a", "v", concurrency=Concurrency(worker=2))
    with ThreadPoolExecutor(2) as threads:
        with store.database.transaction(queue_of("a")):  # as a worker that claims
            waiting = threads.submit(store.queue.claim, "one", shared, free=1)
            assert threads.submit(store.queue.claim, "two", alone, free=1).result(30) == []
            assert not wait([waiting], 0.2).done
        assert waiting.result(30) == []
    store.close()


async def test_one_is_served_before_two_and_a_delay_is_waited_for(url: str) -> None:
    crowd = Crowd(seconds=0.0)
    durable = DurableAgent(crowd.agent(), "order", database_url=url, concurrency=1)
    asked = time.monotonic()
    late = await durable.enqueue("late", priority=1, delay=0.7)
    run_ids = [await durable.enqueue(f"p {n}", priority=n) for n in (3, 1, 2)]
    run_ids.append(await durable.enqueue("plain"))
    async with served(durable):
        await finish(durable, [*run_ids, late])
    assert [task for task in crowd.order if task != "late"] == ["p 1", "p 2", "p 3", "plain"]
    assert crowd.began[crowd.order.index("late")] - asked > 0.6


@pytest.mark.parametrize(
    "options",
    [{"priority": 1.5}, {"delay": float("nan")}],
)
async def test_an_order_that_makes_no_sense_is_refused(url: str, options: dict[str, Any]) -> None:
    async with DurableAgent(Agent(turns("x")), "agent", database_url=url) as durable:
        with pytest.raises(ConfigError, match="must be"):
            await durable.enqueue("hi", **options)
    graph = (
        GraphBuilder(dict).add_node("one", lambda state: state).set_entry("one").build(MemoryCheckpointer())
    )
    async with DurableGraph[Any](graph, "graph", database_url=url) as served_graph:
        with pytest.raises(ConfigError, match="must be"):
            await served_graph.enqueue({}, **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Concurrency(0),
        lambda: Concurrency(key=0),
        lambda: Rate(0, 1.0),
        lambda: Rate(1, 0.0),
        lambda: Rate(1, 1.0, per="run"),  # type: ignore[arg-type]
        lambda: rates_of((1, 2.0, 3)),  # type: ignore[arg-type]
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(make: Any) -> None:
    with pytest.raises(ConfigError):
        make()
    assert rates_of((3, 1.0)) == rates_of(Rate(3, 1.0)) == rates_of([Rate(3, 1.0)])
    assert rates_of(None) == rates_of(()) == ()


@pytest.mark.parametrize(
    ("limits", "is_shared"),
    [
        ({}, False),
        ({"rates": (Rate(1, 1.0, per="worker"),)}, False),
        ({"rates": (Rate(1, 1.0, per="worker"), Rate(1, 1.0))}, True),
        ({"rates": (Rate(1, 1.0, per="key"),)}, True),
        ({"concurrency": Concurrency(queue=1)}, True),
        ({"concurrency": Concurrency(key=1)}, True),
    ],
)
def test_limits_that_count_what_other_workers_run(limits: Any, is_shared: bool) -> None:
    assert Serving("desk", "v", **limits).is_shared is is_shared


# --- runs that kill --------------------------------------------------------------------------------

POISON = "tests.durable.poison:durable"


def start_worker(url: str, recoveries: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*python(), "-c", "from wesichain.cli import main; main()", "worker", POISON, "--no-record"],
        cwd=ROOT,
        env={**os.environ, "URL": url, "RECOVERIES": str(recoveries)},
        stderr=subprocess.DEVNULL,
    )


async def poisoned(url: str, *, good: int, recoveries: int) -> None:
    """Keep a worker alive, as an operator would, while one of many runs kills it again and again."""
    async with poison().configured(database_url=url) as durable:
        run_ids = [await durable.enqueue(f"good {n}") for n in range(good // 2)]
        bad = await durable.enqueue("bad")
        run_ids += [await durable.enqueue(f"good {n}") for n in range(good // 2, good)]
        workers = [start_worker(url, recoveries)]
        try:
            deadline = time.monotonic() + 240
            while time.monotonic() < deadline:
                if workers[-1].poll() is not None:
                    assert workers[-1].returncode == -signal.SIGKILL
                    workers.append(start_worker(url, recoveries))
                states = [summary.status for summary in await durable.list(limit=1000)]
                if not {RunState.PENDING, RunState.RUNNING} & {*states}:
                    break
                await asyncio.sleep(0.2)
            assert await durable.status(bad) == RunState.FAILED
            assert {await durable.status(run_id) for run_id in run_ids} == {RunState.COMPLETED}
            assert len(workers) == recoveries + 2, "it was run once, and recovered so many times"
            summary = await durable.show(bad)
            assert summary.error is not None
            assert f"died {recoveries + 1} times" in summary.error
            with pytest.raises(DurableError, match=f"died {recoveries + 1} times"):
                await durable.outcome(bad)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


async def test_a_run_that_kills_its_process_is_ended_and_the_others_complete(url: str) -> None:
    await poisoned(url, good=6, recoveries=1)


@pytest.mark.slow
async def test_one_poisoned_run_among_fifty(postgres: str) -> None:
    await poisoned(postgres, good=50, recoveries=5)


def claim(store: Store, executor: str) -> list[Claimed]:
    with store.database.transaction() as db:
        store.leases.beat(db, Lease(executor, "far", 1, 0, 5.0))
    store.leases.serve(executor, Serving("a", "v"))
    return store.queue.claim(executor, Serving("a", "v"), free=8)


def outcome_of(store: Store, run_id: str) -> str | None:
    row = store.ledger.find(run_id)
    return None if row is None else row.outcome


async def test_the_end_of_a_run_is_told_by_the_one_who_has_it(url: str) -> None:
    store = Store(url)
    assert store.ledger.begin(NewRun("r", "a", "v", "{}", "x"))
    (first,) = claim(store, "one")
    store.ledger.cancel("r")
    failed, completed = WorkflowResult("failed", "{}"), WorkflowResult("completed", "{}")
    assert not store.ledger.end("r", "r", failed, owner=first.owner)
    store.ledger.uncancel("r")
    (second,) = claim(store, "two")
    assert not store.ledger.end("r", "r", failed, owner=first.owner)  # it has not heard of it yet
    assert outcome_of(store, "r") == ""
    assert store.ledger.end("r", "r", completed, owner=second.owner)
    assert outcome_of(store, "r") == "completed"
    store.close()


def recoveries(store: Store, workflow_id: str) -> int:
    rows = store.database.read(
        "SELECT recoveries FROM wesichain_suspects WHERE id = :id", {"id": workflow_id}
    )
    return rows[0].recoveries if rows else 0


async def test_of_those_that_died_together_the_one_on_trial_is_blamed(url: str) -> None:
    store = Store(url)

    for number in range(4):
        assert store.ledger.begin(NewRun(f"r{number}", "a", "v", "{}", "x"))
    assert len(claim(store, "one")) == 4
    assert store.leases.recover("one") == []
    assert [recoveries(store, f"r{n}") for n in range(4)] == [1, 1, 1, 1]
    (suspect,) = claim(store, "two")  # one at a time
    assert suspect.is_suspect
    assert store.ledger.begin(NewRun("fresh", "a", "v", "{}", "x"))
    others = store.queue.claim("two", Serving("a", "v"), free=8, takes_suspect=False)
    assert [row.id for row in others] == ["fresh"]
    store.leases.recover("two")
    assert recoveries(store, suspect.id) == 2
    assert recoveries(store, "fresh") == 0, "another one was on trial"
    store.leases.clear(suspect.id)
    assert recoveries(store, suspect.id) == 0
    store.close()


async def test_a_run_that_has_finished_a_step_is_suspected_of_nothing(url: str) -> None:
    store, slow = Store(url), Slow("model 1")
    durable = DurableAgent(slow.agent(), "a", database_url=url, version="v")
    await durable.enqueue("work", run_id="r")
    assert [row.id for row in claim(store, "dead")] == ["r"]
    store.leases.recover("dead")
    assert recoveries(store, "r") == 1
    async with served(durable):
        await slow.begun.wait()
        assert recoveries(store, "r") == 0
        await durable.cancel("r")
    store.close()
