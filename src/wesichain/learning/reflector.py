"""Reflection: what a run shows, read from its trace and judged by signals, never by its words.

A run teaches which tools served its kind of task, what a refused call that it mended has shown, and what an
owner said about it. Nothing is inferred from the words of a task, an answer, a result or an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from wesichain.core import to_json
from wesichain.core.internal import Value, field, is_object, replace
from wesichain.errors import CodecError
from wesichain.trace import redact

from .entities.bullets import PlaybookBullet, Provenance, bullet_about, collapse, is_followed
from .entities.conditions import marks_of
from .entities.feedback import Feedback, Outcome, Signal
from .entities.stages import Section
from .entities.steps import ToolInvocation
from .entities.tasks import TaskInput, TaskOutput
from .entities.wording import mask, names_in, one_line, sentence_of
from .mending import mends

_LONGEST = 8  # tools; a longer wander is no pattern
_EXAMPLE = 400  # characters of a task that are kept as an example
_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


class Reflection(Value):
    """What one run showed. The id is made from the run: reflecting on it again gives the same id.

    `worked` are the tools whose calls went well, `attempted` all that were called, both in order and
    without immediate repeats.
    `shown` and `held` are the bullets that the run was shown and those that were held back from it. `tools`
    has a fingerprint of each tool that there was, `marks` a hash of each word of the task.
    `proposals` are bullets that the run speaks for; their counters are 0, because the curator counts.
    """

    id: str
    outcome: Outcome
    signal: Signal
    task_id: str
    domain: str
    intent: str
    run_id: str = ""
    worked: tuple[str, ...] = ()
    attempted: tuple[str, ...] = ()
    iterations: int = 0
    shown: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    tools: Mapping[str, str] = field(default_factory=dict[str, str])
    marks: tuple[str, ...] = ()
    proposals: tuple[PlaybookBullet, ...] = ()

    @property
    def source(self) -> str:
        """A hash of the run's id: whether two reflections are of different runs, and nothing else."""
        return sha256(self.run_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def has_called(self, tools: Sequence[str]) -> bool:
        """Whether the run called one of these tools, well or not."""
        return not set(tools).isdisjoint(self.attempted)

    def verdict_on(self, sequence: Sequence[str]) -> bool | None:
        """Whether following the sequence helped (True) or harmed; None where it was not followed.

        It also harmed where one of its calls failed and the run found another way.
        """
        if self.outcome == "unknown":
            return None
        if is_followed(sequence, self.worked):
            return self.outcome == "success"
        return False if is_followed(sequence, self.attempted) else None

    def went_elsewhere(self, sequence: Sequence[str]) -> bool:
        """Whether the run is known to have called other tools, and none of these."""
        return self.outcome != "unknown" and bool(self.attempted) and not self.has_called(sequence)


class GroundedReflector:
    """Reflects without a model: as `RunReader` does, and ways that failed become warnings (pitfalls)."""

    def reflect(self, task: TaskInput, output: TaskOutput, feedback: Feedback | None = None) -> Reflection:
        """Return what the run of a task shows, given what is known about its result."""
        run = RunReader().reflect(task, output, feedback)
        if run.outcome != "failure":
            return run
        warning = _way("Pitfalls", run.attempted, run, origin_of(run, output))
        return replace(run, proposals=(warning, *run.proposals))


class RunReader:
    """Reads how a run went, which tools served it, which refused calls it mended, and an owner's words."""

    def reflect(self, task: TaskInput, output: TaskOutput, feedback: Feedback | None = None) -> Reflection:
        """Return what the run of a task shows, given what is known about its result."""
        outcome, signal = (feedback or Feedback()).judge(output)
        notes = output.metadata
        readable = task.description.encode(errors="replace").decode()  # half a character cannot be kept
        about = mask(redact(one_line(readable)))[:_EXAMPLE]  # kept to find the bullet again
        calls = [
            call
            for step in output.structured_trace
            for call in step.calls
            if _TOOL_NAME.fullmatch(call.tool_name) and (call.success or call.tool_name in output.tools_used)
        ]
        attempted = collapse([call.tool_name for call in calls])[:_LONGEST]
        worked = collapse([call.tool_name for call in calls if call.success])[:_LONGEST]
        reflection = Reflection(
            id=_run_id(task, output, outcome),
            outcome=outcome,
            signal=signal,
            task_id=task.task_id,
            domain=task.domain,
            intent=about,
            run_id=str(notes.get("run_id") or task.task_id),
            worked=worked,
            attempted=attempted,
            iterations=output.total_iterations,
            shown=tuple(
                dict.fromkeys((*(item.id for item in task.playbook_bullets), *notes.get("shown", ())))
            ),
            held=tuple(notes.get("held", ())),
            tools=notes.get("tools", {}),
            marks=marks_of(about),
        )
        proposals = _proposals(reflection, calls, output, feedback)
        return replace(reflection, proposals=tuple(proposals))


def origin_of(run: Reflection, output: TaskOutput, author: str = "reflector") -> Provenance:
    """Return where a proposal of this run comes from."""
    return Provenance(author, run.task_id, run.id, str(output.metadata.get("model", "")))


def _proposals(
    run: Reflection, calls: Sequence[ToolInvocation], output: TaskOutput, feedback: Feedback | None
) -> Iterator[PlaybookBullet]:
    specs = specs_of(output)
    origin = origin_of(run, output)
    if feedback is not None and feedback.lesson:
        yield bullet_about(
            tools_named(feedback.lesson, specs, called=run.attempted),
            feedback.lesson,
            example_task=run.intent,
            lesson="argument",
            ruling="owner",
            provenance=origin_of(run, output, "operator"),
        )
    if run.outcome != "success":
        return
    if run.worked:
        yield _way("Strategies", run.worked, run, origin)
    for rule in dict.fromkeys(mends(calls, {str(spec["name"]): parameters_of(spec) for spec in specs})):
        yield replace(rule, id="", example_task=run.intent, provenance=origin)


def specs_of(output: TaskOutput) -> list[Mapping[str, Any]]:
    """Return the tools that a run was offered, as JSON data."""
    specs: list[Mapping[str, Any]] = output.metadata.get("specs", [])
    return specs


def tools_named(
    sentence: str, specs: Sequence[Mapping[str, Any]], *, called: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the tools that a sentence names, else those of the `called` ones whose parameter it names."""
    words = names_in(sentence)
    names = {str(spec["name"]): spec for spec in specs}
    if named := tuple(name for name in names if name in words):
        return named
    parameters = {name: parameters_of(spec) for name, spec in names.items() if name in called}
    return tuple(name for name, known in parameters.items() if not words.isdisjoint(known))


def parameters_of(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of a tool, by name."""
    schema = spec.get("parameters")
    known = schema.get("properties") if is_object(schema) else None
    return known if is_object(known) else {}


def _way(section: Section, tools: tuple[str, ...], run: Reflection, origin: Provenance) -> PlaybookBullet:
    """The bullet of a way through the tools, which served the run or did not."""
    content = sentence_of(section, tools)
    return bullet_about(tools, content, section=section, example_task=run.intent, provenance=origin)


def _run_id(task: TaskInput, output: TaskOutput, outcome: Outcome) -> str:
    run = output.metadata.get("run_id")
    about = [
        task.domain,
        task.task_id,
        task.description,
        outcome,
        output.answer,
        run,
        output.structured_trace,
    ]
    try:
        text = to_json(about)
    except CodecError:  # an argument or a result without JSON
        text = repr(about)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
