"""Every exception of the project.

    WesichainError
    ├── ConfigError              a programming error, found before anything runs
    │   ├── ToolDefinitionError, DuplicateToolError, PolicyConfigError, MissingDependencyError
    │   ├── ApprovalExpiredError
    │   └── GraphDefinitionError ── MissingNodeError, InvalidEdgeError
    ├── CodecError (ValueError)  invalid text or data
    ├── LlmError ── LlmTransportError, LlmRejectedError, LlmResponseError   a provider's error
    ├── ToolError                raised by a tool on purpose
    ├── ToolDispatchError        a failed tool call
    │   └── UnknownToolError, InvalidArgsError, ToolExecutionError, ToolTimeoutError, ToolSerializationError
    ├── AgentError               the reason why a run ended in Failed
    │   ├── ModelTransportError, ToolFailedError, BudgetExceededError, LoopDetectedError
    │   ├── InvalidModelActionError ── TruncatedReplyError, ModelRefusedError
    │   └── GuardrailError, PolicyViolationError, InternalInvariantError
    ├── RunFailedError, RunInterruptedError, ConversationError   raised by Agent.run, with the outcome
    ├── GraphError               the reason why a graph's run did not complete
    │   ├── NodeFailedError, ConflictingUpdateError, GraphInterruptedError, CheckpointError
    │   ├── MaxStepsExceededError, MaxVisitsExceededError, CycleDetectedError, GraphTimeoutError
    │   └── ToolCallFailedError, InvalidToolCallResponseError
    ├── PlaybookError ── DomainError, CorruptRecordError
    ├── DurableError ── RunIdConflictError
    ├── JournalError             a run and its log do not fit together
    │   ├── JournalMismatchError ── ReplayMismatchError
    │   ├── JournalConflictError, RunEndedError, ConversationBusyError
    │   └── OutcomeUnknownError, PerformFailedError, WaitTimeoutError
    └── StoreError

A message says what is wrong, where, and what to do; its data is in attributes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypedDict

from typing_extensions import Unpack, override


class WesichainError(Exception):
    """The base class of all exceptions of this project."""

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _copy, (type(self), *self.args), self.__dict__


def _copy(cls: type[WesichainError], *args: object) -> WesichainError:
    return cls.__new__(cls, *args)  # without `__init__`: pickle and copy restore the attributes


class ConfigError(WesichainError):
    """A wrong configuration or argument; nothing has run yet."""


class ToolDefinitionError(ConfigError):
    """A tool has no valid name or schema."""


class DuplicateToolError(ConfigError):
    """Two tools of a set have the same name."""

    def __init__(self, tool_name: str) -> None:
        super().__init__(f"tool {tool_name!r} is registered twice; rename one with @tool(name=...)")
        self.tool_name = tool_name


class GraphDefinitionError(ConfigError):
    """An invalid graph."""


class MissingNodeError(GraphDefinitionError):
    """An edge or an entry refers to a node that was not added."""


class InvalidEdgeError(GraphDefinitionError):
    """An invalid edge, such as one from END."""


class PolicyConfigError(ConfigError):
    """An invalid policy or budget."""


class MissingDependencyError(ConfigError):
    """An optional package is not installed."""

    def __init__(self, what: str, *, package: str, extra: str) -> None:
        super().__init__(f"{what} needs the {package!r} package: pip install 'wesichain[{extra}]'")
        self.package, self.extra = package, extra


class ApprovalExpiredError(ConfigError):
    """A decision was made after the approval of its call had expired."""


class CodecError(WesichainError, ValueError):
    """Data that is not valid for its type, or a value that cannot be written as JSON."""


class LlmError(WesichainError):
    """A model call failed. `retryable` is True if a retry can help."""

    def __init__(self, message: str, *, retryable: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retryable, self.retry_after = retryable, retry_after


class LlmTransportError(LlmError):
    """The provider could not be reached, timed out, or returned a server error or rate limit (5xx, 429)."""


class LlmRejectedError(LlmError):
    """The provider rejected the request."""


class LlmResponseError(LlmError):
    """The provider's response is not a valid reply."""


class ToolErrorKind(StrEnum):
    """The kind of a tool's error."""

    INVALID_INPUT = "invalid_input"
    EXECUTION_FAILED = "execution_failed"
    TIMEOUT = "timeout"
    NOT_FOUND = "not_found"
    PERMISSION = "permission"
    UNAVAILABLE = "unavailable"
    CANCELLED = "cancelled"
    SERIALIZATION = "serialization"


class ToolError(WesichainError):
    """Raised by a tool on purpose. The message is returned to the model."""

    def __init__(self, message: str, kind: ToolErrorKind = ToolErrorKind.EXECUTION_FAILED) -> None:
        super().__init__(message)
        self.kind = ToolErrorKind(kind)


class _Call(TypedDict, total=False):
    tool_name: str
    call_id: str


class ToolDispatchError(WesichainError):
    """A tool call failed; the exception that caused it, if any, is `__cause__`."""

    kind: ToolErrorKind = ToolErrorKind.EXECUTION_FAILED

    def __init__(self, message: str, *, tool_name: str = "", call_id: str = "") -> None:
        super().__init__(message)
        self.tool_name, self.call_id = tool_name, call_id


class UnknownToolError(ToolDispatchError):
    """The model called a tool that does not exist."""

    kind = ToolErrorKind.NOT_FOUND

    def __init__(self, message: str, *, available: tuple[str, ...] = (), **call: Unpack[_Call]) -> None:
        super().__init__(message, **call)
        self.available = available


class InvalidArgsError(ToolDispatchError):
    """The arguments do not match the tool's schema; the tool was not called."""

    kind = ToolErrorKind.INVALID_INPUT

    def __init__(self, message: str, *, issues: tuple[str, ...] = (), **call: Unpack[_Call]) -> None:
        super().__init__(message, **call)
        self.issues = issues


class ToolExecutionError(ToolDispatchError):
    """The tool raised an exception. The kind of a `ToolError` is kept."""

    def __init__(
        self, message: str, *, kind: ToolErrorKind = ToolErrorKind.EXECUTION_FAILED, **call: Unpack[_Call]
    ) -> None:
        super().__init__(message, **call)
        self.kind = kind


class ToolTimeoutError(ToolDispatchError):
    """The tool timed out. `abandoned` is True if it could not be stopped."""

    kind = ToolErrorKind.TIMEOUT

    def __init__(
        self, message: str, *, seconds: float = 0.0, abandoned: bool = False, **call: Unpack[_Call]
    ) -> None:
        super().__init__(message, **call)
        self.seconds, self.abandoned = seconds, abandoned


class ToolSerializationError(ToolDispatchError):
    """The tool's result does not have the declared type, or cannot be written as JSON."""

    kind = ToolErrorKind.SERIALIZATION


class AgentError(WesichainError):
    """The reason why a run failed, in the step `step_id`. The outcome has the run so far."""

    def __init__(self, message: str, *, step_id: int = 0) -> None:
        super().__init__(message)
        self.step_id = step_id


class ModelTransportError(AgentError):
    """A model call failed; the error of the provider or the adapter is `__cause__`."""

    @property
    def retryable(self) -> bool:
        return bool(getattr(self.__cause__, "retryable", False))

    @property
    def retry_after(self) -> float | None:
        after = getattr(self.__cause__, "retry_after", None)
        return float(after) if isinstance(after, int | float) else None


class InvalidModelActionError(AgentError):
    """The model's reply is not a valid action; `__cause__` may have details."""

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
    """The model's reply was cut off, and is not used as an answer."""


class ModelRefusedError(InvalidModelActionError):
    """The model, or a filter of its provider, refused to answer."""


class ToolFailedError(AgentError):
    """A tool raised, timed out, or returned an invalid result; `__cause__` is the `ToolDispatchError`."""

    def __init__(
        self, message: str, *, step_id: int = 0, tool_name: str = "", call_id: str = "", attempts: int = 1
    ) -> None:
        super().__init__(message, step_id=step_id)
        self.tool_name, self.call_id, self.attempts = tool_name, call_id, attempts


class BudgetExceededError(AgentError):
    """A limit of the budget is used up: of `resource`, in the account of `owner` (which is not stored)."""

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
    """The model repeats the same call."""

    def __init__(
        self, message: str, *, step_id: int = 0, tool_name: str = "", args: Any = None, times: int = 0
    ):
        super().__init__(message, step_id=step_id)
        self.tool_name, self.repeated_args, self.times = tool_name, args, times


class GuardrailError(AgentError):
    """A guard refused the input or the output of a run."""


class PolicyViolationError(AgentError):
    """A policy raised an exception, or returned an invalid decision."""


class InternalInvariantError(AgentError):
    """A bug of this project: please report it with the traceback."""


class _RunEndedError(WesichainError):
    def __init__(self, message: str, outcome: Any = None) -> None:
        super().__init__(message)
        self.outcome = outcome


class RunFailedError(_RunEndedError):
    """A run ended in Failed; `.outcome` has its messages, events and spending."""


class RunInterruptedError(_RunEndedError):
    """A run ended in Interrupted; `.outcome` can be resumed."""


class ConversationError(_RunEndedError):
    """A conversation cannot be read or stored; `.outcome` is the run whose turn was not stored, or None."""


class GraphError(WesichainError):
    """A graph's run did not complete. `state` is the last complete state, or None."""

    def __init__(self, message: str, *, node: str | None = None, state: Any = None) -> None:
        super().__init__(message)
        self.node, self.state = node, state


class NodeFailedError(GraphError):
    """A node raised an exception, which is `__cause__`, or returned an invalid update."""


class MaxStepsExceededError(GraphError):
    """The run exceeded its limit of super-steps."""


class MaxVisitsExceededError(GraphError):
    """A node exceeded its limit of visits."""


class CycleDetectedError(GraphError):
    """A node was entered repeatedly with the same state."""


class GraphTimeoutError(GraphError):
    """A node or the run timed out."""


class ConflictingUpdateError(GraphError):
    """Two nodes of a super-step wrote the same key, which has no reducer."""

    def __init__(self, key: str, nodes: tuple[str, ...], *, state: Any = None) -> None:
        writers = " and ".join(repr(node) for node in nodes)
        what = f"key {key!r} was written by {writers} in the same super-step"
        now = "give it a reducer (Annotated[..., Append]) or let only one of them write it"
        super().__init__(f"{what}; {now}", state=state)
        self.key, self.nodes = key, nodes


class GraphInterruptedError(GraphError):
    """The run waits for an answer: `graph.resume(thread_id, value)`."""

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
    """A tool of a ReAct node failed, and the policy stops the run."""

    def __init__(self, tool_name: str, reason: str, *, node: str | None = None, state: Any = None) -> None:
        super().__init__(f"tool {tool_name!r} failed: {reason}", node=node, state=state)
        self.tool_name, self.reason = tool_name, reason


class InvalidToolCallResponseError(GraphError):
    """The model of a ReAct node made an invalid call."""

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
    """The name of a domain is invalid."""


class CorruptRecordError(PlaybookError):
    """A record in the middle of a log cannot be read."""


class DurableError(WesichainError):
    """A durable run cannot be started, found or continued."""


class RunIdConflictError(DurableError):
    """The run id belongs to a run with other input."""


class JournalError(WesichainError):
    """A run cannot be continued from its log, or its log cannot be extended."""


class JournalMismatchError(JournalError):
    """The program does not fit the log, first at `name`: `expected` is recorded, `actual` is now."""

    def __init__(self, message: str, *, name: str = "", expected: Any = None, actual: Any = None) -> None:
        super().__init__(message)
        self.name, self.expected, self.actual = name, expected, actual


class ReplayMismatchError(JournalMismatchError):
    """The program differs from the recorded one, first in the step `step_id`."""

    def __init__(
        self,
        message: str,
        *,
        step_id: int = 0,
        name: str = "",
        expected: Any = None,
        actual: Any = None,
    ) -> None:
        super().__init__(message, name=name, expected=expected, actual=actual)
        self.step_id = step_id


class JournalConflictError(JournalError):
    """Another process has taken the run over. This one stops; what it did is in the log."""

    def __init__(self, message: str, *, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class OutcomeUnknownError(JournalError):
    """An act that may be done once has begun, and what came of it is not known."""

    def __init__(self, message: str, *, name: str = "", unique: str = "") -> None:
        super().__init__(message)
        self.name, self.unique = name, unique


class PerformFailedError(JournalError):
    """The function of a `perform` raised. The error is recorded, and equal whenever the run continues.

    `chain` has the names of the classes of the exception and its causes, each with its bases.
    """

    def __init__(self, message: str, *, name: str = "", chain: tuple[tuple[str, ...], ...] = ()) -> None:
        super().__init__(message)
        self.name, self.chain = name, chain

    def is_a(self, error_class: type[BaseException]) -> bool:
        """Whether the function raised an exception of this class, or one that it caused."""
        if error_class in (Exception, BaseException):
            return True
        module, name = error_class.__module__, error_class.__qualname__
        wanted = name if module == "builtins" else f"{module}:{name}"
        return any(wanted in classes for classes in self.chain)


class WaitTimeoutError(JournalError):
    """Nothing came for a wait in its time, and it has no default."""

    def __init__(self, message: str, *, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class RunEndedError(JournalError):
    """The run has ended: nothing can be sent to it, and nothing can start inside it."""

    def __init__(self, message: str, *, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class ConversationBusyError(JournalError):
    """A run of the conversation is under way, or waits for a person; `run_id` says which."""

    def __init__(self, message: str, *, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id
