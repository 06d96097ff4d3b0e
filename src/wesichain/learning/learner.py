"""The learner: solves tasks, reflects and curates, for a batch of tasks or for live traffic.

Learning runs in the background: `submit` takes a finished run and returns at once. Runs are learned from one
at a time, in the order in which they were submitted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

from wesichain.agent import Agent
from wesichain.agent.internal import resolve_model
from wesichain.core import ToolCallingLlm
from wesichain.core.internal import replace
from wesichain.errors import ConfigError

from .curator import SemanticCurator
from .entities.feedback import Feedback
from .entities.tasks import TaskInput, TaskOutput
from .model_reflector import ModelReflector
from .playbook import Playbook
from .reflector import Reflection, RunReader
from .report import LearningSummary, RunRecord

Judge: TypeAlias = Callable[[TaskInput, TaskOutput], Feedback | bool | None]
FeedbackSource: TypeAlias = (
    Mapping[str, Feedback] | Judge | Feedback | None  # by task id, from a function, or one for all tasks
)


class Generator(Protocol):
    """Solves tasks."""

    async def forward(self, task: TaskInput) -> TaskOutput: ...


class Reflector(Protocol):
    """Reads what a run teaches; may be asynchronous."""

    def reflect(
        self, task: TaskInput, output: TaskOutput, feedback: Feedback | None = None
    ) -> Reflection | Awaitable[Reflection]: ...


class Learner:
    """Teaches a playbook from runs: the runs of a generator, or any runs that are submitted.

    A model words the lessons: `llm`, or the model of the `agent` or the generator. Without a model the
    playbook learns from owners' sentences, from refused calls that a run corrected, and which tools worked
    for which kind of task.
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
    ) -> None:
        if playbook is None:
            raise ConfigError("a learner needs a playbook to teach: Learner(playbook=playbook)")
        self._generator = generator
        self._playbook = playbook
        self._reflector: Reflector = reflector or _default_reflector(llm, agent, generator)
        self._curator = curator or SemanticCurator()
        self._writing = asyncio.Lock()
        self._pending: dict[Awaitable[RunRecord], None] = {}  # submitted runs, in order
        self._summary = LearningSummary()

    @property
    def reflector(self) -> Reflector:
        """The reflector of this learner."""
        return self._reflector

    @property
    def summary(self) -> LearningSummary:
        """The results since the start of the last batch."""
        return self._summary

    async def run(
        self,
        tasks: Sequence[TaskInput],
        *,
        feedback: FeedbackSource | list[Feedback] | tuple[Feedback, ...] = None,
    ) -> LearningSummary:
        """Solve the tasks one after another; each can use the lessons of those before it.

        `feedback` may also be a list with one item for each task, in the same order.
        """
        _check_ids(tasks)
        if isinstance(feedback, list | tuple):
            each = cast("Sequence[Feedback]", feedback)
            if len(each) != len(tasks):
                raise ConfigError(f"feedback needs one item for each task; got {len(each)} for {len(tasks)}")
            feedback = {task.task_id: item for task, item in zip(tasks, each, strict=True)}
        if self._generator is None:
            raise ConfigError(
                "this learner has no generator to solve tasks with: Learner(generator, playbook)"
            )
        self._summary = LearningSummary()
        for task in tasks:
            output = await self._generator.forward(task)
            record = await self.learn(task, output, feedback=feedback)
            self._summary = replace(self._summary, records=(*self._summary.records, record))
        return self._summary

    async def learn(
        self, task: TaskInput, output: TaskOutput, *, feedback: FeedbackSource = None
    ) -> RunRecord:
        """Learn from one run."""
        async with self._writing:
            known = _feedback(feedback, task, output)
            found = self._reflector.reflect(task, output, known)
            reflection = found if isinstance(found, Reflection) else await found
            delta = await asyncio.to_thread(self._curator.merge, self._playbook, reflection)
            so_far = self._summary
            added, updated = so_far.added + len(delta.added), so_far.updated + len(delta.updated)
            self._summary = replace(so_far, added=added, updated=updated)
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
        """Learn from a run in the background; `drain` waits for it.

        `run` is a result, an outcome of any kind, a recording, or a `TaskOutput`. `task` is needed if the run
        does not contain the task. If the run was handed over between agents, `agent` chooses the part in
        which that agent acted, as in `TaskOutput.of`.
        """
        if isinstance(run, TaskInput):
            raise ConfigError("submit takes the run first: learner.submit(output, task=task, feedback=...)")
        output = TaskOutput.of(run, agent=agent)
        if not isinstance(task, TaskInput):
            asked = task or output.metadata.get("task")
            if not asked:
                raise ConfigError(f"the run {output.task_id!r} does not contain its task: give task=")
            task = TaskInput(output.task_id, str(asked), domain=domain)
        learning = self.learn(task, output, feedback=_feedback(feedback, task, output))
        try:
            running = asyncio.get_running_loop().create_task(learning)
        except RuntimeError:  # no event loop is running: `drain` runs it
            self._pending[learning] = None
            return
        self._pending[running] = None
        running.add_done_callback(self._remove)

    async def drain(self) -> None:
        """Wait until all submitted runs are learned from, and raise the first error."""
        pending, self._pending = self._pending, {}
        ended = await asyncio.gather(*pending, return_exceptions=True)
        for failure in ended:
            if isinstance(failure, BaseException):
                raise failure

    def _remove(self, ended: asyncio.Task[RunRecord]) -> None:
        if not ended.cancelled() and ended.exception() is None:  # `drain` raises the error
            self._pending.pop(ended, None)


def _default_reflector(
    llm: ToolCallingLlm | str | None, agent: Agent[Any, Any] | None, generator: Generator | None
) -> Reflector:
    """A `ModelReflector` with `llm`, the agent's model or the generator's; else a `RunReader`."""
    found = llm if llm is not None else getattr(agent or generator, "llm", None)
    return RunReader() if found is None else ModelReflector(resolve_model(found))


def _check_ids(tasks: Sequence[TaskInput]) -> None:
    twice = [name for name, count in Counter(task.task_id for task in tasks).items() if count > 1]
    if twice:
        raise ConfigError(f"the task_id {twice[0]!r} is given twice; it has to be unique in a batch")


def _feedback(source: object, task: TaskInput, output: TaskOutput) -> Feedback | None:
    if source is None or isinstance(source, Feedback):
        return source
    if isinstance(source, bool):
        return Feedback(label=source)
    if isinstance(source, Mapping):
        return _feedback(cast("Mapping[str, object]", source).get(task.task_id), task, output)
    if callable(source):
        return _feedback(source(task, output), task, output)
    raise ConfigError(
        f"feedback is a Feedback, True, False or None, or a function or mapping that gives one; "
        f"got {source!r} for {task.task_id!r}"
    )


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
