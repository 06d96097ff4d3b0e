"""Reflection: what a run teaches, read from its trace and the feedback on it.

A run can teach which tools worked for its kind of task, a rule from a refused call that it corrected, and an
owner's sentence about it. Nothing is inferred from the words of a task, an answer, a result or an error.
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

from .corrections import rules_from_corrections
from .entities.bullets import PlaybookBullet, Provenance, bullet_about, collapse, is_followed
from .entities.conditions import marks_of
from .entities.feedback import Feedback, Outcome, Signal
from .entities.stages import Section
from .entities.steps import ToolInvocation
from .entities.tasks import TaskInput, TaskOutput
from .entities.wording import mask, names_in, one_line, sentence_of

_LONGEST = 8  # tools in a sequence
_EXAMPLE = 400  # characters of a task in an example
_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


class Reflection(Value):
    """What one run teaches. The id is a hash of the run: reflecting on a run again gives the same id.

    `worked` are the tools whose calls succeeded, `attempted` all tools that were called, both in order and
    without immediate repeats. `shown` and `held` are the ids of the bullets that the run was shown and of
    those that were withheld from it. `tools` has a fingerprint of each tool of the run, `marks` a hash of
    each word of the task. `proposals` are new bullets; their counters are 0, because the curator counts.
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
        """A hash of the run's id, which tells different runs apart."""
        return sha256(self.run_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def has_called(self, tools: Sequence[str]) -> bool:
        """Whether the run called one of these tools, successfully or not."""
        return not set(tools).isdisjoint(self.attempted)

    def verdict_on(self, sequence: Sequence[str]) -> bool | None:
        """Whether the sequence helped (True) or harmed (False); None if the run did not follow it.

        A sequence that was followed with a failed call counts as harmful.
        """
        if self.outcome == "unknown":
            return None
        if is_followed(sequence, self.worked):
            return self.outcome == "success"
        return False if is_followed(sequence, self.attempted) else None

    def went_elsewhere(self, sequence: Sequence[str]) -> bool:
        """Whether the run has a known outcome and called other tools but none of these."""
        return self.outcome != "unknown" and bool(self.attempted) and not self.has_called(sequence)


class GroundedReflector:
    """Reflects without a model, as `RunReader` does, and adds a warning (pitfall) for each failed run."""

    def reflect(self, task: TaskInput, output: TaskOutput, feedback: Feedback | None = None) -> Reflection:
        """Return what the run of a task shows, given what is known about its result."""
        run = RunReader().reflect(task, output, feedback)
        if run.outcome != "failure":
            return run
        warning = _bullet_of("Pitfalls", run.attempted, run, origin_of(run, output))
        return replace(run, proposals=(warning, *run.proposals))


class RunReader:
    """Reflects without a model: tools that worked, refused calls that were corrected, an owner's sentence."""

    def reflect(self, task: TaskInput, output: TaskOutput, feedback: Feedback | None = None) -> Reflection:
        """Return what the run of a task shows, given what is known about its result."""
        outcome, signal = (feedback or Feedback()).judge(output)
        notes = output.metadata
        readable = task.description.encode(errors="replace").decode()  # lone surrogates cannot be stored
        intent = mask(redact(one_line(readable)))[:_EXAMPLE]  # stored to find the bullet by similarity
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
            intent=intent,
            run_id=str(notes.get("run_id") or task.task_id),
            worked=worked,
            attempted=attempted,
            iterations=output.total_iterations,
            shown=tuple(
                dict.fromkeys((*(item.id for item in task.playbook_bullets), *notes.get("shown", ())))
            ),
            held=tuple(notes.get("held", ())),
            tools=notes.get("tools", {}),
            marks=marks_of(intent),
        )
        proposals = _proposals(reflection, calls, output, feedback)
        return replace(reflection, proposals=tuple(proposals))


def origin_of(run: Reflection, output: TaskOutput, author: str = "reflector") -> Provenance:
    """Return the provenance of a proposal of this run."""
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
        yield _bullet_of("Strategies", run.worked, run, origin)
    for rule in dict.fromkeys(
        rules_from_corrections(calls, {str(spec["name"]): parameters_of(spec) for spec in specs})
    ):
        yield replace(rule, id="", example_task=run.intent, provenance=origin)


def specs_of(output: TaskOutput) -> list[Mapping[str, Any]]:
    """Return the tools that a run was offered, as JSON data."""
    specs: list[Mapping[str, Any]] = output.metadata.get("specs", [])
    return specs


def tools_named(
    sentence: str, specs: Sequence[Mapping[str, Any]], *, called: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the tools that a sentence names; if none, the `called` tools with a parameter that it names."""
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


def _bullet_of(
    section: Section, tools: tuple[str, ...], run: Reflection, origin: Provenance
) -> PlaybookBullet:
    """The bullet of a sequence of tools that worked or failed."""
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
    except CodecError:  # an argument or a result that JSON cannot represent
        text = repr(about)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
