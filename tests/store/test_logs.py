"""Logs: one contract, on every store."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typing_extensions import override

from tests.conftest import ROOT
from tests.draws import draws
from tests.warm import python
from wesichain.errors import CheckpointError
from wesichain.store import Layout, MemoryThreadLogs, TableSchema, ThreadEntry, ThreadLogs
from wesichain.store.postgres import PostgresThreadLogs
from wesichain.store.sqlite import SqliteThreadLogs
from wesichain.testing import ThreadLogsContract

SQLITE = TableSchema(
    "the logs",
    0x57534C47,
    (
        """
        CREATE TABLE logs (
            id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, seq INTEGER NOT NULL, at REAL NOT NULL
        );
        CREATE TABLE entries (
            log INTEGER NOT NULL REFERENCES logs (id) ON DELETE CASCADE,
            seq INTEGER NOT NULL, owner TEXT NOT NULL, base INTEGER NOT NULL, at REAL NOT NULL,
            body TEXT NOT NULL, PRIMARY KEY (log, seq)
        );
        CREATE TABLE parts (
            log INTEGER NOT NULL REFERENCES logs (id) ON DELETE CASCADE,
            hash TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (log, hash)
        );
        """,
    ),
    CheckpointError,
)
POSTGRES = TableSchema(
    "the logs",
    0x57534C47,
    (
        """
        CREATE TABLE some_logs (
            id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name BYTEA NOT NULL,
            seq BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL
        );
        CREATE UNIQUE INDEX some_names ON some_logs (sha256(name));
        CREATE TABLE some_entries (
            log BIGINT NOT NULL REFERENCES some_logs (id) ON DELETE CASCADE,
            seq BIGINT NOT NULL, owner TEXT COLLATE "C" NOT NULL, base BIGINT NOT NULL,
            at DOUBLE PRECISION NOT NULL, body TEXT NOT NULL, PRIMARY KEY (log, seq)
        );
        CREATE TABLE some_parts (
            log BIGINT NOT NULL REFERENCES some_logs (id) ON DELETE CASCADE,
            hash TEXT COLLATE "C" NOT NULL, data BYTEA NOT NULL, PRIMARY KEY (log, hash)
        );
        """,
    ),
    CheckpointError,
    "some_schema",
)
TABLES = ("some_parts", "some_entries", "some_logs", "some_schema")


def conflict(name: str) -> CheckpointError:
    return CheckpointError(f"{name!r} has moved on")


class TestMemoryLogs(ThreadLogsContract):
    @override
    async def make_logs(self) -> ThreadLogs:
        return MemoryThreadLogs(conflict)


class TestSqliteLogs(ThreadLogsContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    @override
    async def make_logs(self) -> ThreadLogs:
        layout = Layout("logs", "entries", "log", conflict, "parts", key=str.encode, name=bytes.decode)
        return SqliteThreadLogs(self.folder / "logs.db", SQLITE, layout)

    @override
    async def close(self, logs: ThreadLogs) -> None:
        assert isinstance(logs, SqliteThreadLogs)
        logs.close()


class TestPostgresLogs(ThreadLogsContract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: str) -> None:
        with psycopg.connect(postgres) as db:
            for table in TABLES:
                db.execute(f"DROP TABLE IF EXISTS {table} CASCADE")
        self.url = postgres

    @override
    async def make_logs(self) -> ThreadLogs:
        layout = Layout(
            "some_logs",
            "some_entries",
            "log",
            conflict,
            "some_parts",
            find="sha256(name) = sha256(?)",
            key=str.encode,
            name=bytes.decode,
        )
        return PostgresThreadLogs(self.url, POSTGRES, layout, connections=4, what="PostgresThreadLogs")

    @override
    async def close(self, logs: ThreadLogs) -> None:
        assert isinstance(logs, PostgresThreadLogs)
        await asyncio.to_thread(logs.close)

    async def test_it_does_what_memory_does_in_every_way_to_append(self) -> None:
        model, logs = MemoryThreadLogs(conflict), await self.make_logs()
        ways = product(("head", "late", None), ([""], ["1", "1/x"]), (None, "1"), ({}, {"0" * 64: b"x"}))
        for number, (how, owners, settles, parts) in enumerate([*ways] * 2):
            step = ("append", "ab"[number % 2], owners, how, settles, number)
            told = [await outcome(one, step, number, parts=parts) for one in (logs, model)]
            assert told[0] == told[1] == ("refused" if how == "late" else "done"), step
            assert await seen(logs) == await seen(model), step
        await self.close(logs)

    async def test_a_first_entry_settles_nothing_and_without_an_owner_nothing_is_settled(self) -> None:
        logs = await self.make_logs()
        await logs.append("a", [ThreadEntry(1, "None/x", 1, 1.0, '"b"')], after=0, settles="None")
        await logs.append("a", [ThreadEntry(2, "", 2, 1.0, '"c"')], after=1)
        assert [one.seq for one in await logs.read("a", since=0)] == [1, 2]
        await self.close(logs)

    @pytest.mark.parametrize("is_prepared", [True, False])
    async def test_an_append_that_the_server_refuses_is_an_error_and_no_conflict(
        self, is_prepared: bool
    ) -> None:
        logs = await self.make_logs()
        await logs.append("a", [ThreadEntry(1, "", 1, 1.0, '"b"')], after=0)
        if is_prepared:
            await logs.append("a", [ThreadEntry(2, "", 2, 1.0, '"b"')], after=1)
        with psycopg.connect(self.url) as db:
            db.execute("ALTER TABLE some_entries RENAME TO other_entries")
        with pytest.raises(CheckpointError, match=r'cannot be used: relation "some_entries" does not exist'):
            await logs.append("a", [ThreadEntry(3, "", 3, 1.0, '"b"')], after=1 + is_prepared)
        with psycopg.connect(self.url) as db:
            db.execute("DROP TABLE other_entries")
        await self.close(logs)

    @pytest.mark.parametrize("after", [0, None])
    @pytest.mark.parametrize("parts", [{}, {"0" * 64: b"x"}])
    async def test_what_was_committed_before_the_connection_was_lost_is_not_written_again(
        self, after: int | None, parts: dict[str, bytes]
    ) -> None:
        logs: Any = await self.make_logs()
        job = logs._append("a", [ThreadEntry(1, "", 1, 1.0, '"b"', parts)], after, None)
        for _ in range(2):
            logs.database.run_now(job)
        assert [one.seq for one in await logs.read("a", since=0)] == [1]
        await self.close(logs)


# --- what no store may lose -----------------------------------------------------------------------------


def make(folder: Path) -> SqliteThreadLogs:
    layout = Layout("logs", "entries", "log", conflict, "parts", key=str.encode, name=bytes.decode)
    return SqliteThreadLogs(folder / "logs.db", SQLITE, layout, durable=False)


_NAME = st.sampled_from(["a", "b"])
_APPEND = st.tuples(
    st.just("append"),
    _NAME,
    st.lists(st.sampled_from(["", "", "1", "1/x", "2"]), min_size=1, max_size=3),
    st.sampled_from([None, None, "head", "late"]),
    st.sampled_from([None, None, "1", "2"]),
    st.integers(0, 3),
)
_DELETE = st.tuples(st.just("delete"), _NAME, st.one_of(st.none(), st.integers(0, 12)))
_OPEN = st.tuples(st.just("another process"))


@draws(15)
@example([("append", "a", [""], None, None, 0), ("delete", "a", None), ("append", "a", [""], None, None, 0)])
@example([("append", "a", [""], how, None, 0) for how in (None, None, "head", None)])  # a clock that is late
@given(st.lists(st.one_of(_APPEND, _APPEND, _APPEND, _DELETE, _OPEN), max_size=25))
def test_a_store_does_what_memory_does(steps: list[Any]) -> None:
    """Also if the store is reopened in between, and entries are deleted and settled."""

    async def law(folder: Path) -> None:
        model, logs = MemoryThreadLogs(conflict), make(folder)
        others = [logs]
        for number, step in enumerate(steps):
            if step[0] == "another process":
                others.append(make(folder))
                logs = others[-1]
                continue
            told = [await outcome(logs, step, number), await outcome(model, step, number)]
            assert told[0] == told[1], step
            for one in others:
                assert await seen(one) == await seen(model), step
        for one in others:
            one.close()

    with TemporaryDirectory() as folder:
        asyncio.run(law(Path(folder)))


async def outcome(
    logs: ThreadLogs, step: Any, number: int, parts: Mapping[str, bytes] = {}
) -> str:  # not changed
    if step[0] == "delete":
        await logs.delete(step[1], before=step[2])
        return "done"
    _, name, owners, how, settles, at = step
    head = next((log.seq for log in await logs.names() if log.name == name), 0)
    after = {None: None, "head": head, "late": head + 1}[how]
    first = (head if after is None else after) + 1
    entries = [
        ThreadEntry(first + place, owner, first, float(at), f'"{number}"', parts)
        for place, owner in enumerate(owners)
    ]
    try:
        await logs.append(name, entries, after=after, settles=settles)
    except CheckpointError:
        return "refused"
    return "done"


async def seen(logs: ThreadLogs) -> list[Any]:
    ways: list[dict[str, int]] = [{"since": 0}, {"since": 3}, {}, {"newest": 2}]
    found: list[Any] = [list(await logs.read(name, **how)) for name in ("a", "b") for how in ways]
    return [*found, sorted(await logs.names(), key=lambda log: log.name)]


_WRITER = """
import asyncio, sys
from pathlib import Path
from tests.store.test_logs import ThreadEntry, make

async def main(folder, me, count):
    logs = make(Path(folder))
    for number in range(int(count)):
        body = f'"{me}.{number}' + "z" * (number % 7 * 5000) + '"'
        await logs.append("t", [ThreadEntry(0, "", 0, 1.0, body), ThreadEntry(0, "", 0, 1.0, body)], after=None)
        print(number, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def test_many_processes_lose_nothing_and_kill_9_takes_no_part_of_an_append(tmp_path: Path) -> None:
    """Four write to the end; two are killed at a random moment."""

    def begin(me: int, count: int) -> subprocess.Popen[str]:
        command = [*python(), "-c", _WRITER, str(tmp_path), str(me), str(count)]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    running = [begin(me, 12 if me < 4 else 100_000) for me in range(6)]
    told: dict[int, int] = {}
    for victim in (4, 5):
        out: Any = running[victim].stdout
        for _ in range(5 + victim):
            told[victim] = int(out.readline())
        running[victim].kill()
        told[victim] = int((out.read().split() or [told[victim]])[-1])
        running[victim].communicate(timeout=60)
    complaints = [process.communicate(timeout=120)[1] for process in running[:4]]
    assert complaints == [""] * 4

    async def read() -> Sequence[ThreadEntry]:
        logs = make(tmp_path)
        found = await logs.read("t", since=0)
        logs.close()
        return found

    found = asyncio.run(read())
    said = [one.body.strip('"z') for one in found]
    assert [one.seq for one in found] == list(range(1, len(found) + 1))
    assert said[::2] == said[1::2], "an append was parted"
    for me in range(6):
        own = [int(one.partition(".")[2]) for one in said[::2] if one.startswith(f"{me}.")]
        assert own == list(range(len(own)))
        assert len(own) == 12 if me < 4 else told[me] + 1 <= len(own) <= told[me] + 2


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_written_as_safely_as_it_was_asked_for(tmp_path: Path, durable: bool) -> None:
    layout = Layout("logs", "entries", "log", conflict)
    logs = SqliteThreadLogs(tmp_path / "logs.db", SQLITE, layout, durable=durable)
    names = ("journal_mode", "synchronous", "wal_autocheckpoint", "foreign_keys")
    found = logs.database.run_now(lambda db: [db.execute(f"PRAGMA {name}").fetchone()[0] for name in names])
    logs.close()
    assert found == ["wal", 2 if durable else 1, 128, 1]
