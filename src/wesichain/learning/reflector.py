"""The reflector: what a run teaches, read from its trace and judged by signals, never by its words.

Rules are written from the task's intent and the names of tools. What a tool returned, error texts
included, is never quoted: a poisoned answer cannot become advice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from wesichain.core import JsonValue, dataclass, to_json
from wesichain.errors import CodecError
from wesichain.trace import redact

from .entities import (
    Feedback,
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
    mask,
    one_line,
)

_LONGEST = 8  # tools; a longer wander is no pattern
_EXAMPLE = 500  # characters of a task that are kept as an example
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
    without immediate repeats; `used` are those whose results were used, where that is asked for.
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
    adaptations: tuple[Adaptation, ...] = ()
    iterations: int = 0
    shown: tuple[str, ...] = ()
    proposals: tuple[PlaybookBullet, ...] = ()

    def verdict_on(self, sequence: Sequence[str]) -> bool | None:
        """Whether following the sequence helped (True) or harmed; None where it was not followed.

        It also harmed where one of its calls failed and the run found another way.
        """
        if self.outcome == "unknown":
            return None
        if is_followed(sequence, self.worked):
            return self.outcome == "success"
        return False if is_followed(sequence, self.attempted) else None


class GroundedReflector:
    """Judges by feedback and learns from the trace; needs no model.

    `tool_set` is the version of the tools, for the provenance. With `trim` a success also proposes its
    sequence without the calls whose results went nowhere, into no later call and not into the answer:
    for tools that look things up. Tools that change something would be trimmed away.
    """

    def __init__(self, *, tool_set: str = "", trim: bool = False) -> None:
        self._tool_set = tool_set
        self._trim = trim

    def reflect(self, task: TaskInput, output: TaskOutput, feedback: Feedback | None = None) -> Reflection:
        """What the run of a task shows, given what is known about its result."""
        outcome, signal = (feedback or Feedback()).judge(output)
        whole = task.description.encode(errors="replace").decode()  # half a character cannot be kept
        about = redact(one_line(whole))  # what is kept of the task
        calls = [
            call
            for step in output.structured_trace
            for call in step.calls
            if _TOOL_NAME.fullmatch(call.tool_name)
        ]
        attempted = collapse([call.tool_name for call in calls])[:_LONGEST]
        worked = collapse([call.tool_name for call in calls if call.success])[:_LONGEST]
        used = _used(calls, output.answer) if self._trim else ()
        run = _run_id(task, output, outcome)
        reflection = Reflection(
            id=run,
            outcome=outcome,
            signal=signal,
            task_id=task.task_id,
            domain=task.domain,
            intent=mask(about),
            worked=worked,
            attempted=attempted,
            used=used if used != worked else (),
            adaptations=_adaptations(calls),
            iterations=output.total_iterations,
            shown=(*(bullet.id for bullet in task.playbook_bullets), *output.metadata.get("shown", ())),
        )
        model = str(output.metadata.get("model", ""))
        origin = Provenance("reflector", task.task_id, run, model, self._tool_set)
        proposals = tuple(
            _bullet(section, f"{_kind(about, task.domain)} {advice}", tools=tools, about=about, origin=origin)
            for section, tools, advice in _lessons(reflection)
        )
        return replace(reflection, proposals=proposals)


def _lessons(run: Reflection) -> Iterator[tuple[Section, tuple[str, ...], str]]:
    """What the run speaks for: a section, the tools that it is about, and the second half of a sentence."""
    if run.outcome == "success":
        if run.worked:
            yield "Strategies", run.worked, f"call {_in_order(run.worked)}."
        if run.used:
            yield "Strategies", run.used, f"call {_in_order(run.used)}."
        for change in run.adaptations:
            yield "Pitfalls", (change.failed,), f"call {change.instead}, not {change.failed}."
    elif run.outcome == "failure":
        way = f"calling {_in_order(run.attempted)}" if run.attempted else "answering without a tool"
        yield "Pitfalls", run.attempted, f"{way} has failed; find another way."


def _bullet(
    section: Section, content: str, *, tools: tuple[str, ...], about: str, origin: Provenance
) -> PlaybookBullet:
    example = about[:_EXAMPLE]
    if not tools:
        return PlaybookBullet(content=content, section=section, example_task=example, provenance=origin)
    return ToolCallingStrategy(
        content=content, section=section, tool_sequence=tools, example_task=example, provenance=origin
    )


def _kind(about: str, domain: str) -> str:
    """The first half of a sentence. One sentence is the form that small models follow best."""
    intent = mask(about)[:160].replace('"', "'").rstrip(" .?!:;,")
    topic = "" if domain == "general" else f"{domain} "
    return f'For {topic}tasks like "{intent}",'


def _in_order(tools: Sequence[str]) -> str:
    return f"{tools[0]} first, then {', then '.join(tools[1:])}" if len(tools) > 1 else tools[0]


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
        values = [str(value) for value in _leaves(call.result)]
        if call.success and any(len(value) > 1 and value in wanted for value in values):
            kept.append(call.tool_name)
            wanted += " " + " ".join(str(value) for value in _leaves(call.arguments))
    return collapse(kept[::-1])[:_LONGEST]


def _leaves(value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield value


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
