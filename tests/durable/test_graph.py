"""The durable graph: runs by id, questions, and processes that end, over a checkpointer in a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from tests.conftest import ROOT
from wesichain.agent import Approve, Provide, Refuse
from wesichain.durable import DurableGraph, DurableRuns, RunState
from wesichain.errors import ConfigError, DurableError, GraphInterruptedError, RunIdConflictError
from wesichain.graph import Append, Graph, GraphBuilder, interrupt
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.trace import CollectingSink


class Notes(TypedDict, total=False):
    said: Annotated[list[str], Append]


def graph(folder: Path, *, asks: bool = False, dies: bool = False) -> Graph[Any]:
    def note(name: str) -> None:
        with (folder / "effects").open("a") as file:
            file.write(f"{name}\n")

    def first(state: Notes) -> Any:
        note("first")
        return {"said": ["first"]}

    def second(state: Notes) -> Any:
        note("second")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"said": [str(interrupt("well?")) if asks else "second"]}

    builder = GraphBuilder(Notes).add_node("first", first).add_node("second", second)
    builder.set_entry("first").add_edge("first", "second")
    return builder.build(SqliteCheckpointer(folder / "threads.db"))


async def test_a_graphs_run_is_found_by_its_id(url: str, tmp_path: Path) -> None:
    async with DurableGraph[Any](graph(tmp_path), "notes", database_url=url) as durable:
        given = {"said": ["zero"]}
        expected = {"said": ["zero", "first", "second"]}
        assert await durable.run(given, run_id="r") == expected
        assert await durable.run(given, run_id="r") == expected
        assert await durable.status("r") == RunState.COMPLETED
        with pytest.raises(RunIdConflictError):
            await durable.run({"said": ["other"]}, run_id="r")
        assert [run.run_id for run in await durable.list()] == ["r"]
    assert (tmp_path / "effects").read_text().split() == ["first", "second"]


async def test_a_question_waits_in_the_database_and_any_process_answers_it(url: str, tmp_path: Path) -> None:
    async with DurableGraph[Any](graph(tmp_path, asks=True), "notes", database_url=url) as durable:
        with pytest.raises(GraphInterruptedError) as caught:
            await durable.run({}, run_id="r")
        assert [item.value for item in caught.value.interrupts] == ["well?"]
        assert await durable.status("r") == RunState.INTERRUPTED
        async with DurableRuns(url) as runs:
            assert [run.status for run in await runs.list("interrupted")] == [RunState.INTERRUPTED]
            (waiting,) = await runs.pending()
            assert (waiting.run_id, waiting.call.name, waiting.call.args) == ("r", "second", "well?")
            assert waiting.external
            for wrong in (Approve(), Refuse("no"), Provide(error="no")):
                with pytest.raises(DurableError, match=r"use Provide\(value\)"):
                    await runs.approve("r", waiting.token, wrong)
    async with DurableGraph[Any](graph(tmp_path, asks=True), "notes", database_url=url) as elsewhere:
        assert await elsewhere.resume("r", "well") == {"said": ["first", "well"]}
        with pytest.raises(DurableError, match="waits for no answer"):
            await elsewhere.answer("r", "again")


async def test_a_question_is_answered_in_the_inbox_like_any_call(url: str, tmp_path: Path) -> None:
    async with DurableGraph[Any](graph(tmp_path, asks=True), "notes", database_url=url) as durable:
        with pytest.raises(GraphInterruptedError):
            await durable.run({}, run_id="r")
        async with DurableRuns(url) as runs:
            (waiting,) = await runs.pending("r")
            await runs.approve("r", waiting.token, Provide({"by": ["Monday"]}))
            with pytest.raises(DurableError):
                await runs.approve("r", waiting.token, Provide("again"))
        assert await durable.result("r", timeout=30) == {"said": ["first", "{'by': ['Monday']}"]}
        assert await durable.pending() == []


async def test_the_events_of_a_graph_are_told_from_anywhere(url: str, tmp_path: Path) -> None:
    sink = CollectingSink()
    made = DurableGraph[Any](graph(tmp_path, asks=True), "notes", database_url=url, events=[sink])
    async with made as durable, DurableRuns(url) as runs:
        with pytest.raises(GraphInterruptedError):
            await durable.run({}, run_id="r")
        before = [event async for event in runs.events("r")]
        assert (before[0].kind, before[-1].kind) == ("run_started", "run_interrupted")
        assert {event.run_id for event in before} == {"r"}
        await durable.resume("r", "well")
        after = [event async for event in durable.events("r")]
    assert after[-1].kind == "run_completed"
    assert after == [*sink.events]
    assert [event.seq for event in after] == sorted({event.seq for event in after})
    assert after[: len(before)] == before


async def test_a_killed_run_goes_on_from_its_last_checkpoint(url: str, tmp_path: Path) -> None:
    code = f"""
import asyncio
from pathlib import Path
from tests.durable.test_graph import graph
from wesichain.durable import DurableGraph
durable = DurableGraph(graph(Path({str(tmp_path)!r}), dies=True), "notes", database_url={url!r})
asyncio.run(durable.run({{}}, run_id="r"))
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT, timeout=60)
    assert done.returncode == -signal.SIGKILL
    async with DurableGraph[Any](graph(tmp_path), "notes", database_url=url, lease=1.0) as durable:
        assert await durable.run({}, run_id="r") == {"said": ["first", "second"]}
    assert (tmp_path / "effects").read_text().split() == ["first", "second", "second"]


def test_a_graph_without_a_checkpointer_is_refused() -> None:
    def only(state: Notes) -> Any:
        return {}

    with pytest.raises(ConfigError, match="checkpointer"):
        DurableGraph(GraphBuilder(Notes).add_node("only", only).set_entry("only").build())
