"""What a super-step costs, beside LangGraph where it is installed: python bench/graph.py

CPU seconds, the two engines in turns, the best of several rounds each. LangGraph is run by another
interpreter if one is named: python bench/graph.py --peer /path/to/python
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import subprocess
import sys
import time
from functools import partial
from typing import Annotated, Any, TypedDict

from wesichain.graph import END, Append, ExecutionOptions, Graph, GraphBuilder, Send

SIZE = 1000
OPTIONS = ExecutionOptions(max_steps=10**7)


class Count(TypedDict):
    n: int


class Out(TypedDict):
    out: Annotated[list[int], Append]


class Log(TypedDict):
    n: int
    until: int
    log: Annotated[list[str], Append]


def chain(size: int) -> Graph[Count]:
    builder = GraphBuilder(Count).set_entry("n0")
    for index in range(size):
        builder.add_node(f"n{index}", lambda state: {"n": state["n"] + 1})
        builder.add_edge(f"n{index}", f"n{index + 1}" if index + 1 < size else END)
    return builder.build()


def fan_out(size: int) -> Graph[Out]:
    builder = GraphBuilder(Out).add_node("start", lambda _: None)
    builder.add_node("work", lambda task: {"out": [task["i"]]}).set_entry("start")
    builder.add_conditional_edges("start", lambda _: [Send("work", {"i": i}) for i in range(size)], ["work"])
    return builder.build()


def loop() -> Graph[Log]:
    builder = GraphBuilder(Log).set_entry("step")
    builder.add_node("step", lambda state: {"n": state["n"] + 1, "log": [f"step {state['n']}"]})
    builder.add_conditional_edges("step", lambda s: "step" if s["n"] < s["until"] else END, ["step", END])
    return builder.build()


def timed(run: Any) -> float:
    """The CPU seconds of a run, in a loop that is there already."""

    async def measure() -> float:
        started = time.process_time()
        await run()
        return time.process_time() - started

    return asyncio.run(measure())


def ours() -> dict[str, float]:
    chained, fanned = chain(SIZE), fan_out(SIZE)
    return {
        "chain": timed(lambda: chained.invoke({"n": 0}, OPTIONS)),
        "fan-out": timed(lambda: fanned.invoke({"out": []}, OPTIONS)),
    }


PEER = """
import asyncio, json, operator, sys, time
from typing import Annotated, TypedDict
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

class Count(TypedDict):
    n: int

class Out(TypedDict):
    out: Annotated[list, operator.add]

def chain(size):
    builder = StateGraph(Count)
    for index in range(size):
        builder.add_node(f"n{index}", lambda state: {"n": state["n"] + 1})
    builder.add_edge(START, "n0")
    for index in range(size):
        builder.add_edge(f"n{index}", f"n{index + 1}" if index + 1 < size else END)
    return builder.compile()

def fan_out(size):
    builder = StateGraph(Out)
    builder.add_node("start", lambda state: {})
    builder.add_node("work", lambda task: {"out": [task["i"]]})
    builder.add_edge(START, "start")
    builder.add_conditional_edges("start", lambda _: [Send("work", {"i": i}) for i in range(size)], ["work"])
    builder.add_edge("work", END)
    return builder.compile()

def timed(run):
    async def measure():
        started = time.process_time()
        await run()
        return time.process_time() - started
    return asyncio.run(measure())

chained, fanned = chain(SIZE), fan_out(SIZE)
config = {"recursion_limit": 10 * SIZE}
for line in sys.stdin:
    print(json.dumps({
        "chain": timed(lambda: chained.ainvoke({"n": 0}, config)),
        "fan-out": timed(lambda: fanned.ainvoke({"out": []}, config)),
    }), flush=True)
"""


class Peer:
    """LangGraph in a process of its own, asked for one round at a time so that the engines take turns."""

    def __init__(self, python: str) -> None:
        code = PEER.replace("SIZE", str(SIZE))
        self._process = subprocess.Popen(
            [python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def round(self) -> dict[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, float] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def best(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: min(one[name] for one in rounds) for name in rounds[0]}


def growth() -> None:
    graph = loop()
    print("\na step of a loop that keeps a log, in microseconds of CPU")
    for steps in (100, 1_000, 10_000):
        given: Log = {"n": 0, "until": steps, "log": []}
        seconds = min(timed(partial(graph.invoke, given, OPTIONS)) for _ in range(3))
        print(f"  {steps:>6} steps   {seconds / steps * 1e6:7.1f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", default=sys.executable, help="a Python that has langgraph")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    has_peer = asked.peer != sys.executable or importlib.util.find_spec("langgraph") is not None
    peer = Peer(asked.peer) if has_peer else None
    mine: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    for _ in range(asked.rounds):
        mine.append(ours())
        if peer is not None:
            theirs.append(peer.round())
    print(f"CPU seconds for {SIZE} tasks, the best of {asked.rounds}")
    for name, seconds in best(mine).items():
        line = f"  {name:<8} wesichain {seconds:.4f}"
        if theirs:
            other = best(theirs)[name]
            line += f"   langgraph {other:.4f}   {other / seconds:.1f} times as much"
        print(line)
    if peer is None:
        print("  langgraph is not installed here: name a Python that has it with --peer")
    else:
        peer.close()
    growth()


if __name__ == "__main__":
    main()
