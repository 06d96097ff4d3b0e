"""The learner: solve, reflect, curate, gate; over a batch of tasks or beside live traffic.

Learning is off the hot path: a live run is handed over with `submit` and costs its caller nothing more.
One worker does all the writing, in the order in which the runs came in.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from os import PathLike
from pathlib import Path
from typing import Protocol, TypeAlias, cast

from wesichain.core import dataclass, from_json, to_json
from wesichain.errors import CodecError, ConfigError, PlaybookError

from .curator import SemanticCurator
from .entities import Feedback, PlaybookBullet, TaskInput, TaskOutput, stage_of
from .gate import Health, RunRecord, Verdict, judge, regression
from .playbook import Playbook
from .prose import ProseWriter
from .reflector import GroundedReflector
from .report import LearningSummary, Rollback
from .storage import append, exclusive, read_lines

Judge: TypeAlias = Callable[[TaskInput, TaskOutput], Feedback | bool | None]
FeedbackSource: TypeAlias = (
    Mapping[str, Feedback] | Judge | Feedback | None
)  # by task id, by a function, one for all
Progress: TypeAlias = Callable[[int, int, RunRecord], None]
_RECENT = 50  # runs that tell how a domain is doing
_ENOUGH = 20  # runs after a promotion before it is judged


class Generator(Protocol):
    """Whoever solves tasks."""

    async def forward(self, task: TaskInput, *, without: Collection[str] = ()) -> TaskOutput: ...


@dataclass(frozen=True, slots=True)
class _Watch:
    """A promotion under watch: how things were before, and where to go back to."""

    before: Health
    checkpoint: int
    bullets: tuple[str, ...]
    after: list[RunRecord] = field(default_factory=list[RunRecord])


class Learner:
    """Teaches a playbook from the runs of a generator.

    `holdout` are tasks that nothing is learned from: a bullet enters prod when they do not get worse
    with it. `feedback` judges them, and the runs of which nothing else is said. `log` makes a batch
    resumable: tasks that stand in it are not run again.
    """

    def __init__(
        self,
        generator: Generator,
        playbook: Playbook,
        *,
        reflector: GroundedReflector | None = None,
        curator: SemanticCurator | None = None,
        writer: ProseWriter | None = None,
        holdout: Sequence[TaskInput] = (),
        feedback: FeedbackSource = None,
        log: str | PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._generator = generator
        self._playbook = playbook
        self._reflector = reflector or GroundedReflector()
        self._curator = curator or SemanticCurator()
        self._writer = writer
        self._holdout = tuple(holdout)
        self._feedback = feedback
        self._log = None if log is None else Path(log)
        self._progress = progress
        self._recent: dict[str, deque[RunRecord]] = {}
        self._watched: dict[str, _Watch] = {}
        self._refused: dict[str, int] = {}  # bullets that failed the gate, and their evidence then
        self._writing = asyncio.Lock()
        self._pending: set[asyncio.Task[RunRecord]] = set()
        self._summary = LearningSummary()

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
                output = await self._generator.forward(task)
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
            reflection = self._reflector.reflect(task, output, known)
            if self._writer is not None:
                reflection = await self._writer.reword(reflection)
            delta = await asyncio.to_thread(self._curator.merge, self._playbook, reflection)
            record = _record(task, output, known)
            await asyncio.to_thread(self._watch, record)
            self._summary = self._summary.plus(delta=delta)
            return record

    def submit(self, task: TaskInput, output: TaskOutput, *, feedback: FeedbackSource = None) -> None:
        """Hand over a live run; it is learned from in the background."""
        learning = asyncio.create_task(self.learn(task, output, feedback=feedback))
        self._pending.add(learning)
        learning.add_done_callback(self._pending.discard)

    async def drain(self) -> None:
        """Wait until everything that was submitted is taken in; the first failure is raised."""
        await asyncio.gather(*self._pending)

    async def gate(self, domains: Collection[str] | None = None) -> Sequence[Verdict]:
        """Try the bullets that have earned prod on the held-out tasks, and let in what does no harm."""
        verdicts: list[Verdict] = []
        for domain in sorted(domains or {task.domain for task in self._holdout}):
            tasks = [task for task in self._holdout if task.domain == domain]
            for bullet in self._candidates(domain) if tasks else ():
                without = await self._trial(tasks, without=(bullet.id,))
                verdict = judge(bullet.id, without=without, with_it=await self._trial(tasks, without=()))
                verdicts.append(verdict)
                if verdict.passed:
                    await asyncio.to_thread(self._let_in, domain, verdict)
                else:
                    self._refused[bullet.id] = bullet.helpful_count + bullet.harmful_count
        self._summary = self._summary.plus(verdicts=tuple(verdicts))
        return verdicts

    # --- the gate ---

    def _candidates(self, domain: str) -> list[PlaybookBullet]:
        """Bullets whose evidence is good enough for prod and that the gate has not refused as they are."""
        return [
            bullet
            for bullet in self._playbook.bullets(domain)
            if bullet.stage == "staging"
            and stage_of(bullet.helpful_count, bullet.harmful_count, section=bullet.section) == "prod"
            and self._refused.get(bullet.id) != bullet.helpful_count + bullet.harmful_count
        ]

    async def _trial(self, tasks: Sequence[TaskInput], *, without: Collection[str]) -> Health:
        records: list[RunRecord] = []
        for task in tasks:
            output = await self._generator.forward(task, without=without)
            records.append(_record(task, output, _feedback(self._feedback, task, output)))
        return Health.of(records)

    def _let_in(self, domain: str, verdict: Verdict) -> None:
        recent = self._recent.get(domain, ())
        before = Health.of(list(recent)) if len(recent) >= _ENOUGH else verdict.without
        watch = self._watched.get(domain)
        with self._playbook.view(domain) as view:
            checkpoint = view.seq
        self._playbook.promote(verdict.bullet_id, domain=domain)
        if watch is None:
            self._watched[domain] = _Watch(before, checkpoint, (verdict.bullet_id,))
        else:  # judged together with the one before it, from the same start
            self._watched[domain] = _Watch(
                watch.before, watch.checkpoint, (*watch.bullets, verdict.bullet_id)
            )

    def _watch(self, record: RunRecord) -> None:
        """Count a run; where a promotion has made things worse, go back to before it."""
        self._recent.setdefault(record.domain, deque(maxlen=_RECENT)).append(record)
        watch = self._watched.get(record.domain)
        if watch is None:
            return
        watch.after.append(record)
        if len(watch.after) < _ENOUGH:
            return
        del self._watched[record.domain]
        reason = regression(watch.before, Health.of(watch.after))
        if reason is None:
            return
        self._playbook.rollback(record.domain, to=watch.checkpoint)
        for name in watch.bullets:
            self._playbook.quarantine(name, domain=record.domain)
        rollback = Rollback(record.domain, watch.checkpoint, watch.bullets, reason)
        self._summary = self._summary.plus(rollbacks=(rollback,))

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


def _check_ids(tasks: Sequence[TaskInput], holdout: Sequence[TaskInput]) -> None:
    twice = [name for name, count in Counter(task.task_id for task in tasks).items() if count > 1]
    if twice:
        raise ConfigError(f"the task_id {twice[0]!r} is given twice; it has to be unique in a batch")
    shared = {task.task_id for task in tasks} & {task.task_id for task in holdout}
    if shared:
        raise ConfigError(f"the task {min(shared)!r} is held out and cannot be learned from as well")


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
