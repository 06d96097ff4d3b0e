"""The experiment: does a playbook make later runs shorter, and what of it does?

    python -m bench.helpdesk.experiment --model local:qwen2.5-coder-0.5b [--short] [--out FOLDER]

A playbook is taught on training questions; then the held-out questions, which share neither subject nor
wording with them, are asked in several arms. Every arm has the same model, temperature, seed, tools and
limits, and differs in the advice alone:

    baseline      none
    learned       what the playbook retrieves
    random        bullets of the same playbook, drawn by lot
    no-curator    every single run's lesson as it came, neither merged nor counted
    no-reflector  lessons of all runs, whether they had succeeded or not

A run that does not give the right answer counts as having used up its limit: an early wrong answer is not
a quick one. Figures come with 95 % bootstrap intervals; the transcript of every run is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from wesichain.agent import resolve_model
from wesichain.core import Message, Role, ToolCall, ToolCallingLlm, to_plain
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
from .world import World, build

INSTRUCTIONS = (
    "Answer the question with the services. A result like A1234 or P12345 is the key for another service. "
    "If a result does not answer the question, try another service."
)
# Two solved questions of kinds that are never asked: how a way ends is what small models get wrong.
EXAMPLES = (
    Message(Role.USER, "Does Old Harbour get the newsletter?"),
    Message(Role.ASSISTANT, tool_calls=(ToolCall("", "opal", {"key": "Old Harbour"}),)),
    Message(Role.TOOL, "yes"),
    Message(Role.ASSISTANT, "yes"),
    Message(
        Role.USER, "What is the rating of New Harbour?\n\nFor rating questions, call amber first, then rowan."
    ),
    Message(Role.ASSISTANT, tool_calls=(ToolCall("", "amber", {"key": "New Harbour"}),)),
    Message(Role.TOOL, "A9990"),
    Message(Role.ASSISTANT, tool_calls=(ToolCall("", "rowan", {"key": "A9990"}),)),
    Message(Role.TOOL, "fair"),
    Message(Role.ASSISTANT, "fair"),
)
SHORT = ("owes", "where", "price", "policy")
ARMS = ("baseline", "learned", "random", "no-curator", "no-reflector")


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same in every arm. `k`: sentences of advice at most."""

    llm: ToolCallingLlm
    world: World
    limit: int = 10
    k: int = 1

    def generator(self, playbook: Playbook | None = None) -> ReActGenerator:
        return ReActGenerator(
            self.llm,
            self.world.tools(),
            playbook=playbook,
            max_iters=self.limit,
            k=self.k,
            instructions=INSTRUCTIONS,
            exclude_after=None,  # another list of tools at the head of a prompt empties the model's cache
        )


@dataclass(frozen=True, slots=True)
class Result:
    """One held-out question in one arm. `counted`: iterations, or the limit where the answer is wrong."""

    arm: str
    task: str
    right: bool
    iterations: int
    counted: int
    tokens: int
    seconds: float
    answer: str
    shown: tuple[str, ...]


class Experiment:
    """Teaches once, then asks the held-out questions in every arm."""

    def __init__(self, setting: Setting, folder: Path, *, embedder: Embedder | None = None) -> None:
        self._setting = setting
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        names = {"learned": "learned", "no-curator": "no-curator", "no-reflector": "no-reflector"}
        self.playbooks = {arm: Playbook.open(folder / name, embedder) for arm, name in names.items()}

    async def teach(self, train: Sequence[Case]) -> list[Result]:
        """Solve the training questions with what is known so far, and learn from each."""
        generator = self._setting.generator(self.playbooks["learned"])
        reflector, curator = GroundedReflector(trim=True), SemanticCurator()
        results: list[Result] = []
        for case in train:
            output = await generator.forward(case.task)
            results.append(self._result("train", case, output))
            honest = reflector.reflect(case.task, output, case.feedback)
            curator.merge(self.playbooks["learned"], honest)
            curator.merge(
                self.playbooks["no-reflector"], reflector.reflect(case.task, output, Feedback(label=True))
            )
            for number, bullet in enumerate(honest.proposals):
                kept = self.playbooks["no-curator"].record(
                    replace(bullet, id=f"{case.task.task_id}-{number}"), domain=case.task.domain
                )
                self.playbooks["no-curator"].promote(kept.id, force=True, domain=case.task.domain)
        return results

    async def ask(self, arm: str, held_out: Sequence[Case]) -> list[Result]:
        """Ask the held-out questions in one arm; nothing is learned from them."""
        generator = self._setting.generator(self.playbooks.get(arm))
        lots = self._bullets() if arm == "random" else []
        chance = random.Random(0)
        results: list[Result] = []
        for case in held_out:
            drawn = tuple(chance.sample(lots, min(self._setting.k, len(lots))))
            output = await generator.forward(replace(case.task, playbook_bullets=drawn))
            results.append(self._result(arm, case, output))
        return results

    def close(self) -> None:
        for playbook in self.playbooks.values():
            playbook.close()

    def _bullets(self) -> list[PlaybookBullet]:
        learned = self.playbooks["learned"]
        every = [bullet for domain in learned.domains() for bullet in learned.bullets(domain)]
        return [bullet for bullet in every if bullet.stage in ("staging", "prod")]

    def _result(self, arm: str, case: Case, output: TaskOutput) -> Result:
        right = case.feedback.judge(output)[0] == "success"
        notes = output.metadata
        result = Result(
            arm,
            case.task.task_id,
            right,
            output.total_iterations,
            output.total_iterations if right else self._setting.limit,
            notes["input_tokens"] + notes["output_tokens"],
            notes["seconds"],
            output.answer,
            tuple(notes["shown"]),
        )
        with (self._folder / f"{arm}.jsonl").open("a", encoding="utf-8") as file:
            row = {"question": case.task.description, "expected": case.answer, "output": to_plain(output)}
            file.write(json.dumps(asdict(result) | row) + "\n")
        verdict = "right" if right else "wrong"
        print(f"{arm:<12} {case.task.task_id:<24} {verdict} after {result.iterations}", file=sys.stderr)
        return result


# --- figures ----------------------------------------------------------------------------------------


def interval(values: Sequence[float], *, rounds: int = 2000) -> tuple[float, float, float]:
    """The mean and its 95 % bootstrap interval."""
    data = np.array(values, dtype=np.float64)
    means = data[np.random.default_rng(0).integers(0, len(data), (rounds, len(data)))].mean(axis=1)
    return float(data.mean()), float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def saving(base: Sequence[float], arm: Sequence[float], *, rounds: int = 2000) -> tuple[float, float, float]:
    """By how much the arm is below the baseline, as a share, with its interval; the same tasks in both."""
    pairs = np.array([base, arm], dtype=np.float64)
    drawn = pairs[:, np.random.default_rng(0).integers(0, pairs.shape[1], (rounds, pairs.shape[1]))].mean(
        axis=2
    )
    shares = 1 - drawn[1] / drawn[0]
    whole = 1 - pairs[1].mean() / pairs[0].mean()
    return float(whole), float(np.quantile(shares, 0.025)), float(np.quantile(shares, 0.975))


def report(results: Sequence[Result], held_out: Sequence[Case]) -> str:
    """A table with a row an arm."""
    best = sum(case.best for case in held_out) / len(held_out)
    lines = [
        f"{len(held_out)} held-out questions; the best possible mean is {best:.2f} iterations.",
        "",
        "| arm | iterations | fewer than baseline | right | tokens | seconds |",
        "|---|---|---|---|---|---|",
    ]
    by_arm = {arm: [item for item in results if item.arm == arm] for arm in ARMS}
    base = [item.counted for item in by_arm["baseline"]]
    for arm, items in by_arm.items():
        if not items:
            continue
        mean, low, high = interval([item.counted for item in items])
        less, least, most = (
            saving(base, [item.counted for item in items]) if len(items) == len(base) else (0, 0, 0)
        )
        right, worst, top = interval([item.right for item in items])
        tokens, seconds = (
            interval([item.tokens for item in items])[0],
            interval([item.seconds for item in items])[0],
        )
        lines.append(
            f"| {arm} | {mean:.2f} ({low:.2f} to {high:.2f}) | {less:.0%} ({least:.0%} to {most:.0%}) "
            f"| {right:.0%} ({worst:.0%} to {top:.0%}) | {tokens:.0f} | {seconds:.1f} |"
        )
    return "\n".join(lines)


async def run(setting: Setting, folder: Path, *, short: bool, embedder: Embedder | None = None) -> str:
    """The whole experiment, or its short form: one kind of question a department, two arms."""
    intents = [intent for intent in INTENTS if intent.name in SHORT] if short else INTENTS
    train = cases(setting.world, "train", each=3 if short else 6, intents=intents)
    held_out = cases(setting.world, "held_out", each=2 if short else 4, intents=intents)
    experiment = Experiment(setting, folder, embedder=embedder)
    try:
        await experiment.teach(train)
        results: list[Result] = []
        for arm in ARMS[:2] if short else ARMS:
            results += await experiment.ask(arm, held_out)
    finally:
        experiment.close()
    text = report(results, held_out)
    (folder / "report.md").write_text(text + "\n", encoding="utf-8")
    return text


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--model", default="local:qwen2.5-coder-0.5b")
    options.add_argument("--out", type=Path, default=Path("helpdesk-experiment"))
    options.add_argument("--short", action="store_true")
    given = options.parse_args()
    setting = Setting(model_of(given.model), build(given.out / "world"))
    print(asyncio.run(run(setting, given.out, short=given.short)))


def model_of(name: str) -> ToolCallingLlm:
    """A model by name; a local one with short replies and examples, the same in every arm."""
    if not name.startswith("local:"):
        return resolve_model(name)
    from wesichain.llm.local import LocalLlm

    return LocalLlm(name.removeprefix("local:"), max_tokens=60, examples=EXAMPLES)


if __name__ == "__main__":
    main()
