"""The figures that the runtime promises, against the loop one writes by hand, in one interleaved run.

    python -m bench.speed [--rounds N] [--strict]

CPU time, the median of several rounds in which both sides take turns. Concurrent runs, the import and the
leak check have processes of their own. Exits with status 1 where a limit is passed and --strict is given.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.handwritten import Message, describe
from bench.handwritten import run as handwritten_loop

QUESTION = "Count up, one addition at a time, and tell me the sum."
CONCURRENT = 10_000
LEAK_RUNS = 10_000
HOPS = 50  # of a run whose tools are compared
Run = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: what we take, what the yardstick takes, and how many times that may be."""

    what: str
    ours: str
    yardstick: str
    ratio: float
    limit: float | None = None

    @property
    def is_kept(self) -> bool:
        return self.limit is None or self.ratio <= self.limit

    def __str__(self) -> str:
        limit = "" if self.limit is None else f"{self.limit:>7.2f}  {'ok' if self.is_kept else 'OVER'}"
        return f"{self.what:<44}{self.ours:>13}{self.yardstick:>13}{self.ratio:>8.2f}{limit}"


# --- the two sides -------------------------------------------------------------------------------


def by_hand(hops: int, *, waits: bool = False) -> Run:
    """The hand-written loop over the counting model, in the dicts of a chat completions API."""
    from bench.scenarios.counting import add

    tools = describe(add)

    async def model(messages: list[Message], _: Sequence[Message]) -> Message:
        if waits:
            await asyncio.sleep(0)
        last = messages[-1]
        total = int(last["content"]) if last["role"] == "tool" else 0
        if total == hops:
            return {"role": "assistant", "content": f"the sum is {total}"}
        function = {"name": "add", "arguments": f'{{"a": {total}, "b": 1}}'}
        calls = [{"id": f"call_{total}", "type": "function", "function": function}]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    async def run() -> None:
        answer = await handwritten_loop(model, tools, QUESTION, max_steps=hops + 5)
        assert answer == f"the sum is {hops}"

    return run


def by_agent(hops: int, *, waits: bool = False) -> Run:
    from bench.scenarios.counting import count, counting_agent

    agent = counting_agent(hops, waits=waits)
    return lambda: count(agent, hops)


SIDES = {"ours": by_agent, "yardstick": by_hand}


# --- measuring -----------------------------------------------------------------------------------


async def timed(run: Run, times: int) -> float:
    """CPU microseconds of one run."""
    gc.collect()
    started = time.process_time()
    for _ in range(times):
        await run()
    return (time.process_time() - started) / times * 1e6


async def in_turn(runs: Sequence[tuple[Run, int]], *, rounds: int) -> list[float]:
    """The median of each, measured in turn; the first round only warms up."""
    taken = [[await timed(run, times) for run, times in runs] for _ in range(rounds + 1)][1:]
    return [statistics.median(column) for column in zip(*taken, strict=True)]


async def loop_figures(rounds: int) -> list[Figure]:
    shapes = ((0, 200), (1, 100), (100, 4), (1000, 1))
    runs = [(side(hops), times) for hops, times in shapes for side in (by_agent, by_hand)]
    short, short_by_hand, hop, hop_by_hand, hundred, hundred_by_hand, long, long_by_hand = await in_turn(
        runs, rounds=rounds
    )
    per_hop, per_hop_by_hand = (long - hundred) / 900, (long_by_hand - hundred_by_hand) / 900
    return [
        compared("a further hop, from 100 to 1,000", per_hop, per_hop_by_hand, limit=2.1),
        Figure(
            "a hop at 1,000 against one at 100",
            f"{long / 1000:,.1f} us",
            f"{hundred / 100:,.1f} us",
            long / hundred / 10,
            1.25,
        ),
        compared("a run of one hop", hop, hop_by_hand, limit=3.1),
        compared("a run without tools", short, short_by_hand),
        # 30 us where a hop by hand takes 20: what a loop by hand does without tools is next to nothing.
        compared("a run without tools, against one hop", short, hop_by_hand, limit=1.6),
    ]


async def tool_figures(rounds: int) -> list[Figure]:
    """A hop of a plain function: in a thread, where it may block, or here, where it is said not to."""
    from bench.scenarios.counting import add_here, add_in_thread, count, counting_agent

    def hops(*tools: Any) -> Run:
        agent = counting_agent(HOPS, *tools)
        return lambda: count(agent, HOPS)

    async def threads() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(HOPS):
            await loop.run_in_executor(None, int)

    plain, threaded, here, bare = await in_turn(
        [(hops(), 2), (hops(add_in_thread), 2), (hops(add_here), 2), (threads, 2)], rounds=rounds
    )
    return [
        compared(
            "a sync tool's hop, against one and a thread", threaded / HOPS, (plain + bare) / HOPS, limit=1.2
        ),
        compared("a hop that does not block, against async", here / HOPS, plain / HOPS, limit=1.1),
    ]


def compared(what: str, ours: float, yardstick: float, *, limit: float | None = None) -> Figure:
    return Figure(what, f"{ours:,.1f} us", f"{yardstick:,.1f} us", ours / yardstick, limit)


def median_of_children(parts: Sequence[Sequence[str]], *, rounds: int) -> list[list[float]]:
    """The median of the numbers that each child prints, the children taken in turn."""
    taken = [[child(*part) for part in parts] for _ in range(rounds)]
    return [
        [statistics.median(numbers) for numbers in zip(*column, strict=True)]
        for column in zip(*taken, strict=True)
    ]


def child(*arguments: str) -> list[float]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, env=kept)
    numbers: list[float] = json.loads(done.stdout)
    return numbers


def concurrent_figures() -> list[Figure]:
    ours, yardstick = median_of_children(
        [["-m", "bench.speed", "--part", f"concurrent-{side}"] for side in SIDES], rounds=3
    )
    what = f"{CONCURRENT:,} runs of one hop at once"
    return [
        Figure(f"{what}: time", f"{ours[0]:,.2f} s", f"{yardstick[0]:,.2f} s", ours[0] / yardstick[0], 3.0),
        Figure(
            f"{what}: memory", f"{ours[1]:,.1f} kB", f"{yardstick[1]:,.1f} kB", ours[1] / yardstick[1], 2.5
        ),
    ]


async def concurrent(side: str) -> list[float]:
    """CPU seconds, and kilobytes a run that are held while all of them wait for their last reply."""
    run = SIDES[side](1, waits=True)
    await run()
    gc.collect()
    before, started = resident(), time.process_time()
    held = 0

    async def watch() -> None:
        nonlocal held
        for _ in range(6):  # a run has two model calls, and waits once in each
            await asyncio.sleep(0)
            held = max(held, resident())

    await asyncio.gather(*(run() for _ in range(CONCURRENT)), watch())
    return [time.process_time() - started, (held - before) / CONCURRENT / 1024]


def import_figure() -> Figure:
    code = "import time; s = time.process_time(); {}; print([time.process_time() - s])"
    statements = ("import wesichain", "import asyncio, json, pydantic")
    parts = [["-c", code.format(statement)] for statement in statements]
    median_of_children(parts, rounds=1)  # bytecode is cached from here on
    ours, yardstick = (numbers[0] * 1000 for numbers in median_of_children(parts, rounds=9))
    what = "import, against asyncio, json, pydantic"
    return Figure(what, f"{ours:,.0f} ms", f"{yardstick:,.0f} ms", ours / yardstick, 1.4)


async def dispatch_figure(rounds: int) -> Figure:
    from bench.dispatch import CALLS, bare, dispatched

    call = dispatched("add")
    ours, yardstick = await in_turn([(lambda: call(CALLS), 1), (lambda: bare(CALLS), 1)], rounds=rounds)
    return compared("dispatch, against validate and await", ours / CALLS, yardstick / CALLS, limit=2.5)


async def recording_figure(rounds: int) -> Figure:
    from bench.scenarios.counting import count, counting_agent
    from wesichain.trace import Recorder

    agent = counting_agent(100)
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder))

        async def recorded() -> None:
            await agent.run(QUESTION, events=recorder)

        ours, plain = await in_turn([(recorded, 4), (lambda: count(agent, 100), 4)], rounds=rounds)
    return compared("a recorded run of 100 hops", ours, plain, limit=1.5)


# --- leaks ---------------------------------------------------------------------------------------


async def leak() -> list[float]:
    """What 10,000 runs leave behind: kilobytes a thousand runs, tasks, threads, file descriptors."""
    run = by_agent(1)
    for _ in range(LEAK_RUNS // 5):  # what grows once, such as caches and the allocator's pools
        await run()
    before = (len(asyncio.all_tasks()), threading.active_count(), descriptors())
    sizes: list[int] = []
    for _ in range(10):
        for _ in range(LEAK_RUNS // 10):
            await run()
        gc.collect()
        sizes.append(resident())
    after = (len(asyncio.all_tasks()), threading.active_count(), descriptors())
    slope = statistics.linear_regression(range(len(sizes)), sizes).slope / 1024 / (LEAK_RUNS / 10 / 1000)
    return [slope, *(now - then for now, then in zip(after, before, strict=True))]


def leak_figures() -> list[Figure]:
    names = ("tasks", "threads", "file descriptors")
    ((slope, *left),) = median_of_children([["-m", "bench.speed", "--part", "leak"]], rounds=1)
    what = f"left by {LEAK_RUNS:,} runs"
    grown = Figure(f"{what}: kB a thousand", f"{slope:.1f} kB", "", max(0.0, slope), 16.0)
    return [
        grown,
        *(Figure(f"{what}: {n}", f"{c:.0f}", "", c, 0.0) for n, c in zip(names, left, strict=True)),
    ]


def resident() -> int:
    """Bytes of memory that this process holds now (the peak, where the system does not say)."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def descriptors() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


# --- the table -----------------------------------------------------------------------------------


async def in_this_process(rounds: int) -> list[Figure]:
    return [
        *await loop_figures(rounds),
        *await tool_figures(rounds),
        await dispatch_figure(rounds),
        await recording_figure(rounds),
    ]


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--strict", action="store_true", help="fail where a limit is passed")
    options.add_argument("--json", action="store_true", help="one JSON object a line")
    options.add_argument("--part", help=argparse.SUPPRESS)  # what the children are asked for
    given = options.parse_args()
    match given.part:
        case None:
            pass
        case "leak":
            print(json.dumps(asyncio.run(leak())))
            return 0
        case part:
            print(json.dumps(asyncio.run(concurrent(part.removeprefix("concurrent-")))))
            return 0
    if not given.json:
        print(f"{'':<44}{'ours':>13}{'yardstick':>13}{'ratio':>8}{'limit':>7}")
    kept = True
    for part in (
        lambda: asyncio.run(in_this_process(given.rounds)),
        concurrent_figures,
        lambda: [import_figure()],
        leak_figures,
    ):
        for figure in part():
            kept = kept and figure.is_kept
            print(json.dumps(plain(figure)) if given.json else figure, flush=True)
    return 1 if given.strict and not kept else 0


def plain(figure: Figure) -> dict[str, Any]:
    return {
        "what": figure.what,
        "ours": figure.ours,
        "yardstick": figure.yardstick,
        "ratio": figure.ratio,
        "limit": figure.limit,
        "kept": figure.is_kept,
    }


if __name__ == "__main__":
    sys.exit(main())
