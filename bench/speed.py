"""The performance of the runtime against a minimal hand-written loop (baseline).

    python -m bench.speed [--rounds N] [--strict]

CPU time of short turns that both sides take one after the other. A ratio is the median of the rounds' ratios,
so that what slows the machine down for a while counts on both sides. Concurrent runs, the import and the leak
check have processes of their own. A row over its limit is measured again, and is over if it is over again.
With --strict, exit status 1 if a row exceeds its limit.

The limits hold on machines of different make and under load: a processor changes what an interpreted line
costs against the compiled validation of pydantic, and with it the ratios. They catch what many small losses
add up to; what one change costs is judged by `bench.gate`, on one machine. docs/howto/benchmarks.md has what
was measured.
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
# How many times the baseline a row may be: about 1.25 times the most that was measured on two makes of
# processor, aarch64 and x86_64, idle and under load (docs/howto/benchmarks.md has the measurements).
LIMITS = {
    "a further hop, from 100 to 1,000": 3.3,
    "a hop at 1,000 against one at 100": 1.3,
    "a run of one hop": 6.0,
    "a run without tools, against one hop": 3.0,
    "a sync tool's hop, against one and a thread": 1.6,
    "a hop that does not block, against async": 1.2,
    "dispatch, against validate and await": 3.0,
    "a recorded run of 100 hops": 1.6,
    "10,000 runs of one hop at once: time": 5.0,
    "10,000 runs of one hop at once: memory": 2.5,
    "import, against asyncio, json, pydantic": 1.5,
    "left by 10,000 runs: kB a thousand": 16.0,
    "left by 10,000 runs: tasks": 0.0,
    "left by 10,000 runs: threads": 0.0,
    "left by 10,000 runs: file descriptors": 0.0,
}
Run = Callable[[], Awaitable[Any]]
Times = tuple[float, ...]  # one per round


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the table: our time, the time of the baseline, and their ratio."""

    what: str
    ours: str
    baseline: str
    ratio: float

    @property
    def limit(self) -> float | None:
        return LIMITS.get(self.what)

    @property
    def is_kept(self) -> bool:
        return self.limit is None or self.ratio <= self.limit

    def __str__(self) -> str:
        limit = "" if self.limit is None else f"{self.limit:>7.2f}  {'ok' if self.is_kept else 'OVER'}"
        return f"{self.what:<44}{self.ours:>13}{self.baseline:>13}{self.ratio:>8.2f}{limit}"


Part = Callable[[], list[Figure]]


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


SIDES = {"ours": by_agent, "baseline": by_hand}


# --- measuring -----------------------------------------------------------------------------------


async def timed(run: Run, times: int) -> float:
    """CPU microseconds of a run."""
    gc.collect()
    started = time.process_time()
    for _ in range(times):
        await run()
    return (time.process_time() - started) / times * 1e6


async def in_turn(runs: Sequence[tuple[Run, int]], *, rounds: int) -> list[Times]:
    """The times of each, one per round, measured in turn; the first round is a warm-up."""
    taken = [[await timed(run, times) for run, times in runs] for _ in range(rounds + 1)][1:]
    return [*zip(*taken, strict=True)]


def compared(what: str, ours: Times, baseline: Times, *, unit: str = "{:,.1f} us") -> Figure:
    """A row whose ratio is the median of the rounds' ratios, not the ratio of two medians."""
    ratio = statistics.median(one / other for one, other in zip(ours, baseline, strict=True))
    shown = [unit.format(statistics.median(times)) for times in (ours, baseline)]
    return Figure(what, shown[0], shown[1], ratio)


def scaled(times: Times, divisor: float) -> Times:
    return tuple(time / divisor for time in times)


def further(long: Times, short: Times, *, hops: int) -> Times:
    """The time of an additional hop, per round."""
    return tuple((more - less) / hops for more, less in zip(long, short, strict=True))


async def loop_figures(rounds: int) -> list[Figure]:
    shapes = ((0, 200), (1, 100), (100, 4), (1000, 1))
    runs = [(side(hops), times) for hops, times in shapes for side in (by_agent, by_hand)]
    short, short_by_hand, hop, hop_by_hand, hundred, hundred_by_hand, long, long_by_hand = await in_turn(
        runs, rounds=rounds
    )
    per_hop = further(long, hundred, hops=900)
    per_hop_by_hand = further(long_by_hand, hundred_by_hand, hops=900)
    return [
        compared("a further hop, from 100 to 1,000", per_hop, per_hop_by_hand),
        compared("a hop at 1,000 against one at 100", scaled(long, 1000), scaled(hundred, 100)),
        compared("a run of one hop", hop, hop_by_hand),
        compared("a run without tools", short, short_by_hand),
        # Against a hop, since what a loop by hand does without tools is next to nothing.
        compared("a run without tools, against one hop", short, hop_by_hand),
    ]


async def tool_figures(rounds: int) -> list[Figure]:
    """A hop of a plain function: in a thread, or inline with `blocking=False`."""
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
            "a sync tool's hop, against one and a thread",
            scaled(threaded, HOPS),
            tuple((one + thread) / HOPS for one, thread in zip(plain, bare, strict=True)),
        ),
        compared("a hop that does not block, against async", scaled(here, HOPS), scaled(plain, HOPS)),
    ]


def children_in_turn(parts: Sequence[Sequence[str]], *, rounds: int) -> list[list[Times]]:
    """The numbers printed by each child process, once per round, run in turn."""
    taken = [[child(*part) for part in parts] for _ in range(rounds)]
    return [[*zip(*column, strict=True)] for column in zip(*taken, strict=True)]


def child(*arguments: str) -> list[float]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, env=kept)
    numbers: list[float] = json.loads(done.stdout)
    return numbers


def concurrent_figures() -> list[Figure]:
    (cpu, memory), (cpu_by_hand, memory_by_hand) = children_in_turn(
        [["-m", "bench.speed", "--part", f"concurrent-{side}"] for side in SIDES], rounds=3
    )
    what = f"{CONCURRENT:,} runs of one hop at once"
    return [
        compared(f"{what}: time", cpu, cpu_by_hand, unit="{:,.2f} s"),
        compared(f"{what}: memory", memory, memory_by_hand, unit="{:,.1f} kB"),
    ]


async def concurrent(side: str) -> list[float]:
    """CPU seconds, and kilobytes per run while all runs wait for their last reply."""
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
    children_in_turn(parts, rounds=1)  # to write the bytecode cache
    (ours,), (baseline,) = children_in_turn(parts, rounds=9)
    what = "import, against asyncio, json, pydantic"
    return compared(what, scaled(ours, 0.001), scaled(baseline, 0.001), unit="{:,.0f} ms")


async def dispatch_figure(rounds: int) -> Figure:
    from bench.dispatch import CALLS, bare, dispatched

    call = dispatched("add")
    ours, baseline = await in_turn([(lambda: call(CALLS), 1), (lambda: bare(CALLS), 1)], rounds=rounds)
    what = "dispatch, against validate and await"
    return compared(what, scaled(ours, CALLS), scaled(baseline, CALLS))


async def recording_figure(rounds: int) -> Figure:
    from bench.scenarios.counting import count, counting_agent
    from wesichain.trace import Recorder

    agent = counting_agent(100)
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder))

        async def recorded() -> None:
            await agent.run(QUESTION, events=recorder)

        ours, plain = await in_turn([(recorded, 4), (lambda: count(agent, 100), 4)], rounds=rounds)
    return compared("a recorded run of 100 hops", ours, plain)


# --- leaks ---------------------------------------------------------------------------------------


async def leak() -> list[float]:
    """The leaks of 10,000 runs: kilobytes per thousand runs, tasks, threads, file descriptors."""
    run = by_agent(1)
    for _ in range(LEAK_RUNS // 5):  # let caches and the allocator's pools grow
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
    slope, *left = child("-m", "bench.speed", "--part", "leak")
    what = f"left by {LEAK_RUNS:,} runs"
    grown = Figure(f"{what}: kB a thousand", f"{slope:.1f} kB", "", max(0.0, slope))
    return [
        grown,
        *(Figure(f"{what}: {n}", f"{c:.0f}", "", c) for n, c in zip(names, left, strict=True)),
    ]


def resident() -> int:
    """The memory of this process in bytes (its peak, where the system has no current value)."""
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
    options.add_argument("--part", help=argparse.SUPPRESS)  # for child processes
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
        print(f"{'':<44}{'ours':>13}{'baseline':>13}{'ratio':>8}{'limit':>7}")
    parts: tuple[Part, ...] = (
        lambda: asyncio.run(in_this_process(given.rounds)),
        concurrent_figures,
        lambda: [import_figure()],
        leak_figures,
    )
    return report(parts, strict=given.strict, as_json=given.json)


def report(parts: Sequence[Part], *, strict: bool, as_json: bool) -> int:
    """Print the rows of each part, and return the exit status."""
    figures: list[Figure] = []
    for part in parts:
        for figure in confirmed(part):
            figures.append(figure)
            print(json.dumps(plain(figure)) if as_json else figure, flush=True)
    over = [figure.what for figure in figures if not figure.is_kept]
    if over:
        print(f"over the limit in two measurements: {'; '.join(over)}", file=sys.stderr)
    return 1 if strict and over else 0


def confirmed(part: Part) -> list[Figure]:
    """The rows of a part. If one exceeds its limit, all are measured again, and the better figures count."""
    figures = part()
    if all(figure.is_kept for figure in figures):
        return figures
    return [min(pair, key=lambda figure: figure.ratio) for pair in zip(figures, part(), strict=True)]


def plain(figure: Figure) -> dict[str, Any]:
    return {
        "what": figure.what,
        "ours": figure.ours,
        "baseline": figure.baseline,
        "ratio": figure.ratio,
        "limit": figure.limit,
        "kept": figure.is_kept,
    }


if __name__ == "__main__":
    sys.exit(main())
