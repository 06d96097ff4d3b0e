"""Measuring: the CPU time of each run, its peak memory, and errors.

CPU time, with that of child processes, since machines are shared. Memory is what Python allocates
(tracemalloc): it is the same at every measurement, which the resident size of a process is not.
"""

from __future__ import annotations

import asyncio
import gc
import math
import resource
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .scenario import Scenario

MEMORY_RUNS = 20


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a scenario: CPU seconds per run, memory in bytes."""

    name: str
    runs: int = 0
    p50: float = 0.0
    p95: float = 0.0
    peak: int = 0
    resident: int = 0  # the most that the whole process has held, interpreter and libraries included
    steps: int = 0
    errors: int = 0
    crashed: bool = False
    skipped: str = ""  # why it cannot run here
    error: str = ""


def cpu_seconds() -> float:
    """CPU seconds of this process and its finished children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def percentile(samples: Sequence[float], q: float) -> float:
    """The quantile `q` of samples."""
    return sorted(samples)[max(0, math.ceil(q * len(samples)) - 1)]


async def sample(scenario: Scenario, made: Any, *, times: int) -> tuple[float, int]:
    """CPU seconds per run, over a number of runs, and the steps of the last one."""
    steps = 0
    started = cpu_seconds()
    for _ in range(times):
        steps = await scenario.run(made)
    return (cpu_seconds() - started) / times, steps


async def peak_memory(scenario: Scenario, made: Any, *, runs: int = MEMORY_RUNS) -> int:
    """The most bytes that are held at once over the runs: what a run needs and what it leaves behind.

    What is left in cycles is collected between the runs, so that it counts for the run that made it and
    not for where the collector happened to be. It must have run before: what is built at first use is not
    a run's.
    """
    gc.collect()
    gc.freeze()  # existing objects need not be traversed again
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(runs):
            await scenario.run(made)
            gc.collect()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
        gc.unfreeze()


async def measure(scenario: Scenario, made: Any, *, repeat: int, memory: bool = True) -> Figures:
    """Run a scenario a number of times; count the runs that raise."""
    samples: list[float] = []
    errors, steps, error = 0, 0, ""
    for _ in range(repeat + 1):
        try:
            seconds, steps = await sample(scenario, made, times=1)
            samples.append(seconds)
        except Exception as raised:
            errors += 1
            error = f"{type(raised).__name__}: {str(raised)[:200]}"
    if not samples:
        return Figures(scenario.name, errors=errors, error=error)
    timed = samples[1:] or samples  # the first builds what is built at first use
    longest = percentile(timed, 0.95)
    runs = MEMORY_RUNS if longest < 0.2 else 1
    peak = await peak_memory(scenario, made, runs=runs) if memory and not errors else 0
    return Figures(
        scenario.name,
        runs=len(timed),
        p50=percentile(timed, 0.5),
        p95=longest,
        peak=peak,
        resident=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        * (1 if sys.platform == "darwin" else 1024),
        steps=steps,
        errors=errors,
        error=error,
    )


def measure_here(scenario: Scenario, *, repeat: int) -> Figures:
    """Set a scenario up in this process, measure it, and clean up."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            made = scenario.setup(Path(folder))
        except ImportError as missing:
            return Figures(scenario.name, skipped=str(missing))
        return asyncio.run(measure(scenario, made, repeat=repeat))
