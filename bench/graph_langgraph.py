"""LangGraph's side of `bench.graph`: measures a row for each name that it reads."""

from __future__ import annotations

import asyncio
import json
import operator
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send


class Count(TypedDict):
    n: int


class Out(TypedDict):
    out: Annotated[list[int], operator.add]


class Chat(TypedDict):
    messages: Annotated[list[str], operator.add]


def node(function: Any, *, is_async: bool) -> Any:
    """A plain function, or an equivalent coroutine function."""
    if not is_async:
        return function

    async def later(state: Any) -> Any:
        return function(state)

    return later


def add_one(state: Any) -> Any:
    return {"n": state["n"] + 1}


def built(shape: str, size: int, *, is_async: bool) -> StateGraph[Any]:
    if shape == "chain":
        builder: StateGraph[Any] = StateGraph(Count)
        for index in range(size):
            builder.add_node(f"n{index}", node(add_one, is_async=is_async))
            builder.add_edge(f"n{index - 1}" if index else START, f"n{index}")
        builder.add_edge(f"n{size - 1}", END)
    elif shape == "loop":
        builder = StateGraph(Count)
        builder.add_node("step", node(add_one, is_async=is_async))
        builder.add_edge(START, "step")
        builder.add_conditional_edges("step", lambda s: "step" if s["n"] < size else END, ["step", END])
    elif shape == "fan-out":
        builder = StateGraph(Out)
        builder.add_node("start", node(lambda _: {}, is_async=is_async))
        builder.add_node("work", node(lambda task: {"out": [task["i"]]}, is_async=is_async))
        builder.add_edge(START, "start")
        builder.add_conditional_edges(
            "start", lambda _: [Send("work", {"i": i}) for i in range(size)], ["work"]
        )
        builder.add_edge("work", END)
    else:
        builder = StateGraph(Chat)
        builder.add_node("reply", node(lambda _: {"messages": ["x" * 1000]}, is_async=is_async))
        builder.add_edge(START, "reply")
        builder.add_edge("reply", END)
    return builder


def inputs(shape: str, size: int) -> list[Any]:
    if shape == "chat":
        return [{"messages": ["y" * 1000]} for _ in range(size)]
    return [{"out": []} if shape == "fan-out" else {"n": 0}]


def timed(row: dict[str, Any]) -> float:
    """CPU seconds of a row, without building the graph and opening the file."""
    shape, size, is_async = row["shape"], row["size"], row["is_async"]
    config: Any = {"recursion_limit": 10**6, "configurable": {"thread_id": os.urandom(8).hex()}}
    builder = built(shape, size, is_async=is_async)
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "t.db")

        async def later() -> float:
            if not row["store"]:
                return await run_async(builder.compile())
            if row["store"] == "Postgres":
                opened: Any = AsyncPostgresSaver.from_conn_string(row["url"])
            else:
                opened = AsyncSqliteSaver.from_conn_string(path)
            async with opened as saver:
                await saver.setup()
                return await run_async(builder.compile(checkpointer=saver))

        async def run_async(graph: Any) -> float:
            started = time.process_time()
            for given in inputs(shape, size):
                await graph.ainvoke(given, config)
            return time.process_time() - started

        def run(graph: Any) -> float:
            started = time.process_time()
            for given in inputs(shape, size):
                graph.invoke(given, config)
            return time.process_time() - started

        if is_async:
            return asyncio.run(later())
        if not row["store"]:
            return run(builder.compile())
        is_postgres = row["store"] == "Postgres"
        store: Any = (
            PostgresSaver.from_conn_string(row["url"]) if is_postgres else SqliteSaver.from_conn_string(path)
        )
        with store as saver:
            saver.setup()
            return run(builder.compile(checkpointer=saver))


def main() -> None:
    print(json.dumps(version("langgraph")), flush=True)
    for line in sys.stdin:
        print(json.dumps(timed(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
