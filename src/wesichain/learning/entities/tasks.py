"""Tasks: what a generator is given, what it gives back, and the trace in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias

from wesichain.core import JsonValue, dataclass

from .bullets import PlaybookBullet, is_count, is_number, is_said
from .domains import check_domain

TaskAction: TypeAlias = Literal["call_tool", "finish"]


@dataclass(frozen=True, slots=True)
class TaskInput:
    """One task. `available_tools` narrows the registered tools; `max_iterations` overrides the limit.

    `playbook_bullets` are shown beside those that the generator retrieves; plain texts will do.
    """

    task_id: str
    description: str
    domain: str = "general"
    playbook_bullets: tuple[PlaybookBullet, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    available_tools: tuple[str, ...] | None = None
    max_iterations: int | None = None

    def __post_init__(self) -> None:
        if not is_said(self.task_id):
            raise ValueError("a task needs a task_id, unique in its batch")
        if not is_said(self.description):
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
        object.__setattr__(self, "playbook_bullets", bullets)
        if self.available_tools is not None:
            object.__setattr__(self, "available_tools", tuple(self.available_tools))


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """One call of a tool, and what became of it."""

    tool_name: str
    arguments: JsonValue = None
    result: JsonValue = None
    success: bool = True
    error_message: str | None = None
    duration_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class ReasoningStep:
    """One iteration, counted from 1: a thought, then a call or the end, then what was observed.

    A model may ask for several calls at once: `invocations` has them all, `tool_name` and `tool_args`
    are those of the first.
    """

    iteration: int
    thought: str
    action: TaskAction
    tool_name: str | None = None
    tool_args: JsonValue = None
    observation: str | None = None
    timestamp: float = 0.0
    duration_ms: float = 0.0
    invocations: tuple[ToolInvocation, ...] = ()

    def __post_init__(self) -> None:
        if not is_count(self.iteration) or self.iteration < 1:
            raise ValueError(f"iterations are counted from 1; got {self.iteration!r}")
        if self.action not in ("call_tool", "finish"):
            raise ValueError(f"action is 'call_tool' or 'finish'; got {self.action!r}")
        if self.action == "call_tool" and not self.tool_name:
            raise ValueError(f"iteration {self.iteration} calls a tool and does not say which")
        object.__setattr__(self, "invocations", tuple(self.invocations))

    @property
    def calls(self) -> tuple[ToolInvocation, ...]:
        """Every call of the iteration; one that is only named counts as a call that went well."""
        if self.invocations or self.tool_name is None:
            return self.invocations
        return (ToolInvocation(self.tool_name, self.tool_args, self.observation),)


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """What came of a task; also of one that failed, with everything up to that point.

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
        if not is_said(self.task_id):
            raise ValueError("an output needs the task_id of its task")
        if not (is_number(self.confidence) and 0 <= self.confidence <= 1):
            raise ValueError(f"confidence lies between 0 and 1; got {self.confidence!r}")
        if not is_count(self.total_iterations):
            raise ValueError(f"total_iterations is 0 or more; got {self.total_iterations!r}")
        object.__setattr__(self, "structured_trace", tuple(self.structured_trace))
        object.__setattr__(self, "tools_used", tuple(self.tools_used))

    @property
    def completed(self) -> bool:
        """Whether the run came to an end of its own; says nothing about the answer."""
        return not self.iteration_limit_reached and not self.metadata.get("error")
