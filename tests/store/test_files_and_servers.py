"""Files and servers with logs: tests that checkpoints and conversations share."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from tests.graph.checkpointer_contract import entry
from tests.store.test_items import threads
from tests.warm import python
from wesichain.agent import PostgresConversations, SqliteConversations
from wesichain.agent.memory import stored_conversations as talks
from wesichain.core import Message, Role
from wesichain.errors import CheckpointError, ConfigError, ConversationError
from wesichain.graph import postgres as graph_postgres
from wesichain.graph import sqlite as graph_sqlite


async def _append(store: Any, number: int) -> None:
    await store.append("t", [entry(number)], after=number - 1)


async def _entries(store: Any) -> list[int]:
    return [one.seq for one in await store.read("t")]


async def _say(store: Any, number: int) -> None:
    await store.open("t").extend(Message(Role.USER, str(number)))


async def _said(store: Any) -> list[int]:
    return [int(message.text) for message in await store.open("t").read()]


@dataclass(frozen=True)
class Kind:
    """A kind of data: its classes, and how a number is written and read back."""

    sqlite: Callable[..., Any]
    postgres: Callable[..., Any]
    write: Callable[[Any, int], Coroutine[Any, Any, None]]
    read: Callable[[Any], Coroutine[Any, Any, list[int]]]
    error: type[Exception]
    file: tuple[int, int]  # its version and application id
    tables: tuple[str, ...]  # the first has the version
    version: int


KINDS = {
    "checkpoints": Kind(
        graph_sqlite.SqliteCheckpointer,
        graph_postgres.PostgresCheckpointer,
        _append,
        _entries,
        CheckpointError,
        (graph_sqlite.VERSION, graph_sqlite.APPLICATION_ID),
        ("wesichain_schema", "wesichain_entries", "wesichain_threads"),
        graph_postgres.VERSION,
    ),
    "conversations": Kind(
        SqliteConversations,
        PostgresConversations,
        _say,
        _said,
        ConversationError,
        (talks.SQLITE_VERSION, talks.APPLICATION_ID),
        ("wesichain_conversations_schema", "wesichain_turns", "wesichain_conversations"),
        talks.POSTGRES_VERSION,
    ),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


# --- files -------------------------------------------------------------------------------------------


@each_kind
async def test_the_file_is_for_its_owner_alone_and_says_what_it_is(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "mine.db"
    store = kind.sqlite(path)
    await kind.write(store, 1)
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o600 for one in tmp_path.glob("mine.db*"))
    store.close()
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == kind.file[:1]
    assert db.execute("PRAGMA application_id").fetchone() == kind.file[1:]
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()


@each_kind
async def test_a_new_file_that_another_process_is_writing_is_waited_for(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(tmp_path / "new.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    waits: list[float] = []

    def release(seconds: float) -> None:
        waits.append(seconds)
        other.execute("ROLLBACK")

    monkeypatch.setattr(time, "sleep", release)
    store = kind.sqlite(tmp_path / "new.db")
    await kind.write(store, 1)
    assert len(waits) == 1
    store.close()
    other.close()


def _written(kind: Kind, path: Path) -> None:
    store = kind.sqlite(path)
    asyncio.run(kind.write(store, 1))
    store.close()


def _foreign(_kind: Kind, path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE customers (name TEXT)")
    db.commit()
    db.close()


def _newer(kind: Kind, path: Path) -> None:
    _written(kind, path)
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {kind.file[0] + 1}")
    db.close()


def _text(_kind: Kind, path: Path) -> None:
    path.write_text("this is not a database, but it is long enough to be looked at" * 100)


def _garbled(kind: Kind, path: Path) -> None:
    _written(kind, path)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(_foreign, "database of another program", id="of-another-program"),
        pytest.param(_newer, "newer version", id="of-a-newer-version"),
        pytest.param(_text, "cannot be used", id="not-a-database"),
        pytest.param(_garbled, "cannot be used", id="with-pages-overwritten"),
    ],
)
@each_kind
def test_a_file_that_cannot_be_used_says_so_and_is_left_alone(
    kind: Kind, tmp_path: Path, spoil: Callable[[Kind, Path], None], message: str
) -> None:
    path = tmp_path / "spoiled.db"
    spoil(kind, path)
    before = path.read_bytes()
    store = kind.sqlite(path)
    descriptors = psutil.Process().num_fds()
    with pytest.raises(kind.error, match=message) as caught:
        asyncio.run(kind.read(store))
    store.close()
    assert psutil.Process().num_fds() == descriptors, caught.value
    assert path.read_bytes() == before


@each_kind
def test_a_folder_that_is_not_there_is_an_error_with_the_path(kind: Kind, tmp_path: Path) -> None:
    with pytest.raises(kind.error, match="nowhere"):
        asyncio.run(kind.read(kind.sqlite(tmp_path / "nowhere" / "x.db")))


@each_kind
def test_a_forked_child_opens_the_file_for_itself(kind: Kind, tmp_path: Path) -> None:
    store = kind.sqlite(tmp_path / "t.db")
    asyncio.run(kind.write(store, 1))
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(kind.write(store, 2))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert asyncio.run(kind.read(store)) == [1, 2]
    store.close()


@each_kind
def test_dropping_it_ends_its_thread(kind: Kind, tmp_path: Path) -> None:
    before = threading.active_count()
    for _ in range(5):
        store = kind.sqlite(tmp_path / "drop.db")
        asyncio.run(kind.read(store))
        del store
    deadline = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


_FIRST = """
import asyncio, sys
from wesichain.graph import ThreadEntry
from wesichain.graph.sqlite import SqliteCheckpointer

async def main(folder, name, count):
    for turn in range(count):
        print("ready", flush=True)
        sys.stdin.readline()
        store = SqliteCheckpointer(f"{folder}/{turn}.db")
        await store.append(name, [ThreadEntry(1, "", 1, 0.0, "{}")], after=0)
        store.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@pytest.mark.parametrize(("processes", "files"), [(3, 5), pytest.param(6, 60, marks=pytest.mark.slow)])
def test_processes_that_open_a_new_file_at_the_same_moment_all_may(
    tmp_path: Path, processes: int, files: int
) -> None:
    running = [
        subprocess.Popen(
            [*python(), "-c", _FIRST, str(tmp_path), f"p{n}", str(files)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(processes)
    ]
    for _ in range(files):
        assert {process.stdout.readline() for process in running if process.stdout} == {"ready\n"}
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
    assert [process.communicate(timeout=200)[1] for process in running] == [""] * processes
    for number in range(files):
        store = graph_sqlite.SqliteCheckpointer(tmp_path / f"{number}.db")
        assert len(asyncio.run(store.threads())) == processes
        store.close()


# --- servers -----------------------------------------------------------------------------------------


def forget(kind: Kind, url: str) -> None:
    with psycopg.connect(url) as db:
        for table in kind.tables:
            db.execute(f"DROP TABLE IF EXISTS {table} CASCADE")


@each_kind
async def test_a_connection_that_was_lost_is_made_again_and_nothing_is_kept_twice(
    kind: Kind, postgres: str
) -> None:
    forget(kind, postgres)
    store = kind.postgres(postgres, connections=1)

    async def cut() -> None:
        async with await psycopg.AsyncConnection.connect(postgres, autocommit=True) as db:
            await db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND state = 'idle'"
            )

    for number in range(1, 5):
        await kind.write(store, number)
        await cut()
        assert await kind.read(store) == [*range(1, number + 1)]
        await cut()
    await store.close()


@each_kind
async def test_a_server_s_connections_are_closed_and_made_again(kind: Kind, postgres: str) -> None:
    forget(kind, postgres)
    before = threads()
    store = kind.postgres(postgres)
    await kind.write(store, 1)
    for _ in range(2):
        await store.close()
        assert not [thread for thread in threads() if thread not in before]
        assert await kind.read(store) == [1]
    await store.close()


@each_kind
async def test_a_database_of_a_newer_version_is_refused(kind: Kind, postgres: str) -> None:
    forget(kind, postgres)
    store = kind.postgres(postgres)
    await kind.read(store)
    async with await psycopg.AsyncConnection.connect(postgres, autocommit=True) as db:
        await db.execute(f"INSERT INTO {kind.tables[0]} VALUES (%s)", (kind.version + 1,))
    with pytest.raises(kind.error, match="newer version"):
        await kind.read(kind.postgres(postgres))
    await store.close()
    forget(kind, postgres)


@each_kind
async def test_a_server_that_is_not_there_is_an_error_of_ours(kind: Kind) -> None:
    with pytest.raises(kind.error, match="cannot be used"):
        await kind.read(kind.postgres("postgresql://127.0.0.1:1/none?connect_timeout=2"))


@pytest.mark.parametrize("connections", [0, -1])
@each_kind
def test_it_needs_a_connection(kind: Kind, connections: int) -> None:
    with pytest.raises(ConfigError, match="use at least 1"):
        kind.postgres("postgresql://127.0.0.1:1/none", connections=connections)
