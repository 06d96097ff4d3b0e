"""Values restored from a recording: errors with their classes, and the spending of events."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, cast

from typing_extensions import override

from wesichain import errors
from wesichain.agent.emitter import name_of
from wesichain.agent.phases import Completed
from wesichain.agent.run_state import CALL_ENDED, LimitAbove, RunState, Stopped
from wesichain.core import (
    Event,
    ModelResponded,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    ToolCall,
    ToolDispatched,
    Usage,
)
from wesichain.core.internal import Advice, AdviceShown, ContextReduced, HandedOff, Mutable, Value, field
from wesichain.errors import (
    AgentError,
    BudgetExceededError,
    GuardrailError,
    LlmError,
    ToolDispatchError,
    ToolExecutionError,
)
from wesichain.middleware import CallRun, Middleware
from wesichain.policy.internal import Account
from wesichain.tools import ToolContext

_UNASKED = "the model could not be asked: "


def revived_error(kind: str, message: str, *, retryable: bool = False) -> Exception:
    """An exception with the recorded class, if this program knows it, and the recorded text."""
    ours: Any = getattr(errors, kind, None)
    is_ours = isinstance(ours, type) and issubclass(ours, Exception)
    base = cast("type[Exception]", ours) if is_ours else _loaded_class(kind) or Exception
    module, _, path = kind.rpartition(":")
    named = {"__module__": module or base.__module__, "__qualname__": path, "__str__": _text_of}
    revived: Any = type(path.rpartition(".")[2], (base,), named)
    error: Exception = revived(message) if is_ours else _without_constructor(revived, message)
    if isinstance(error, LlmError):
        error.retryable = retryable  # read by policies
    return error


def _text_of(error: Exception) -> str:
    return str(error.args[0])  # KeyError would put quotes around it


class RaisedError(Value, omit_defaults=True):
    """The recorded fields of an error. Its class is looked up by name, and nothing is imported for it."""

    error: str  # the class: its name, with its module if it is neither of `wesichain.errors` nor built in
    message: str
    retryable: bool = False
    retry_after: float | None = None
    cause: str = ""  # the class of the exception that it was raised from

    @classmethod
    def of(cls, error: BaseException) -> RaisedError:
        after = getattr(error, "retry_after", None)
        return cls(
            type(error).__name__ if _is_ours(error) else name_of(type(error)),
            str(error),
            bool(getattr(error, "retryable", False)),
            float(after) if isinstance(after, int | float) else None,
            "" if error.__cause__ is None else name_of(type(error.__cause__)),
        )

    @classmethod
    def in_event(cls, event: StepFailed) -> RaisedError:
        """The error of a model call, from its event."""
        kind, message = event.cause or event.error, event.message.removeprefix(_UNASKED)
        return cls(kind, message, retryable=event.decision != "fail")

    def revived(self) -> Exception:
        """The error of a model call, or of a user's function."""
        error = revived_error(self.error, self.message, retryable=self.retryable)
        if isinstance(error, LlmError):
            error.retry_after = self.retry_after
        error.__cause__ = _revived_cause(self.cause, self.message) if self.cause else None
        return error

    def revived_for(
        self, call: ToolCall, *, otherwise: type[ToolDispatchError] = ToolExecutionError
    ) -> ToolDispatchError:
        """The error of a tool call; of the class `otherwise` if the recorded one is not such an error."""
        known = getattr(errors, self.error, otherwise)
        is_one = isinstance(known, type) and issubclass(known, ToolDispatchError)
        error = (known if is_one else otherwise)(self.message)
        error.tool_name, error.call_id = call.name, call.id
        error.__cause__ = _revived_cause(self.cause, self.message) if self.cause else None
        return error


def _is_ours(error: BaseException) -> bool:
    return getattr(errors, type(error).__name__, None) is type(error)


def _revived_cause(name: str, message: str) -> Exception | None:
    """The exception that an error was raised from, for policies, if this program has its class loaded."""
    found = _loaded_class(name)
    return None if found is None else _without_constructor(found, message)


def _loaded_class(name: str) -> type[Exception] | None:
    """The class of exceptions with this name, `module:Class` or that of a built-in; nothing is imported.

    For a class that needs arguments, such as Pydantic's `ValidationError`, it is the nearest base class
    that needs none.
    """
    module, _, path = name.rpartition(":")
    found: object = sys.modules.get(module or "builtins")
    for part in path.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        return None
    return next(filter(_is_creatable, cast("tuple[type[Exception], ...]", found.__mro__)))


def _is_creatable(kind: type[Exception]) -> bool:
    if issubclass(kind, ExceptionGroup):
        return True
    try:
        kind.__new__(kind)
    except TypeError:
        return False
    return True


def _without_constructor(kind: type[Exception], message: str) -> Exception:
    if issubclass(kind, ExceptionGroup):  # a group needs errors, which are not recorded
        return ExceptionGroup.__new__(
            cast("type[ExceptionGroup[Exception]]", kind), message, [Exception(message)]
        )
    error: Exception = kind.__new__(kind)
    error.args = (message,)
    return error


def refunded_places(events: Iterable[tuple[int, Event]]) -> set[int]:
    """The indexes of events that spent nothing: steps cut off before a reply, and calls not begun."""
    back: set[int] = set()
    asked: dict[str, int] = {}  # by run
    called: dict[tuple[str, str], int] = {}
    for index, event in events:
        match event:
            case StepStarted():
                asked[event.scope] = index
            case ToolDispatched(call_id=call_id):
                called[event.scope, call_id] = index
            case (
                StepFailed(call_id=str(call_id), decision="not_begun")
                | StepFailed(call_id=str(call_id), decision="cancelled", free=True)
            ):
                back.add(called[event.scope, call_id])
            case ModelResponded() | StepFailed(call_id=None):
                asked.pop(event.scope, None)
            case RunInterrupted(reason=reason) if event.scope in asked and reason != CALL_ENDED:
                back.add(asked.pop(event.scope))
            case _:
                pass
    return back


def reemit(events: Sequence[Event], ctx: ToolContext) -> None:
    """Emit the events inside a call again."""
    inside = list(enumerate(events))
    again = Reemission(ctx, refunded_places(inside))
    for index, event in inside:
        again.emit(index, event)


class Reemission(Mutable):
    """Emits the events inside a call again, and charges the caller what they spent, at recorded prices.

    The events are those of the runs inside; their scope is relative to the call.
    """

    _ctx: ToolContext
    _refunded: set[int]  # the indexes of events that spent nothing
    _models: dict[str, str] = field(default_factory=dict[str, str])  # of the runs, by their scope

    def emit(self, index: int, event: Event) -> None:
        if self._ctx.emit is not None:
            self._ctx.emit(event)
        account = self._ctx.budget
        if index not in self._refunded and isinstance(account, Account):
            self._charge(event, account)

    def _charge(self, event: Event, account: Account) -> None:
        match event:
            case RunStarted(model=model, scope=scope) | HandedOff(model=model, scope=scope):
                self._models[scope] = model
            case StepStarted(free=False):
                account.spend_step()
            case ModelResponded(response=response, cost=cost):
                self._charge_usage(account, event, response.usage, cost, response.model)
            case ContextReduced(usage=usage, cost=cost):
                self._charge_usage(account, event, usage, cost)
            case ToolDispatched(resumed=False):
                account.spend_tool_call()
            case StepFailed(decision="retry", call_id=str(), free=False):
                account.spend_step()
            case _:
                pass

    def _charge_usage(
        self, account: Account, event: Event, usage: Usage, cost: float, model: str = ""
    ) -> None:
        is_priced = cost or not usage.total_tokens
        account.spend_usage(usage, cost, "" if is_priced else model or self._models.get(event.scope, ""))


def extra_call_events(run: RunState[Any], since: int) -> tuple[Event, ...]:
    """The events, after the one numbered `since`, of model calls whose reply the loop did not receive."""
    return tuple(
        event for event in run.emitter.emitted_since(since) if isinstance(event, StepStarted | ModelResponded)
    )


def reemit_extra_calls(run: RunState[Any], events: Iterable[Event]) -> None:
    """Emit and charge these model calls again."""
    for event in events:
        if isinstance(event, StepStarted):
            run.step_again()
        elif isinstance(event, ModelResponded):
            run.set_aside(event.step_id, event.response, event.duration_ms)


class RecordedRefusal(Middleware):
    """A stand-in for middleware around a run, or a part of one, that refused the task or the answer."""

    def __init__(self, error: AgentError, *, at_once: bool) -> None:
        self._error = error
        self._at_once = at_once

    @override
    async def wrap_run(self, ctx: object, task: Any, call_next: CallRun) -> Any:
        outcome = None if self._at_once else await call_next(task)
        if outcome is None or isinstance(outcome, Completed):
            raise self._error
        return outcome


def refusal_in(
    events: Iterable[Event], scope: str, *, handed_in: int | None = None
) -> RecordedRefusal | None:
    """The stand-in for middleware that ended a run before it began or as it completed; None without.

    With `handed_in`, for the middleware of the agent that the run was handed off to in this step.
    """
    match [event for event in events if event.scope == scope]:
        case [*before, RunFailed(error="GuardrailError" | "AgentError" as kind, message=message)]:
            error = (GuardrailError if kind == "GuardrailError" else AgentError)(message)
        case _:
            return None
    if handed_in is None:
        return RecordedRefusal(error, at_once=all(isinstance(event, RunStarted) for event in before))
    last = next((event for event in reversed(before) if not isinstance(event, AdviceShown)), None)
    is_part = isinstance(last, HandedOff) and last.step_id == handed_in
    return RecordedRefusal(error, at_once=True) if is_part else None


def advice_in(event: AdviceShown) -> Advice:
    """The advice in an event."""
    return Advice(event.text, event.ids, event.held, tools=event.tools)


def fault_of(event: Event) -> Exception | None:
    """The error of a model call, from its event; None if the event has none."""
    match event:
        case StepStarted():  # the last request, after a middleware had no step left for a further call
            return BudgetExceededError("out of steps", resource="steps")
        case StepFailed(call_id=None):
            return RaisedError.in_event(event).revived()
        case _:
            return end_of(event)


def end_of(event: Event) -> Exception | None:
    """The exception that ends a run in the same way, if it came from outside the loop."""
    match event:
        case RunFailed(error="BudgetExceededError", message=message):
            return LimitAbove(BudgetExceededError(message, resource="seconds"))
        case RunFailed(error=kind, message=message):  # a model call after a limit, which failed
            return revived_error(kind, message)
        case RunCompleted(stopped_by=str(resource)):
            return BudgetExceededError("out of time", resource=resource)
        case RunInterrupted(reason=reason):
            return Stopped(reason)
        case _:
            return None
