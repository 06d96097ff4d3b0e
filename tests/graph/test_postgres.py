"""Checkpoints in a real Postgres."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any, TypedDict

import psycopg
import pytest
from typing_extensions import override

from tests.graph.checkpointer_contract import CheckpointerContract, entry, numbers
from tests.waiting import until_answered
from wesichain.graph import Append, Checkpointer, ExecutionOptions, GraphBuilder
from wesichain.graph.postgres import PostgresCheckpointer

TABLES = ("wesichain_entries", "wesichain_threads", "wesichain_schema")


def forget(url: str) -> None:
    with psycopg.connect(url) as db:
        for table in TABLES:
            db.execute(f"DROP TABLE IF EXISTS {table} CASCADE")


class TestPostgresCheckpointer(CheckpointerContract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: str) -> None:
        forget(postgres)
        self.url = postgres

    @override
    async def make(self) -> Checkpointer:
        return PostgresCheckpointer(self.url)

    @override
    async def done(self, store: Checkpointer) -> None:
        assert isinstance(store, PostgresCheckpointer)
        await store.close()


class Log(TypedDict):
    log: Annotated[list[str], Append]


def test_a_web_server_with_threads_runs_graphs_on_one_checkpointer(postgres: str) -> None:
    """Each request of a sync server has an event loop of its own."""
    forget(postgres)
    builder = (
        GraphBuilder(Log).add_node("a", lambda _: {"log": ["a"]}).add_node("b", lambda _: {"log": ["b"]})
    )
    graph = builder.add_edge("a", "b").set_entry("a").build(PostgresCheckpointer(postgres))
    done: list[Any] = []

    def serve(name: str) -> None:
        for turn in range(8):
            options = ExecutionOptions(thread_id=f"{name} {turn % 2}")
            done.append(graph.invoke_sync({"log": [name]}, options)["log"])

    threads = [threading.Thread(target=serve, args=(f"t{n}",), daemon=True) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert sorted(map(len, done)) == sorted([3, 6, 9, 12] * 8)
    asyncio.run(_history(graph))


async def _history(graph: Any) -> list[Any]:
    found: list[Any] = await graph.history("t")
    await graph.checkpointer.close()
    return found


async def test_two_clients_of_one_thread_do_not_overwrite_each_other(postgres: str) -> None:
    forget(postgres)
    stores = [PostgresCheckpointer(postgres) for _ in range(4)]
    await stores[0].append("t", [entry(1)], after=0)
    results = await asyncio.gather(
        *[store.append("t", [entry(2, body=f'{{"by":{i}}}')], after=1) for i, store in enumerate(stores)],
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["CheckpointError"] * 3 + ["NoneType"]
    assert numbers(await stores[0].read("t")) == [1, 2]
    for store in stores:
        await store.close()


async def test_a_cancelled_call_leaves_the_checkpointer_usable(postgres: str) -> None:
    forget(postgres)
    store = PostgresCheckpointer(postgres)
    await store.append("t", [entry(1)], after=0)
    blocker = await psycopg.AsyncConnection.connect(postgres)
    await blocker.execute("LOCK TABLE wesichain_threads IN ACCESS EXCLUSIVE MODE")
    task = asyncio.ensure_future(store.append("t", [entry(2)], after=1))

    async def is_at_the_table() -> bool:
        found = await blocker.execute(  # not pg_stat_activity: within a transaction, that never changes
            "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'wesichain_threads'::regclass "
            "AND pid <> pg_backend_pid()"
        )
        return bool((await found.fetchone() or [False])[0])

    async def is_decided() -> bool:
        return not await is_at_the_table()

    await until_answered(is_at_the_table)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await blocker.rollback()

    await until_answered(is_decided)  # whether the second entry was kept
    await blocker.close()
    last = (await store.read("t"))[-1].seq
    await store.append("t", [entry(last + 1)], after=last)
    await store.close()
