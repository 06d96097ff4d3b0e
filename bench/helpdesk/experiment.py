"""The experiment: does a playbook make later runs shorter, and what of it does?

    python -m bench.helpdesk [--short] [--model NAME] [--taught-by FOLDER] [--out FOLDER]

A playbook is taught on training questions; then the held-out questions, which share neither subject nor
wording with them, are asked in several arms. Every arm has the same model, temperature, seed, tools and
limit, and differs in the advice alone:

    baseline      none
    learned       what the playbook retrieves
    random        a bullet of the same playbook, drawn by lot
    no-curator    every single run's lesson as it came, neither merged nor counted
    no-reflector  lessons of all runs, whether they had succeeded or not
    stand-in      what the playbook retrieves, while a service that it names is down

The transcript of every run is kept, one file an arm. An experiment that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from wesichain.core import ToolCallingLlm, from_plain, to_plain
from wesichain.learning import (
    Feedback,
    GroundedReflector,
    Playbook,
    PlaybookBullet,
    ReActGenerator,
    SemanticCurator,
    TaskOutput,
)
from wesichain.learning.embedders import Embedder

from .tasks import INTENTS, Case, cases
from .world import Desk, World

Form: TypeAlias = Literal["full", "short", "transfer"]
LIMIT = 10
TRAINING_LIMIT = 20  # a way has to be found once before it can be taught
SHORT = ("contact", "policy")
ABLATIONS = ("random", "no-curator", "no-reflector")
TAUGHT = ("learned", "no-curator", "no-reflector")
# kind of question -> the service that is down, and the one that stands in for it
STAND_INS = {
    "owes": {"birch": "cobalt"},
    "contact": {"ember": "cobalt"},
    "due": {"heron": "garnet"},
    "phone": {"iris": "garnet"},
    "supplier": {"maple": "larch"},
}


@dataclass(frozen=True, slots=True)
class Result:
    """One question in one arm."""

    arm: str
    task: str
    right: bool
    iterations: int
    best: int
    tokens: int
    seconds: float
    shown: tuple[str, ...]


class Experiment:
    """Teaches, then asks the held-out questions in the arms; `folder` keeps everything."""

    def __init__(
        self, llm: ToolCallingLlm, world: World, folder: Path, *, embedder: Embedder | None = None
    ) -> None:
        self._folder = folder
        self._llm = llm
        self._desk = Desk(world)
        self._tools = self._desk.tools()
        folder.mkdir(parents=True, exist_ok=True)
        self._playbooks = {arm: Playbook.open(folder / "playbooks" / arm, embedder) for arm in TAUGHT}

    async def teach(self, train: Sequence[Case]) -> None:
        """Solve the training questions, each with what is known so far, and learn from it."""
        reflector, curator = GroundedReflector(trim=True), SemanticCurator()
        done = outputs(self._folder / "train.jsonl")
        for case in train:
            output = done.get(case.task.task_id) or await self.ask("train", case)
            honest = reflector.reflect(case.task, output, case.feedback)  # merging it again changes nothing
            curator.merge(self._playbooks["learned"], honest)
            gullible = reflector.reflect(case.task, output, Feedback(label=True))
            curator.merge(self._playbooks["no-reflector"], gullible)
            for number, bullet in enumerate(honest.proposals):
                single = replace(bullet, id=f"{case.task.task_id}-{number}")
                kept = self._playbooks["no-curator"].record(single, domain=case.task.domain)
                self._playbooks["no-curator"].promote(kept.id, force=True, domain=case.task.domain)

    async def test(self, arms: Sequence[str], held_out: Sequence[Case]) -> None:
        """Ask every question in every arm, one after the other; nothing is learned from them."""
        done = {arm: outputs(self._folder / f"{arm}.jsonl") for arm in arms}
        for case in held_out:
            for arm in arms:
                if case.task.task_id not in done[arm]:
                    await self.ask(arm, case)

    async def ask(self, arm: str, case: Case) -> TaskOutput:
        """One question in one arm, and its transcript."""
        self._desk.serve(case.answer, down=STAND_INS[case.intent] if arm == "stand-in" else None)
        generator = ReActGenerator(
            self._llm,
            self._tools,
            playbook=self._playbooks.get("learned" if arm in ("train", "stand-in") else arm),
            max_iters=TRAINING_LIMIT if arm == "train" else LIMIT,
            k=1,
            exclude_after=None,  # the student leaves out what has failed, and keeps the model's cache
        )
        drawn = self._drawn(case) if arm == "random" else ()
        output = await generator.forward(replace(case.task, playbook_bullets=drawn))
        self._keep(arm, case, output)
        return output

    def close(self) -> None:
        for playbook in self._playbooks.values():
            playbook.close()

    def _drawn(self, case: Case) -> tuple[PlaybookBullet, ...]:
        learned = self._playbooks["learned"]
        every = [bullet for domain in learned.domains() for bullet in learned.bullets(domain)]
        visible = sorted((bullet for bullet in every if bullet.stage in ("staging", "prod")), key=_id)
        return (random.Random(case.task.task_id).choice(visible),) if visible else ()

    def _keep(self, arm: str, case: Case, output: TaskOutput) -> None:
        notes = output.metadata
        result = Result(
            arm,
            case.task.task_id,
            case.feedback.judge(output)[0] == "success",
            output.total_iterations,
            case.best,
            notes["input_tokens"] + notes["output_tokens"],
            notes["seconds"],
            tuple(notes["shown"]),
        )
        row = {"question": case.task.description, "expected": case.answer, "output": to_plain(output)}
        with (self._folder / f"{arm}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result) | row) + "\n")
        verdict = "right" if result.right else "not solved"
        progress = f"{arm:<12} {result.task:<20} {verdict} after {result.iterations}, {result.seconds:.0f} s"
        print(progress, file=sys.stderr, flush=True)


async def run(experiment: Experiment, world: World, *, form: Form = "full") -> None:
    """The whole experiment; "short" has two kinds of questions and two arms, "transfer" two arms."""
    intents = [intent for intent in INTENTS if form != "short" or intent.name in SHORT]
    await experiment.teach(cases(world, "train", each=4 if form == "short" else 5, intents=intents))
    numbered = cases(world, "held_out", each=6, intents=intents)
    for number in range(4 if form == "full" else 2):  # in rounds: what is cut short has something of each
        await experiment.test(("baseline", "learned"), _some(numbered, number))
    for number in range(2 if form == "full" else 0):
        await experiment.test(ABLATIONS, _some(numbered, number))
        spare = _some(numbered, 4 + number)
        await experiment.test(["stand-in"], [case for case in spare if case.intent in STAND_INS])


def rows(path: Path) -> list[Mapping[str, Any]]:
    """The runs of an arm; a line that was cut off when the experiment was stopped is not one."""
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in whole]


def outputs(path: Path) -> dict[str, TaskOutput]:
    return {str(row["task"]): from_plain(TaskOutput, row["output"]) for row in rows(path)}


def results(folder: Path) -> list[Result]:
    """Everything that an experiment has found so far."""
    names = [field.name for field in fields(Result)]
    found = [row for path in sorted(folder.glob("*.jsonl")) for row in rows(path)]
    return [Result(**{name: row[name] for name in names}) for row in found]


def _some(found: Sequence[Case], *numbers: int) -> list[Case]:
    """The cases with these numbers, of every kind."""
    return [case for case in found if int(case.task.task_id.rpartition("-")[2]) in numbers]


def _id(bullet: PlaybookBullet) -> str:
    return bullet.id
