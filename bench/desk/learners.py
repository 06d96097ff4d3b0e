"""The arms that learn: the product's own playbook and learner, taught by the runs of one desk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from wesichain.core import (
    LlmRequest,
    LlmResponse,
    Strategy,
    StrategySource,
    ToolCallingLlm,
    ToolSpec,
    advise,
    from_json,
    to_json,
)
from wesichain.learning import (
    Embedder,
    Feedback,
    GroundedReflector,
    Learner,
    ModelReflector,
    Playbook,
    PlaybookBullet,
    TaskInput,
    TaskOutput,
)
from wesichain.learning.lessons import applied

from .arms import instructions
from .experiment import Pupil
from .models import Models
from .plan import OUR_EXAMPLES, SETTLED, UNLISTED, Label
from .play import Seat
from .values import Desk, Task

DOMAIN = "desk"


class Counting:
    """A model that counts the tokens it is asked for: what learning costs."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self.model = models.name
        self.traits = models.traits
        self.read = self.written = 0

    async def complete(self, request: LlmRequest) -> LlmResponse:
        async with self._models.one(training=True) as llm:
            reply = await llm.complete(request)
        self.read += reply.usage.input_tokens
        self.written += reply.usage.output_tokens
        return reply


class Advised:
    """An arm that is told something from earlier runs, in the way that every kind of run is."""

    def __init__(self, source: StrategySource, place: str) -> None:
        self._source = source
        self._place = place

    async def seat(self, llm: ToolCallingLlm, desk: Desk, task: Task) -> Seat:
        run_id = sha256(f"{self._place}/{task.id}".encode()).hexdigest()[:32]
        specs = [ToolSpec(tool.name, tool.description, tool.schema) for tool in desk.tools]
        advice = await advise(self._source, task.question, run_id=run_id, domain=DOMAIN, tools=specs)
        if advice.trouble:
            raise RuntimeError(f"the playbook of {self._place} gave no advice: {advice.trouble}")
        return Seat(llm, instructions(desk), advice, run_id)


class Taught(Advised):
    """A playbook in a folder, and the learner that writes it."""

    def __init__(self, playbook: Playbook, learner: Learner, counting: Counting | None, place: str) -> None:
        super().__init__(playbook, place)
        self._playbook = playbook
        self._learner = learner
        self._counting = counting

    async def learn(self, task: Task, question: str, output: TaskOutput, label: Label) -> None:
        given = TaskInput(task.id, question, domain=DOMAIN)
        self._learner.submit(output, feedback=Feedback(label=label.good, why=label.why), task=given)

    async def settle(self) -> dict[str, Any]:
        await self._learner.drain()
        stages = [bullet.stage for bullet in self._playbook.bullets(DOMAIN)]
        told: dict[str, Any] = {stage: stages.count(stage) for stage in sorted(set(stages))}
        if self._counting is not None:
            told |= {"read": self._counting.read, "written": self._counting.written}
        return told

    def close(self) -> None:
        self._playbook.close()


class Retold(Taught):
    """The same, but every rule has the example that it is kept with, whatever the task's own values are."""

    @override
    async def seat(self, llm: ToolCallingLlm, desk: Desk, task: Task) -> Seat:
        seat = await super().seat(llm, desk, task)
        kept = {bullet.id: bullet for bullet in self._playbook.bullets(DOMAIN)}
        heading, *lines = seat.advice.text.split("\n")
        retold = [
            f"- {kept[known].text}" if kept[known].lesson and not kept[known].condition else line
            for known, line in zip(seat.advice.shown, lines, strict=True)
        ]
        return replace(seat, advice=replace(seat.advice, text="\n".join([heading, *retold])))


class Unlisted(Taught):
    """The same, but the tools that advice names stand where they always do."""

    @override
    async def seat(self, llm: ToolCallingLlm, desk: Desk, task: Task) -> Seat:
        seat = await super().seat(llm, desk, task)
        return replace(seat, advice=replace(seat.advice, tools=()))


_RETOLD: dict[str, type[Taught]] = {OUR_EXAMPLES: Retold, UNLISTED: Unlisted}


class AsTheyCame(Advised, StrategySource):
    """Every lesson of every run, found by its question alone: nothing is joined, counted or compared."""

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        super().__init__(self, str(folder))
        self._embedder = embedder
        self._reflector = GroundedReflector()
        self._file = folder / "lessons.jsonl"
        self._lessons: list[PlaybookBullet] = []
        self._rows: list[Any] = []
        folder.mkdir(parents=True, exist_ok=True)
        if self._file.exists():
            for line in self._file.read_text().splitlines():
                self._keep(from_json(PlaybookBullet, line))

    @override
    def retrieve(self, task: str, *, domain: str, k: int = 3) -> Sequence[Strategy]:
        if not self._lessons:
            return ()
        likeness = np.stack(self._rows) @ self._embedder.embed([task])[0]
        nearest = np.argsort(-likeness.round(5), kind="stable")[:k]  # equals as they came, on every machine
        found = [self._lessons[int(place)] for place in nearest]
        return [
            Strategy(
                item.id, applied(item.text, task), item.section, () if item.lesson else item.tool_sequence
            )
            for item in found
        ]

    async def learn(self, task: Task, question: str, output: TaskOutput, label: Label) -> None:
        given = TaskInput(task.id, question, domain=DOMAIN)
        feedback = Feedback(label=label.good, why=label.why)
        found = self._reflector.reflect(given, output, feedback).proposals
        with self._file.open("a") as file:
            for lesson in found:
                file.write(to_json(lesson) + "\n")
                await asyncio.to_thread(self._keep, lesson)

    async def settle(self) -> dict[str, Any]:
        return {"lessons": len(self._lessons)}

    def close(self) -> None:
        self._lessons.clear()

    def _keep(self, lesson: PlaybookBullet) -> None:
        self._lessons.append(lesson)
        self._rows.append(self._embedder.embed([lesson.example_task or lesson.content])[0])


class Teachers:
    """Makes the pupils of the arms; one embedder and one set of models serve them all."""

    def __init__(self, embedder: Embedder, models: Models) -> None:
        self._embedder = embedder
        self._models = models

    @property
    def embedder(self) -> Embedder:
        return self._embedder

    def pupil(self, arm: str, folder: Path) -> Pupil:
        if arm == "as-they-came":
            return AsTheyCame(folder, self._embedder)
        if arm in ("rules", *_RETOLD, *SETTLED.values()):  # on trial or trusted: shown to every run
            playbook = Playbook.open(folder, self._embedder, sync=False, explore=1.0, holdback=0.0)
            kind = _RETOLD.get(arm, Taught)
            return kind(playbook, Learner(playbook=playbook), None, str(folder))
        playbook = Playbook.open(folder, self._embedder, sync=False)
        if arm == "full":
            return Taught(playbook, Learner(playbook=playbook), None, str(folder))
        counting = Counting(self._models)
        learner = Learner(playbook=playbook, reflector=ModelReflector(counting))
        return Taught(playbook, learner, counting, str(folder))
