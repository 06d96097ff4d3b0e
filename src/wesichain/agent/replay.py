"""Replay: the same loop, answered from a recording. Exact, or refused at the first difference."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from typing_extensions import override

from wesichain import errors
from wesichain.core import (
    Clock,
    Event,
    LlmRequest,
    LlmResponse,
    Message,
    ModelResponded,
    Role,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    TextDelta,
    ToolCompleted,
    ToolDispatched,
    to_plain,
)
from wesichain.errors import LlmError, ReplayMismatchError, ToolDispatchError, ToolExecutionError
from wesichain.policy import Account
from wesichain.tools import CancellationToken, PreparedCall, ToolContext, ToolResult

from .agent import Agent
from .effects import Caller, Effects, OnText
from .phases import Interrupted, Outcome
from .running import Stopped

if TYPE_CHECKING:
    from wesichain.trace import Recording

OutT = TypeVar("OutT")

_UNASKED = "the model could not be asked: "


async def replay(recording: Recording, agent: Agent[OutT], from_step: int | None = None) -> Outcome[OutT]:
    """Run the agent again as it was recorded, offline, to the same events and outcome.

    Requests and calls are compared redacted, as they were recorded. What the program now does
    otherwise (another prompt, tool or argument) is a `ReplayMismatchError` at the first difference.
    A run that was interrupted and went on does so again, with the decisions of then. With `from_step`,
    the steps before it are replayed and the run goes on live from there.
    """
    given: Any = recording
    if not hasattr(given, "events"):
        raise errors.ConfigError(f"{given!r} is no recording; read one with wesichain.trace.load(path)")
    legs = _legs(recording.events)
    started = legs[0][0] if legs else None
    if not isinstance(started, RunStarted):
        raise ReplayMismatchError(f"the recording of {recording.run_id!r} has no beginning")
    if started.resumed:
        raise ReplayMismatchError(f"the recording of {recording.run_id!r} begins in the middle of a run")
    script = _Script(legs[0], from_step)
    script.check_tools(agent)
    outcome = await agent.outcome(
        started.user_input, history=script.history(agent), run_id=recording.run_id, **script.options()
    )
    told = [*outcome.events]
    for leg in legs[1:]:
        start = leg[0]
        if not isinstance(outcome, Interrupted) or not isinstance(start, RunStarted):
            raise ReplayMismatchError(
                "the recording goes on behind an interruption, and the program now was not interrupted there"
            )
        decisions = {item.token: item.decision for item in start.decisions}
        script = _Script(leg, from_step, seen=outcome.trail.length)
        outcome = await agent.runtime.go_on(outcome, decisions, **script.options())
        told += outcome.events
    return outcome if len(legs) == 1 else replace(outcome, info=replace(outcome.info, events=told))


def _legs(events: Sequence[Event]) -> list[list[Event]]:
    """The parts of a run: up to its first interruption, from there to the next, and so on."""
    legs: list[list[Event]] = []
    for event in events:
        if not legs or (isinstance(event, RunStarted) and not event.scope):
            legs.append([])
        legs[-1].append(event)
    return legs


class _Script:
    """A recording, or one leg of it, in the order in which a run needs it."""

    def __init__(self, events: Sequence[Event], from_step: int | None, *, seen: int = 0) -> None:
        self.seen = seen  # messages that the model was shown before
        self.events = [event for event in events if not event.scope]
        self.nested = [event for event in events if event.scope]
        self.times = [event.at for event in events]
        self.elapsed = 0.0
        self.from_step = from_step
        from wesichain.trace import Redactor  # loaded with the first replay

        self.redactor = Redactor()
        self.cancellation: CancellationToken | None = None  # of a run that was stopped from outside
        self._next_time = 0
        self._steps = {event.step_id: event for event in self.events if isinstance(event, StepStarted)}
        self._by_step: dict[int, list[Event]] = {}
        self._reason = "the recording breaks off"
        self._reply = LlmResponse()  # the last one
        self._calls: dict[str, list[tuple[ToolDispatched, ToolCompleted | StepFailed | None]]] = {}
        for position, event in enumerate(self.events):
            self._by_step.setdefault(event.step_id, []).append(event)
            if isinstance(event, RunInterrupted):
                self._reason = event.reason
            if isinstance(event, ToolDispatched):
                self._calls.setdefault(event.call_id, []).append((event, self._end_of(event, position)))
        if from_step is None and _is_stopped_from_outside(self.events):
            self.cancellation = CancellationToken()

    def options(self) -> dict[str, Any]:
        """What makes a run follow this script."""
        return {
            "stream": any(isinstance(event, TextDelta) for event in self.events),
            "effects": partial(ReplayEffects, self),
            "clock": _ReplayClock(self),
            "cancellation": self.cancellation,
        }

    def is_live(self, step_id: int) -> bool:
        return self.from_step is not None and step_id >= self.from_step

    def time(self) -> float | None:
        """The time of the next event, as long as the recording has one."""
        if self._next_time >= len(self.times):
            return None
        self._next_time += 1
        if self.cancellation is not None and self._next_time == len(self.times) - 1:
            self.cancellation.cancel(self._reason)  # behind the event before the last
        return self.times[self._next_time - 1]

    def plain(self, value: object) -> Any:
        """A value as it stands in a recording: plain and redacted."""
        return self.redactor.value(to_plain(value))

    def check_tools(self, agent: Agent[Any]) -> None:
        started = next(event for event in self.events if isinstance(event, RunStarted))
        recorded = {spec.name: self.plain(spec) for spec in started.tools}
        present = {spec.name: self.plain(spec) for spec in agent.runtime.offered()}
        for name in sorted(recorded.keys() | present.keys()):
            then, now = recorded.get(name), present.get(name)
            if then != now:
                what = "is gone" if now is None else "is new" if then is None else "has changed"
                raise ReplayMismatchError(
                    f"the tool {name!r} {what} since the recording", expected=then, actual=now
                )

    def history(self, agent: Agent[Any]) -> tuple[Message, ...]:
        """What stood before the question: the first request without our own prompt and the task."""
        first = next((event for event in self.events if isinstance(event, StepStarted)), None)
        if first is None:
            return ()
        asked = max((i for i, message in enumerate(first.messages) if message.role is Role.USER), default=0)
        before = first.messages[:asked]
        return before[1:] if before and before[0].role is Role.SYSTEM and agent.has_instructions else before

    def step(self, step_id: int, messages: Sequence[Message], seen: int) -> None:
        """Compare what the model is shown now with what it was shown then."""
        event = self._steps.get(step_id)
        if event is None:
            raise ReplayMismatchError(
                f"step {step_id}: the recording ends before this step; the program now takes more steps",
                step_id=step_id,
            )
        if event.follows:  # the last reply and its results are the recording's own
            seen += 1 + len(self._reply.tool_calls)
        new = [self.plain(message) for message in messages[seen:]]
        old = [self.plain(message) for message in event.messages]
        for index, (expected, actual) in enumerate(zip(old, new, strict=False)):
            if expected != actual:
                raise ReplayMismatchError(
                    f"step {step_id}: message {seen + index} differs from the recording: "
                    f"expected {str(expected)[:300]}, got {str(actual)[:300]}",
                    step_id=step_id,
                    expected=expected,
                    actual=actual,
                )
        if len(old) != len(new):
            raise ReplayMismatchError(
                f"step {step_id}: {len(new)} new messages where the recording has {len(old)}",
                step_id=step_id,
                expected=old,
                actual=new,
            )

    def reply(self, step_id: int, on_text: OnText | None) -> LlmResponse:
        """What the model answered then, or raised."""
        for event in self._by_step.get(step_id, ()):
            match event:
                case TextDelta(text=text) if on_text is not None:
                    on_text(text)
                case ModelResponded(response=response, duration_ms=duration):
                    self.elapsed += duration / 1000
                    self._reply = response
                    return response
                case StepFailed(call_id=None):
                    message = event.message.removeprefix(_UNASKED)
                    raise revived_error(event.error, message, retryable=event.decision != "fail")
                case RunFailed(error=kind, message=message):  # a call that was cut off, or one past the limit
                    raise revived_error(kind, message)
                case RunInterrupted(reason=reason):
                    raise Stopped(reason)
                case _:
                    pass
        raise ReplayMismatchError(
            f"step {step_id}: the recording breaks off before the model's reply", step_id=step_id
        )

    def result(self, prepared: PreparedCall, ctx: ToolContext) -> ToolResult:
        """What came of a call then; its nested runs are told again."""
        call = prepared.call
        waiting = self._calls.get(call.id)
        if not waiting:
            raise ReplayMismatchError(
                f"step {ctx.step_id}: the call {call.name!r} ({call.id}) is not in the recording",
                step_id=ctx.step_id,
                actual=self.plain(call),
            )
        dispatched, end = waiting.pop(0)
        expected, actual = self.plain(dispatched.call), self.plain(call)
        if expected != actual:
            raise ReplayMismatchError(
                f"step {ctx.step_id}: the call differs from the recording: expected {expected}, got {actual}",
                step_id=ctx.step_id,
                expected=expected,
                actual=actual,
            )
        retell(_below(self.nested, call.id), ctx)
        match end:
            case ToolCompleted(value=value, duration_ms=duration):
                return ToolResult(call.id, call.name, value, None, duration)
            case StepFailed(decision="cancelled") | None:
                raise Stopped(self._reason)
            case StepFailed(error=kind, message=message, duration_ms=duration):
                error = revived_dispatch(kind, message)
                error.call_id, error.tool_name = call.id, call.name
                return ToolResult(call.id, call.name, None, error, duration)

    def _end_of(self, event: ToolDispatched, position: int) -> ToolCompleted | StepFailed | None:
        for later in self.events[position + 1 :]:
            if isinstance(later, ToolCompleted | StepFailed) and later.call_id == event.call_id:
                return later
        return None


class ReplayEffects(Effects):
    """The world as it was recorded; from `from_step` on, the world itself."""

    __slots__ = ("_live", "_script", "_seen")

    def __init__(self, script: _Script, live: Effects) -> None:
        self._script = script
        self._live = live
        self._seen = script.seen

    @override
    async def ask(self, request: LlmRequest, *, step_id: int, on_text: OnText | None) -> LlmResponse:
        if self._script.is_live(step_id):
            return await self._live.ask(request, step_id=step_id, on_text=on_text)
        self._script.step(step_id, request.messages, self._seen)
        self._seen = len(request.messages)
        return self._script.reply(step_id, on_text)

    @override
    async def call(self, prepared: PreparedCall, caller: Caller) -> ToolResult:
        ctx = caller.context(prepared.call)
        if self._script.is_live(ctx.step_id):
            return await self._live.call(prepared, caller)
        return self._script.result(prepared, ctx)


class _ReplayClock(Clock):
    """The times of the recording, event by event; nobody waits."""

    def __init__(self, script: _Script) -> None:
        self._script = script
        self._last = 0.0

    @override
    def time(self) -> float:
        at = self._script.time()
        self._last = self._last if at is None else at
        return self._last

    @override
    def monotonic(self) -> float:
        return self._script.elapsed

    @override
    async def sleep(self, seconds: float) -> None:
        return None


def _is_stopped_from_outside(events: Sequence[Event]) -> bool:
    """Whether the run ended with a cancel, rather than by an approval or its policy."""
    end = events[-1]
    if not isinstance(end, RunInterrupted) or end.pending:
        return False
    return not any(isinstance(event, StepFailed) and event.decision == "interrupt" for event in events[-2:])


# --- what a record tells, made real again ------------------------------------------------------------


def revived_error(kind: str, message: str, *, retryable: bool = False) -> Exception:
    """An exception of the class that was recorded, as far as it is known here, with the same text."""
    known = getattr(errors, kind, None) or getattr(builtins, kind, None)
    base = known if isinstance(known, type) and issubclass(known, Exception) else Exception
    error = cast("Exception", type(kind, (base,), {"__str__": _text_of})(message))
    if isinstance(error, LlmError):
        error.retryable = retryable  # policies go by it
    return error


def _text_of(error: Exception) -> str:
    return str(error.args[0])  # as it was: KeyError and its like would put quotes around it


def revived_dispatch(
    kind: str, message: str, *, otherwise: type[ToolDispatchError] = ToolExecutionError
) -> ToolDispatchError:
    """The error of a tool call that was recorded; `otherwise` where its class is no such error."""
    known = getattr(errors, kind, otherwise)
    is_one = isinstance(known, type) and issubclass(known, ToolDispatchError)
    return (known if is_one else otherwise)(message)


def retell(events: Iterable[Event], ctx: ToolContext) -> None:
    """Tell what happened inside a call again, and charge what it spent to the caller.

    The events are those of the runs inside: their scope is the way down from the call.
    """
    account = ctx.budget if isinstance(ctx.budget, Account) else None
    for event in events:
        if ctx.emit is not None:
            ctx.emit(event)
        if account is not None and not event.scope:
            match event:
                case StepStarted():
                    account.spend_step()
                case ModelResponded(response=response):
                    account.spend_usage(response.usage)
                case ToolDispatched():
                    account.spend_tool_call()
                case _:
                    pass


def _below(events: Iterable[Event], call_id: str) -> list[Event]:
    """The events of the runs inside a call, as that call heard them."""
    inside: list[Event] = []
    for event in events:
        outer, _, inner = event.scope.partition("/")
        if outer == call_id:
            inside.append(replace(event, scope=inner))
    return inside
