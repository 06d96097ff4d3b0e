"""The harness: every arm in every world, each run a line of a log; what is in the log is not run again."""

from __future__ import annotations

import asyncio
import gzip
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

from wesichain.agent import Agent
from wesichain.core import ToolCallingLlm, from_json, to_json
from wesichain.core.internal import dump_json, is_object
from wesichain.evals import Case, improve
from wesichain.learning import (
    Embedder,
    Learner,
    ModelReflector,
    Playbook,
    PlaybookBullet,
    TaskOutput,
    ToolCallingStrategy,
    ToolInvocation,
)
from wesichain.policy import Budget, ObserveErrors
from wesichain.store import append_line

from .world import World, WorldTask

ARMS = (
    "plain",
    "manual",
    "owner",
    "worded",
    "learned-a",
    "learned-a-user",
    "learned-b",
    "learned-b-owner",
    "learned-c",
    "as-they-came",
    "improve",
    "dice",
)
LEARNED = "learned-"  # and behind it the kind of feedback
BASE = "You do what you are asked with the tools that you have, and then say in one sentence what you did."
SEARCH = f"{BASE} Where a tool refuses, call another one, until one of them has done it."


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run: where, in which arm, on which task, and what came of it."""

    world: str
    family: str
    part: str
    arm: str
    phase: str  # training, held-out
    task: str
    solved: bool
    steps: int
    tokens: int
    learning_tokens: int = 0
    shown: tuple[str, ...] = ()  # ids of bullets
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LessonLine:
    """A bullet as it stood after the training of an arm."""

    world: str
    arm: str
    id: str
    content: str
    author: str
    stage: str
    helpful: int
    harmful: int
    given_by: int  # runs


class Log:
    """A file of runs, and beside it one of the lessons that were learned; a packed one is only read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        data = path.read_bytes() if path.exists() else b""
        lines = (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()
        self.lines = [from_json(RunLine, line) for line in lines]

    def has(self, world: str, arm: str, task: str) -> bool:
        return any(
            (one.world, one.arm, one.task, one.phase) == (world, arm, task, "held-out") for one in self.lines
        )

    def add(self, line: RunLine) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        append_line(self._path, to_json(line).encode())
        self.lines.append(line)

    def add_lessons(self, world: str, arm: str, book: Playbook) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        for one in book.bullets("general"):
            line = LessonLine(
                world,
                arm,
                one.id,
                one.content,
                one.provenance.author,
                one.stage,
                one.helpful_count,
                one.harmful_count,
                len(one.sources),
            )
            append_line(self._path.with_suffix(".lessons.jsonl"), to_json(line).encode())


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: with which model, over how many tasks, how many at once."""

    llm: ToolCallingLlm
    training: int = 24
    held_out: int = 24
    passes: int = 1  # over the training tasks, each time as new runs
    at_once: int = 8
    embedder: Embedder | None = None
    improve_runs: int = 120
    prompt: Path | None = None  # the reflector's; the product's own unless given


async def play(world: World, arm: str, plan: Plan, *, log: Log, others: Sequence[World] = ()) -> None:
    """Train an arm in a world where it learns, then run the held-out tasks."""
    training, held_out = world.tasks(training=plan.training, held_out=plan.held_out)
    left = [task for task in held_out if not log.has(world.name, arm, task.id)]
    if not left:
        return
    with tempfile.TemporaryDirectory() as folder, closing(Playbook.open(folder, plan.embedder)) as book:
        agent = await _agent(world, arm, plan, book=book, log=log, training=training, others=others)
        gate = asyncio.Semaphore(plan.at_once)

        async def one(task: WorldTask) -> None:
            async with gate:
                log.add(await run(agent, world, arm, task, phase="held-out"))

        await asyncio.gather(*map(one, left))


async def run(
    agent: Agent[Any, str],
    world: World,
    arm: str,
    task: WorldTask,
    *,
    phase: str,
    then: Callable[..., Awaitable[int]] | None = None,
) -> RunLine:
    """Run one task, and learn from it where `then` is given."""
    run_id = uuid4().hex
    outcome = await agent.outcome(task.text, run_id=run_id)
    spent = await then(outcome, run_id, task) if then is not None else 0
    shown = [
        name for event in outcome.events if event.kind == "advice_shown" for name in getattr(event, "ids", ())
    ]
    return RunLine(
        world.name,
        world.family,
        world.part,
        arm,
        phase,
        task.id,
        world.is_solved(run_id, task),
        outcome.step,
        outcome.usage.total_tokens,
        spent,
        tuple(shown),
        tuple(map(_line, _calls(outcome))),
    )


def _calls(outcome: Any) -> Iterator[ToolInvocation]:
    for step in TaskOutput.of(outcome).structured_trace:
        yield from step.calls


def _line(call: ToolInvocation) -> str:
    came = "ok" if call.success else f"refused: {call.error_message}"
    return f"{call.tool_name} {dump_json(call.arguments)} {came}"


async def _agent(
    world: World,
    arm: str,
    plan: Plan,
    *,
    book: Playbook,
    log: Log,
    training: Sequence[WorldTask],
    others: Sequence[World],
) -> Agent[Any, str]:
    """The agent of an arm, ready for the held-out tasks."""
    if arm == "manual":
        return _made(
            world, plan, "\n".join([_base(world), "Rules:", *(f"- {one}" for one in world.sentences)])
        )
    if arm == "improve":
        return await _improved(world, plan, training)
    agent = _made(world, plan, _base(world), book)
    if arm in ("owner", "worded"):
        _record(book, world, world.sentences if arm == "owner" else world.worded)
    elif arm == "dice":
        pool = [text for other in others if other.name != world.name for text in other.sentences]
        chosen = Random(world.name).sample(pool, k=min(len(pool), len(world.sentences)))
        book.record_all([PlaybookBullet(content=text, ruling="owner") for text in chosen], domain="general")
    elif arm.startswith(LEARNED) or arm == "as-they-came":
        await _train(world, arm, plan, agent, book=book, log=log, training=training)
    return agent if arm != "plain" else _made(world, plan, _base(world))


def _base(world: World) -> str:
    return SEARCH if world.part == "search" else BASE


def _made(
    world: World,
    plan: Plan,
    instructions: str,
    book: Playbook | None = None,
    *,
    descriptions: Mapping[str, str] | None = None,
) -> Agent[Any, str]:
    return Agent(
        plan.llm,
        tools=world.tools(descriptions),
        instructions=instructions,
        budget=Budget(steps=5),
        on_limit="partial",
        policy=ObserveErrors(),
        playbook=book,
    )


def _record(book: Playbook, world: World, sentences: Sequence[str]) -> None:
    tools = [tool.name for tool in world.tools()]
    for text in sentences:
        named = tuple(name for name in tools if name in text)
        kind = ToolCallingStrategy if named else PlaybookBullet
        book.record(kind(content=text, tool_sequence=named, lesson="argument"), domain="general")


async def _train(
    world: World,
    arm: str,
    plan: Plan,
    agent: Agent[Any, str],
    *,
    book: Playbook,
    log: Log,
    training: Sequence[WorldTask],
) -> None:
    """Run the training tasks one after the other, each with what those before it have taught."""
    given = ModelReflector(plan.llm, prompt=plan.prompt) if plan.prompt else None
    learner = Learner(playbook=book, llm=plan.llm, reflector=given)
    reflector: Any = learner.reflector

    async def learn(outcome: Any, run_id: str, task: WorldTask) -> int:
        before = getattr(reflector, "spent_tokens", 0)
        if arm == "as-they-came":
            if not world.is_solved(run_id, task):
                text = f"For '{task.text}': {world.difference(run_id, task)}"
                book.record(
                    PlaybookBullet(content=text, example_task=task.text, lesson="argument"), domain="general"
                )
            return 0
        made = [(call.tool_name, call.arguments) for call in _calls(outcome) if is_object(call.arguments)]
        learner.submit(outcome, feedback=world.feedback(arm.removeprefix(LEARNED), run_id, task, made))
        await learner.drain()
        return int(getattr(reflector, "spent_tokens", 0) - before)

    for task in [*training] * plan.passes:
        log.add(await run(agent, world, arm, task, phase="training", then=learn))
    log.add_lessons(world.name, arm, book)


async def _improved(world: World, plan: Plan, training: Sequence[WorldTask]) -> Agent[Any, str]:
    """The agent with the texts that `improve` found over the training tasks, whatever its gate says."""
    by_id = {task.id: task for task in training}

    def check(case: Case, done: Any) -> bool | str:
        solved = world.is_solved(done.run_id, by_id[case.id])
        return solved or world.difference(done.run_id, by_id[case.id])

    cases = [Case(task.id, task.text) for task in training]
    agent = _made(world, plan, _base(world))
    found = await improve(agent, cases, checks=[check], budget=plan.improve_runs, at_once=plan.at_once)
    return _made(world, plan, found.instructions or _base(world), descriptions=found.tools)
