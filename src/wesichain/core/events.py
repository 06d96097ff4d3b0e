"""Events: the record of everything that happens in a run, in order.

Each event has the run it belongs to, the step (0 before the first), a sequence number that rises by one, and
a time from the run's clock. `scope` is empty for the run itself, and the path to a nested run: the node of
a graph, or the call that runs another agent. In each scope `RunStarted` is first, and exactly one of
`RunCompleted`, `RunFailed`, `RunInterrupted` is last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, TypeAlias

from wesichain.errors import ConfigError

from .codec import JsonValue, is_object
from .content import Part
from .messages import LlmResponse, Message, ToolCall, ToolSpec
from .spending import NO_USAGE, Usage
from .values import Value, field

__all__ = [
    "AdviceShown",
    "AgentEvent",
    "ContentOmitted",
    "ContextReduced",
    "Decided",
    "Event",
    "HandedOff",
    "MessageReceived",
    "ModelResponded",
    "OutputDelta",
    "RunCompleted",
    "RunFailed",
    "RunInterrupted",
    "RunStarted",
    "StepFailed",
    "StepStarted",
    "TextDelta",
    "ToolCompleted",
    "ToolDispatched",
    "ToolProgress",
    "ToolsOffered",
]


class _Place(Value, omit_defaults=True, kw_only=True):
    """The place of an event in a tree of runs, or in a graph."""

    scope: str = ""
    node: str = ""
    task_id: str = ""


class RunEvent(_Place):
    """The base of every event: the fields that all of them have.

    `node` and `task_id` name the branch of a graph in which the event happened; they are set for the events
    of a node and for all events inside it.
    """

    kind: ClassVar[str] = "event"
    run_id: str
    step_id: int
    seq: int
    at: float


class Question(Value):
    """A question that a running call asks a person; `schema` has the fields of the answer."""

    message: str
    schema: Mapping[str, JsonValue]

    def filled(self, answer: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The answer, completed with the defaults of the schema."""
        fields = self.schema.get("properties")
        known = fields if is_object(fields) else {}
        usual = {name: one["default"] for name, one in known.items() if is_object(one) and "default" in one}
        return {**usual, **answer}


class PendingCall(Value, omit_defaults=True):
    """A call that waits for a human decision. `token` is bound to this call and can be used once.

    `scope` names the agents above the run that made the call, outermost first. An `external` call is not run
    here; `Provide` gives its result. A call with a `question` has started and waits for the answer:
    `Provide({...})` with its fields. `parameters` is the schema of the arguments, so that `ApproveWith` can
    be checked without the program. `why` says why a person is asked, if it is not a rule of the tool itself:
    which values come from no person, and where they stand (see `Flow`). The outcome of an `unknown` call is
    not known: `Provide` gives it, and `Approve` makes the call again.
    """

    call: ToolCall
    token: str
    expires_at: float | None = None
    scope: tuple[str, ...] = ()
    external: bool = False
    question: Question | None = None
    parameters: Mapping[str, JsonValue] | None = None
    why: str = ""
    unknown: bool = False


class Approve(Value, omit_defaults=True):
    """Run the call with its arguments unchanged. `by` is who decides."""

    kind: ClassVar[str] = "approve"
    by: str = field(default="", kw_only=True)


class ApproveWith(Value, omit_defaults=True):
    """Run the call with other arguments. `by` is who decides."""

    __always__: ClassVar[tuple[str, ...]] = ("args",)

    kind: ClassVar[str] = "approve_with"
    args: JsonValue
    by: str = field(default="", kw_only=True)


class Refuse(Value, omit_defaults=True):
    """Do not run the call; the reason is returned to the model. `by` is who decides."""

    kind: ClassVar[str] = "refuse"
    reason: str = ""
    by: str = field(default="", kw_only=True)


class Provide(Value, omit_defaults=True):
    """The result of an external call (`external=True`), or its error.

    For a call that waits with a question: the answer to it. `by` is who decides.
    """

    kind: ClassVar[str] = "provide"
    value: JsonValue = None
    error: str | None = None
    by: str = field(default="", kw_only=True)


Decision: TypeAlias = Approve | ApproveWith | Refuse | Provide
RefusalOf: TypeAlias = Callable[[PendingCall], Exception | None]  # why a program cannot run a call


def check_decisions(given: object) -> None:
    """Raise a `ConfigError` for decisions that are not given by token."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"give each decision for its token, {{token: Approve()}}, not {given!r}")


class Decided(Value):
    """The decision on one pending call."""

    token: str
    tool_name: str
    decision: Decision


class RunStarted(RunEvent):
    """A run starts, or is resumed after an interruption (`resumed`), with the decisions on its calls.

    `agent` is the name of the agent that the run began with. All events of a log have the `run_id` of the
    outermost run; `own_id` is the own id of a nested run. `instructions` are set if they belong to this run
    alone: a function of the agent returned them, or the caller passed them.
    """

    kind: ClassVar[str] = "run_started"
    user_input: str
    model: str
    tools: tuple[ToolSpec, ...] = ()
    resumed: bool = False
    decisions: tuple[Decided, ...] = ()
    parts: tuple[Part, ...] = ()  # of a task with parts other than text
    agent: str = ""
    own_id: str = ""
    instructions: str = ""


class StepStarted(RunEvent):
    """A model call starts. `messages` are the new messages of the request that no earlier event has.

    If `follows` is true, the last reply and the results of its calls come before them; those have events of
    their own, so that a log has everything once. `Transcript` rebuilds the request. A `free` step is not
    counted against the budget.
    """

    kind: ClassVar[str] = "step_started"
    messages: tuple[Message, ...] = ()
    follows: bool = False
    free: bool = False


class TextDelta(RunEvent):
    """A piece of the text of a streamed reply."""

    kind: ClassVar[str] = "text_delta"
    text: str


class ModelResponded(RunEvent):
    """The complete reply, and its cost at the price of its model.

    A reply that is `set_aside` was paid for but not used: a middleware called the model again, or refused.
    A reply that is `refused` was not accepted as the answer, by a guard or a check; clients of a service
    receive it without its content.
    """

    kind: ClassVar[str] = "model_responded"
    response: LlmResponse
    duration_ms: float
    cost: float = 0.0
    set_aside: bool = False
    refused: bool = False


class OutputDelta(RunEvent):
    """The part of a typed answer that can be parsed so far, while it streams."""

    kind: ClassVar[str] = "output_delta"
    value: JsonValue


class Cut(Value, omit_defaults=True):
    """Messages `start` to `end` of a run's log are replaced by `messages` in later requests.

    The first of `messages` takes the place of `start`, the next one of `start + 1`; there are at most as
    many.
    """

    start: int
    end: int
    messages: tuple[Message, ...] = ()


class ContextReduced(RunEvent):
    """A context view left messages out of the requests from step `step_id` on; the log keeps them.

    It is emitted before that step. `usage` and `cost` are those of the model call for a summary. If that call
    failed, `trouble` has the error, and nothing was left out.
    """

    kind: ClassVar[str] = "context_reduced"
    view: str
    cuts: tuple[Cut, ...] = ()
    cost: float = 0.0
    usage: Usage = NO_USAGE
    trouble: str = ""


class AdviceShown(RunEvent):
    """The instructions of an agent contain advice from earlier runs (`ids`); "" is the first `agent`."""

    kind: ClassVar[str] = "advice_shown"
    ids: tuple[str, ...]
    text: str = ""
    held: tuple[str, ...] = ()  # retrieved, and withheld for comparison
    agent: str = ""
    tools: tuple[str, ...] = ()  # recommended: listed before others with the same parameters


class ToolsOffered(RunEvent):
    """The model is offered these tools from step `step_id` on. The event is emitted before that step.

    It is emitted when the tools of an agent have changed since the last step (`DynamicTools`, `ToolSearch`).
    """

    kind: ClassVar[str] = "tools_offered"
    tools: tuple[ToolSpec, ...] = ()


class HandedOff(RunEvent):
    """The run continues as another agent, with its model and tools.

    It has its own instructions; its first request has the messages so far. `instructions` are set if a
    function returned them.
    """

    kind: ClassVar[str] = "handed_off"
    source: str
    target: str
    model: str = ""
    tools: tuple[ToolSpec, ...] = ()
    instructions: str = ""


class MessageReceived(RunEvent):
    """A message has come from outside, which a later request has. `by` is who sent it.

    With a `call_id`, it is the result of a call in the background.
    """

    kind: ClassVar[str] = "message_received"
    text: str
    parts: tuple[Part, ...] = ()
    when: str = "next"
    by: str = ""
    call_id: str = ""


class ContentOmitted(RunEvent):
    """Parts could not be sent to the model; `omitted` has the lines that were sent instead."""

    kind: ClassVar[str] = "content_omitted"
    model: str
    omitted: tuple[str, ...]


class ToolDispatched(RunEvent):
    """A tool call starts, for the first time or again.

    If it is `resumed`, a run inside it was interrupted and continues, which is not counted as another call.
    """

    kind: ClassVar[str] = "tool_dispatched"
    call: ToolCall
    attempt: int = 1
    resumed: bool = False

    @property
    def call_id(self) -> str:
        return self.call.id


class ToolProgress(RunEvent):
    """The progress of a call, as its tool reported it."""

    kind: ClassVar[str] = "tool_progress"
    call_id: str
    done: float
    total: float | None = None
    message: str = ""


class ToolCompleted(RunEvent):
    """A call returned. If the result has images or the like, `parts` has it all; `value` describes it."""

    kind: ClassVar[str] = "tool_completed"
    call_id: str
    tool_name: str
    value: JsonValue
    duration_ms: float
    parts: tuple[Part, ...] = ()
    finish: bool = False  # the value ends the run as its answer
    refused: bool = False  # the value was to end the run and was refused; clients of a service get no value


class StepFailed(RunEvent):
    """A model call, a reply or a tool call went wrong, or a tool call ended without a result.

    `decision` is that of the policy: "retry", "reprompt", "fail" or "interrupt". If no policy was called, it
    is "limit" (a limit of this run or of an outer one was reached inside the call), "waiting" (a run inside
    is interrupted), "cancelled" (the run ended first) or "not_begun". A retry of a tool call spends a step
    unless it is `free`; a cancelled call that is `free` has spent nothing.
    """

    kind: ClassVar[str] = "step_failed"
    error: str
    message: str
    decision: str
    call_id: str | None = None
    tool_name: str | None = None
    duration_ms: float = 0.0
    free: bool = False
    cause: str = ""  # the class of the exception that the tool raised, or a model or a check of the user's


class RunCompleted(RunEvent):
    """The run ended with an answer; `stopped_by` names the limit that ended it early, if one did."""

    kind: ClassVar[str] = "run_completed"
    output: JsonValue
    usage: Usage
    seconds: float = 0.0  # of work since the run started, without waiting for people
    stopped_by: str | None = None


class RunFailed(RunEvent):
    """The run ended with an error."""

    kind: ClassVar[str] = "run_failed"
    error: str
    message: str
    usage: Usage
    seconds: float = 0.0


class RunInterrupted(RunEvent):
    """The run was stopped, or waits for a human decision."""

    kind: ClassVar[str] = "run_interrupted"
    reason: str
    usage: Usage
    pending: tuple[PendingCall, ...] = ()
    seconds: float = 0.0


class NodeStarted(RunEvent):
    """A node of a graph starts; `step_id` is the super-step."""

    __always__: ClassVar[tuple[str, ...]] = ("node",)

    kind: ClassVar[str] = "node_started"


class NodeCompleted(RunEvent):
    """A node returned its update; `keys` are the keys it wrote."""

    __always__: ClassVar[tuple[str, ...]] = ("node", "duration_ms")

    kind: ClassVar[str] = "node_completed"
    duration_ms: float = 0.0
    keys: tuple[str, ...] = ()


class NodeFailed(RunEvent):
    """A node raised, timed out, or returned something that is not an update."""

    __always__: ClassVar[tuple[str, ...]] = ("node", "error", "message")

    kind: ClassVar[str] = "node_failed"
    error: str = ""
    message: str = ""


class CheckpointSaved(RunEvent):
    """The state after a super-step is stored."""

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
    | MessageReceived
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
