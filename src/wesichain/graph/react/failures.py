"""An agent's failure in a graph: it becomes an error of the graph, with the state so far."""

from __future__ import annotations

from enum import StrEnum
from sys import maxsize
from typing import Any

from typing_extensions import override

from wesichain.core.internal import dataclass
from wesichain.errors import (
    ConfigError,
    CycleDetectedError,
    GraphError,
    InvalidModelActionError,
    InvalidToolCallResponseError,
    LoopDetectedError,
    NodeFailedError,
    ToolCallFailedError,
    ToolFailedError,
)
from wesichain.policy import FailFast, N, PolicyDecision, PolicyEngine, Reprompt, RunView


class ToolFailurePolicy(StrEnum):
    """Whether a tool that fails ends the run. A call that cannot be run always ends it."""

    FAIL_FAST = "fail_fast"
    APPEND_ERROR_AND_CONTINUE = "append_error_and_continue"

    @classmethod
    @override
    def _missing_(cls, value: object) -> ToolFailurePolicy:
        known = ", ".join(repr(one.value) for one in cls)
        raise ConfigError(f"{value!r} is not a tool_failure_policy; there are: {known}")

    def engine(self) -> PolicyEngine:
        return FailFast() if self is ToolFailurePolicy.FAIL_FAST else _Continue()


@dataclass(frozen=True, slots=True)
class _Continue(FailFast):
    """Returns the errors of tools to the model; everything else ends the run."""

    @override
    def on_tool_error(self, state: RunView, error: ToolFailedError) -> PolicyDecision:
        return Reprompt(N(maxsize))


def graph_error(error: Exception, *, node: str, state: Any) -> GraphError:
    """The graph's error for that of a run which failed. The scratchpad of `state` ends in an ErrorStep."""
    match error:
        case ToolFailedError():
            reason = str(error).removeprefix(f"tool {error.tool_name!r} failed: ")
            return ToolCallFailedError(error.tool_name, reason, node=node, state=state)
        case InvalidModelActionError():
            return InvalidToolCallResponseError(str(error), node=node, state=state)
        case LoopDetectedError():
            return CycleDetectedError(f"cycle detected: {error}", node=node, state=state)
        case _:
            return NodeFailedError(f"node {node!r}: the run failed: {error}", node=node, state=state)
