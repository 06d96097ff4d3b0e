"""Recorded effects: replies, results and checks from a recording, returned in the recorded order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from typing_extensions import override

from wesichain.agent.calls.open_call import ITSELF, waiting_for
from wesichain.agent.effects import Caller, Effects, OnText, RecordedInput
from wesichain.agent.phases import Child, Outcome, RunInfo, completed_phase, failed_phase, interrupted_phase
from wesichain.agent.rules.checks import Refused
from wesichain.agent.rules.reply_judge import NotAReply
from wesichain.agent.run_state import TASK_CANCELLED, LimitAbove, RunState, Stopped
from wesichain.agent.stream_relay import StreamRelay
from wesichain.agent.trail import Trail
from wesichain.context import ViewRequest
from wesichain.core import (
    Event,
    LlmRequest,
    LlmResponse,
    ModelResponded,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    TextDelta,
    ToolCompleted,
    ToolDispatched,
)
from wesichain.core.internal import (
    Advice,
    AdviceShown,
    CancellationToken,
    ContextReduced,
    HandedOff,
    OutputDelta,
    PendingCall,
    Spent,
    ToolProgress,
    ToolsOffered,
    replace,
    to_plain,
)
from wesichain.errors import (
    AgentError,
    BudgetExceededError,
    GuardrailError,
    RunInterruptedError,
    ToolFailedError,
)
from wesichain.middleware import Middleware
from wesichain.tools import ToolContext, ToolResult
from wesichain.tools.internal import PreparedCall

from .cursor import ENDS, RecordingCursor, is_decision, mismatch
from .recorded_errors import (
    RaisedError,
    Reemission,
    advice_in,
    end_of,
    fault_of,
    reemit_extra_calls,
    refunded_places,
    refusal_in,
    revived_error,
)

T = TypeVar("T")
UNKNOWN: Final = object()  # for a value that is not in the recording
_RUN = "run"  # in place of the name of an agent, which a replay does not need


class ReplayEffects(Effects):
    """The recorded effects of one run; from `from_step` on, the live ones.

    `scope` is the scope of the run in the recording. Replies and results are returned in the recorded order.
    """

    __slots__ = ("_cursor", "_live", "_run", "_scope", "needs_deps", "remembers")

    _run: RunState[Any]  # attached before its first step

    def __init__(self, cursor: RecordingCursor, scope: str, live: Effects) -> None:
        self._cursor = cursor
        self._scope = scope
        self._live = live
        self.remembers = True
        self.needs_deps = not cursor.is_whole

    @override
    def token(self, given: CancellationToken | None) -> CancellationToken | None:
        """A token of this run, so that it stops as it did in the recording, and not with the run above."""
        own = self._cursor.token(self._scope)
        if self._cursor.is_whole and given is not None:
            return own or CancellationToken()
        return given if own is None else CancellationToken(*filter(None, (given, own)))

    @override
    def attach(self, run: RunState[Any]) -> None:
        self._run = run

    @override
    def around(self, middleware: Sequence[Middleware], *, step_id: int | None = None) -> Sequence[Middleware]:
        """No middleware is run. If it ended the run, or a part of it, a stand-in does so again."""
        refusal = refusal_in(self._cursor.events, self._scope, handed_in=step_id)
        return () if refusal is None else (refusal,)

    @override
    async def turn(self, call_id: str = "") -> None:
        cursor = self._cursor
        await (cursor.dispatch_turn(self._scope, call_id) if call_id else cursor.step_turn(self._scope))

    @override
    def has_runs(self, call_id: str) -> bool:
        """Runs inside begin later in a replay than they did: a stop that comes first must not forget them."""
        cursor = self._cursor
        begun = [
            index
            for index, event in enumerate(cursor.events)
            if isinstance(event, ToolDispatched)
            and (event.scope, event.call_id) == (self._scope, call_id)
            and cursor.matched[index]
        ]
        end, inside = self._rest_of_call(call_id, begun[-1]) if begun else (len(cursor.events), [])
        return not self._is_cut(end) and any(isinstance(event, RunStarted) for _, event in inside)

    @override
    def below(self, call: str, number: int) -> Callable[[Effects], Effects]:
        scope = f"{self._scope}/{call}" if self._scope else call
        return partial(ReplayEffects, self._cursor, scope if number == 1 else f"{scope}/~{number}")

    def _is_live(self, step_id: int) -> bool:
        """Whether the run is live from this step on. Raises after a difference."""
        is_live = self._cursor.goes_live(self._scope, step_id)
        if not is_live:
            self._cursor.check()
        return is_live

    def _unmatched(self, step_id: int) -> Iterator[tuple[int, Event]]:
        """The events of the run, from a step on, that are not matched yet."""
        for index in range(self._cursor.first_unmatched, len(self._cursor.events)):
            event = self._cursor.events[index]
            if event.scope == self._scope and event.step_id >= step_id and not self._cursor.matched[index]:
                yield index, event

    def _from(self, index: int) -> Iterator[Event]:
        """The events of the run from an index on."""
        return (event for event in self._cursor.events[index:] if event.scope == self._scope)

    # --- replies -------------------------------------------------------------------------------------

    @override
    async def ask(self, request: LlmRequest, *, step_id: int, on_text: OnText | None) -> LlmResponse:
        if self._is_live(step_id):
            return await self._live.ask(request, step_id=step_id, on_text=on_text)
        if isinstance(request, ViewRequest):
            return await self._summary(step_id)
        return await self._reply(step_id, on_text)

    async def _reply(self, step_id: int, on_text: OnText | None) -> LlmResponse:
        """The recorded reply of the model; raises the recorded error."""
        relay = on_text if isinstance(on_text, StreamRelay) else None
        for index, event in self._unmatched(step_id):
            await self._cursor.turn(index)
            match event:
                case TextDelta(text=text) if relay is not None:
                    relay.piece(TextDelta, text)
                case OutputDelta(value=value) if relay is not None:
                    relay.piece(OutputDelta, value)
                case ModelResponded(response=response, duration_ms=duration):
                    self._cursor.elapsed += duration / 1000
                    if not event.set_aside:
                        if relay is not None:
                            self._hold_deltas(index, relay)
                        return response
                    reemit_extra_calls(self._run, (event,))
                case StepStarted(free=False):  # a further model call of a middleware
                    reemit_extra_calls(self._run, (event,))
                case StepFailed(call_id=None, error="InvalidModelActionError", message=message):
                    wrong: Any = NotAReply(message)  # the model had returned something else than a reply
                    return wrong  # type: ignore[no-any-return]  # the loop checks it
                case _:
                    fault = fault_of(event)
                    if fault is not None:
                        raise fault
        raise mismatch(f"step {step_id}: the recording breaks off before the model's reply", step_id)

    def _hold_deltas(self, index: int, relay: StreamRelay) -> None:
        """Hold back the pieces of an answer that were emitted after its reply, after a guard's check."""
        for event in self._from(index + 1):
            if not isinstance(event, TextDelta | OutputDelta):
                return
            relay.hold(event)

    async def _summary(self, step_id: int) -> LlmResponse:
        """The recorded reply to a context view: the message in place of those that it cut."""
        for index, event in self._unmatched(step_id):
            if isinstance(event, ContextReduced):
                await self._cursor.turn(index)
                kind, colon, message = event.trouble.partition(": ")
                if colon:
                    raise revived_error(kind, message)
                words = [message.text for cut in event.cuts for message in cut.messages]
                return LlmResponse(words[0] if words else "", usage=event.usage)
        for event in self._from(self._cursor.first_unmatched):  # or the end of the run
            ended = end_of(event)
            if ended is not None:
                raise ended
        raise mismatch(
            f"step {step_id}: the recording breaks off before the summary of a context view", step_id
        )

    # --- other inputs of the loop ----------------------------------------------------------------------

    @override
    async def remember(self, entry: RecordedInput[T], make: Callable[[], Awaitable[T]]) -> T:
        if self._is_live(entry.step_id):
            return await make()
        known = self._remembered(entry)
        if known is UNKNOWN:
            return await make()
        recorded = entry.read(known)
        return await self._live_or(recorded, entry, make) if entry.verb == "offer" else recorded

    async def _live_or(self, recorded: T, entry: RecordedInput[T], make: Callable[[], Awaitable[T]]) -> T:
        """The tools that the functions return now, with their effects and rules, if they equal the recorded.

        Otherwise, stand-ins for the recorded tools: a function may need deps, or may depend on the time.
        """
        try:
            live = await make()
        except Exception:  # noqa: BLE001  # the function may need something that is not here
            return recorded
        return live if entry.write(live) == entry.write(recorded) else recorded

    def _remembered(self, entry: RecordedInput[Any]) -> Any:
        match entry.verb:
            case "instruct":
                return self._instructions(entry.step_id)
            case "advise":
                return self._advice(entry.step_id)
            case "check":
                return self._checked(entry.step_id)
            case "approve":
                return any(one.call.id == entry.call_id for one in self._questions())
            case "read":
                return UNKNOWN  # the messages of a conversation are in the first request
            case "offer":
                external = [one.call.name for one in self._questions() if one.external and not one.question]
                return {"tools": self._offered(entry.step_id), "external": external}

    def _offered(self, step_id: int) -> Any:
        """The tools that were offered from a step on; None if they did not change.

        If the function ended the run with an error, that error is raised again.
        """
        for _, event in self._unmatched(step_id - 1):  # a run that ends before a step ends in the one before
            if isinstance(event, ToolsOffered) and event.step_id == step_id:
                return to_plain(event.tools)
            is_here = event.step_id >= step_id
            ended = None if isinstance(event, RunCompleted) else end_of(event)
            # A limit was met before the function was called.
            if ended is not None and (is_here or not isinstance(ended, LimitAbove)):
                raise ended
            if is_here and not isinstance(event, RunStarted):
                return None
        return None

    def _instructions(self, step_id: int) -> Any:
        for _, event in self._unmatched(step_id):
            if isinstance(event, RunStarted | HandedOff) and event.step_id == step_id:
                return event.instructions or UNKNOWN  # version 0.2 did not record them
        return UNKNOWN

    def _advice(self, step_id: int) -> Any:
        """The advice for an agent at the start of the run, or at the handoff in this step."""
        for _, event in self._unmatched(step_id):
            if isinstance(event, AdviceShown) and event.step_id == step_id:
                return to_plain(advice_in(event))
        return to_plain(Advice())

    def _questions(self) -> list[PendingCall]:
        """The pending calls of this part of the run."""
        ends = (event for event in self._from(0) if isinstance(event, RunInterrupted))
        asked = [one for event in ends for one in event.pending]
        own = min((len(one.scope) for one in asked), default=0)
        return [one for one in asked if len(one.scope) == own]

    def _checked(self, step_id: int) -> str:
        """The text of the recorded answer after its checks; raises what they raised."""
        for _, event in self._unmatched(step_id):
            match event:
                case RunCompleted(output=str(text)):
                    return text
                case StepFailed(call_id=None, error=kind, message=message):
                    raise Refused(revived_error(event.cause or kind, message))
                case _:
                    ended = end_of(event)
                    if ended is not None:
                        raise ended
        raise mismatch(f"step {step_id}: the recording breaks off before an answer was checked", step_id)

    # --- results -------------------------------------------------------------------------------------

    @override
    async def call(self, prepared: PreparedCall, caller: Caller) -> ToolResult:
        """The recorded result of a call. An agent as a tool runs again; runs that a tool starts do not."""
        call, ctx = prepared.call, caller.context(prepared.call)
        if self._is_live(ctx.step_id):
            return await self._live.call(prepared, caller)
        starts = self._cursor.calls.get((self._scope, call.id))
        if not starts:
            raise mismatch(
                f"step {ctx.step_id}: the call {call.name!r} ({call.id}) is not in the recording",
                ctx.step_id,
                actual=self._cursor.compare.plain(call),
            )
        end, inside = self._rest_of_call(call.id, starts.pop(0))
        is_cut = self._is_cut(end)
        if prepared.tool.is_agent and self._runs_again(end, inside):
            again = self._run_again(self._live.call(prepared, caller), ctx, end)
            if not is_cut:
                return await _to_its_end(again, is_cut=False)
            # It may be cancelled on the way; if its runs had ended before, it is cancelled now.
            await (_to_its_end(again, is_cut=True) if _has_its_end(inside) else again)
            await self._cut(end)
        return await self._emit_again(prepared, ctx, end, inside)

    def _runs_again(self, end: int, inside: Sequence[tuple[int, Event]]) -> bool:
        """Whether the run of an agent as a tool is made again.

        It is not if its middleware began further runs, since no middleware is run. If a cancelled or
        completed call has no events inside, its run had not begun, or had ended in an earlier part.
        """
        if inside:
            return not any(event.scope.startswith("~") for _, event in inside)
        return not (self._is_cut(end) or isinstance(self._at(end), ToolCompleted))

    async def _run_again(
        self, call: Coroutine[Any, Any, ToolResult], ctx: ToolContext, end: int
    ) -> ToolResult:
        result = await call
        await self._turn_of(end)
        ended = self._at(end)
        if isinstance(ended, ToolCompleted) and result.ok:  # middleware may have changed the result
            result = replace(result, value=ended.value)
        if result.error is not None and self._is_limit(end):
            ctx.link.limit = self._limit(ctx, end)
        return result

    async def _emit_again(
        self,
        prepared: PreparedCall,
        ctx: ToolContext,
        end: int,
        inside: list[tuple[int, Event]],
    ) -> ToolResult:
        again, is_cut = Reemission(ctx, refunded_places(inside)), self._is_cut(end)
        for index, event in inside:
            await self._turn_of(index, is_cut=is_cut)
            if isinstance(event, ToolProgress):
                ctx.link.progress(event.done, event.total, event.message)
            else:
                again.emit(index, event)
        for number, last in _ends_of_runs(inside).items():
            ctx.link.run_ended(Child(prepared.call.id, _RUN, ctx.attempt, _stand_in(last), number))
        await self._turn_of(end, is_cut=is_cut)
        ended = self._at(end)
        if is_cut:
            await self._cut(end)
        if isinstance(ended, StepFailed) and ended.decision == "waiting":
            return self._waiting_again(prepared, ctx, (end, ended), inside)
        result = self._ended_as(prepared, ended)
        if self._is_limit(end):
            ctx.link.limit = self._limit(ctx, end)
        return result

    def _at(self, index: int) -> Event | None:
        return self._cursor.events[index] if index < len(self._cursor.events) else None

    def _is_cut(self, end: int) -> bool:
        ended = self._at(end)
        return ended is None or is_decision(ended, "cancelled")

    async def _turn_of(self, index: int, *, is_cut: bool = True) -> None:
        """Wait for a turn. A call that was not cancelled waits on, even while its run is being stopped."""
        waits = index < len(self._cursor.events)
        while waits:
            try:
                await self._cursor.turn(index)
                waits = False
            except asyncio.CancelledError:
                if is_cut:
                    raise

    def _ended_as(self, prepared: PreparedCall, end: Event | None) -> ToolResult:
        call = prepared.call
        match end:
            case ToolCompleted(value=value, duration_ms=duration, finish=finish, parts=parts):
                self._cursor.elapsed += duration / 1000
                return ToolResult(call.id, call.name, value, None, duration, finish, parts)
            case _:
                assert isinstance(end, StepFailed), "a call that has no end was cut"
                self._cursor.elapsed += end.duration_ms / 1000
                error = RaisedError(end.error, end.message, cause=end.cause).revived_for(call)
                return ToolResult(call.id, call.name, None, error, end.duration_ms)

    def _is_limit(self, end: int) -> bool:
        """Whether a call ended by a limit of its run, or of one above."""
        ended = self._at(end)
        if ended is None or not is_decision(ended, "fail"):
            return ended is not None and is_decision(ended, "limit")
        # Version 0.2 wrote "fail", as for an error after which the run fails by decision of the policy.
        last = next((event for event in self._from(end + 1) if isinstance(event, (StepStarted, *ENDS))), None)
        return not isinstance(last, RunFailed) or last.error == "BudgetExceededError"

    def _limit(self, ctx: ToolContext, end: int) -> BudgetExceededError:
        """The limit that was met in a call: of its run, or of the highest run whose call ended by it too."""
        owner: Any = ctx.budget
        message, resource = "a limit of the budget was met", "steps"
        scope = self._scope
        for event in self._cursor.events[end + 1 :]:
            if isinstance(event, StepFailed | ToolCompleted) and _holds(event, scope):
                if not is_decision(event, "limit"):
                    break
                scope, owner = event.scope, owner.above
            elif event.scope == scope and isinstance(event, RunFailed):
                message = event.message
            elif event.scope == scope and isinstance(event, RunCompleted):
                resource = event.stopped_by or resource
                break  # its own limit: a run that meets a limit above fails
        met = owner.exceeded_as(message)
        return met or BudgetExceededError(message, resource=resource, owner=owner)

    def _waiting_again(
        self,
        prepared: PreparedCall,
        ctx: ToolContext,
        ended: tuple[int, StepFailed],
        inside: list[tuple[int, Event]],
    ) -> ToolResult:
        """The result of a call in which a run was interrupted; its pending calls stand in for the run."""
        call, (index, end) = prepared.call, ended
        if not any(isinstance(one, RunInterrupted) for one in _ends_of_runs(inside).values()):
            return self._replayed_question(prepared, ctx, index)
        ctx.link.must_wait = True
        if end.error == ToolFailedError.__name__:  # the tool had suppressed the interruption
            return ToolResult(call.id, call.name, None, None, end.duration_ms)
        error = RaisedError(end.error, end.message).revived_for(call)
        error.__cause__ = RunInterruptedError(end.message, None)
        return ToolResult(call.id, call.name, None, error, end.duration_ms)

    def _replayed_question(self, prepared: PreparedCall, ctx: ToolContext, index: int) -> ToolResult:
        """The result of a call that asked a question of its own, which is in the last event of its run."""
        call = prepared.call
        last = next((event for event in self._from(index) if isinstance(event, RunInterrupted)), None)
        pending = () if last is None else tuple(item for item in last.pending if _is_of(item, ctx))
        held = waiting_for(pending, ctx.run_id, ctx.step_id)
        ctx.link.run_ended(Child(call.id, ITSELF, ctx.attempt, held, 0))
        error = RaisedError("ToolExecutionError", "it waits for an answer").revived_for(call)
        error.__cause__ = RunInterruptedError("it waits for an answer", held)
        return ToolResult(call.id, call.name, None, error)

    async def _cut(self, end: int) -> NoReturn:
        """End as a call that was cancelled: by a stop, a time limit, or the failure of another call."""
        for event in self._from(end):
            if isinstance(event, RunInterrupted):
                raise Stopped(event.reason)
            if isinstance(event, RunFailed) and event.error in ("GuardrailError", "AgentError"):
                known = GuardrailError if event.error == "GuardrailError" else AgentError
                raise known(event.message)  # of its middleware, or of another call: the run ends by it
            if isinstance(event, RunFailed) and event.error != "BudgetExceededError":
                await self._cursor.until_cancelled()  # another call fails, which cancels this one
            if isinstance(event, RunFailed):
                raise BudgetExceededError(event.message, resource="seconds")
            if isinstance(event, StepStarted | RunCompleted):
                raise BudgetExceededError("out of time", resource="seconds")
        raise Stopped("the recording breaks off")

    def _rest_of_call(self, call_id: str, start: int) -> tuple[int, list[tuple[int, Event]]]:
        """The index at which a call ends, and the events of the runs inside it until then."""
        dispatched = self._cursor.events[start]
        attempt = dispatched.attempt if isinstance(dispatched, ToolDispatched) else 1
        name = call_id if attempt == 1 else f"{call_id}#{attempt}"
        below = f"{self._scope}/{name}" if self._scope else name
        inside: list[tuple[int, Event]] = []
        for index in range(start + 1, len(self._cursor.events)):
            event = self._cursor.events[index]
            if event.scope == below or event.scope.startswith(f"{below}/"):
                inside.append((index, replace(event, scope=event.scope[len(below) + 1 :])))
            elif event.scope == self._scope:
                if isinstance(event, ToolProgress) and event.call_id == call_id:
                    inside.append((index, event))
                if isinstance(event, ToolCompleted | StepFailed) and event.call_id == call_id:
                    return index, inside
        return len(self._cursor.events), inside


def _ends_of_runs(inside: Sequence[tuple[int, Event]]) -> dict[int, Event]:
    """The last events of the runs directly inside a call, by their numbers."""
    last: dict[int, Event] = {}
    for _, event in inside:
        if event.scope == "" and not isinstance(event, ToolProgress):
            last[1] = event
        elif event.scope.startswith("~") and "/" not in event.scope:
            last[int(event.scope[1:])] = event
    return {number: event for number, event in last.items() if isinstance(event, ENDS)}


def _stand_in(event: Event) -> Outcome[Any]:
    """A stand-in for the outcome of a run inside a call that is not run again."""
    at = (RunInfo(event.run_id, "", ""), Trail.of([]), Spent(), event.step_id)
    match event:
        case RunInterrupted(reason=reason, pending=pending):
            return interrupted_phase(*at, reason, pending)
        case RunFailed(message=message):
            return failed_phase(*at, AgentError(message))
        case _:
            return completed_phase(*at, "", "")


async def _to_its_end(call: Coroutine[Any, Any, ToolResult], *, is_cut: bool) -> ToolResult:
    """The result of a call that arrived while its run was being stopped.

    For a call that was cancelled, let the run inside reach its recorded end, and raise.
    """
    task = asyncio.ensure_future(call)
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            result = await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.done():
                raise
            cancelled = error
        else:
            if is_cut and cancelled is not None:
                raise cancelled
            return result


def _holds(end: StepFailed | ToolCompleted, scope: str) -> bool:
    """Whether the run with this scope was inside the call that ended."""
    below = f"{end.scope}/{end.call_id}" if end.scope else str(end.call_id)
    return end.call_id is not None and (scope == below or scope.startswith((f"{below}/", f"{below}#")))


def _has_its_end(inside: Sequence[tuple[int, Event]]) -> bool:
    """Whether the run inside a cancelled call has its end in the recording, where it is stopped again."""
    own = [event for _, event in inside if not event.scope]
    return bool(own) and isinstance(own[-1], RunInterrupted) and own[-1].reason == TASK_CANCELLED


def _is_of(item: PendingCall, ctx: ToolContext) -> bool:
    """Whether a pending call is a question that the call itself has asked."""
    return item.question is not None and item.call.id == ctx.call_id and item.scope == ctx.scope
