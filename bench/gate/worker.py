"""A side of the gate: a process that sets up and runs scenarios on request.

A line of JSON in, a line of JSON out: {"open": NAME}, {"runs": N, "samples": M}, {"memory": true, "runs": N}.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.scenarios import Scenario, peak_memory
from bench.scenarios.measure import sample

WARM_UP = 0.01  # seconds of CPU


class Bench:
    """The current scenario."""

    def __init__(self, scenarios: tuple[Scenario, ...], folder: Path) -> None:
        self._scenarios = {scenario.name: scenario for scenario in scenarios}
        self._folder = folder
        self._runner = asyncio.Runner()
        self._scenario: Scenario
        self._made: Any = None

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._answer(asked)
        except Exception as error:  # the other process counts exceptions
            return {"error": f"{type(error).__name__}: {str(error)[:200]}"}

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if "open" in asked:
            self._made = None
            self._scenario = self._scenarios[asked["open"]]
            folder = Path(tempfile.mkdtemp(dir=self._folder))
            self._made = self._scenario.setup(folder)
            gc.collect()
            return {"seconds": self._runner.run(self._warm_up())}
        if "memory" in asked:
            return {"peak": self._runner.run(peak_memory(self._scenario, self._made, runs=asked["runs"]))}
        return {"samples": self._runner.run(self._samples(asked["runs"], asked["samples"]))}

    async def _warm_up(self) -> float:
        """CPU seconds of a run, after a warm-up."""
        best, spent, runs = float("inf"), 0.0, 0
        while spent < WARM_UP or (runs < 2 and spent < 10 * WARM_UP):
            seconds, _ = await sample(self._scenario, self._made, times=1)
            best, spent, runs = min(best, seconds), spent + max(seconds, 1e-6), runs + 1
        return best

    async def _samples(self, runs: int, samples: int) -> list[float]:
        return [(await sample(self._scenario, self._made, times=runs))[0] for _ in range(samples)]


def main() -> None:
    out = os.fdopen(os.dup(1), "w")  # the output of a scenario is not an answer
    os.dup2(2, 1)
    scenarios = importlib.import_module(sys.argv[1]).SCENARIOS
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        bench = Bench(scenarios, Path(folder))
        for line in sys.stdin:
            print(json.dumps(bench.answer(json.loads(line))), file=out, flush=True)


if __name__ == "__main__":
    main()
