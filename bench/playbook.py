"""The cost of the playbook by size: retrieving a strategy, recording a run, opening.

    python bench/playbook.py [--sizes 1000,10000,100000]

Retrieval includes embedding the task with the default embedder. The playbook is filled with random
vectors in place of embedded texts: what a search costs depends on their number, not on their meaning,
and embedding 100,000 texts takes minutes. Every figure is a median, as CPU and as wall time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from wesichain.learning import Feedback, GroundedReflector, Playbook, SemanticCurator, TaskInput, TaskOutput
from wesichain.learning.embedders import Vectors
from wesichain.learning.entities.bullets import ToolCallingStrategy
from wesichain.learning.entities.steps import ReasoningStep
from wesichain.learning.use_embedder import UseEmbedder

QUESTIONS = [
    "What does customer {} still have to pay?",
    "Where is the parcel of order {} right now?",
    "Reset the password of the account {} and unlock it",
    "Which contract does the site in building {} have?",
    "How many days of leave has employee {} left this year?",
]
WHERE = {"success_rate": {"$gte": 0.8}, "has_tool_sequence": True, "tool_count": {"$lte": 3}}


class Filler:
    """The default embedder for questions; random unit vectors for the texts of the playbook."""

    name, dimension = UseEmbedder.name, UseEmbedder.dimension

    def __init__(self) -> None:
        self._real = UseEmbedder()
        self._chance = np.random.default_rng(0)

    def embed(self, texts: Sequence[str]) -> Vectors:
        if not texts[0].startswith("filler"):
            return self._real.embed(texts)
        rows = self._chance.standard_normal((len(texts), self.dimension), dtype=np.float32)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def fill(book: Playbook, size: int) -> None:
    for start in range(0, size, 1000):
        bullets = [
            ToolCallingStrategy(
                f"b{number}",
                f"For tasks of kind {number}, call a first, then b.",
                tool_sequence=("a", "b", "c")[: 1 + number % 3],
                helpful_count=number % 8,
                harmful_count=number % 2,
                example_task=f"filler {number}",
            )
            for number in range(start, min(size, start + 1000))
        ]
        book.record_all(bullets, domain="shop")


def median(act: Callable[[int], object], *, times: int) -> tuple[float, float]:
    """CPU and wall milliseconds of an operation."""
    cpu, wall = list[float](), list[float]()
    for number in range(times):
        began = (time.process_time(), time.perf_counter())
        act(number)
        cpu.append(time.process_time() - began[0])
        wall.append(time.perf_counter() - began[1])
    return float(np.median(cpu)) * 1000, float(np.median(wall)) * 1000


def run(number: int) -> tuple[TaskInput, TaskOutput]:
    task = TaskInput(f"t{number}", QUESTIONS[number % 5].format(number), domain="shop")
    end = ReasoningStep(2, "Done.", "finish", observation="42")
    steps = [ReasoningStep(1, "Look.", "call_tool", "a", {}), end]
    return task, TaskOutput(task.task_id, "42", structured_trace=tuple(steps), total_iterations=2)


def measure(size: int, folder: Path) -> list[tuple[str, tuple[float, float]]]:
    """The figures of a playbook with a number of bullets in one domain."""
    embedder = Filler()
    reflector, curator = GroundedReflector(), SemanticCurator()
    with Playbook.open(folder, embedder) as book:
        fill(book, size)
        book.retrieve("Warm up.", domain="shop")

        def record(number: int) -> None:
            book.record(ToolCallingStrategy(content=f"Do {number}.", tool_sequence=("a",)), domain="shop")

        def learn(number: int) -> None:
            curator.merge(book, reflector.reflect(*run(number), Feedback(label=True)))

        def ask(number: int, **options: object) -> object:
            task = f"{QUESTIONS[number % 5]} {'please ' * (number // 5)}"
            return book.retrieve(task, domain="shop", **options)  # type: ignore[arg-type]  # a table of options

        rows = [
            ("embed a task", median(lambda number: embedder.embed([QUESTIONS[number % 5]]), times=40)),
            ("retrieve", median(ask, times=40)),
            ("retrieve, filtered", median(lambda n: ask(n + 40, where=WHERE), times=40)),
            ("record a bullet", median(record, times=40)),
            ("reflect and merge a run", median(learn, times=40)),
        ]

    def reopen(_: int) -> None:
        with Playbook.open(folder, embedder) as again:
            again.retrieve("Warm up.", domain="shop")

    return [*rows, ("open and retrieve", median(reopen, times=3))]


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--sizes", default="1000,10000,100000")
    sizes = [int(size) for size in options.parse_args().sizes.split(",")]
    print(f"{'bullets':>8}  {'what':<24} {'CPU ms':>9} {'wall ms':>9}")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            for what, (cpu, wall) in measure(size, Path(folder) / "book"):
                print(f"{size:>8}  {what:<24} {cpu:>9.2f} {wall:>9.2f}")


if __name__ == "__main__":
    main()
