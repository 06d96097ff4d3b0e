"""Checkpoints in a real Postgres."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from typing_extensions import override

from tests.graph.checkpointer_contract import CheckpointerContract, entry
from tests.waiting import until_answered
from wesichain.graph import Checkpointer
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
