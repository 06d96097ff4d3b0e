"""Tasks: the input and output of a generator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wesichain.core import Event, ModelResponded, RunCompleted, RunFailed, RunInterrupted, RunStarted
from wesichain.core.internal import (
    AdviceShown,
    HandedOff,
    ToolsOffered,
    Value,
    dump_json,
    field,
    force_setattr,
    replace,
    to_plain,
)

from .bullets import PlaybookBullet, fingerprints_of, has_text, is_count, is_number
from .domains import check_domain
from .steps import ReasoningStep
from .transcript import NO_ANSWER, read_steps, render


class TaskInput(Value):
    """One task. `available_tools` selects from the registered tools; `max_iterations` overrides the limit.

    `playbook_bullets` are shown in addition to those that the generator retrieves; they may be plain texts.
    """

    task_id: str
    description: str
    domain: str = "general"
    playbook_bullets: tuple[PlaybookBullet, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    available_tools: tuple[str, ...] | None = None
    max_iterations: int | None = None

    def __post_init__(self) -> None:
        if not has_text(self.task_id):
            raise ValueError("a task needs a task_id, unique in its batch")
        if not has_text(self.description):
            raise ValueError(f"task {self.task_id!r} needs a description: what is to be found or done")
        check_domain(self.domain)
        limit = self.max_iterations
        if limit is not None and not (is_count(limit) and limit > 0):
            raise ValueError(f"task {self.task_id!r}: max_iterations is 1 or more; got {limit!r}")
        lists: tuple[object, ...] = (self.available_tools, self.playbook_bullets)
        if any(isinstance(given, str) for given in lists):
            raise ValueError(f"task {self.task_id!r}: available_tools and playbook_bullets are lists")
        given: Sequence[object] = self.playbook_bullets
        bullets = tuple(PlaybookBullet(content=item) if isinstance(item, str) else item for item in given)
        force_setattr(self, "playbook_bullets", bullets)
        if self.available_tools is not None:
            force_setattr(self, "available_tools", tuple(self.available_tools))


class TaskOutput(Value):
    """The output of a task. The output of a failed task has everything up to the failure.

    `metadata["error"]` says why a run did not complete. `tools_used` has each tool once, in the order
    of first use.
    """

    task_id: str
    answer: str
    reasoning_trace: str = ""
    confidence: float = 0.0
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    structured_trace: tuple[ReasoningStep, ...] = ()
    tools_used: tuple[str, ...] = ()
    total_iterations: int = 0
    iteration_limit_reached: bool = False

    def __post_init__(self) -> None:
        if not has_text(self.task_id):
            raise ValueError("an output needs the task_id of its task")
        if not has_text(self.answer) and not self.iteration_limit_reached and not self.metadata.get("error"):
            raise ValueError(
                f"the output of {self.task_id!r} has no answer: give one, iteration_limit_reached=True, or "
                f'metadata={{"error": ...}}'
            )
        if not (is_number(self.confidence) and 0 <= self.confidence <= 1):
            raise ValueError(f"confidence is between 0 and 1; got {self.confidence!r}")
        if not is_count(self.total_iterations):
            raise ValueError(f"total_iterations is 0 or more; got {self.total_iterations!r}")
        force_setattr(self, "structured_trace", tuple(self.structured_trace))
        if self.structured_trace and len(self.structured_trace) != self.total_iterations:
            raise ValueError(
                f"total_iterations is {self.total_iterations} and the trace of {self.task_id!r} has "
                f"{len(self.structured_trace)} steps; there is one for each iteration"
            )
        force_setattr(self, "tools_used", tuple(self.tools_used))

    @classmethod
    def of(cls, run: object, *, task_id: str | None = None, agent: str | None = None) -> TaskOutput:
        """Make the output of any run: a result, an outcome of any kind, a recording, or a `TaskOutput`.

        `task_id` defaults to the run's id. `metadata["task"]` is the task of the run. If the run was handed
        over between agents, `agent` selects the part in which that agent acted: its steps, its tools and the
        advice that it was shown, under an id of its own. `agent` is required if an agent after the first was
        shown advice, since the lessons of one agent are not for another.
        """
        if isinstance(run, TaskOutput):
            return run
        outcome = getattr(run, "outcome", run)
        events: Sequence[Event] = getattr(outcome, "events", ())
        run_id = getattr(outcome, "run_id", None)
        if not isinstance(run_id, str):
            raise ValueError(  # noqa: TRY004  # as every other
                f"{type(run).__name__} is not a run: give a result, an outcome, a recording or a TaskOutput"
            )
        if not events:
            raise ValueError(f"the run {run_id} has no events to learn from: give its recording")
        own = [event for event in events if not event.scope]
        if agent is not None:
            last = getattr(getattr(outcome, "info", None), "agent", "")
            own, run_id = _part_of(own, agent, run_id, last), f"{run_id}/{agent}"
        elif advised := [event.agent for event in own if isinstance(event, AdviceShown) and event.agent]:
            raise ValueError(
                f"the run {run_id} was handed over to {advised[0]!r}, which was shown advice of its own: "
                f"choose a part with agent={advised[0]!r} or another agent that acted in it"
            )
        return _of_events(cls, own, task_id or run_id)

    @property
    def completed(self) -> bool:
        """Whether the run completed, regardless of its answer."""
        return not self.iteration_limit_reached and not self.metadata.get("error")


def _of_events(kind: type[TaskOutput], events: Sequence[Event], task_id: str) -> TaskOutput:
    steps = read_steps(events)
    began = next((event for event in events if isinstance(event, RunStarted)), None)
    offered = (event.tools for event in events if isinstance(event, RunStarted | ToolsOffered | HandedOff))
    tools = tuple({spec.name: spec for specs in offered for spec in specs}.values())
    end = events[-1]
    notes: dict[str, Any] = {
        "run_id": end.run_id,
        "task": began.user_input if began else "",
        "model": began.model if began else "",
        "seconds": round(max(0.0, end.at - events[0].at), 6),
        "specs": [to_plain(tool) for tool in tools],
        "tools": fingerprints_of(tools),
        **_facts(events),
    }
    limit, answer = False, _last_text(events)
    match end:
        case RunCompleted(output=output):
            answer = output if isinstance(output, str) else dump_json(output)
        case RunFailed(error=error, message=message):
            notes["error"] = f"{error}: {message}"
            limit = error == "BudgetExceededError" and " steps is used up" in message
        case RunInterrupted(reason=reason):
            notes["error"] = f"interrupted: {reason}"
        case _:
            notes["error"] = "the run has not ended"
    if isinstance(end, RunCompleted | RunFailed | RunInterrupted):
        notes |= {"input_tokens": end.usage.input_tokens, "output_tokens": end.usage.output_tokens}
    calls = [call for step in steps for call in step.calls]
    failures = sum(not call.success for call in calls)
    known = {tool.name for tool in tools}
    return kind(
        task_id=task_id,
        answer=answer if answer.strip() or limit or "error" in notes else NO_ANSWER,
        reasoning_trace=render(steps, ending=notes.get("error", "")),
        # 0 for a run that did not complete, lower for each failed call
        confidence=0.0 if "error" in notes else round(1 / (1 + 0.5 * failures), 3),
        metadata=notes,
        structured_trace=steps,
        # a model may call tools that do not exist
        tools_used=tuple(dict.fromkeys(call.tool_name for call in calls if call.tool_name in known)),
        total_iterations=len(steps),
        iteration_limit_reached=limit,
    )


def _part_of(events: Sequence[Event], agent: str, run_id: str, last: str) -> list[Event]:
    """The events of a run while one agent acted; `last` is the agent at its end."""
    handed = [event for event in events if isinstance(event, HandedOff)]
    acting = handed[0].source if handed else last
    names = dict.fromkeys([acting, *(event.target for event in handed)])
    if agent not in names:
        acted = ", ".join(map(repr, names))
        raise ValueError(f"the agent {agent!r} did not act in the run {run_id}; the agents are {acted}")
    part: list[Event] = []
    for event in events[:-1]:
        if isinstance(event, HandedOff):
            acting = event.target
        if acting == agent:
            part.append(event)
        elif isinstance(event, RunStarted):
            part.append(replace(event, tools=()))  # the tools of another agent
    return [*part, events[-1]]  # of any agent: how the run ended


def _facts(events: Sequence[Event]) -> dict[str, Any]:
    """The ids of the bullets that a run was shown, and of those withheld from it."""
    advice = [event for event in events if isinstance(event, AdviceShown)]
    shown = dict.fromkeys(bullet for event in advice for bullet in event.ids)
    held = dict.fromkeys(bullet for event in advice for bullet in event.held if bullet not in shown)
    return {"shown": [*shown], "held": [*held]}


def _last_text(events: Sequence[Event]) -> str:
    texts = [event.response.content for event in events if isinstance(event, ModelResponded)]
    return next((text for text in reversed(texts) if text), "")
