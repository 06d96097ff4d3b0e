"""`python -m bench.desk.offline LOG`: what a learner would advise after recorded runs, without any model.

The plain training runs of a log teach each arm anew; then it is asked for advice on every held-out search
task. Counted is whether the advice names the only tool that can help: a figure that a change of the learner
can be held to in a minute, before anybody pays for runs.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from wesichain.learning.embedders.use import UseEmbedder

from .dice import Dice
from .learners import Teachers
from .models import Models
from .plan import OFFLINE_ARMS, Part, asked, label
from .play import Played, output_of
from .report import SAID
from .sections import said_of
from .store import read_runs
from .values import Desk, Goal, Task
from .world import ROUNDS, SECOND, Round, build


async def advice_after(
    taught: Sequence[Played], desk: Desk, arm: str, part: Part, *, teachers: Teachers, folder: Path
) -> Counter[str]:
    """What the arm says about the held-out tasks of a desk of search, taught by these runs."""
    pupil = teachers.pupil(arm, folder)
    try:
        for run in taught:
            task = Task(run.task, run.desk, run.family, run.question, Goal())
            told = label(part, task, success=run.success, why=run.why)
            await pupil.learn(task, asked(part, task), output_of(run, desk), told)
            await pupil.settle()
        found: Counter[str] = Counter()
        for task in desk.test:
            seat = await pupil.seat(Dice("nobody"), desk, task)
            found[said_of(seat.advice.text, task.id.split("/")[0], task.family)] += 1
        return found
    finally:
        pupil.close()


def taught_by(runs: Sequence[Played], desk: Desk, *, pilot: bool) -> list[Played]:
    """The plain training runs of a desk in their order; of the pilot, its own test runs."""
    if not pilot:
        known = {run.task: run for run in runs if run.part == "plain-train"}
        return [known[task.id] for task in desk.train if task.id in known]
    trained = {family.name for family in desk.families if family.trained}
    made = [
        run
        for run in runs
        if run.part.startswith("pilot2-") and run.arm == "baseline" and run.world == SECOND.pilot
        if run.desk == desk.name and run.family in trained
    ]
    random.Random(0).shuffle(made)
    return made


async def _count(logs: Sequence[Path], parts: Sequence[Part], here: Round, *, pilot: bool) -> None:
    runs = list(read_runs(*logs))
    teachers = Teachers(UseEmbedder(), Models([Dice("nobody")]))
    print(f"{'labels':<12}{'arm':<16}" + "".join(f"{kind:>8}" for kind in SAID))
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            for arm in OFFLINE_ARMS:
                total: Counter[str] = Counter()
                for world in [SECOND.pilot] if pilot else here.worlds:
                    desk = build(world, level=2).desks[-1]
                    taught = taught_by(runs, desk, pilot=pilot)
                    place = Path(folder) / part / arm / world
                    if taught:
                        total += await advice_after(taught, desk, arm, part, teachers=teachers, folder=place)
                print(f"{part:<12}{arm:<16}" + "".join(f"{total[kind]:>8}" for kind in SAID), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m bench.desk.offline", description=__doc__)
    options.add_argument("log", type=Path, nargs="+")
    options.add_argument("--pilot", action="store_true", help="the pilot's world and runs: what to tune on")
    options.add_argument("--round", default="second", choices=ROUNDS, help="whose runs the log has")
    given = options.parse_args()
    asyncio.run(_count(given.log, ("main", "noise"), ROUNDS[given.round], pilot=given.pilot))


if __name__ == "__main__":
    main()
