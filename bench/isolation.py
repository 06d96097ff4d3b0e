"""The cost of a call of an isolated tool with a warm pool, in CPU time of all processes.

    python bench/isolation.py [calls]

Counts the CPU of this process, of the keeper that forks a worker for each call, and of the workers, for tools
with more and more around them: a function of this file, one in a module that imports nothing, one that is
decorated in its module, one that takes and returns models. Exits with status 1 where a call of one of
them costs more than the limit.
"""

from __future__ import annotations

import asyncio
import importlib
import resource
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil

from wesichain.core import ToolCall
from wesichain.tools import Tool, ToolSet, tool
from wesichain.tools.isolated import warm_processes

LIMIT_MS = 12.0
ROUNDS = 10
FUNCTION = '''
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''
MODELS = '''
from pydantic import BaseModel
from wesichain import tool


class Pair(BaseModel):
    a: int
    b: int


class Sum(BaseModel):
    total: int


@tool(isolate=True)
def add(pair: Pair) -> Sum:
    """Add two numbers."""
    return Sum(total=pair.a + pair.b)
'''
MODULES = {
    "bench_bare": FUNCTION,
    "bench_decorated": f"from wesichain import tool\n\n\n@tool(isolate=True){FUNCTION}",
    "bench_models": MODELS,
}


@tool(isolate=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def used_ms() -> float:
    """CPU milliseconds so far, of this process and of the processes of isolated tools."""
    ours = resource.getrusage(resource.RUSAGE_SELF)
    total = ours.ru_utime + ours.ru_stime
    for pid in warm_processes():
        server = psutil.Process(pid)
        for process in (server, *server.children(recursive=True)):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total * 1000


def tools(folder: Path) -> dict[str, Tool]:
    """The tools, by their isolation."""
    sys.path.insert(0, str(folder))
    found: dict[str, Any] = {}
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
        found[name] = importlib.import_module(name).add
    return {
        "of the program's own file": add,
        "in a module without imports": tool(found["bench_bare"], isolate=True),
        "decorated in its module": found["bench_decorated"],
        "with models": found["bench_models"],
    }


async def measure(made: Tool, calls: int) -> list[float]:
    registry = ToolSet.of([made]).build()
    args: dict[str, Any] = {"a": 1, "b": 2}
    if "pair" in made.spec.parameters["properties"]:
        args = {"pair": args}
    call = ToolCall("1", "add", args)
    for _ in range(5):  # start the server, load the tool
        assert (await registry.dispatch(call)).value in (3, {"total": 3})
    found: list[float] = []
    for _ in range(ROUNDS):
        before = used_ms()
        for _ in range(calls):
            await registry.dispatch(call)
        found.append((used_ms() - before) / calls)
    return found


async def measure_all(calls: int) -> int:
    medians: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, made in tools(Path(folder)).items():
            found = await measure(made, calls)
            medians.append(statistics.median(found))
            print(f"{name:30}{medians[-1]:6.2f} ms of CPU    (best {min(found):.2f})")
    print(f"limit                         {LIMIT_MS:6.2f}")
    return 0 if max(medians) <= LIMIT_MS else 1


def main() -> int:
    return asyncio.run(measure_all(int(sys.argv[1]) if len(sys.argv) > 1 else 100))


if __name__ == "__main__":
    sys.exit(main())
