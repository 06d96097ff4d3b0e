"""Leaks: tasks, threads, files and memory stay constant over many runs."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.graph.kit import Log
from wesichain.graph import Checkpointer, ExecutionOptions, GraphBuilder, MemoryCheckpointer, Send, threads
from wesichain.graph.checkpoints.thread_journal import ThreadJournal
from wesichain.graph.sqlite import SqliteCheckpointer


async def work(task: Any) -> Any:
    await asyncio.sleep(0)
    return {"log": [str(task)]}


async def runs(count: int, store: Checkpointer | None) -> None:
    """Many runs: fan-outs, inner graphs, failures and cancellations."""
    inner = GraphBuilder(Log).add_node("x", lambda _: {"log": ["x"]}).set_entry("x").build()
    builder = GraphBuilder(Log).add_node("work", work).add_node("sub", inner).add_node("bad", lambda _: 1 / 0)
    builder.add_conditional_edges("__start__", lambda _: [Send("work", 1), Send("work", 2), "sub"])
    builder.add_conditional_edges("sub", lambda s: "bad" if "fail" in s["log"] else [])
    graph = builder.build(store)
    for index in range(count):
        options = ExecutionOptions(thread_id=str(index)) if store is not None else None
        task = asyncio.ensure_future(graph.invoke({"log": ["fail"] if index % 3 == 0 else []}, options))
        if index % 5 == 0:
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if store is not None:
            await store.delete(str(index))


@pytest.mark.parametrize("kind", ["none", "memory", "sqlite"])
async def test_runs_leave_no_tasks_threads_or_files(tmp_path: Path, kind: str) -> None:
    store: Any = {
        "none": None,
        "memory": MemoryCheckpointer(),
        "sqlite": SqliteCheckpointer(tmp_path / "t.db"),
    }[kind]
    process = psutil.Process()
    await runs(10, store)
    threads, files = threading.active_count(), process.num_fds()
    await runs(40, store)
    assert len(asyncio.all_tasks()) == 1
    assert threading.active_count() <= threads
    assert process.num_fds() <= files
    if kind == "sqlite":
        store.close()


@pytest.mark.slow
async def test_ten_thousand_runs_take_no_memory() -> None:
    process = psutil.Process()
    await runs(2_000, MemoryCheckpointer())
    gc.collect()
    before = process.memory_info().rss
    await runs(10_000, MemoryCheckpointer())
    gc.collect()
    assert process.memory_info().rss - before < 8_000_000


async def test_a_graph_keeps_only_its_recent_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_MOST", 2)
    builder = GraphBuilder(Log).add_node("x", lambda _: {"log": ["x"]}).set_entry("x")
    graph = builder.build(MemoryCheckpointer())
    for number in range(5):
        await graph.invoke({}, ExecutionOptions(thread_id=f"recent-{number}"))
    gc.collect()
    journals = [one for one in gc.get_objects() if isinstance(one, ThreadJournal)]
    kept = {one.thread_id for one in journals if one.thread_id.startswith("recent-")}
    assert kept == {"recent-3", "recent-4"}


@pytest.mark.parametrize("is_plain", [False, True], ids=["async", "returns-a-coroutine"])
def test_a_run_that_stops_before_its_tasks_begin_leaves_no_coroutine(
    is_plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of `quick` is stored before the task of `slow` has taken its first step."""
    store, writes = SqliteCheckpointer(":memory:"), 0
    append_now = store.append_now

    def append(*args: Any, **more: Any) -> None:
        nonlocal writes
        writes += 1
        if writes == 2:
            raise KeyboardInterrupt
        append_now(*args, **more)

    monkeypatch.setattr(store, "append_now", append)
    builder = GraphBuilder().add_node("quick", lambda _: {"a": 1}, blocking=False)
    slow: Any = (lambda state: work(state)) if is_plain else work
    builder.add_node("slow", slow, blocking=False if is_plain else None)
    graph = builder.add_edge("__start__", "quick").add_edge("__start__", "slow").build(store)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(KeyboardInterrupt):
            graph.invoke_sync({}, ExecutionOptions(thread_id="t"))
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    store.close()
