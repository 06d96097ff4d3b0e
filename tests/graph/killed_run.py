"""A run that kills itself: `python -m tests.graph.killed_run STORE EFFECTS POINT`.

POINT is the place: `in:b` inside a node after its effect, `before:b` before it, `append:3` before the third
write to the store, `appended:3` after it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from typing_extensions import override

from wesichain.graph import (
    Append,
    Checkpointer,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    ThreadEntry,
    ThreadInfo,
)


class Log(TypedDict, total=False):
    log: Annotated[list[str], Append]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly(Checkpointer):
    """A store that kills the process at one of its writes."""

    def __init__(self, store: Checkpointer, point: str) -> None:
        self._store = store
        self._point = point
        self._writes = 0

    @override
    async def append(
        self, thread_id: str, entries: Sequence[ThreadEntry], *, after: int, settles: str | None = None
    ) -> None:
        self._writes += 1
        if self._point == f"append:{self._writes}":
            die()
        await self._store.append(thread_id, entries, after=after, settles=settles)
        if self._point == f"appended:{self._writes}":
            die()

    @override
    async def read(self, thread_id: str, *, since: int | None = None) -> Sequence[ThreadEntry]:
        return await self._store.read(thread_id, since=since)

    @override
    async def delete(self, thread_id: str, *, before: int | None = None) -> None:
        await self._store.delete(thread_id, before=before)

    @override
    async def threads(self) -> Sequence[ThreadInfo]:
        return await self._store.threads()


def build(store: Checkpointer, effects: Path, point: str = "") -> Graph[Log]:
    """a, then b (slow) beside c, then an inner graph of x and y, then d."""

    def node(name: str, delay: float = 0.0) -> Any:
        async def call(_: Log) -> Any:
            if point == f"before:{name}":
                die()
            await asyncio.sleep(delay)
            with effects.open("a") as file:
                file.write(f"{name}\n")
            if point == f"in:{name}":
                die()
            return {"log": [name]}

        return call

    inner = (
        GraphBuilder(Log).add_node("x", node("x")).add_node("y", node("y")).add_edge("x", "y").set_entry("x")
    )
    builder = (
        GraphBuilder(Log).add_node("a", node("a")).add_node("b", node("b", 0.15)).add_node("c", node("c"))
    )
    builder.add_node("sub", inner.build()).add_node("d", node("d"))
    builder.add_edge("a", "b").add_edge("a", "c").add_edge(["b", "c"], "sub").add_edge("sub", "d").set_entry(
        "a"
    )
    return builder.build(store)


def open_store(where: str) -> Checkpointer:
    if where.startswith("postgres"):
        from wesichain.graph.postgres import PostgresCheckpointer

        return PostgresCheckpointer(where)
    from wesichain.graph.sqlite import SqliteCheckpointer

    return SqliteCheckpointer(where)


async def main(where: str, effects: str, point: str) -> None:
    graph = build(Deadly(open_store(where), point), Path(effects), point)
    await graph.invoke({"log": ["in"]}, ExecutionOptions(thread_id="t"))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
