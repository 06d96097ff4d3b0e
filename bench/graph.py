"""What a step of a graph costs, beside LangGraph: python -m bench.graph [--rounds N] [--peer PYTHON]

CPU time, the two engines in turn, the median of the rounds. LangGraph runs in the environment that
`python -m bench.peers` made for LangChain, or in one that is named.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any, TypedDict

from bench.peers.environments import CACHE, child_environ
from wesichain.graph import END, Append, ExecutionOptions, Graph, GraphBuilder, Send

SHAPES = {"chain": 100, "loop": 1000, "fan-out": 1000}  # and their steps
OPTIONS = ExecutionOptions(max_steps=10**7)
Round = dict[str, float]  # seconds of CPU a step, by shape


class Count(TypedDict):
    n: int


class Out(TypedDict):
    out: Annotated[list[int], Append]


class Log(TypedDict):
    n: int
    until: int
    log: Annotated[list[str], Append]


def chain(size: int) -> Graph[Count]:
    """As many nodes, one after the other."""
    builder = GraphBuilder(Count).set_entry("n0")
    for index in range(size):
        builder.add_node(f"n{index}", lambda state: {"n": state["n"] + 1})
        builder.add_edge(f"n{index}", f"n{index + 1}" if index + 1 < size else END)
    return builder.build()


def loop(size: int) -> Graph[Count]:
    """One node that goes back to itself."""
    builder = GraphBuilder(Count).set_entry("step")
    builder.add_node("step", lambda state: {"n": state["n"] + 1})
    builder.add_conditional_edges("step", lambda s: "step" if s["n"] < size else END, ["step", END])
    return builder.build()


def fan_out(size: int) -> Graph[Out]:
    """One node that sends work to as many others at once."""
    builder = GraphBuilder(Out).add_node("start", lambda _: None)
    builder.add_node("work", lambda task: {"out": [task["i"]]}).set_entry("start")
    builder.add_conditional_edges("start", lambda _: [Send("work", {"i": i}) for i in range(size)], ["work"])
    return builder.build()


def logging_loop() -> Graph[Log]:
    """A loop whose state grows."""
    builder = GraphBuilder(Log).set_entry("step")
    builder.add_node("step", lambda state: {"n": state["n"] + 1, "log": [f"step {state['n']}"]})
    builder.add_conditional_edges("step", lambda s: "step" if s["n"] < s["until"] else END, ["step", END])
    return builder.build()


def timed(run: Callable[[], Awaitable[Any]]) -> float:
    """The CPU seconds of a run, in a loop that is there already."""

    async def measure() -> float:
        started = time.process_time()
        await run()
        return time.process_time() - started

    return asyncio.run(measure())


class Ours:
    """This project's graphs, built once."""

    def __init__(self) -> None:
        counting = {"chain": chain(SHAPES["chain"]), "loop": loop(SHAPES["loop"])}
        self._runs: dict[str, Callable[[], Awaitable[Any]]] = {
            name: partial(graph.invoke, {"n": 0}, OPTIONS) for name, graph in counting.items()
        }
        self._runs["fan-out"] = partial(fan_out(SHAPES["fan-out"]).invoke, {"out": []}, OPTIONS)

    def round(self) -> Round:
        return {name: timed(run) / SHAPES[name] for name, run in self._runs.items()}


class LangGraph:
    """LangGraph in a process of its own, asked for one round at a time so that the engines take turns."""

    def __init__(self, python: Path, environ: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [str(python), "-m", "bench.peers.langgraph_worker", json.dumps(SHAPES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(environ),
        )
        self.version = str(self._read())

    def round(self) -> Round:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: Round = self._read()
        return found

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def compare(python: Path, environ: Mapping[str, str], *, rounds: int) -> tuple[str, list[dict[str, Round]]]:
    """LangGraph's version, and the figures of both in each round; the first round only warms up."""
    ours, theirs = Ours(), LangGraph(python, environ)
    try:
        taken = [{"wesichain": ours.round(), "langgraph": theirs.round()} for _ in range(rounds + 1)][1:]
    finally:
        theirs.close()
    return theirs.version, taken


def growth() -> None:
    graph = logging_loop()
    print("\na step of a loop that keeps a log, in microseconds of CPU")
    for steps in (100, 1_000, 10_000):
        given: Log = {"n": 0, "until": steps, "log": []}
        seconds = min(timed(partial(graph.invoke, given, OPTIONS)) for _ in range(3))
        print(f"  {steps:>6} steps   {seconds / steps * 1e6:7.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", type=Path, default=CACHE / "langchain" / "bin" / "python")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    if os.access(asked.peer, os.X_OK):
        version, rounds = compare(asked.peer, child_environ(CACHE / "home"), rounds=asked.rounds)
        print(f"microseconds of CPU a step, beside LangGraph {version}")
        for shape in SHAPES:
            ours, theirs = (median(r[who][shape] for r in rounds) for who in ("wesichain", "langgraph"))
            ratio = median(r["langgraph"][shape] / r["wesichain"][shape] for r in rounds)
            print(f"  {shape:<8}{ours * 1e6:>9.1f}{theirs * 1e6:>9.1f}   {ratio:.1f} times as much")
    else:
        print("LangGraph is not installed here: 'make bench-peers' does it, or name a Python with --peer")
    growth()


if __name__ == "__main__":
    main()
