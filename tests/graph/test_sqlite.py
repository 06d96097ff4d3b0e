"""Checkpoints in a SQLite file."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from typing_extensions import override

from tests.graph.behaviours import behaviour
from tests.graph.checkpointer_contract import CheckpointerContract, entry, numbers
from wesichain.errors import CheckpointError
from wesichain.graph import Append, Checkpointer, ExecutionOptions, Graph, GraphBuilder
from wesichain.graph.sqlite import SqliteCheckpointer


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


async def test_many_turns_take_at_most_three_times_their_text(tmp_path: Path) -> None:
    path = tmp_path / "talk.db"
    store = SqliteCheckpointer(path)
    for turn in range(60):
        if turn % 2 == 0:  # another process
            graph = chat(store, "y" * 3500)
        state = await graph.invoke({"messages": ["x" * 3500]}, ExecutionOptions(thread_id="t"))
    text = sum(map(len, state["messages"]))
    assert text == 60 * 7_000
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
    for _ in range(50):
        talk.append({"role": "user", "content": "x" * 1000})
        talk = (await graph.invoke({"talk": talk}, ExecutionOptions(thread_id="t")))["talk"]
    store.close()
    assert len(talk) == 100
    assert folder_size(path) <= 3 * 100_000


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


@behaviour("K15", "G93")
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


async def test_in_memory_it_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteCheckpointer(":memory:")
    await store.append("t", [entry(1)], after=0)
    assert numbers(await store.read("t")) == [1]
    store.close()
    assert list(tmp_path.iterdir()) == []
    assert numbers(await store.read("t")) == [], "what was in memory is gone when it is closed"
    store.close()
