"""The learner: solve, reflect, curate, gate; over a batch of tasks or beside live traffic.

Learning is off the hot path: a live run is handed over with `submit` and costs its caller nothing more.
One worker does all the writing, in the order in which the runs came in.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from wesichain.agent import Agent, resolve_model
from wesichain.core import ToolCallingLlm, from_json, to_json
from wesichain.errors import CodecError, ConfigError, PlaybookError

from .advising import FLOOR, is_near
from .crediting import earned
from .curator import SemanticCurator
from .entities import (
    Feedback,
    PlaybookBullet,
    PromotionWatch,
    TaskInput,
    TaskOutput,
    fits,
    marks_of,
)
from .gate import NOT_TRIED, Health, RunRecord, Verdict, judge
from .model_reflector import ModelReflector
from .playbook import Playbook
from .reflector import Reflection, RunReader
from .report import LearningSummary, Rollback
from .storage import append, exclusive, read_lines

Judge: TypeAlias = Callable[[TaskInput, TaskOutput], Feedback | bool | None]
FeedbackSource: TypeAlias = (
    Mapping[str, Feedback] | Judge | Feedback | None
)  # by task id, by a function, one for all
Progress: TypeAlias = Callable[[int, int, RunRecord], None]
_ENOUGH = 8  # runs that would have retrieved a bullet, to know how things were before it was let in
_NEAREST = 20  # bullets among which a held-out task has to find one, to be a task for it
_MORE = 5  # runs that follow a bullet which was refused, before it is tried again


class Generator(Protocol):
    """Whoever solves tasks."""

    async def forward(self, task: TaskInput, *, without: Collection[str] = ()) -> TaskOutput: ...


class Reflector(Protocol):
    """Whoever reads what a run teaches; with a model it may take its time."""

    def reflect(
        self, task: TaskInput, output: TaskOutput, feedback: Feedback | None = None
    ) -> Reflection | Awaitable[Reflection]: ...


class Learner:
    """Teaches a playbook from runs: those of a generator, or any that are submitted.

    Lessons are worded by a model: `llm`, or that of the generator or the `agent`. Without any model, only
    owners' words and calls that a run has mended teach, and which tools served which kind of task.
    `holdout` are tasks that nothing is learned from: a bullet enters prod when those that retrieve it do
    not get worse with it. `feedback` judges them, and the runs of which nothing else is said. `log` makes
    a batch resumable: tasks that stand in it are not run again. What was refused and what is under watch is
    kept with the bullets, so that another process goes on with it.
    """

    def __init__(
        self,
        generator: Generator | None = None,
        playbook: Playbook | None = None,
        *,
        llm: ToolCallingLlm | str | None = None,
        agent: Agent[Any, Any] | None = None,
        reflector: Reflector | None = None,
        curator: SemanticCurator | None = None,
        holdout: Sequence[TaskInput] = (),
        feedback: FeedbackSource = None,
        log: str | PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        if playbook is None:
            raise ConfigError("a learner needs a playbook to teach: Learner(playbook=playbook)")
        self._generator = generator
        self._playbook = playbook
        self._reflector: Reflector = reflector or _default_reflector(llm, agent, generator)
        self._curator = curator or SemanticCurator()
        self._holdout = tuple(holdout)
        self._feedback = feedback
        self._log = None if log is None else Path(log)
        self._progress = progress
        self._writing = asyncio.Lock()
        self._pending: set[asyncio.Task[RunRecord]] = set()
        self._waiting: list[Coroutine[Any, Any, RunRecord]] = []  # submitted where no loop was running
        self._summary = LearningSummary()

    @property
    def reflector(self) -> Reflector:
        """The reflector that reads the runs."""
        return self._reflector

    @property
    def summary(self) -> LearningSummary:
        """What was taken in since the last batch began."""
        return self._summary

    async def run(
        self,
        tasks: Sequence[TaskInput],
        *,
        feedback: FeedbackSource | list[Feedback] | tuple[Feedback, ...] = None,
    ) -> LearningSummary:
        """Solve the tasks one after another, each with what those before it have taught; then the gate.

        `feedback` may also be one for each task, in their order.
        """
        _check_ids(tasks, self._holdout)
        if isinstance(feedback, list | tuple):
            each = cast("Sequence[Feedback]", feedback)
            if len(each) != len(tasks):
                raise ConfigError(f"feedback is one for each task; got {len(each)} for {len(tasks)}")
            feedback = {task.task_id: item for task, item in zip(tasks, each, strict=True)}
        self._summary = LearningSummary()
        done = self._resume()
        for number, task in enumerate(tasks, 1):
            record = done.get(task.task_id)
            if record is None:
                output = await self._solver().forward(task)
                record = await self.learn(task, output, feedback=feedback)
                self._keep(record)
            self._summary = self._summary.plus(records=(record,))
            if self._progress is not None:
                self._progress(number, len(tasks), record)
        await self.gate({task.domain for task in tasks})
        return self._summary

    async def learn(
        self, task: TaskInput, output: TaskOutput, *, feedback: FeedbackSource = None
    ) -> RunRecord:
        """Take in one run."""
        async with self._writing:
            known = _feedback(feedback, task, output) or _feedback(self._feedback, task, output)
            found = self._reflector.reflect(task, output, known)
            reflection = found if isinstance(found, Reflection) else await found
            delta = await asyncio.to_thread(self._curator.merge, self._playbook, reflection)
            taken_back = tuple(Rollback(task.domain, name, reason) for name, reason in delta.withdrawn)
            self._summary = self._summary.plus(delta=delta, rollbacks=taken_back)
            return _record(task, output, known)

    def submit(
        self,
        run: object,
        *,
        feedback: FeedbackSource | bool = None,
        task: TaskInput | str | None = None,
        domain: str = "general",
        agent: str | None = None,
    ) -> None:
        """Hand over a run: a result, an outcome of any kind, a recording, or a `TaskOutput`.

        It is learned from in the background; `drain` waits for that. `task` is what was asked, where the run
        does not say it. Of a run that was handed over, `agent` takes the part in which that one acted, as
        `TaskOutput.of` does.
        """
        if isinstance(run, TaskInput):
            raise ConfigError("submit takes the run first: learner.submit(output, task=task, feedback=...)")
        output = TaskOutput.of(run, agent=agent)
        if not isinstance(task, TaskInput):
            asked = task or output.metadata.get("task")
            if not asked:
                raise ConfigError(f"the run {output.task_id!r} does not say what was asked: give task=")
            task = TaskInput(output.task_id, str(asked), domain=domain)
        given = Feedback(label=feedback) if isinstance(feedback, bool) else feedback
        learning = self.learn(task, output, feedback=_feedback(given, task, output))
        try:
            running = asyncio.get_running_loop().create_task(learning)
        except RuntimeError:
            self._waiting.append(learning)
            return
        self._pending.add(running)
        running.add_done_callback(self._pending.discard)

    async def drain(self) -> None:
        """Wait until everything that was submitted is taken in; the first failure is raised."""
        waiting, self._waiting = self._waiting, []
        for learning in waiting:
            await learning
        await asyncio.gather(*self._pending)

    async def gate(self, domains: Collection[str] | None = None) -> Sequence[Verdict]:
        """Try the bullets that have earned prod on the held-out tasks that retrieve them.

        What does no harm is let in, what does is not shown any more; what no task retrieves stays as it is.
        """
        verdicts: list[Verdict] = []
        for domain in sorted(domains or {task.domain for task in self._holdout}):
            for bullet in self._candidates(domain):
                verdict = await self._try(bullet, domain)
                verdicts.append(verdict)
                if verdict.passed:
                    before = _before(bullet, verdict)
                    await asyncio.to_thread(self._let_in, bullet.id, domain, before)
                elif verdict.reason != NOT_TRIED:
                    await asyncio.to_thread(self._playbook.refuse, bullet.id, domain=domain)
        self._summary = self._summary.plus(verdicts=tuple(verdicts))
        return verdicts

    # --- the gate ---

    def _candidates(self, domain: str) -> list[PlaybookBullet]:
        """Bullets whose evidence is good enough for prod and that the gate has not refused as they are."""
        if not any(task.domain == domain for task in self._holdout):
            return []
        return [bullet for bullet in self._playbook.bullets(domain) if _is_candidate(bullet)]

    async def _try(self, bullet: PlaybookBullet, domain: str) -> Verdict:
        """How the held-out tasks go with a bullet and without, those that retrieve it alone."""
        tasks = [task for task in self._holdout if task.domain == domain]
        fitting = [
            replace(task, metadata={**task.metadata, "trial": True})
            for task in tasks
            if await asyncio.to_thread(_finds, self._playbook, bullet.id, task)
        ]
        without = await self._trial(fitting, without=(bullet.id,))
        with_it = await self._trial([replace(task, playbook_bullets=(bullet,)) for task in fitting])
        return judge(bullet.id, without=without, with_it=with_it)

    def _let_in(self, id: str, domain: str, before: PromotionWatch) -> None:
        """Promote what was tried, unless others have taken its evidence away meanwhile."""
        with suppress(PlaybookError):
            self._playbook.promote(id, domain=domain, before=before)

    async def _trial(self, tasks: Sequence[TaskInput], *, without: Collection[str] = ()) -> Health:
        records: list[RunRecord] = []
        for task in tasks:
            output = await self._solver().forward(task, without=without)
            records.append(_record(task, output, _feedback(self._feedback, task, output)))
        return Health.of(records)

    def _solver(self) -> Generator:
        if self._generator is None:
            raise ConfigError(
                "this learner has no generator to solve tasks with: Learner(generator, playbook)"
            )
        return self._generator

    # --- resuming ---

    def _resume(self) -> dict[str, RunRecord]:
        """The tasks that an earlier batch has finished."""
        if self._log is None or not self._log.exists():
            return {}
        found: dict[str, RunRecord] = {}
        for line in read_lines(self._log)[0]:
            try:
                record = from_json(RunRecord, line)
            except CodecError as error:
                raise PlaybookError(f"{self._log} is not the log of a learner: {error}") from error
            found[record.task_id] = record
        return found

    def _keep(self, record: RunRecord) -> None:
        if self._log is not None:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with exclusive(self._log.with_name(f"{self._log.name}.lock")):
                append(self._log, [to_json(record).encode()], sync=True)


def _default_reflector(
    llm: ToolCallingLlm | str | None, agent: Agent[Any, Any] | None, generator: Generator | None
) -> Reflector:
    """A model where there is one: the given one, the agent's, or the generator's."""
    found = llm if llm is not None else getattr(agent or generator, "llm", None)
    return RunReader() if found is None else ModelReflector(resolve_model(found))


def _check_ids(tasks: Sequence[TaskInput], holdout: Sequence[TaskInput]) -> None:
    twice = [name for name, count in Counter(task.task_id for task in tasks).items() if count > 1]
    if twice:
        raise ConfigError(f"the task_id {twice[0]!r} is given twice; it has to be unique in a batch")
    shared = {task.task_id for task in tasks} & {task.task_id for task in holdout}
    if shared:
        raise ConfigError(f"the task {min(shared)!r} is held out and cannot be learned from as well")


def _finds(playbook: Playbook, id: str, task: TaskInput) -> bool:
    """Whether a task would retrieve a bullet, were it shown."""
    vector = playbook.embed([task.description])[0]
    with playbook.view(task.domain) as view:
        near = view.nearest(vector, k=_NEAREST)
    marks = marks_of(task.description)
    return any(
        match.bullet.id == id and is_near(match, FLOOR) and fits(match.bullet.condition, marks)
        for match in near
    )


def _is_candidate(bullet: PlaybookBullet) -> bool:
    runs = bullet.helpful_count + bullet.harmful_count
    if bullet.ruling == "refused":
        return runs >= bullet.ruled_at + _MORE and earned(bullet) == "prod"
    return bullet.stage == "staging" and earned(bullet) == "prod"


def _before(bullet: PlaybookBullet, verdict: Verdict) -> PromotionWatch:
    """How the runs went that would retrieve a bullet until now; where too few, the held-out ones."""
    tally, tried = bullet.tally, verdict.without
    if tally.runs < _ENOUGH:
        return PromotionWatch(tried.runs, tried.success, tried.iterations)
    success = (tally.shown_successes + tally.held_successes) / tally.runs
    return PromotionWatch(tally.runs, success, tally.iterations / tally.runs)


def _feedback(source: FeedbackSource, task: TaskInput, output: TaskOutput) -> Feedback | None:
    if source is None or isinstance(source, Feedback):
        return source
    if not callable(source) and not isinstance(cast("object", source), Mapping):
        raise ConfigError(
            f"feedback is a Feedback, a function of task and output, or a mapping; got {source!r}"
        )
    found = cast("object", source(task, output) if callable(source) else source.get(task.task_id))
    if found is None or isinstance(found, Feedback):
        return found
    if not isinstance(found, bool):
        raise ConfigError(f"the feedback for {task.task_id!r} is no Feedback, True, False or None: {found!r}")
    return Feedback(label=found)


def _record(task: TaskInput, output: TaskOutput, feedback: Feedback | None) -> RunRecord:
    notes = output.metadata
    return RunRecord(
        task_id=task.task_id,
        domain=task.domain,
        outcome=(feedback or Feedback()).judge(output)[0],
        iterations=output.total_iterations,
        seconds=float(notes.get("seconds", 0.0)),
        tokens=int(notes.get("input_tokens", 0)) + int(notes.get("output_tokens", 0)),
        error=str(notes.get("error", "")),
    )
