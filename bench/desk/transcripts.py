"""`python -m bench.desk.transcripts FILE`: the runs of a log, word by word."""

from __future__ import annotations

import argparse
from pathlib import Path

from .arms import transcript
from .play import Played
from .store import read_runs


def told(run: Played) -> str:
    """A run with all that belongs to it."""
    judged = "solved" if run.success else f"not solved: {run.why}"
    head = f"=== {run.part} | {run.arm} | {run.task} | {run.order} | {run.steps} steps | {judged}"
    return f"{head}\n[{run.prompt}]\n{transcript(run)}"


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m bench.desk.transcripts", description=__doc__)
    options.add_argument("log", type=Path, nargs="+")
    for name in ("part", "arm", "task"):
        options.add_argument(f"--{name}", default="", help=f"only where the {name} has this in it")
    given = options.parse_args()
    for run in read_runs(*given.log):
        if given.part in run.part and given.arm in run.arm and given.task in run.task:
            print(told(run), end="\n\n")


if __name__ == "__main__":
    main()
