"""Comparing: base and tree in turn, in new processes each round, until every scenario is decided."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any, TypeAlias

from bench.scenarios import percentile

from .judge import (
    MIN_ROUNDS,
    SURE_ERRORS,
    Finding,
    Rounds,
    is_decided,
    is_suspect,
    judge_cpu,
    judge_errors,
    judge_memory,
)
from .sides import CrashedError, Side, Worker

Answer: TypeAlias = dict[str, Any]
NO_ROUNDS = Rounds()

# A turn is a few runs of one side; the other side's turn follows at once, and the two make a ratio. Turns are
# short, as the machine's mood changes quickly, and many, as their median is what counts.
SAMPLE_SECONDS = 0.0002  # of CPU, at least, in one sample
SAMPLES = 20  # per turn, at most: the second largest is the p95
TURN_SECONDS = 0.01  # of CPU, about, in a turn, at most
TURNS = (2, 12)  # of each side in a round
SIDE_SECONDS = 0.06  # of CPU, about, for one scenario and side in a round
MEMORY_SECONDS = 0.025  # of CPU, about, for one scenario and side
MEMORY_RUNS = (2, 20)  # minimum and maximum: leaks add up over the runs
FIRST_SHARE = 0.8  # of the time, for the first measurement; the rest is there to confirm it
FOCUS = 3  # the number of worst scenarios that are measured at a time: one that is blocked is enough


@dataclass(frozen=True, slots=True)
class Result:
    """The results for a scenario."""

    name: str
    rounds: Rounds = NO_ROUNDS
    again: Rounds = NO_ROUNDS  # the second measurement, of what would be blocked
    memory: tuple[int, int] | None = None
    errors: tuple[int, int] = (0, 0)
    error: str = ""

    @property
    def growth(self) -> float:
        return self.memory[1] / max(1, self.memory[0]) if self.memory else 1.0

    @property
    def has_failed(self) -> bool:
        """Whether it fails on a side, so that there is nothing to compare."""
        return max(self.errors) >= SURE_ERRORS

    @property
    def is_open(self) -> bool:
        return not self.has_failed and not is_decided(self.rounds)

    @property
    def is_suspect(self) -> bool:
        """Whether a second measurement is needed or running."""
        doubtful = is_suspect(self.rounds) or self.errors[1] > self.errors[0]
        return doubtful and not self.has_failed and not is_decided(self.again)

    def findings(self) -> list[Finding]:
        found = judge_errors(self.name, *self.errors, example=self.error)
        found += judge_cpu(self.name, self.rounds, self.again)
        if self.memory is not None:
            found += judge_memory(self.name, *self.memory)
        return found


@dataclass(slots=True)
class Comparison:
    """Compares two sides; `results` has the results so far."""

    base: Side
    tree: Side
    results: dict[str, Result]
    say: Callable[[str], None] = field(default=lambda _: None)

    @classmethod
    def of(cls, base: Side, tree: Side, names: Iterable[str]) -> Comparison:
        return cls(base, tree, {name: Result(name) for name in names})

    def run(
        self, *, seconds: float, memory: Sequence[str] | None = None, waived: Collection[str] = ()
    ) -> None:
        """Round after round, for so long at most, the first one with memory; what looks bad is done again.

        A scenario whose p95 is waived is not: it would not be blocked.
        """
        started = time.monotonic()
        first = started + seconds * FIRST_SHARE
        self.measure_round(self.results, memory=self.results if memory is None else memory, until=first)
        self.say(f"time and memory of {len(self.results)} scenarios: {time.monotonic() - started:.1f} s")
        self.measure_memory_again()
        self._repeat(self._next, until=first)
        suspects = [name for name in self._suspects(self.results) if name not in waived][:FOCUS]
        if suspects:
            self.say(f"measuring again, to be sure: {', '.join(suspects)}")
            self._repeat(lambda: self._suspects(suspects), until=started + seconds, again=True)

    def _repeat(self, names: Callable[[], list[str]], *, until: float, again: bool = False) -> None:
        pace = 0.0  # seconds a scenario
        swapped = False
        while (wanted := names()) and time.monotonic() + pace * len(wanted) < until:
            swapped = not swapped
            started = time.monotonic()
            self.measure_round(wanted, swapped=swapped, again=again, until=until)
            took = time.monotonic() - started
            pace = took / len(wanted)
            self.say(f"another round of {len(wanted)}: {took:.1f} s, {len(self.open_names())} are open")

    def open_names(self) -> list[str]:
        return [name for name, result in self.results.items() if result.is_open]

    def _next(self) -> list[str]:
        """All undecided scenarios, until each was measured once; then the worst of them."""
        names = self.open_names()
        fresh = [name for name in names if len(self.results[name].rounds) < MIN_ROUNDS]
        return fresh or self._worst_first(names)[:FOCUS]

    def _suspects(self, names: Iterable[str]) -> list[str]:
        """The scenarios that need a second measurement."""
        return self._worst_first(name for name in names if self.results[name].is_suspect)

    def _worst_first(self, names: Iterable[str]) -> list[str]:
        return sorted(names, key=lambda name: -median(self.results[name].rounds.p95 or (99.0,)))

    # --- memory --------------------------------------------------------------------------------------

    def measure_memory_again(self) -> None:
        """Measure memory growth and failures a second time: the smaller growth counts."""
        doubtful = [
            name
            for name, result in self.results.items()
            if result.errors != (0, 0) or (result.memory and judge_memory(name, *result.memory))
        ]
        with Worker(self.base) as base, Worker(self.tree) as tree:
            for name in doubtful:
                first = self.results[name]
                opened = self._open(name, base, tree)
                if opened is not None and first.memory:
                    self._measure_memory(name, base, tree, seconds=opened)
                    if first.growth < self.results[name].growth:
                        self.results[name] = replace(self.results[name], memory=first.memory)

    def _measure_memory(self, name: str, base: Worker, tree: Worker, *, seconds: float) -> None:
        fewest, most = MEMORY_RUNS
        runs = max(fewest, min(most, round(MEMORY_SECONDS / max(seconds, 1e-6))))
        if answers := self._both(name, base, tree, memory=True, runs=runs):
            peaks = (int(answers[0]["peak"]), int(answers[1]["peak"]))
            self.results[name] = replace(self.results[name], memory=peaks)

    # --- time ----------------------------------------------------------------------------------------

    def measure_round(
        self,
        names: Iterable[str],
        *,
        swapped: bool = False,
        again: bool = False,
        memory: Collection[str] = (),
        until: float = math.inf,
    ) -> None:
        """One ratio of each percentile for each scenario, from a new pair of processes; some with memory.

        No scenario is begun when the time is over, but for the first: there is always something.
        """
        with Worker(self.base) as base, Worker(self.tree) as tree:
            for place, name in enumerate(names):
                if place and time.monotonic() > until:
                    return
                opened = self._open(name, base, tree)
                if opened is None:
                    continue
                ratios = self._ratios(name, base, tree, seconds=opened, swapped=swapped)
                if ratios is None:
                    continue
                result = self.results[name]
                if again:
                    self.results[name] = replace(result, again=result.again.and_also(*ratios))
                else:
                    self.results[name] = replace(result, rounds=result.rounds.and_also(*ratios))
                if name in memory:
                    self._measure_memory(name, base, tree, seconds=opened)

    def _ratios(
        self, name: str, base: Worker, tree: Worker, *, seconds: float, swapped: bool
    ) -> tuple[float, float] | None:
        """The median over the turns of the ratios of their p50 and of their p95."""
        runs = max(1, round(SAMPLE_SECONDS / max(seconds, 1e-7)))
        sample = runs * max(seconds, 1e-7)
        samples = max(1, min(SAMPLES, round(TURN_SECONDS / sample)))
        fewest, most = TURNS
        turns = max(fewest, min(most, round(SIDE_SECONDS / (samples * sample))))
        p50: list[float] = []
        p95: list[float] = []
        for turn in range(turns):
            answers = self._both(
                name, base, tree, swapped=swapped == (turn % 2 == 0), runs=runs, samples=samples
            )
            if answers is None:
                return None
            before, after = (answer["samples"] for answer in answers)
            p50.append(percentile(after, 0.5) / percentile(before, 0.5))
            p95.append(percentile(after, 0.95) / percentile(before, 0.95))
        return median(p50), median(p95)

    # --- both sides ----------------------------------------------------------------------------------

    def _open(self, name: str, base: Worker, tree: Worker) -> float | None:
        """Set a scenario up on both sides: the CPU seconds of one run, or None where it cannot run."""
        opened = self._both(name, base, tree, open=name)
        return None if opened is None else min(answer["seconds"] for answer in opened)

    def _both(
        self, name: str, base: Worker, tree: Worker, *, swapped: bool = False, **question: Any
    ) -> tuple[Answer, Answer] | None:
        """Both answers, base first, whoever was asked first; None where one failed, which is counted.

        Only where time is measured does the one wait for the other.
        """
        workers = (tree, base) if swapped else (base, tree)
        if "samples" in question:
            first, second = (_ask(worker, question) for worker in workers)
        else:
            with ThreadPoolExecutor(2) as pool:
                first, second = pool.map(partial(_ask, question=question), workers)
        before, after = (second, first) if swapped else (first, second)
        failed = ("error" in before, "error" in after)
        if not any(failed):
            return before, after
        result = self.results[name]
        counted = (result.errors[0] + failed[0], result.errors[1] + failed[1])
        text = (after if failed[1] else before)["error"]
        self.results[name] = replace(result, errors=counted, error=text)
        return None


def _ask(worker: Worker, question: dict[str, Any]) -> Answer:
    try:
        return worker.ask(**question)
    except CrashedError as crash:
        return {"error": str(crash)}
