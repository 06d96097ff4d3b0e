"""A contestant in its own process: runs the scenarios and writes the results as JSON lines."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO, cast

from .scenarios import CONCURRENT, SCENARIOS, Adapter, Run, Scenario
from .script import QUESTION, Gate, Tally, peak_resident, resident


class WrongAnswerError(Exception):
    """The run ended without having done the work."""


async def checked(run: Run, scenario: Scenario) -> bool:
    """One run that must call the tool as often as it should and give the right answer.

    Says whether the tool was spared the malformed call: some frameworks hand it on unchecked.
    """
    before = Tally.calls
    answer = await run(QUESTION)
    calls = Tally.calls - before
    if calls != scenario.hops and not (scenario.malformed and calls == scenario.hops + 1):
        raise WrongAnswerError(f"the tool ran {calls} times instead of {scenario.hops}")
    if answer != scenario.script().answer:
        raise WrongAnswerError(f"answered {answer!r}")
    return calls == scenario.hops


async def cpu_per_run(run: Run, scenario: Scenario, *, seconds: float) -> dict[str, Any]:
    """CPU seconds of one run: the median over batches that together take about `seconds`."""
    started = time.process_time()
    spared = await checked(run, scenario)
    first = time.process_time() - started
    if first >= seconds:
        return {"cpu": first, "runs": 1, "spared": spared, "in_thread": Tally.in_thread}
    batch = max(1, int(seconds / 10 / first))
    samples: list[float] = []
    while time.process_time() - started < seconds or len(samples) < 3:
        begun = time.process_time()
        for _ in range(batch):
            await run(QUESTION)
        samples.append((time.process_time() - begun) / batch)
    await checked(run, scenario)
    cpu, runs = statistics.median(samples), batch * len(samples)
    return {"cpu": cpu, "runs": runs, "spared": spared, "in_thread": Tally.in_thread}


async def all_at_once(adapter: Adapter, *, runs: int) -> dict[str, Any]:
    """CPU seconds and bytes per run, with all runs active at the same time."""
    await checked(adapter.stub(CONCURRENT.script()), CONCURRENT)
    gate = Gate(runs)
    run = adapter.stub(CONCURRENT.script(gate))
    before, calls, started = resident(), Tally.calls, time.process_time()
    answers = await asyncio.gather(*(run(QUESTION) for _ in range(runs)))
    cpu = time.process_time() - started
    if Tally.calls - calls != runs or set(answers) != {CONCURRENT.script().answer}:
        raise WrongAnswerError("not every run did its work")
    return {"cpu": cpu / runs, "bytes": max(0, gate.resident - before) / runs, "runs": runs}


class Watch:
    """Ends the process when a scenario has used up its CPU time.

    A thread that looks now and then, since a CPU timer of the system makes its CPU clock coarse.
    """

    def __init__(self, limit: float, say: Callable[..., None]) -> None:
        self.limit = limit
        self.say = say
        self.scenario = "before the first"
        self.started = time.process_time()
        threading.Thread(target=self._look, daemon=True).start()

    def begin(self, scenario: str) -> None:
        self.scenario = scenario
        self.started = time.process_time()
        self.say(scenario, started=True)

    def _look(self) -> None:
        while time.process_time() - self.started < self.limit:
            time.sleep(min(2.0, self.limit))
        self.say(self.scenario, error=f"stopped after {self.limit:.0f} s of CPU", stopped=self.limit)
        os._exit(0)


async def measure(
    adapter: Adapter,
    part: str,
    *,
    names: list[str],
    seconds: float,
    runs: int,
    limit: float,
    out: TextIO,
) -> None:
    """Run the part's scenarios; none may take more than `limit` seconds of CPU, or all is over."""

    def say(scenario: str, **facts: Any) -> None:
        print(json.dumps({"scenario": scenario, **facts}), file=out, flush=True)

    watch = Watch(limit, say)
    if part == "concurrent":
        watch.begin(CONCURRENT.name)
        try:
            say(CONCURRENT.name, **await all_at_once(adapter, runs=runs))
        except Exception as error:
            say(CONCURRENT.name, error=describe(error))
        return
    await adapter.stub(CONCURRENT.script())(QUESTION)  # warm up
    for scenario in SCENARIOS:
        if scenario.name not in names or (scenario.quick and not hasattr(adapter, "QUICK")):
            continue
        watch.begin(scenario.name)
        try:
            run = adapter.stub(scenario.script())
            facts = await cpu_per_run(run, scenario, seconds=seconds)
            say(scenario.name, **facts, peak=peak_resident())
        except Exception as error:
            say(scenario.name, error=describe(error))


def describe(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160]}" if lines else type(error).__name__


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("adapter")
    parser.add_argument("part", choices=["loop", "concurrent"])
    parser.add_argument("--names", default=",".join(scenario.name for scenario in SCENARIOS))
    parser.add_argument("--seconds", type=float, default=0.25)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--limit", type=float, default=20)
    options = parser.parse_args()

    # Frameworks print to standard output, which is for the results only.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    adapter = cast("Adapter", importlib.import_module(f"bench.peers.adapters.{options.adapter}"))
    about: dict[str, Any] = {"name": adapter.NAME, "version": adapter.VERSION, "import": adapter.IMPORT}
    more = {"note": "", "blocking": False, "quick": "", "best": ""}
    about |= {name: getattr(adapter, name.upper(), value) for name, value in more.items()}
    print(json.dumps(about), file=out, flush=True)
    asyncio.run(
        measure(
            adapter,
            options.part,
            names=options.names.split(","),
            seconds=options.seconds,
            runs=options.runs,
            limit=options.limit,
            out=out,
        )
    )
    out.flush()
    os._exit(0)  # some frameworks leave threads behind that would never end


if __name__ == "__main__":
    main()
