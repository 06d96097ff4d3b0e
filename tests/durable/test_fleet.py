"""A fleet of workers: what an idle one asks, who watches the others, who is served, and how keys share."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conftest import ROOT
from tests.durable.test_agent import adder
from tests.durable.test_kill import another
from tests.durable.test_workers import MAIN
from tests.warm import python
from wesichain.durable import Concurrency, DurableAgent, DurableRuns, Rate
from wesichain.durable.engine import Engine
from wesichain.durable.store.ledger import NewRun
from wesichain.durable.store.queue import Serving
from wesichain.durable.store.store import Store

STATS = """
SELECT xact_commit + xact_rollback, (SELECT COUNT(*) FROM pg_stat_activity WHERE datname = %(name)s)
FROM pg_stat_database WHERE datname = %(name)s
"""


@contextmanager
def without_autovacuum(server: psycopg.Connection[Any]) -> Iterator[None]:
    """Keep the server from making transactions of its own in the databases."""
    server.execute("ALTER SYSTEM SET autovacuum = off")
    server.execute("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        server.execute("ALTER SYSTEM RESET autovacuum")
        server.execute("SELECT pg_reload_conf()")


def stats(server: psycopg.Connection[Any], name: str) -> tuple[int, int]:
    """The transactions in a database so far, and its connections; the server's connection is to another."""
    row: Any = server.execute(STATS, {"name": name}).fetchone()
    return row[0], row[1]


@pytest.mark.slow
async def test_an_idle_worker_asks_less_than_once_a_second_and_keeps_two_connections_at_most(
    postgres: str,
) -> None:
    url = another(postgres)
    with psycopg.connect(postgres, autocommit=True) as server, without_autovacuum(server):
        async with DurableAgent(adder(), "adder", database_url=url) as worker:
            await asyncio.gather(*(worker.run("1 + 2?") for _ in range(8)))  # it was busy before
            await asyncio.sleep(13)  # an idle server process tells what it did ten seconds later
            (before, _), began = stats(server, "calm"), time.monotonic()
            await asyncio.sleep(25)  # pauses of 1.05 s fit in 24 times, wherever the first one begins
            (after, connections), passed = stats(server, "calm"), time.monotonic() - began
    assert 0 < (after - before) / passed <= 1.0
    assert 0 < connections <= 2


async def test_served_tells_whether_the_worker_lives(url: str, tmp_path: Path) -> None:
    command = [*python(), "-c", MAIN, "worker", "tests.durable.work:agent", "--no-record"]
    environment = {**os.environ, "EFFECTS": str(tmp_path / "effects")}
    worker = subprocess.Popen(
        [*command, "--database-url", url], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL
    )
    async with DurableRuns(url) as runs, DurableAgent(adder(), "other", database_url=url) as other:
        waiting = await other.enqueue("1 + 2?")
        async with asyncio.timeout(60):
            while not [one for one in await runs.stats() if one.queue == "work" and one.workers == 1]:
                await asyncio.sleep(0.1)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        async with asyncio.timeout(8):  # by its lease alone it would count as alive for ten seconds
            while "work" in (found := {one.queue: one for one in await runs.stats()}):
                await asyncio.sleep(0.02)  # nobody serves it, and it has nothing to do
        assert (found["other"].queued, found["other"].workers) == (1, 0)
        assert found["other"].oldest_queued_seconds >= 0
        assert not (await runs.status(waiting)).served
        assert not (await runs.show(waiting)).served


async def test_a_worker_on_another_machine_that_is_silent_is_not_served(url: str) -> None:
    engine = Engine(url, lease=0.5, machine="far away")
    durable = DurableAgent(adder(), "adder", database_url=url)
    async with DurableRuns(url) as runs:
        await engine.serve(durable._service)
        assert [one.workers for one in await runs.stats()] == [1]
        engine._poller.stop()  # it hangs
        async with asyncio.timeout(30):
            while await runs.stats():
                await asyncio.sleep(0.05)
    engine.destroy()


async def test_one_worker_watches_and_another_takes_its_place(url: str) -> None:
    engines = [Engine(url, lease=1.0, machine=f"machine {number}") for number in range(3)]

    def watchers() -> list[int]:
        return [number for number, engine in enumerate(engines) if engine._is_watcher]

    async def until_watched() -> int:
        async with asyncio.timeout(30):
            while len(watchers()) != 1:
                await asyncio.sleep(0.02)
        return watchers()[0]

    first = await until_watched()
    engines[first]._poller.stop()  # it hangs, with its place kept
    engines[first]._is_watcher = False
    second = await until_watched()
    assert second != first
    for engine in engines:
        engine.destroy()


def test_keys_take_turns_behind_what_they_run_already_and_priorities_go_first(url: str) -> None:
    store = Store(url)
    for number in range(6):
        store.ledger.begin(NewRun(f"a{number}", "x", "v", "{}", "", key="a"))
    serving = Serving("x", "v")
    assert [row.id for row in store.queue.claim("one", serving, free=2)] == ["a0", "a1"]
    for number in range(3):
        store.ledger.begin(NewRun(f"b{number}", "x", "v", "{}", "", key="b"))
    store.ledger.begin(NewRun("plain", "x", "v", "{}", ""))
    store.ledger.begin(NewRun("urgent", "x", "v", "{}", "", priority=1, key="a"))
    taken = [row.id for _ in range(3) for row in store.queue.claim("one", serving, free=2)]
    assert taken == ["urgent", "b0", "plain", "b1", "b2", "a2"]
    store.close()


async def test_a_rate_holds_over_all_workers(url: str) -> None:
    """Two workers, and as many runs begin as one may begin."""
    store = Store(url)
    for number in range(12):
        store.ledger.begin(NewRun(f"r{number}", "x", "v", "{}", ""))

    def taken(serving: Serving, *executors: str) -> list[int]:
        return [len(store.queue.claim(executor, serving, free=4)) for executor in executors]

    assert taken(Serving("x", "v", rates=(Rate(5, 60.0),)), "one", "two", "one", "two") == [4, 1, 0, 0]
    for number in range(12):
        store.ledger.begin(NewRun(f"s{number}", "y", "v", "{}", ""))
    six = Serving("y", "v", concurrency=Concurrency(4, queue=6))  # in all workers together
    assert taken(six, "one", "two", "one") == [4, 2, 0]
    for number in range(12):
        store.ledger.begin(NewRun(f"t{number}", "z", "v", "{}", ""))
    each = Serving("z", "v", rates=(Rate(5, 60.0, per="worker"),))
    assert taken(each, "one", "two", "one", "two", "one") == [4, 4, 1, 1, 0]
    store.close()
