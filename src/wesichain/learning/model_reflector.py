"""The model reflector: a model reads a run and the feedback on it, and words a lesson.

The model is called for runs that a rule can follow from: runs that failed for a stated reason, and runs with
a refused call. It is called in the background, and its tokens are limited to a share of those of the runs. A
run that exceeds the limit waits, and is read together with the next run that called the same tools. The
prompt is the file `prompts/reflect.md`; `prompt=` replaces it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from wesichain.core import LlmRequest, LlmResponse, Message, Role, ToolCallingLlm
from wesichain.core.internal import Value, dump_json, find_json_object, replace
from wesichain.errors import ConfigError, WesichainError
from wesichain.trace import redact

from .entities.bullets import PlaybookBullet, Provenance, ToolCallingStrategy
from .entities.feedback import Feedback
from .entities.tasks import TaskInput, TaskOutput
from .entities.transcript import readable_text
from .entities.wording import LESSONS, Lesson, names_in, one_line
from .lesson_guard import LessonGuard
from .reflector import Reflection, RunReader, origin_of, parameters_of, specs_of

SHARE = 0.05  # of the tokens of the runs, which reflection may spend
HEAD_START = 2  # calls that are made regardless of the share
_CHARACTERS_A_TOKEN = 4
_LONG = 400  # characters of an argument, a result or an error in the model's request
_CALLS = 6
_TOOLS = 8
_TOGETHER = 3  # runs in one call
_KINDS_WAITING = 32  # beyond this, the oldest is dropped
_KINDS: Mapping[str, Lesson] = {kind: kind for kind in LESSONS if kind}


class _Case(Value):
    """A run that a rule may follow from, and the feedback on it."""

    task: TaskInput
    output: TaskOutput
    run: Reflection
    feedback: Feedback

    @property
    def kind(self) -> tuple[str, ...]:
        """The domain and the tools; runs of one kind are read together."""
        return (self.run.domain, *self.run.attempted)

    @property
    def why(self) -> str:
        answer = self.feedback.answer
        return self.feedback.why or (f"the answer should have been {answer}" if answer else "")


class ModelReflector:
    """Reflects with a model; as `RunReader` does if the model fails or gives no usable lesson.

    `prompt` is a text or a file that replaces the default instructions. `share` limits the total tokens of
    the reflector to a share of the tokens of the runs. The first `head_start` calls are made regardless, each
    about one run. Later calls are about two or three runs that called the same tools; the lesson counts as
    taught by each of them.
    """

    def __init__(
        self,
        llm: ToolCallingLlm,
        *,
        prompt: str | Path | None = None,
        share: float = SHARE,
        head_start: int = HEAD_START,
    ) -> None:
        self._llm = llm
        self._prompt = _read(prompt)
        self._share = share
        self._head_start = head_start
        self._model = str(getattr(llm, "model", "") or type(llm).__name__)
        self._calls = 0
        self._sent = 0  # characters of all requests
        self._waiting: dict[tuple[str, ...], tuple[_Case, ...]] = {}
        self.run_tokens = 0
        self.spent_tokens = 0

    async def reflect(
        self, task: TaskInput, output: TaskOutput, feedback: Feedback | None = None
    ) -> Reflection:
        """Return the reflection on the run of a task, with a lesson worded by the model if there is one."""
        run = RunReader().reflect(task, output, feedback)
        self.run_tokens += _tokens_of(output)
        specs = specs_of(output)
        if not specs or not _is_informative(run, output, feedback):
            return run
        cases = self._together(_Case(task, output, run, feedback or Feedback()))
        relevant = _relevant(specs, run)
        facts = {"tools": list(relevant), "runs": [_fact(case) for case in cases]}
        request = self._request(redact(facts), relevant)
        if not self._may_spend(request, runs=len(cases)):
            self._wait(cases)
            return run
        try:
            reply = await self._llm.complete(request)
        except WesichainError:
            return run
        self._spend(request, reply)
        guard = LessonGuard(specs, [*_foreign(cases)], ours=self._prompt)
        origin = replace(origin_of(run, output, "model"), model=self._model)
        lesson = _lesson(reply.content, specs, guard, about=run.intent, origin=origin)
        if lesson is None:
            return run
        given = replace(lesson, sources=tuple(case.run.source for case in cases[:-1]))
        return replace(run, proposals=(*run.proposals, given))

    def _together(self, case: _Case) -> tuple[_Case, ...]:
        """Return the runs for one call: those of this kind that are waiting, and this run last."""
        waiting = self._waiting.pop(case.kind, ())
        others = [one for one in waiting if one.run.source != case.run.source]
        return (*others, case)[-_TOGETHER:]

    def _wait(self, cases: tuple[_Case, ...]) -> None:
        self._waiting[cases[-1].kind] = cases
        if len(self._waiting) > _KINDS_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def _request(self, facts: Any, specs: Sequence[Mapping[str, Any]]) -> LlmRequest:
        messages = (Message(Role.SYSTEM, self._prompt), Message(Role.USER, dump_json(facts)))
        return LlmRequest(self._model, messages, output_schema=_reply_schema(specs))

    def _may_spend(self, request: LlmRequest, *, runs: int) -> bool:
        if self._calls < self._head_start:
            return True
        a_character = self.spent_tokens / self._sent if self._sent else 1 / _CHARACTERS_A_TOKEN
        wanted = self.spent_tokens + a_character * _size(request)
        return runs > 1 and wanted <= self._share * self.run_tokens

    def _spend(self, request: LlmRequest, reply: LlmResponse) -> None:
        self._calls += 1
        self._sent += _size(request)
        used = reply.usage.total_tokens
        self.spent_tokens += used or (_size(request) + len(reply.content)) // _CHARACTERS_A_TOKEN


def _lesson(
    text: str, specs: Sequence[Mapping[str, Any]], guard: LessonGuard, *, about: str, origin: Provenance
) -> PlaybookBullet | None:
    """Return the lesson of a reply; None if it has none, or the guard refuses it."""
    tools = {str(spec["name"]): spec for spec in specs}
    item = find_json_object(text) or {}
    kind = _KINDS.get(str(item.get("about")))
    tool, rule = str(item.get("tool")), one_line(str(item.get("rule") or ""))
    if kind is None or tool not in tools or guard.refusal(rule):
        return None
    parameter = str(item.get("parameter") or "")
    if parameter not in parameters_of(tools[tool]):
        if kind in ("argument", "format"):
            return None
        parameter = ""
    return ToolCallingStrategy(
        content=_sentence(tool, parameter, rule),
        tool_sequence=(tool,),
        parameter=parameter,
        example_task=about,
        lesson=kind,
        provenance=origin,
    )


def _read(prompt: str | Path | None) -> str:
    if isinstance(prompt, str):
        return prompt
    try:
        place = files("wesichain.learning") / "prompts" / "reflect.md" if prompt is None else prompt
        return place.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the prompt {prompt} cannot be read: {error.strerror}") from error


def _is_informative(run: Reflection, output: TaskOutput, feedback: Feedback | None) -> bool:
    """Whether a rule may follow from a run: it failed for a stated reason, or corrected a refused call.

    If an owner has given a sentence, the model is not needed.
    """
    calls = [call for step in output.structured_trace for call in step.calls]
    refused = {call.tool_name for call in calls if not call.success}
    if feedback is not None and feedback.lesson:
        return False
    has_reason = feedback is not None and bool(feedback.why or feedback.answer)
    if run.outcome == "failure":
        return bool(refused) or has_reason
    return run.outcome == "success" and not refused.isdisjoint(run.worked)


def _relevant(specs: Sequence[Mapping[str, Any]], run: Reflection) -> Sequence[Mapping[str, Any]]:
    return [spec for spec in specs if spec["name"] in run.attempted] or specs[:_TOOLS]


def _fact(case: _Case) -> dict[str, Any]:
    """Return the description of a run for the model's request."""
    calls = [call for step in case.output.structured_trace for call in step.calls]
    described = [
        {
            "tool": call.tool_name,
            "arguments": readable_text(call.arguments)[:_LONG],
            "result" if call.success else "error": readable_text(
                call.result if call.success else call.error_message
            )[:_LONG],
        }
        for call in calls
    ]
    return {
        "task": case.task.description[: 2 * _LONG],
        "calls": [one for at, one in enumerate(described) if one not in described[:at]][-_CALLS:],
        "answer": case.output.answer[:_LONG],
        "outcome": case.run.outcome,
        "why": case.why[: 2 * _LONG],
    }


def _foreign(cases: Sequence[_Case]) -> Iterator[object]:
    """Yield the texts and values that a lesson must not repeat."""
    for case in cases:
        yield from (case.task.description, case.feedback.why, case.feedback.answer or "", case.output.answer)
        for step in case.output.structured_trace:
            yield from (step.thought, step.observation or "")
            for call in step.calls:
                yield from (call.arguments, call.result, call.error_message or "")


def _reply_schema(specs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the JSON schema of a reply: one rule about these tools and their parameters."""
    names = dict.fromkeys(name for spec in specs for name in parameters_of(spec))
    properties = {
        "tool": {"type": "string", "enum": [str(spec["name"]) for spec in specs]},
        "parameter": {"type": "string", "enum": [*names, ""]},
        "about": {"type": "string", "enum": [*_KINDS]},
        "rule": {"type": "string"},
    }
    required = [*properties]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _sentence(tool: str, parameter: str, rule: str) -> str:
    """Return the rule as a sentence that names its tool and parameter."""
    known = names_in(rule)
    names = [name for name in (tool, parameter) if name and name not in known]
    text = f"{rule[0].upper()}{rule[1:]}" if not names else f"{', '.join(names)}: {rule}"
    return text if text.endswith(".") else f"{text}."


def _tokens_of(output: TaskOutput) -> int:
    known = int(output.metadata.get("input_tokens", 0)) + int(output.metadata.get("output_tokens", 0))
    return known or len(output.reasoning_trace) // _CHARACTERS_A_TOKEN


def _size(request: LlmRequest) -> int:
    """The characters of a request; the tokens per character are estimated from earlier calls."""
    return sum(len(message.text) for message in request.messages)
