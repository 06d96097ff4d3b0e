"""Threads of every kind; `python -m tests.graph.golden_threads FILE` writes them as SQL.

Run with the source of a released version to add a golden file; never replace one.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

from wesichain.errors import GraphInterruptedError
from wesichain.graph import (
    START,
    Append,
    Checkpointer,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    Send,
    interrupt,
)
from wesichain.graph.sqlite import APPLICATION_ID, VERSION, SqliteCheckpointer


class State(TypedDict, total=False):
    log: Annotated[list[str], Append]
    either: int | str
    several: list[int] | dict[str, int] | None


def note(name: str) -> Any:
    return lambda _: {"log": [name]}


def build(store: Checkpointer) -> Graph[State]:
    """An incomplete join, a node that asks three times, Sends beside it, and an inner graph that asks."""
    inner = GraphBuilder(State).add_node("x", note("x"))
    inner.add_node("ask", lambda _: {"log": [interrupt("inside")]}).add_edge("x", "ask").set_entry("x")
    builder = GraphBuilder(State).add_node("quick", note("quick")).add_node("way", note("way"))
    builder.add_node("asks", lambda _: {"log": [interrupt(f"q{n}") for n in range(3)]})
    builder.add_node("work", lambda task: {"log": [f"work {task}"], "either": "text", "several": {"a": 1}})
    builder.add_node("sub", inner.build()).add_node("both", note("both")).add_node("last", note("last"))
    builder.add_edge(START, "quick").add_edge(START, "way")
    builder.add_conditional_edges("way", lambda _: ["asks", "sub", Send("work", 1)], ["asks", "sub", "work"])
    return builder.add_edge(["quick", "asks"], "both").add_edge(["both", "sub"], "last").build(store)


async def fill(path: Path) -> None:
    store = SqliteCheckpointer(path)
    graph = build(store)
    for thread, answered in (("fresh", 0), ("half", 2)):
        try:
            await graph.invoke({"log": ["in"]}, ExecutionOptions(thread_id=thread, run_id="r"))
        except GraphInterruptedError as stop:
            asked = stop.interrupts
        for number in range(answered):
            mine = next(one for one in asked if one.node == "asks")
            try:
                await graph.resume(thread, {mine.id: f"a{number}"})
            except GraphInterruptedError as stop:
                asked = stop.interrupts
    store.close()


def main(target: Path) -> None:
    if target.exists():
        sys.exit(f"{target.name} is there already, and a released format does not change")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "new.db"
        asyncio.run(fill(path))
        with closing(sqlite3.connect(path)) as db:
            lines = [
                *db.iterdump(),
                f"PRAGMA application_id = {APPLICATION_ID};",
                f"PRAGMA user_version = {VERSION};",
            ]
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
