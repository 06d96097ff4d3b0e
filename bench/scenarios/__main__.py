"""python -m bench.scenarios [NAME ...] [--repeat N] [--json]: each scenario in its own process."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict

from .measure import Figures, measure_here
from .registry import SCENARIOS, find


def in_child(name: str, *, repeat: int) -> Figures:
    """The figures of a scenario from a new interpreter; if that dies, it is a crash."""
    command = [sys.executable, "-m", "bench.scenarios", name, "--repeat", str(repeat), "--json", "--here"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return Figures(name, crashed=True, error=last[-1][:200])
    return Figures(**json.loads(done.stdout))


def row(figures: Figures) -> str:
    if figures.skipped:
        return f"{figures.name:<16} skipped: {figures.skipped}"
    trouble = "crashed" if figures.crashed else str(figures.errors)
    times = f"{figures.p50 * 1e6:>12,.0f}{figures.p95 * 1e6:>12,.0f}"
    sizes = f"{figures.peak / 1024:>12,.0f}{figures.resident / 2**20:>10,.0f}"
    line = f"{figures.name:<16}{times}{sizes}{figures.steps:>8,}{trouble:>9}"
    return f"{line}  {figures.error}" if figures.error else line


HEAD = (
    f"{'scenario':<16}{'p50, us':>12}{'p95, us':>12}{'peak, kB':>12}{'RSS, MB':>10}{'steps':>8}{'errors':>9}"
)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help="all of them, where none is named")
    options.add_argument(
        "--repeat", type=int, default=0, help="runs of each; by default as many as is sensible"
    )
    options.add_argument("--json", action="store_true", help="one JSON object a line")
    options.add_argument("--here", action="store_true", help="in this process, without a child")
    options.add_argument("--list", action="store_true", help="the names, and nothing else")
    given = options.parse_args()
    chosen = [find(name) for name in given.names] or list(SCENARIOS)
    if given.list:
        print(*(f"{scenario.name:<16} {scenario.title}" for scenario in chosen), sep="\n")
        return 0
    if not given.json:
        print(HEAD)
    failed = False
    for scenario in chosen:
        repeat = given.repeat or REPEATS.get(scenario.name, 200)
        figures = (
            measure_here(scenario, repeat=repeat) if given.here else in_child(scenario.name, repeat=repeat)
        )
        failed = failed or bool(figures.errors) or figures.crashed
        print(json.dumps(asdict(figures)) if given.json else row(figures), flush=True)
    return int(failed and not given.here)


REPEATS = {"chain1000": 20, "concurrent10000": 3, "import": 20}

if __name__ == "__main__":
    sys.exit(main())
