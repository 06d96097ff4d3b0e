"""Checkpoints in a SQLite file."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import threading
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from typing_extensions import override

from tests.graph.behaviours import behaviour
from tests.graph.checkpointer_contract import CheckpointerContract, entry, numbers
from tests.warm import python
from wesichain.errors import CheckpointError
from wesichain.graph import Append, Checkpointer, ExecutionOptions, Graph, GraphBuilder
from wesichain.graph.sqlite import APPLICATION_ID, VERSION, SqliteCheckpointer


class TestSqliteCheckpointer(CheckpointerContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    @override
    async def make(self) -> Checkpointer:
        return SqliteCheckpointer(self.folder / "checkpoints.db")

    @override
    async def done(self, store: Checkpointer) -> None:
        assert isinstance(store, SqliteCheckpointer)
        store.close()


class Talk(TypedDict):
    messages: Annotated[list[str], Append]


def chat(store: Checkpointer, reply: str = "answer") -> Graph[Talk]:
    builder = GraphBuilder(Talk).add_node("bot", lambda _: {"messages": [reply]})
    return builder.set_entry("bot").build(store)


def folder_size(path: Path) -> int:
    return sum(one.stat().st_size for one in path.parent.glob(f"{path.name}*"))


async def test_two_hundred_turns_take_at_most_three_times_their_text(tmp_path: Path) -> None:
    path = tmp_path / "talk.db"
    store = SqliteCheckpointer(path)
    graph = chat(store, "y" * 1000)
    for _ in range(200):
        state = await graph.invoke({"messages": ["x" * 1000]}, ExecutionOptions(thread_id="t"))
    text = sum(map(len, state["messages"]))
    assert text == 400_000
    assert folder_size(path) <= 3 * text, "while it is open, with its log"
    store.close()
    assert folder_size(path) <= 2 * text, "when it is closed"


async def test_the_same_holds_where_a_list_is_rewritten_at_every_turn(tmp_path: Path) -> None:
    path = tmp_path / "talk.db"
    store = SqliteCheckpointer(path)
    builder: GraphBuilder[dict[str, Any]] = GraphBuilder()
    builder.add_node("bot", lambda s: {"talk": [*s["talk"], {"role": "assistant", "content": "y" * 1000}]})
    graph = builder.set_entry("bot").build(store)
    talk: list[Any] = []
    for _ in range(100):
        talk.append({"role": "user", "content": "x" * 1000})
        talk = (await graph.invoke({"talk": talk}, ExecutionOptions(thread_id="t")))["talk"]
    store.close()
    assert len(talk) == 200
    assert folder_size(path) <= 3 * 200_000


async def test_a_large_value_that_is_rewritten_leaves_a_base_to_read_from(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "big.db")

    def count(state: dict[str, Any]) -> dict[str, Any]:
        return {"n": state["n"] + 1, "blob": str(state["n"] % 10) * 20_000}

    builder: GraphBuilder[dict[str, Any]] = GraphBuilder()
    builder.add_node("count", count).set_entry("count")
    builder.add_conditional_edges(
        "count", lambda s: "count" if s["n"] < 40 else "__end__", ["count", "__end__"]
    )
    graph = builder.build(store)
    done = await graph.invoke({"n": 0, "blob": ""}, ExecutionOptions(thread_id="t"))
    assert len(await store.read("t", since=1)) == 41
    assert len(await store.read("t")) < 20
    snapshot = await graph.get_state("t")
    assert (snapshot.values, snapshot.step) == (done, 40)
    assert [one.values["n"] for one in await graph.history("t")] == list(range(40, -1, -1))
    store.close()


async def test_another_process_reads_it_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    one, two = SqliteCheckpointer(path), SqliteCheckpointer(path)
    await one.append("t", [entry(1)], after=0)
    assert numbers(await two.read("t")) == [1]
    await two.append("t", [entry(2)], after=1)
    with pytest.raises(CheckpointError, match="somebody else"):
        await one.append("t", [entry(2)], after=1)
    one.close()
    two.close()


async def test_the_file_is_for_its_owner_alone_and_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.db"
    store = SqliteCheckpointer(path)
    await store.append("t", [entry(1)], after=0)
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o600 for one in tmp_path.glob("mine.db*"))
    store.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()


def _foreign(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE customers (name TEXT)")
    db.commit()
    db.close()


def _newer(path: Path) -> None:
    store = SqliteCheckpointer(path)
    asyncio.run(store.append("t", [entry(1)], after=0))
    store.close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()


def _text(path: Path) -> None:
    path.write_text("this is not a database, but it is long enough to be looked at" * 100)


def _garbled(path: Path) -> None:
    store = SqliteCheckpointer(path)
    for seq in range(1, 40):
        asyncio.run(store.append("t", [entry(seq, body="x" * 3000)], after=seq - 1))
    store.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(8192))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(_foreign, "database of something else", id="of-another-program"),
        pytest.param(_newer, "newer version", id="of-a-newer-version"),
        pytest.param(_text, "cannot be used", id="not-a-database"),
        pytest.param(_garbled, "cannot be used", id="with-pages-overwritten"),
    ],
)
def test_a_file_that_cannot_be_used_says_so_and_is_left_alone(
    tmp_path: Path, spoil: Any, message: str
) -> None:
    path = tmp_path / "spoiled.db"
    spoil(path)
    before = path.read_bytes()
    store = SqliteCheckpointer(path)
    with pytest.raises(CheckpointError, match=message):
        asyncio.run(store.read("t"))
    store.close()
    assert path.read_bytes() == before


def test_a_file_cut_anywhere_is_refused_or_right(tmp_path: Path) -> None:
    whole = tmp_path / "whole.db"
    store = SqliteCheckpointer(whole)
    for seq in range(1, 30):
        asyncio.run(store.append("t", [entry(seq, body="x" * 700)], after=seq - 1))
    store.close()
    data = whole.read_bytes()
    for cut in range(0, len(data), 2500):
        path = tmp_path / f"cut{cut}.db"
        path.write_bytes(data[:cut])
        store = SqliteCheckpointer(path)
        try:
            found = numbers(asyncio.run(store.read("t")))
            assert found == (list(range(1, 30)) if cut else []), cut
        except CheckpointError:
            pass
        store.close()


async def test_text_that_is_no_text_is_an_error_of_ours(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "x.db")
    await store.append("t", [entry(1, "")], after=0)
    store.close()
    with sqlite3.connect(tmp_path / "x.db") as db:
        db.execute("UPDATE entries SET body = CAST(x'ff' AS TEXT)")
    db.close()
    again = SqliteCheckpointer(tmp_path / "x.db")
    with pytest.raises(CheckpointError, match="cannot be used"):
        await again.read("t")
    again.close()


def test_a_folder_that_is_not_there_is_an_error_with_the_path(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "nowhere" / "x.db")
    with pytest.raises(CheckpointError, match="nowhere"):
        asyncio.run(store.read("t"))


@behaviour("K15")
async def test_it_works_from_many_loops_and_threads(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "many.db")
    graph = chat(store)
    results: list[Any] = []

    def work(name: str) -> None:
        results.append(graph.invoke_sync({"messages": [name]}, ExecutionOptions(thread_id=name)))

    workers = [threading.Thread(target=work, args=(f"t{index}",)) for index in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        await asyncio.to_thread(worker.join)
    assert sorted(result["messages"][0] for result in results) == [f"t{index}" for index in range(6)]
    assert len(await store.threads()) == 6
    store.close()


def test_dropping_it_ends_its_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    for _ in range(5):
        store = SqliteCheckpointer(tmp_path / "drop.db")
        asyncio.run(store.threads())
        del store
    for _ in range(100):
        if threading.active_count() <= before:
            break
        asyncio.run(asyncio.sleep(0.02))
    assert threading.active_count() <= before


async def test_in_memory_it_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteCheckpointer(":memory:")
    await store.append("t", [entry(1)], after=0)
    assert numbers(await store.read("t")) == [1]
    store.close()
    assert list(tmp_path.iterdir()) == []
    assert numbers(await store.read("t")) == [], "what was in memory is gone when it is closed"
    store.close()


_FIRST = """
import asyncio, sys, time
from wesichain.graph import Entry
from wesichain.graph.sqlite import SqliteCheckpointer

async def main(folder, name):
    for turn in range(12):
        while time.time() < float(sys.argv[3]) + turn * 0.12:
            pass
        store = SqliteCheckpointer(f"{folder}/{turn}.db")
        await store.append(name, [Entry(1, "", 1, 0.0, "{}")], after=0)
        store.close()

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def test_processes_that_open_a_new_file_at_the_same_moment_all_may(tmp_path: Path) -> None:
    begin = str(time.time() + 2.0)
    running = [
        subprocess.Popen([*python(), "-c", _FIRST, str(tmp_path), f"p{n}", begin], stderr=subprocess.PIPE)
        for n in range(3)
    ]
    ended = [process.communicate(timeout=60)[1].decode() for process in running]
    assert ended == [""] * 3


def test_a_forked_child_opens_the_file_for_itself(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "t.db")
    asyncio.run(store.append("t", [entry(1)], after=0))
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(store.append("t", [entry(2)], after=1))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert numbers(asyncio.run(store.read("t"))) == [1, 2]
    store.close()
