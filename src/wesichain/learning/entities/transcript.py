"""The transcript: the events of a run as reasoning steps and as readable text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wesichain.core import (
    Event,
    JsonValue,
    LlmResponse,
    ModelResponded,
    StepFailed,
    StepStarted,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
)
from wesichain.core.internal import text_of
from wesichain.errors import CodecError

from .steps import ReasoningStep, ToolInvocation

NO_ANSWER = "(no answer)"
_LONG = 500  # characters of an observation in the readable trace


def read_steps(events: Iterable[Event]) -> tuple[ReasoningStep, ...]:
    """Make one step for each reply of the model, with the results of its calls. Inner runs are left out."""
    by_step: dict[int, list[Event]] = {}
    for event in events:
        if not event.scope:
            by_step.setdefault(event.step_id, []).append(event)
    steps: list[ReasoningStep] = []
    for group in by_step.values():
        replies = [event for event in group if isinstance(event, ModelResponded)]
        for reply in replies:
            steps.append(_step(len(steps) + 1, reply, group))
    return tuple(steps)


def render(steps: Sequence[ReasoningStep], *, ending: str = "") -> str:
    """The steps as readable text."""
    lines: list[str] = []
    for step in steps:
        lines.append(f"{step.iteration}. {step.thought}")
        for call in step.calls:
            result = readable_text(call.result) if call.success else f"failed: {call.error_message}"
            lines.append(f"   {call.tool_name}({readable_text(call.arguments)}) -> {result[:_LONG]}")
        if step.action == "finish":
            lines.append(f"   answer: {(step.observation or NO_ANSWER)[:_LONG]}")
    return "\n".join([*lines, ending] if ending else lines)


def _step(number: int, reply: ModelResponded, group: Sequence[Event]) -> ReasoningStep:
    response = reply.response
    began = next((event.at for event in group if isinstance(event, StepStarted)), reply.at)
    calls = _invocations(response.tool_calls, group)
    took = reply.duration_ms + sum(call.duration_ms for call in calls)
    first = calls[0] if calls else None
    return ReasoningStep(
        iteration=number,
        thought=_thought(response),
        action="call_tool" if first else "finish",
        tool_name=first.tool_name if first else None,
        tool_args=({} if first.arguments is None else first.arguments) if first else None,
        observation="\n".join(map(_observation, calls)) if calls else response.content.strip() or NO_ANSWER,
        timestamp=began,
        duration_ms=took,
        invocations=calls,
    )


def _thought(response: LlmResponse) -> str:
    thought = (response.content if response.tool_calls else "").strip() or response.reasoning.strip()
    if thought:
        return thought
    if not response.tool_calls:
        return "The answer is known." if response.content else "The reply was empty."
    return " ".join(f"Call {call.name or 'a tool without a name'}." for call in response.tool_calls)


def _invocations(calls: Sequence[ToolCall], group: Sequence[Event]) -> tuple[ToolInvocation, ...]:
    """Each call with its result, matched by name and arguments: the runtime may change its id."""
    dispatched: dict[str, ToolCall] = {}
    for event in group:
        if isinstance(event, ToolDispatched):
            dispatched.setdefault(event.call_id, event.call)
    completed = {event.call_id: event for event in group if isinstance(event, ToolCompleted)}
    failed = [event for event in group if isinstance(event, StepFailed)]
    found: list[ToolInvocation] = []
    for call in calls:
        same = (
            key for key, other in dispatched.items() if (other.name, other.args) == (call.name, call.args)
        )
        key = next(same, None)
        if key is None and call.id in dispatched and dispatched[call.id].name == call.name:
            key = call.id  # its arguments were changed on approval
        name, args = call.name or "(no name)", call.args if key is None else dispatched.pop(key).args
        done = completed.get(key or "")
        if done is not None:
            found.append(ToolInvocation(name, args, done.value, duration_ms=done.duration_ms))
            continue
        faults = [
            event for event in failed if (event.call_id == key if key else event.tool_name == call.name)
        ]
        why = (faults[-1].message or faults[-1].error) if faults else "it was not run"
        took = sum(event.duration_ms for event in faults)
        found.append(ToolInvocation(name, args, None, success=False, error_message=why, duration_ms=took))
    return tuple(found)


def _observation(call: ToolInvocation) -> str:
    return readable_text(call.result) if call.success else f"{call.tool_name} failed: {call.error_message}"


def readable_text(value: JsonValue) -> str:
    """A value as text: JSON, or its `repr` if JSON cannot represent it."""
    try:
        return text_of(value)
    except CodecError:
        return repr(value)
