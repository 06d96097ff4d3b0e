"""LangGraph's side of `bench.graph`: times its graphs once for every line that it reads.

Each shape in the way that is the quickest here: one node at a time with plain functions and `invoke`, many at
once with coroutines and `ainvoke`.
"""

from __future__ import annotations

import asyncio
import json
import operator
import sys
import time
from importlib.metadata import version
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send


class Count(TypedDict):
    n: int


class Out(TypedDict):
    out: Annotated[list[int], operator.add]


def chain(size: int) -> Any:
    builder = StateGraph(Count)
    for index in range(size):
        builder.add_node(f"n{index}", lambda state: {"n": state["n"] + 1})
    builder.add_edge(START, "n0")
    for index in range(size):
        builder.add_edge(f"n{index}", f"n{index + 1}" if index + 1 < size else END)
    return builder.compile()


def loop(size: int) -> Any:
    builder = StateGraph(Count)
    builder.add_node("step", lambda state: {"n": state["n"] + 1})
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda s: "step" if s["n"] < size else END, ["step", END])
    return builder.compile()


def fan_out(size: int) -> Any:
    async def start(_: Out) -> Any:
        return {}

    async def work(task: Any) -> Any:
        return {"out": [task["i"]]}

    builder = StateGraph(Out)
    builder.add_node("start", start)
    builder.add_node("work", work)
    builder.add_edge(START, "start")
    builder.add_conditional_edges("start", lambda _: [Send("work", {"i": i}) for i in range(size)], ["work"])
    builder.add_edge("work", END)
    return builder.compile()


def main() -> None:
    sizes = json.loads(sys.argv[1])
    chained, looped, fanned = chain(sizes["chain"]), loop(sizes["loop"]), fan_out(sizes["fan-out"])
    config = {"recursion_limit": 10 * max(sizes.values())}

    async def spread() -> float:
        started = time.process_time()
        state = await fanned.ainvoke({"out": []}, config)
        assert len(state["out"]) == sizes["fan-out"]
        return time.process_time() - started

    def walk(graph: Any, steps: int) -> float:
        started = time.process_time()
        assert graph.invoke({"n": 0}, config) == {"n": steps}
        return time.process_time() - started

    print(json.dumps(version("langgraph")), flush=True)
    for _ in sys.stdin:
        found = {
            "chain": walk(chained, sizes["chain"]),
            "loop": walk(looped, sizes["loop"]),
            "fan-out": asyncio.run(spread()),
        }
        print(json.dumps({name: seconds / sizes[name] for name, seconds in found.items()}), flush=True)


if __name__ == "__main__":
    main()
