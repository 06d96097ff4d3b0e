"""Steps: the trace of a task, one step per iteration, with its tool calls."""

from __future__ import annotations

from typing import Literal, TypeAlias

from wesichain.core import JsonValue
from wesichain.core.internal import Value, force_setattr

from .bullets import has_text, is_count, is_number

TaskAction: TypeAlias = Literal["call_tool", "finish"]


class ToolInvocation(Value):
    """One tool call with its result or error."""

    tool_name: str
    arguments: JsonValue = None
    result: JsonValue = None
    success: bool = True
    error_message: str | None = None
    duration_ms: float = 0.0

    def __post_init__(self) -> None:
        if not has_text(self.tool_name):
            raise ValueError("a call needs the name of its tool")
        if not self.success and not has_text(self.error_message):
            raise ValueError(
                f"the call of {self.tool_name!r} failed and does not say why: give error_message"
            )
        if not (is_number(self.duration_ms) and self.duration_ms >= 0):
            raise ValueError(f"duration_ms is 0 or more; got {self.duration_ms!r}")


class ReasoningStep(Value):
    """One iteration, counted from 1: a thought, an action and an observation.

    If the model made several calls at once, `invocations` has all of them; `tool_name` and `tool_args` are
    those of the first.
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
        if not has_text(self.thought):
            raise ValueError(f"iteration {self.iteration} has no thought: say in words what it does")
        if self.action == "call_tool" and self.tool_args is None:
            raise ValueError(
                f"iteration {self.iteration} calls {self.tool_name!r} without tool_args; {{}} has none"
            )
        if self.action == "finish" and not has_text(self.observation):
            raise ValueError(
                f"iteration {self.iteration} ends the run without an observation: give the answer"
            )
        force_setattr(self, "invocations", tuple(self.invocations))

    @property
    def calls(self) -> tuple[ToolInvocation, ...]:
        """Every call of the iteration. A step with only a `tool_name` has one successful call."""
        if self.invocations or self.tool_name is None:
            return self.invocations
        return (ToolInvocation(self.tool_name, self.tool_args, self.observation),)
