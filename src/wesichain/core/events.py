"""Events: everything that happens in a run, in order, as plain values.

Each event has the run it belongs to, the step (0 before the first), a sequence number that rises by
one, and a time from the run's clock. `scope` is empty for the run itself and names the way down to
a nested run: the node of a graph, the call that runs another agent. In each scope `RunStarted` is
first, and exactly one of `RunCompleted`, `RunFailed`, `RunInterrupted` is last.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, TypeAlias

from .dataclass import dataclass
from .exchange import LlmResponse, ToolSpec
from .json import JsonValue
from .messages import OMIT, Message, ToolCall, Usage


@dataclass(frozen=True, slots=True)
class RunEvent:
    """What every event has."""

    kind: ClassVar[str] = "event"
    run_id: str
    step_id: int
    seq: int
    at: float
    scope: str = field(default="", kw_only=True, metadata=OMIT)


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that waits for a person. `token` is bound to exactly this call and is used once."""

    call: ToolCall
    token: str
    expires_at: float | None = field(default=None, metadata=OMIT)


@dataclass(frozen=True, slots=True)
class Approve:
    """Run the call as it is."""

    kind: ClassVar[str] = "approve"


@dataclass(frozen=True, slots=True)
class ApproveWith:
    """Run the call with other arguments."""

    kind: ClassVar[str] = "approve_with"
    args: JsonValue


@dataclass(frozen=True, slots=True)
class Refuse:
    """Do not run the call; the model is told the reason."""

    kind: ClassVar[str] = "refuse"
    reason: str = field(default="", metadata=OMIT)


Decision: TypeAlias = Approve | ApproveWith | Refuse


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision on one call that waited."""

    token: str
    tool_name: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class RunStarted(RunEvent):
    """A run begins, or goes on after an interruption (`resumed`), with what was decided on its calls."""

    kind: ClassVar[str] = "run_started"
    user_input: str
    model: str
    tools: tuple[ToolSpec, ...] = field(default=(), metadata=OMIT)
    resumed: bool = field(default=False, metadata=OMIT)
    decisions: tuple[Decided, ...] = field(default=(), metadata=OMIT)


@dataclass(frozen=True, slots=True)
class StepStarted(RunEvent):
    """The model is asked. `messages`: those that it sees for the first time, and that no event tells yet.

    Where it `follows`, the model sees, before these, its last reply and the results of that reply's calls,
    as their own events tell them: a log holds everything once. `Transcript` puts it together.
    """

    kind: ClassVar[str] = "step_started"
    messages: tuple[Message, ...] = field(default=(), metadata=OMIT)
    follows: bool = field(default=False, metadata=OMIT)


@dataclass(frozen=True, slots=True)
class TextDelta(RunEvent):
    """A piece of the reply's text, while it streams."""

    kind: ClassVar[str] = "text_delta"
    text: str


@dataclass(frozen=True, slots=True)
class ModelResponded(RunEvent):
    """The whole reply."""

    kind: ClassVar[str] = "model_responded"
    response: LlmResponse
    duration_ms: float


@dataclass(frozen=True, slots=True)
class ToolDispatched(RunEvent):
    """A call is handed to its tool."""

    kind: ClassVar[str] = "tool_dispatched"
    call: ToolCall

    @property
    def call_id(self) -> str:
        return self.call.id


@dataclass(frozen=True, slots=True)
class ToolCompleted(RunEvent):
    """A call gave a result."""

    kind: ClassVar[str] = "tool_completed"
    call_id: str
    tool_name: str
    value: JsonValue
    duration_ms: float


@dataclass(frozen=True, slots=True)
class StepFailed(RunEvent):
    """A model call, a reply or a tool call went wrong; `decision` says what the policy made of it."""

    kind: ClassVar[str] = "step_failed"
    error: str
    message: str
    decision: str
    call_id: str | None = field(default=None, metadata=OMIT)
    tool_name: str | None = field(default=None, metadata=OMIT)
    duration_ms: float = field(default=0.0, metadata=OMIT)


@dataclass(frozen=True, slots=True)
class RunCompleted(RunEvent):
    """The run ended with an answer."""

    kind: ClassVar[str] = "run_completed"
    output: JsonValue
    usage: Usage


@dataclass(frozen=True, slots=True)
class RunFailed(RunEvent):
    """The run ended with an error."""

    kind: ClassVar[str] = "run_failed"
    error: str
    message: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class RunInterrupted(RunEvent):
    """The run was stopped, or waits for a person."""

    kind: ClassVar[str] = "run_interrupted"
    reason: str
    usage: Usage
    pending: tuple[PendingCall, ...] = field(default=(), metadata=OMIT)


@dataclass(frozen=True, slots=True)
class NodeStarted(RunEvent):
    """A node of a graph begins; `step_id` is the super-step."""

    kind: ClassVar[str] = "node_started"
    node: str


@dataclass(frozen=True, slots=True)
class NodeCompleted(RunEvent):
    """A node gave its update; `keys` are the keys it wrote."""

    kind: ClassVar[str] = "node_completed"
    node: str
    duration_ms: float
    keys: tuple[str, ...] = field(default=(), metadata=OMIT)


@dataclass(frozen=True, slots=True)
class NodeFailed(RunEvent):
    """A node raised, timed out or returned what is not an update."""

    kind: ClassVar[str] = "node_failed"
    node: str
    error: str
    message: str


@dataclass(frozen=True, slots=True)
class CheckpointSaved(RunEvent):
    """The state after a super-step is safe."""

    kind: ClassVar[str] = "checkpoint_saved"
    checkpoint_id: str


AgentEvent: TypeAlias = (
    RunStarted
    | StepStarted
    | TextDelta
    | ModelResponded
    | ToolDispatched
    | ToolCompleted
    | StepFailed
    | RunCompleted
    | RunFailed
    | RunInterrupted
)
GraphEvent: TypeAlias = NodeStarted | NodeCompleted | NodeFailed | CheckpointSaved
Event: TypeAlias = AgentEvent | GraphEvent
