"""Every exception of the project.

    WesichainError
    ├── ConfigError              the programmer's mistake, found before anything runs
    │   ├── ToolDefinitionError, DuplicateToolError, PolicyConfigError, MissingDependencyError
    │   ├── ApprovalExpiredError
    │   └── GraphDefinitionError ── MissingNodeError, InvalidEdgeError
    ├── CodecError (ValueError)  text or data that is not what it should be
    ├── LlmError ── LlmTransportError, LlmRejectedError, LlmResponseError   the provider's fault
    ├── ToolError                what a tool raises on purpose
    ├── ToolDispatchError        what became of one tool call
    │   └── UnknownToolError, InvalidArgsError, ToolExecutionError, ToolTimeoutError, ToolSerializationError
    ├── AgentError               why a run ended in Failed
    │   ├── ModelTransportError, ToolFailedError, BudgetExceededError, LoopDetectedError
    │   ├── InvalidModelActionError ── TruncatedReplyError, ModelRefusedError
    │   └── GuardrailError, PolicyViolationError, InternalInvariantError
    ├── RunFailedError, RunInterruptedError, ConversationError   raised by Agent.run, with its outcome
    ├── GraphError               why a graph's run did not reach its end
    │   ├── NodeFailedError, ConflictingUpdateError, GraphInterruptedError, CheckpointError
    │   ├── MaxStepsExceededError, MaxVisitsExceededError, CycleDetectedError, GraphTimeoutError
    │   └── ToolCallFailedError, InvalidToolCallResponseError
    ├── PlaybookError ── DomainError, CorruptRecordError
    ├── DurableError ── RunIdConflictError
    └── ReplayMismatchError, StoreError

A message says what, which, and what to do now; the data behind it is in fields.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypedDict

from typing_extensions import Unpack, override


class WesichainError(Exception):
    """The root: `except WesichainError` catches all that this project raises on purpose."""

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), *self.args), self.__dict__


def _again(cls: type[WesichainError], *args: object) -> WesichainError:
    return cls.__new__(cls, *args)  # a copy gets its fields as they are, also in another process


class ConfigError(WesichainError):
    """Something was put together wrongly; nothing has run yet."""


class ToolDefinitionError(ConfigError):
    """A tool cannot be described to a model, or checked."""


class DuplicateToolError(ConfigError):
    """Two tools of one set carry the same name."""

    def __init__(self, tool_name: str) -> None:
        super().__init__(f"tool {tool_name!r} is registered twice; rename one with @tool(name=...)")
        self.tool_name = tool_name


class GraphDefinitionError(ConfigError):
    """A graph that could not run."""


class MissingNodeError(GraphDefinitionError):
    """An edge or an entry names a node that was never added."""


class InvalidEdgeError(GraphDefinitionError):
    """An edge that has no meaning, such as one out of END."""


class PolicyConfigError(ConfigError):
    """A policy or budget that contradicts itself."""


class MissingDependencyError(ConfigError):
    """An optional package is needed and not installed."""

    def __init__(self, what: str, *, package: str, extra: str) -> None:
        super().__init__(f"{what} needs the {package!r} package: pip install 'wesichain[{extra}]'")
        self.package, self.extra = package, extra


class ApprovalExpiredError(ConfigError):
    """A decision came after the time in which its call could be approved."""


class CodecError(WesichainError, ValueError):
    """Data that cannot be read as the type it should be, or a value that has no JSON."""


class LlmError(WesichainError):
    """A model could not answer. `retryable` says whether asking again can help."""

    def __init__(self, message: str, *, retryable: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retryable, self.retry_after = retryable, retry_after


class LlmTransportError(LlmError):
    """The provider could not be reached, was too slow, or returned an error of its own (429, 5xx)."""


class LlmRejectedError(LlmError):
    """The provider understood the request and refused it."""


class LlmResponseError(LlmError):
    """The provider answered with something that is not a reply."""


class ToolErrorKind(StrEnum):
    """Why a tool gave up."""

    INVALID_INPUT = "invalid_input"
    EXECUTION_FAILED = "execution_failed"
    TIMEOUT = "timeout"
    NOT_FOUND = "not_found"
    PERMISSION = "permission"
    UNAVAILABLE = "unavailable"
    CANCELLED = "cancelled"
    SERIALIZATION = "serialization"


class ToolError(WesichainError):
    """What a tool raises on purpose: the message is for the model to read."""

    def __init__(self, message: str, kind: ToolErrorKind = ToolErrorKind.EXECUTION_FAILED) -> None:
        super().__init__(message)
        self.kind = ToolErrorKind(kind)


class _Call(TypedDict, total=False):
    tool_name: str
    call_id: str


class ToolDispatchError(WesichainError):
    """One tool call did not give a result; the cause, if any, is `__cause__`."""

    kind: ToolErrorKind = ToolErrorKind.EXECUTION_FAILED

    def __init__(self, message: str, *, tool_name: str = "", call_id: str = "") -> None:
        super().__init__(message)
        self.tool_name, self.call_id = tool_name, call_id


class UnknownToolError(ToolDispatchError):
    """The model named a tool that is not there."""

    kind = ToolErrorKind.NOT_FOUND

    def __init__(self, message: str, *, available: tuple[str, ...] = (), **call: Unpack[_Call]) -> None:
        super().__init__(message, **call)
        self.available = available


class InvalidArgsError(ToolDispatchError):
    """The arguments do not fit the tool's schema; the tool was not entered."""

    kind = ToolErrorKind.INVALID_INPUT

    def __init__(self, message: str, *, issues: tuple[str, ...] = (), **call: Unpack[_Call]) -> None:
        super().__init__(message, **call)
        self.issues = issues


class ToolExecutionError(ToolDispatchError):
    """The tool raised; a `ToolError` keeps its kind."""

    def __init__(
        self, message: str, *, kind: ToolErrorKind = ToolErrorKind.EXECUTION_FAILED, **call: Unpack[_Call]
    ) -> None:
        super().__init__(message, **call)
        self.kind = kind


class ToolTimeoutError(ToolDispatchError):
    """The tool did not come back in time. `abandoned`: it would not stop either."""

    kind = ToolErrorKind.TIMEOUT

    def __init__(
        self, message: str, *, seconds: float = 0.0, abandoned: bool = False, **call: Unpack[_Call]
    ) -> None:
        super().__init__(message, **call)
        self.seconds, self.abandoned = seconds, abandoned


class ToolSerializationError(ToolDispatchError):
    """What the tool returned is not what it declared, or cannot be written as JSON."""

    kind = ToolErrorKind.SERIALIZATION


class AgentError(WesichainError):
    """Why a run failed. `step_id` says where; the outcome that carries it has the run so far."""

    def __init__(self, message: str, *, step_id: int = 0) -> None:
        super().__init__(message)
        self.step_id = step_id


class ModelTransportError(AgentError):
    """The model call failed; the provider's or the adapter's error is `__cause__`."""

    @property
    def retryable(self) -> bool:
        return bool(getattr(self.__cause__, "retryable", False))

    @property
    def retry_after(self) -> float | None:
        after = getattr(self.__cause__, "retry_after", None)
        return float(after) if isinstance(after, int | float) else None


class InvalidModelActionError(AgentError):
    """The model's reply is not a valid action; `__cause__` may say more."""

    def __init__(
        self,
        message: str,
        *,
        step_id: int = 0,
        tool_name: str | None = None,
        received_args: Any = None,
        raw_response: Any = None,
    ) -> None:
        super().__init__(message, step_id=step_id)
        self.tool_name, self.received_args, self.raw_response = tool_name, received_args, raw_response


class TruncatedReplyError(InvalidModelActionError):
    """The model's reply ended before its end: it is no answer, however much of it there is."""


class ModelRefusedError(InvalidModelActionError):
    """The model, or a filter of its provider, refused to answer."""


class ToolFailedError(AgentError):
    """A tool raised, timed out or returned what it should not; `__cause__` is the dispatch error."""

    def __init__(
        self, message: str, *, step_id: int = 0, tool_name: str = "", call_id: str = "", attempts: int = 1
    ) -> None:
        super().__init__(message, step_id=step_id)
        self.tool_name, self.call_id, self.attempts = tool_name, call_id, attempts


class BudgetExceededError(AgentError):
    """A limit of the budget is used up. `resource` says which, `owner` whose account it is (not stored)."""

    def __init__(
        self,
        message: str,
        *,
        step_id: int = 0,
        resource: str = "steps",
        limit: float = 0,
        used: float = 0,
        owner: object = None,
    ) -> None:
        super().__init__(message, step_id=step_id)
        self.resource, self.limit, self.used, self.owner = resource, limit, used, owner


class LoopDetectedError(AgentError):
    """The model makes the same call again and again."""

    def __init__(
        self, message: str, *, step_id: int = 0, tool_name: str = "", args: Any = None, times: int = 0
    ):
        super().__init__(message, step_id=step_id)
        self.tool_name, self.repeated_args, self.times = tool_name, args, times


class GuardrailError(AgentError):
    """A guard refused what went into the run, or what came out of it."""


class PolicyViolationError(AgentError):
    """A policy raised, or decided something that is not a decision."""


class InternalInvariantError(AgentError):
    """A bug of this project: please report it with the traceback."""


class _RunEndedError(WesichainError):
    def __init__(self, message: str, outcome: Any = None) -> None:
        super().__init__(message)
        self.outcome = outcome


class RunFailedError(_RunEndedError):
    """A run ended in Failed; `.outcome` has everything it did."""


class RunInterruptedError(_RunEndedError):
    """A run ended in Interrupted; `.outcome` can be resumed."""


class ConversationError(_RunEndedError):
    """A conversation cannot be read or kept; `.outcome` is the run whose turn was not kept, or None."""


class GraphError(WesichainError):
    """A graph's run did not reach its end. `state` is the last whole state, where there is one."""

    def __init__(self, message: str, *, node: str | None = None, state: Any = None) -> None:
        super().__init__(message)
        self.node, self.state = node, state


class NodeFailedError(GraphError):
    """A node raised, or returned what is not an update; the cause is `__cause__`."""


class MaxStepsExceededError(GraphError):
    """The run took more super-steps than it may."""


class MaxVisitsExceededError(GraphError):
    """One node was entered more often than it may be."""


class CycleDetectedError(GraphError):
    """A node keeps seeing the same state."""


class GraphTimeoutError(GraphError):
    """A node, or the whole run, took too long."""


class ConflictingUpdateError(GraphError):
    """Two nodes of one super-step wrote a key that keeps one value."""

    def __init__(self, key: str, nodes: tuple[str, ...], *, state: Any = None) -> None:
        writers = " and ".join(repr(node) for node in nodes)
        what = f"key {key!r} was written by {writers} in the same super-step"
        now = "give it a reducer (Annotated[..., Append]) or let only one of them write it"
        super().__init__(f"{what}; {now}", state=state)
        self.key, self.nodes = key, nodes


class GraphInterruptedError(GraphError):
    """The run waits for a person. Answer with `graph.resume(thread_id, value)`."""

    def __init__(
        self,
        message: str,
        *,
        interrupts: tuple[Any, ...] = (),
        thread_id: str | None = None,
        state: Any = None,
    ) -> None:
        super().__init__(message, state=state)
        self.interrupts, self.thread_id = interrupts, thread_id


class ToolCallFailedError(GraphError):
    """A tool of a ReAct node failed and its policy is to stop."""

    def __init__(self, tool_name: str, reason: str, *, node: str | None = None, state: Any = None) -> None:
        super().__init__(f"tool {tool_name!r} failed: {reason}", node=node, state=state)
        self.tool_name, self.reason = tool_name, reason


class InvalidToolCallResponseError(GraphError):
    """The model of a ReAct node sent a call that cannot be run."""

    def __init__(self, reason: str, *, node: str | None = None, state: Any = None) -> None:
        super().__init__(f"the model's tool call cannot be run: {reason}", node=node, state=state)
        self.reason = reason


class CheckpointError(GraphError):
    """A checkpoint cannot be read or written."""


class StoreError(WesichainError):
    """A store of items cannot be read or written."""


class PlaybookError(WesichainError):
    """A playbook cannot be read, written or searched."""


class DomainError(PlaybookError, ValueError):
    """A domain's name is not allowed."""


class CorruptRecordError(PlaybookError):
    """A record in the middle of a log cannot be read."""


class DurableError(WesichainError):
    """A durable run cannot be started, found or continued."""


class RunIdConflictError(DurableError):
    """The run id belongs to a run with other input."""


class ReplayMismatchError(WesichainError):
    """The program no longer does what the recording says; `.step_id` is where they part."""

    def __init__(self, message: str, *, step_id: int = 0, expected: Any = None, actual: Any = None) -> None:
        super().__init__(message)
        self.step_id, self.expected, self.actual = step_id, expected, actual
