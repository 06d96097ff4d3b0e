"""Events: everything that happens in a run, in order, as plain values.

Each event has the run it belongs to, the step (0 before the first), a sequence number that rises by one, and
a time from the run's clock. `scope` is empty for the run itself and names the way down to a nested run: the
node of a graph, the call that runs another agent. In each scope `RunStarted` is first, and exactly one of
`RunCompleted`, `RunFailed`, `RunInterrupted` is last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import ClassVar, TypeAlias

from wesichain.errors import ConfigError

from .codec import JsonValue, is_object
from .content import Part
from .dataclass import OMIT, dataclass
from .messages import LlmResponse, Message, ToolCall, ToolSpec
from .spending import NO_USAGE, Usage


@dataclass(frozen=True, slots=True)
class RunEvent:
    """The base of every event: the fields that all of them have.

    `node` and `task_id` name the branch of a graph that it belongs to: a node's own events have them, and all
    that happen inside it.
    """

    kind: ClassVar[str] = "event"
    run_id: str
    step_id: int
    seq: int
    at: float
    scope: str = field(default="", kw_only=True, metadata=OMIT)
    node: str = field(default="", kw_only=True, metadata=OMIT)
    task_id: str = field(default="", kw_only=True, metadata=OMIT)


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a call to a person in the middle of its work; `schema` has the fields of the answer."""

    message: str
    schema: Mapping[str, JsonValue]

    def filled(self, answer: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The answer, with the defaults of what it leaves out."""
        fields = self.schema.get("properties")
        known = fields if is_object(fields) else {}
        usual = {name: one["default"] for name, one in known.items() if is_object(one) and "default" in one}
        return {**usual, **answer}


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that waits for a person. `token` is bound to exactly this call and is used once.

    `scope` names the agents above the run that the call belongs to, outermost first; `external`: nothing
    is run here, and `Provide` gives its result. Where there is a `question`, the call has begun,
    and waits for the answer to it: `Provide({...})` with its fields. `parameters` is the schema of the
    arguments, so that other ones can be checked by whoever has the question, and not the program.
    """

    call: ToolCall
    token: str
    expires_at: float | None = field(default=None, metadata=OMIT)
    scope: tuple[str, ...] = field(default=(), metadata=OMIT)
    external: bool = field(default=False, metadata=OMIT)
    question: Question | None = field(default=None, metadata=OMIT)
    parameters: Mapping[str, JsonValue] | None = field(default=None, metadata=OMIT)


@dataclass(frozen=True, slots=True)
class Approve:
    """Run the call with its arguments unchanged."""

    kind: ClassVar[str] = "approve"


@dataclass(frozen=True, slots=True)
class ApproveWith:
    """Run the call with other arguments."""

    kind: ClassVar[str] = "approve_with"
    args: JsonValue


@dataclass(frozen=True, slots=True)
class Refuse:
    """Do not run the call; the reason is returned to the model."""

    kind: ClassVar[str] = "refuse"
    reason: str = field(default="", metadata=OMIT)


@dataclass(frozen=True, slots=True)
class Provide:
    """The result of an external call (`external=True`), or its error.

    For a call that waits with a question: the answer to it.
    """

    kind: ClassVar[str] = "provide"
    value: JsonValue = field(default=None, metadata=OMIT)
    error: str | None = field(default=None, metadata=OMIT)


Decision: TypeAlias = Approve | ApproveWith | Refuse | Provide
RefusalOf: TypeAlias = Callable[[ToolCall], Exception | None]  # why a program cannot run a call


def check_decisions(given: object) -> None:
    """Raise a `ConfigError` for decisions that are not given by token."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"give each decision for its token, {{token: Approve()}}, not {given!r}")


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision on one call that waited."""

    token: str
    tool_name: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class RunStarted(RunEvent):
    """A run starts, or is resumed after an interruption (`resumed`), with the decisions on its calls.

    In the log of the run at the top, whose `run_id` all events have, that of a run inside it also says whose
    run it is (`agent`) and the id that it has itself (`own_id`). `instructions` are those of this run alone:
    a function of the agent returned them, or the caller gave them.
    """

    kind: ClassVar[str] = "run_started"
    user_input: str
    model: str
    tools: tuple[ToolSpec, ...] = field(default=(), metadata=OMIT)
    resumed: bool = field(default=False, metadata=OMIT)
    decisions: tuple[Decided, ...] = field(default=(), metadata=OMIT)
    parts: tuple[Part, ...] = field(default=(), metadata=OMIT)  # of a task that is more than text
    agent: str = field(default="", metadata=OMIT)
    own_id: str = field(default="", metadata=OMIT)
    instructions: str = field(default="", metadata=OMIT)


@dataclass(frozen=True, slots=True)
class StepStarted(RunEvent):
    """A model call starts. `messages`: those that are new in this request and in no earlier event.

    If it `follows`, the request has, before these, the last reply and the results of that reply's calls,
    which are in events of their own: a log has everything once. `Transcript` rebuilds the request. One that
    is `free` spends no step of the budget.
    """

    kind: ClassVar[str] = "step_started"
    messages: tuple[Message, ...] = field(default=(), metadata=OMIT)
    follows: bool = field(default=False, metadata=OMIT)
    free: bool = field(default=False, metadata=OMIT)


@dataclass(frozen=True, slots=True)
class TextDelta(RunEvent):
    """A piece of the reply's text, while it streams."""

    kind: ClassVar[str] = "text_delta"
    text: str


@dataclass(frozen=True, slots=True)
class ModelResponded(RunEvent):
    """The whole reply, and what it cost at the price of its model.

    One that is `set_aside` was paid for, and the run was not given it: a middleware asked again, or refused.
    """

    kind: ClassVar[str] = "model_responded"
    response: LlmResponse
    duration_ms: float
    cost: float = field(default=0.0, metadata=OMIT)
    set_aside: bool = field(default=False, metadata=OMIT)


@dataclass(frozen=True, slots=True)
class OutputDelta(RunEvent):
    """The part of a typed answer that can be read so far, while it streams."""

    kind: ClassVar[str] = "output_delta"
    value: JsonValue


@dataclass(frozen=True, slots=True)
class Cut:
    """The messages from `start` up to `end` of a run's log, which its model sees no more, and what it sees.

    The first of `messages` takes the place of `start`, the next one that after it: there are at most as many.
    """

    start: int
    end: int
    messages: tuple[Message, ...] = field(default=(), metadata=OMIT)


@dataclass(frozen=True, slots=True)
class ContextReduced(RunEvent):
    """A view has left something out of the requests from step `step_id` on: the log keeps it.

    It is emitted before that step. `usage` and `cost` are those of the call for a summary;
    `trouble` says why there is none, and then nothing was left out.
    """

    kind: ClassVar[str] = "context_reduced"
    view: str
    cuts: tuple[Cut, ...] = field(default=(), metadata=OMIT)
    cost: float = field(default=0.0, metadata=OMIT)
    usage: Usage = field(default=NO_USAGE, metadata=OMIT)
    trouble: str = field(default="", metadata=OMIT)


@dataclass(frozen=True, slots=True)
class AdviceShown(RunEvent):
    """The instructions, of the first or of another `agent`, contain advice from earlier runs (`ids`)."""

    kind: ClassVar[str] = "advice_shown"
    ids: tuple[str, ...]
    text: str = field(default="", metadata=OMIT)
    held: tuple[str, ...] = field(default=(), metadata=OMIT)  # found, and held back to compare
    agent: str = field(default="", metadata=OMIT)
    tools: tuple[str, ...] = field(default=(), metadata=OMIT)  # offered before their like


@dataclass(frozen=True, slots=True)
class ToolsOffered(RunEvent):
    """From step `step_id` on the model is offered these tools. The event is emitted before that step.

    It is emitted if the tools of an agent have changed since the last step (`DynamicTools`, `ToolSearch`).
    """

    kind: ClassVar[str] = "tools_offered"
    tools: tuple[ToolSpec, ...] = field(default=(), metadata=OMIT)


@dataclass(frozen=True, slots=True)
class HandedOff(RunEvent):
    """The run continues as another agent, with its model and tools.

    It has its own instructions; its first request has the messages so far.
    `instructions` are there where a function returned them.
    """

    kind: ClassVar[str] = "handed_off"
    source: str
    target: str
    model: str = field(default="", metadata=OMIT)
    tools: tuple[ToolSpec, ...] = field(default=(), metadata=OMIT)
    instructions: str = field(default="", metadata=OMIT)


@dataclass(frozen=True, slots=True)
class ContentOmitted(RunEvent):
    """Some of the content could not be sent to the model: `omitted` has the lines that were sent instead."""

    kind: ClassVar[str] = "content_omitted"
    model: str
    omitted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolDispatched(RunEvent):
    """A tool call starts, for the first time or again.

    `resumed`: a run inside it had been interrupted and is resumed, so that it is no further call.
    """

    kind: ClassVar[str] = "tool_dispatched"
    call: ToolCall
    attempt: int = field(default=1, metadata=OMIT)
    resumed: bool = field(default=False, metadata=OMIT)

    @property
    def call_id(self) -> str:
        return self.call.id


@dataclass(frozen=True, slots=True)
class ToolProgress(RunEvent):
    """How far a call has come, in its own words."""

    kind: ClassVar[str] = "tool_progress"
    call_id: str
    done: float
    total: float | None = field(default=None, metadata=OMIT)
    message: str = field(default="", metadata=OMIT)


@dataclass(frozen=True, slots=True)
class ToolCompleted(RunEvent):
    """A call gave a result. Of one with pictures or the like `parts` has it all, `value` says it in words."""

    kind: ClassVar[str] = "tool_completed"
    call_id: str
    tool_name: str
    value: JsonValue
    duration_ms: float
    parts: tuple[Part, ...] = field(default=(), metadata=OMIT)
    finish: bool = field(default=False, metadata=OMIT)  # the value is the run's own


@dataclass(frozen=True, slots=True)
class StepFailed(RunEvent):
    """A model call, a reply or a tool call went wrong, or a tool call ended without a result.

    `decision` is the policy's: "retry", "reprompt", "fail" or "interrupt". Where no policy was asked, it is
    "limit" (a limit of this run or of one above was met inside the call), "waiting" (a run inside waits),
    "cancelled" (the run ended first) or "not_begun". A retry of a tool call spends a step unless it is
    `free`; a cancelled call that is `free` has spent nothing.
    """

    kind: ClassVar[str] = "step_failed"
    error: str
    message: str
    decision: str
    call_id: str | None = field(default=None, metadata=OMIT)
    tool_name: str | None = field(default=None, metadata=OMIT)
    duration_ms: float = field(default=0.0, metadata=OMIT)
    free: bool = field(default=False, metadata=OMIT)
    cause: str = field(default="", metadata=OMIT)  # the class of what a tool itself raised


@dataclass(frozen=True, slots=True)
class RunCompleted(RunEvent):
    """The run ended with an answer; `stopped_by` names the limit that made it the last word."""

    kind: ClassVar[str] = "run_completed"
    output: JsonValue
    usage: Usage
    seconds: float = field(default=0.0, metadata=OMIT)  # at work, since the run began
    stopped_by: str | None = field(default=None, metadata=OMIT)


@dataclass(frozen=True, slots=True)
class RunFailed(RunEvent):
    """The run ended with an error."""

    kind: ClassVar[str] = "run_failed"
    error: str
    message: str
    usage: Usage
    seconds: float = field(default=0.0, metadata=OMIT)


@dataclass(frozen=True, slots=True)
class RunInterrupted(RunEvent):
    """The run was stopped, or waits for a person."""

    kind: ClassVar[str] = "run_interrupted"
    reason: str
    usage: Usage
    pending: tuple[PendingCall, ...] = field(default=(), metadata=OMIT)
    seconds: float = field(default=0.0, metadata=OMIT)


@dataclass(frozen=True, slots=True)
class NodeStarted(RunEvent):
    """A node of a graph begins; `step_id` is the super-step."""

    kind: ClassVar[str] = "node_started"
    node: str = ""


@dataclass(frozen=True, slots=True)
class NodeCompleted(RunEvent):
    """A node gave its update; `keys` are the keys it wrote."""

    kind: ClassVar[str] = "node_completed"
    node: str = ""
    duration_ms: float = 0.0
    keys: tuple[str, ...] = field(default=(), metadata=OMIT)


@dataclass(frozen=True, slots=True)
class NodeFailed(RunEvent):
    """A node raised, timed out or returned what is not an update."""

    kind: ClassVar[str] = "node_failed"
    node: str = ""
    error: str = ""
    message: str = ""


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
    | OutputDelta
    | ContextReduced
    | AdviceShown
    | ToolsOffered
    | HandedOff
    | ContentOmitted
    | ToolDispatched
    | ToolProgress
    | ToolCompleted
    | StepFailed
    | RunCompleted
    | RunFailed
    | RunInterrupted
)
GraphEvent: TypeAlias = NodeStarted | NodeCompleted | NodeFailed | CheckpointSaved
Event: TypeAlias = AgentEvent | GraphEvent
