"""The reflector: what a run teaches, read from its trace and judged by signals, never by its words.

Rules are written from the names of tools that exist. What was asked, what a tool returned, error texts
included, is never quoted: neither a poisoned task nor a poisoned answer can become advice. Of a call that was
refused, or that feedback corrects, the form, the unit or the order that would have done is told, in words of
our own; and where a tool gave what the answer should have named, that it has to be said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256

from wesichain.core import dataclass, is_object, to_json
from wesichain.errors import CodecError
from wesichain.trace import redact

from .entities import (
    LATE,
    OTHER,
    Feedback,
    Kind,
    Outcome,
    PlaybookBullet,
    Provenance,
    Section,
    Signal,
    TaskInput,
    TaskOutput,
    ToolCallingStrategy,
    ToolInvocation,
    collapse,
    is_followed,
    marks_of,
    mask,
    one_line,
    sentence_of,
)
from .lessons import Mend, corrections, leaves, mends, saying, unsaid

_LONGEST = 8  # tools; a longer wander is no pattern
_EXAMPLE = 400  # characters of a task that are kept as an example
_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Adaptation:
    """A tool failed, and another one did the work."""

    failed: str
    instead: str


@dataclass(frozen=True, slots=True)
class Reflection:
    """What one run showed. The id is made from the run: reflecting on it again gives the same id.

    `worked` are the tools whose calls went well, `attempted` all that were called, both in order and
    without immediate repeats; `used` are those whose results were used, where that is asked for. `unsaid` is
    the tool of a run that failed because it did not say what that tool gave: the way to it was right.
    `shown` and `held` are the bullets that the run was shown and those that were held back from it; `advised`
    says that they are known. `tools` has a fingerprint of each tool that there was, `marks` a hash of each
    word of the task.
    `proposals` are bullets that the run speaks for; their counters are 0, because the curator counts.
    """

    id: str
    outcome: Outcome
    signal: Signal
    task_id: str
    domain: str
    intent: str
    worked: tuple[str, ...] = ()
    attempted: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    unsaid: str = ""
    adaptations: tuple[Adaptation, ...] = ()
    iterations: int = 0
    shown: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    advised: bool = False
    tools: Mapping[str, str] = field(default_factory=dict[str, str])
    marks: tuple[str, ...] = ()
    proposals: tuple[PlaybookBullet, ...] = ()

    def has_called(self, tools: Sequence[str]) -> bool:
        """Whether the run called one of these tools, well or not."""
        return not set(tools).isdisjoint(self.attempted)

    def verdict_on(self, sequence: Sequence[str]) -> bool | None:
        """Whether following the sequence helped (True) or harmed; None where it was not followed.

        It also harmed where one of its calls failed and the run found another way. Found after others had
        failed, in a run that failed, says nothing of it: the detour may have been what was wrong.
        """
        if self.outcome == "unknown" or self.aside(sequence) is not None:
            return None
        if is_followed(sequence, self.worked):
            return self.outcome == "success" or self.unsaid in sequence
        return False if is_followed(sequence, self.attempted) else None

    def aside(self, sequence: Sequence[str]) -> Kind | None:
        """What a run was to a sequence that it is no verdict on, None where nothing.

        It went another way; or it went that way after other tools had failed, and failed all the same.
        """
        if not self.has_called(sequence):
            return OTHER if self.attempted and self.outcome != "unknown" else None
        found = {item.instead for item in self.adaptations}
        is_late = self.outcome == "failure" and not (self.unsaid or found.isdisjoint(sequence))
        return LATE if is_late and is_followed(sequence, self.worked) else None


class GroundedReflector:
    """Judges by feedback and learns from the trace; needs no model.

    `tool_set` is the version of the tools, for the provenance. With `trim` a success also proposes its
    sequence without the calls whose results went nowhere, into no later call and not into the answer:
    for tools that look things up. Tools that change something would be trimmed away. `redactor` takes out of
    a task what must not be kept, beside the secrets that are always taken out: names, say.
    """

    def __init__(
        self, *, tool_set: str = "", trim: bool = False, redactor: Callable[[str], str] | None = None
    ) -> None:
        self._tool_set = tool_set
        self._trim = trim
        self._redactor = redactor

    def reflect(self, task: TaskInput, output: TaskOutput, feedback: Feedback | None = None) -> Reflection:
        """What the run of a task shows, given what is known about its result."""
        outcome, signal = (feedback or Feedback()).judge(output)
        whole = task.description.encode(errors="replace").decode()  # half a character cannot be kept
        about = mask(self._redact(one_line(whole)))[:_EXAMPLE]  # what is kept of the task, to find it again
        calls = [
            call
            for step in output.structured_trace
            for call in step.calls
            if _TOOL_NAME.fullmatch(call.tool_name) and (call.success or call.tool_name in output.tools_used)
        ]
        attempted = collapse([call.tool_name for call in calls])[:_LONGEST]
        worked = collapse([call.tool_name for call in calls if call.success])[:_LONGEST]
        used = _used(calls, output.answer) if self._trim else ()
        missed = ""
        if outcome == "failure" and feedback is not None:
            missed = unsaid(calls, task=task.description, answer=output.answer, feedback=feedback)
        run = _run_id(task, output, outcome)
        reflection = Reflection(
            id=run,
            outcome=outcome,
            signal=signal,
            task_id=task.task_id,
            domain=task.domain,
            intent=about,
            worked=worked,
            attempted=attempted,
            used=used if used != worked else (),
            unsaid=missed if missed in worked else "",
            adaptations=_adaptations(calls),
            iterations=output.total_iterations,
            shown=tuple(
                dict.fromkeys((*(item.id for item in task.playbook_bullets), *_ids(output, "shown")))
            ),
            held=_ids(output, "held"),
            advised="shown" in output.metadata,
            tools=_fingerprints(output),
            marks=marks_of(about),
        )
        model = str(output.metadata.get("model", ""))
        origin = Provenance("reflector", task.task_id, run, model, self._tool_set)
        proposals = tuple(
            _bullet(section, tools, about=about, origin=origin) for section, tools in _lessons(reflection)
        )
        specs = [spec for spec in output.metadata.get("specs") or () if is_object(spec)]
        rules: dict[Mend, None] = {}
        if outcome != "unknown":
            rules |= dict.fromkeys(mends(calls, specs, task.description, good=outcome == "success"))
        if outcome == "failure" and feedback is not None:
            rules |= dict.fromkeys(corrections(calls, specs, task.description, feedback.why))
        if reflection.unsaid:
            rules[saying(reflection.unsaid)] = None
        mended = (
            ToolCallingStrategy(
                content=item.rule,
                tool_sequence=item.tools,
                example_task=about,
                lesson=item.lesson,
                provenance=origin,
            )
            for item in rules
        )
        return replace(reflection, proposals=(*proposals, *mended))

    def _redact(self, text: str) -> str:
        known = redact(text)
        return known if self._redactor is None else self._redactor(known)


def _lessons(run: Reflection) -> Iterator[tuple[Section, tuple[str, ...]]]:
    """What the run speaks for: a section, and the tools that it is about.

    That one tool worked after another had failed is no reason to warn of the other: mere succession.
    """
    if run.outcome == "success":
        if run.worked:
            yield "Strategies", run.worked
        if run.used:
            yield "Strategies", run.used
    elif run.unsaid:
        yield "Strategies", run.worked
    elif run.outcome == "failure":
        yield "Pitfalls", run.attempted


def _bullet(section: Section, tools: tuple[str, ...], *, about: str, origin: Provenance) -> PlaybookBullet:
    content = sentence_of(section, tools)
    if not tools:
        return PlaybookBullet(content=content, section=section, example_task=about, provenance=origin)
    return ToolCallingStrategy(
        content=content, section=section, tool_sequence=tools, example_task=about, provenance=origin
    )


def _adaptations(calls: Sequence[ToolInvocation]) -> tuple[Adaptation, ...]:
    """For each tool that only ever failed, the next other tool that worked."""
    worked = {call.tool_name for call in calls if call.success}
    found: dict[str, Adaptation] = {}
    for place, call in enumerate(calls):
        tool = call.tool_name
        if tool not in worked and tool not in found:
            instead = next((other.tool_name for other in calls[place:] if other.success), None)
            if instead is not None:
                found[tool] = Adaptation(tool, instead)
    return tuple(found.values())


def _used(calls: Sequence[ToolInvocation], answer: str) -> tuple[str, ...]:
    """The tools whose results went into the answer, or into a call whose result did; by name alone."""
    wanted = answer
    kept: list[str] = []
    for call in reversed(calls):
        values = [str(value) for value in leaves(call.result)]
        if call.success and any(len(value) > 1 and value in wanted for value in values):
            kept.append(call.tool_name)
            wanted += " " + " ".join(str(value) for value in leaves(call.arguments))
    return collapse(kept[::-1])[:_LONGEST]


def _ids(output: TaskOutput, name: str) -> tuple[str, ...]:
    return tuple(str(item) for item in output.metadata.get(name) or ())


def _fingerprints(output: TaskOutput) -> dict[str, str]:
    found = output.metadata.get("tools")
    return {str(name): str(mark) for name, mark in found.items()} if is_object(found) else {}


def _run_id(task: TaskInput, output: TaskOutput, outcome: Outcome) -> str:
    about = [
        task.domain,
        task.task_id,
        task.description,
        outcome,
        output.answer,
        output.metadata.get("run_id"),
    ]
    try:
        text = to_json([*about, output.structured_trace])
    except CodecError:  # an argument or a result without JSON
        text = repr([*about, output.structured_trace])
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
