"""Comparing: base and tree in turn, in new processes each round, until every scenario is decided."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from bench.scenarios import percentile

from .judge import Finding, Rounds, is_decided, judge_cpu, judge_errors, judge_memory
from .sides import CrashedError, Side, Worker

Answer: TypeAlias = dict[str, Any]
NO_ROUNDS = Rounds()

BLOCKS = (4, 20)  # turns of each side in a round; many short ones, as the machine's mood changes quickly
SAMPLE_SECONDS = 0.001  # of CPU, at least, in one sample
SIDE_SECONDS = 0.15  # of CPU, about, for one scenario and side in a round
MEMORY_SECONDS = 0.1  # of CPU, about, for one scenario and side
MEMORY_RUNS = (3, 20)  # at least and at most: what a run leaves behind adds up over them


@dataclass(frozen=True, slots=True)
class Result:
    """What was found out about one scenario."""

    name: str
    rounds: Rounds = NO_ROUNDS
    memory: tuple[int, int] | None = None
    errors: tuple[int, int] = (0, 0)
    error: str = ""

    @property
    def growth(self) -> float:
        return self.memory[1] / max(1, self.memory[0]) if self.memory else 1.0

    @property
    def is_open(self) -> bool:
        return self.errors == (0, 0) and not is_decided(self.rounds)

    def findings(self) -> list[Finding]:
        found = judge_errors(self.name, *self.errors, example=self.error)
        found += judge_cpu(self.name, self.rounds)
        if self.memory is not None:
            found += judge_memory(self.name, *self.memory)
        return found


@dataclass(slots=True)
class Comparison:
    """Measures two sides against each other; `results` has what is known so far."""

    base: Side
    tree: Side
    results: dict[str, Result]
    say: Callable[[str], None] = field(default=lambda _: None)

    @classmethod
    def of(cls, base: Side, tree: Side, names: Iterable[str]) -> Comparison:
        return cls(base, tree, {name: Result(name) for name in names})

    def run(self, *, seconds: float, memory: Sequence[str] | None = None) -> None:
        """Memory once, then round after round, for so long at most."""
        end = time.monotonic() + seconds
        self.measure_memory(self.results if memory is None else memory)
        longest = 0.0
        number = 0
        while (names := self.open_names()) and time.monotonic() + longest < end:
            number += 1
            started = time.monotonic()
            self.measure_round(names, swapped=number % 2 == 0)
            longest = time.monotonic() - started
            self.say(
                f"round {number}: {len(names)} scenarios, {longest:.1f} s, {len(self.open_names())} go on"
            )

    def open_names(self) -> list[str]:
        return [name for name, result in self.results.items() if result.is_open]

    # --- memory --------------------------------------------------------------------------------------

    def measure_memory(self, names: Iterable[str]) -> None:
        """The peak of each side. One that has grown is measured again: the smaller growth counts."""
        with Worker(self.base) as base, Worker(self.tree) as tree:
            grown = [name for name in names if self._measure_memory(name, base, tree)]
        with Worker(self.base) as base, Worker(self.tree) as tree:
            for name in grown:
                first = self.results[name]
                if self._measure_memory(name, base, tree) and first.growth < self.results[name].growth:
                    self.results[name] = first

    def _measure_memory(self, name: str, base: Worker, tree: Worker) -> bool:
        """Whether it has grown too much."""
        opened = self._open(name, base, tree)
        if opened is None:
            return False
        fewest, most = MEMORY_RUNS
        runs = max(fewest, min(most, round(MEMORY_SECONDS / max(opened, 1e-6))))
        answers = self._both(name, base, tree, memory=True, runs=runs)
        if answers is None:
            return False
        peaks = (int(answers[0]["peak"]), int(answers[1]["peak"]))
        self.results[name] = replace(self.results[name], memory=peaks)
        return bool(judge_memory(name, *peaks))

    # --- time ----------------------------------------------------------------------------------------

    def measure_round(self, names: Iterable[str], *, swapped: bool = False) -> None:
        """One ratio of each percentile for each scenario, from a new pair of processes."""
        with Worker(self.base) as base, Worker(self.tree) as tree:
            for name in names:
                opened = self._open(name, base, tree)
                if opened is not None:
                    self._measure(name, base, tree, seconds=opened, swapped=swapped)

    def _measure(self, name: str, base: Worker, tree: Worker, *, seconds: float, swapped: bool) -> None:
        runs = max(1, round(SAMPLE_SECONDS / max(seconds, 1e-7)))
        fewest, most = BLOCKS
        blocks = max(fewest, min(most, round(2 * SIDE_SECONDS / max(seconds, 1e-7))))
        samples = max(1, round(SIDE_SECONDS / blocks / (runs * max(seconds, 1e-7))))
        taken: tuple[list[float], list[float]] = ([], [])
        for block in range(blocks):
            answers = self._both(
                name, base, tree, swapped=swapped == (block % 2 == 0), runs=runs, samples=samples
            )
            if answers is None:
                return
            for side, answer in zip(taken, answers, strict=True):
                side.extend(answer["samples"])
        p50, p95 = (percentile(taken[1], q) / percentile(taken[0], q) for q in (0.5, 0.95))
        result = self.results[name]
        self.results[name] = replace(result, rounds=result.rounds.and_also(p50, p95))

    # --- both sides ----------------------------------------------------------------------------------

    def _open(self, name: str, base: Worker, tree: Worker) -> float | None:
        """Set a scenario up on both sides: the CPU seconds of one run, or None where it cannot run."""
        opened = self._both(name, base, tree, open=name)
        return None if opened is None else min(answer["seconds"] for answer in opened)

    def _both(
        self, name: str, base: Worker, tree: Worker, *, swapped: bool = False, **question: Any
    ) -> tuple[Answer, Answer] | None:
        """Both answers, base first, whoever was asked first; None where one failed, which is counted."""
        if swapped:
            after = _ask(tree, question)
            before = _ask(base, question)
        else:
            before = _ask(base, question)
            after = _ask(tree, question)
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
