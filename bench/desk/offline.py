"""`python -m bench.desk.offline LOG`: what a learner would advise after recorded runs, without any model.

The plain training runs of a log teach each arm anew; then it is asked for advice on every held-out search
task. Counted is whether the advice names the only tool that can help: a figure that a change of the learner
can be held to in a minute, before anybody pays for runs.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wesichain.learning import ReasoningStep, TaskOutput, ToolInvocation
from wesichain.learning.embedders.use import UseEmbedder

from .dice import Dice
from .learners import Teachers
from .models import Models
from .plan import OFFLINE_ARMS, Part, asked, label
from .play import Played
from .report import SAID, said_of
from .store import read_runs
from .values import Desk
from .world import WORLDS, build


def output_of(run: Played) -> TaskOutput:
    """A recorded run as a learner takes it."""
    steps: list[ReasoningStep] = []
    for call in (call for call in run.calls if "tool" in call):
        name, error = call["tool"], call.get("error")
        made = ToolInvocation(name, call["args"], call.get("result"), error is None, error)
        number = len(steps) + 1
        steps.append(
            ReasoningStep(number, f"call {name}", "call_tool", name, call["args"], invocations=(made,))
        )
    if run.ended == "completed":
        steps.append(ReasoningStep(len(steps) + 1, "answer", "finish", observation=run.answer))
    notes: dict[str, Any] = {"run_id": f"{run.arm}/{run.task}", "task": run.question, "shown": [], "held": []}
    return TaskOutput(
        run.task,
        run.answer,
        metadata=notes if run.ended == "completed" else {**notes, "error": run.ended},
        structured_trace=tuple(steps),
        tools_used=tuple(dict.fromkeys(call["tool"] for call in run.calls if "tool" in call)),
        total_iterations=len(steps),
    )


async def advice_after(
    runs: Sequence[Played], desk: Desk, arm: str, part: Part, *, teachers: Teachers, folder: Path
) -> Counter[str]:
    """What the arm says about the held-out tasks of a desk of search, taught by these runs."""
    known = {run.task: run for run in runs}
    pupil = teachers.pupil(arm, folder)
    try:
        for task in desk.train:
            if run := known.get(task.id):
                told = label(part, task, success=run.success, why=run.why)
                await pupil.learn(task, asked(part, task), output_of(run), told)
                await pupil.settle()
        found: Counter[str] = Counter()
        for task in desk.test:
            seat = await pupil.seat(Dice("nobody"), desk, task)
            found[said_of(seat.advice.text, task.id.split("/")[0], task.family)] += 1
        return found
    finally:
        pupil.close()


async def _count(logs: Sequence[Path], parts: Sequence[Part]) -> None:
    runs = [run for run in read_runs(*logs) if run.part == "plain-train"]
    teachers = Teachers(UseEmbedder(), Models([Dice("nobody")]))
    print(f"{'labels':<12}{'arm':<16}" + "".join(f"{kind:>8}" for kind in SAID))
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            for arm in OFFLINE_ARMS:
                total: Counter[str] = Counter()
                for world in WORLDS:
                    desk = build(world, level=2).desks[-1]
                    place = Path(folder) / part / arm / world
                    total += await advice_after(runs, desk, arm, part, teachers=teachers, folder=place)
                print(f"{part:<12}{arm:<16}" + "".join(f"{total[kind]:>8}" for kind in SAID), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m bench.desk.offline", description=__doc__)
    options.add_argument("log", type=Path, nargs="+")
    asyncio.run(_count(options.parse_args().log, ("main", "noise")))


if __name__ == "__main__":
    main()
