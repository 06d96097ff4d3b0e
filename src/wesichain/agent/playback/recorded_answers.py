"""Recorded answers: replies, results and checks from a recording, each returned when its turn has come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

from wesichain.agent.calls import ITSELF, waiting_for
from wesichain.agent.effects import OnText
from wesichain.agent.outcomes import (
    Child,
    Outcome,
    RunInfo,
    completed_phase,
    failed_phase,
    interrupted_phase,
)
from wesichain.agent.rules import Misshapen, Refused
from wesichain.agent.run_state import TASK_CANCELLED, LimitAbove, Stopped
from wesichain.agent.stream_relay import StreamRelay
from wesichain.agent.trail import Trail
from wesichain.core import (
    Advice,
    AdviceShown,
    ContextReduced,
    Event,
    HandedOff,
    LlmResponse,
    ModelResponded,
    OutputDelta,
    Role,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    TextDelta,
    ToolCompleted,
    ToolDispatched,
    ToolProgress,
    ToolsOffered,
)
from wesichain.core.internal import PendingCall, Spent, to_plain
from wesichain.errors import (
    AgentError,
    BudgetExceededError,
    GuardrailError,
    ReplayMismatchError,
    RunInterruptedError,
    ToolFailedError,
)
from wesichain.tools import PreparedCall, ToolContext, ToolResult

from .cursor import ENDS, RecordingCursor, is_decision
from .recorded_errors import (
    advice_in,
    fault_of,
    reemit_one,
    refunded_places,
    revived_cause,
    revived_dispatch,
    revived_error,
)

UNKNOWN: Final = object()  # what a recording does not have
_RUN = "run"  # for the name of an agent, which nobody looks at in a replay


class RecordedAnswers:
    """The recorded answers of models, tools and checks, each returned when its turn has come."""

    def __init__(self, cursor: RecordingCursor) -> None:
        self.cursor = cursor  # how far the program that follows the recording has come

    # --- answers -------------------------------------------------------------------------------------

    def _own(self, scope: str, step_id: int) -> Iterator[tuple[int, Event]]:
        """The events of one run from one of its steps on, as far as they are not matched yet."""
        for index in range(self.cursor.first_unmatched, len(self.cursor.events)):
            event = self.cursor.events[index]
            if event.scope == scope and event.step_id >= step_id and not self.cursor.matched[index]:
                yield index, event

    async def reply(
        self, scope: str, step_id: int, on_text: OnText | None, on_extra: Callable[[Any], None]
    ) -> LlmResponse:
        """The model's answer from the recording; raises what it raised then.

        `on_extra` receives model calls that were made beside that.
        """
        for index, event in self._own(scope, step_id):
            await self.cursor.turn(index)
            match event:
                case TextDelta(text=text) if isinstance(on_text, StreamRelay):
                    on_text.piece(TextDelta, text)
                case OutputDelta(value=value) if isinstance(on_text, StreamRelay):
                    on_text.piece(OutputDelta, value)
                case ModelResponded(response=response, duration_ms=duration):
                    self.cursor.elapsed += duration / 1000
                    if not event.set_aside:
                        if isinstance(on_text, StreamRelay):
                            self._hold_deltas(scope, index, on_text)
                        return response
                    on_extra(event)
                case StepStarted(free=False):
                    on_extra(event)
                case StepFailed(call_id=None, error="InvalidModelActionError", message=message):
                    wrong: Any = Misshapen(message)  # what it gave was no reply
                    return wrong  # type: ignore[no-any-return]  # that is the point
                case _:
                    fault = fault_of(event)
                    if fault is not None:
                        raise fault
        raise ReplayMismatchError(
            f"step {step_id}: the recording breaks off before the model's reply", step_id=step_id
        )

    def _hold_deltas(self, scope: str, index: int, relay: StreamRelay) -> None:
        """Keep the pieces of an answer that follow its reply: a guard had checked it first."""
        for event in self.cursor.events[index + 1 :]:
            if event.scope == scope and isinstance(event, TextDelta | OutputDelta):
                relay.hold(event)
            elif event.scope == scope:
                return

    async def summary(self, scope: str, step_id: int) -> LlmResponse:
        """The answer to a context view from the recording: what it put in place of what it cut out."""
        for index, event in self._own(scope, step_id):
            if isinstance(event, ContextReduced) and not _is_trim(event):
                await self.cursor.turn(index)
                kind, colon, message = event.trouble.partition(": ")
                if colon:
                    raise revived_error(kind, message)
                words = [message.text for cut in event.cuts for message in cut.messages]
                return LlmResponse(words[0] if words else "", usage=event.usage)
        for event in self.cursor.events[self.cursor.first_unmatched :]:  # or what came instead
            if event.scope == scope and isinstance(event, RunFailed):
                raise LimitAbove(BudgetExceededError(event.message, resource="seconds"))
            if event.scope == scope and isinstance(event, RunCompleted):
                raise BudgetExceededError("out of time", resource=event.stopped_by or "seconds")
            if event.scope == scope and isinstance(event, RunInterrupted):
                raise Stopped(event.reason)
        raise ReplayMismatchError(
            f"step {step_id}: the recording breaks off before the summary of a context view", step_id=step_id
        )

    def remembered(self, scope: str, verb: str, step_id: int, call_id: str) -> Any:
        """What the loop was given beside replies and results; UNKNOWN where that is not recorded."""
        self.cursor.check()
        match verb:
            case "instruct":
                return self._instructions(scope, step_id)
            case "advise":
                return self._advice(scope, step_id)
            case "check":
                return self.checked(scope, step_id)
            case "approve":
                return self._was_asked(scope, call_id)
            case "offer":
                return self._offered(scope, step_id)
            case _:
                return UNKNOWN

    def _offered(self, scope: str, step_id: int) -> Any:
        """The tools that were offered from a step on; None where they were those of the step before.

        A function that ended the run ends it again.
        """
        for _, event in self._own(scope, step_id):
            match event:
                case ToolsOffered(step_id=at, tools=tools) if at == step_id:
                    return to_plain(tools)
                case RunFailed(error=kind, message=message):
                    raise revived_error(kind, message)
                case RunInterrupted(reason=reason):
                    raise Stopped(reason)
                case RunStarted():
                    pass
                case _:
                    return None
        return None

    def _instructions(self, scope: str, step_id: int) -> Any:
        for _, event in self._own(scope, step_id):
            if isinstance(event, RunStarted | HandedOff) and event.step_id == step_id:
                return event.instructions or UNKNOWN  # version 0.2 did not keep them
        return UNKNOWN

    def _advice(self, scope: str, step_id: int) -> Any:
        """The advice that an agent was shown when the run began, or was handed to it, in this step."""
        for _, event in self._own(scope, step_id):
            if isinstance(event, AdviceShown) and event.step_id == step_id:
                return to_plain(advice_in(event))
        return to_plain(Advice())

    def _was_asked(self, scope: str, call_id: str) -> bool:
        """Whether people were asked about a call in this part of the run."""
        ends = (event for event in self.cursor.events if event.scope == scope)
        asked = [one for event in ends if isinstance(event, RunInterrupted) for one in event.pending]
        own = min((len(one.scope) for one in asked), default=0)
        return any(one.call.id == call_id and len(one.scope) == own for one in asked)

    def checked(self, scope: str, step_id: int) -> str:
        """The answer as its checks left it in the recording, as a text; what they raised is raised again."""
        self.cursor.check()
        for _, event in self._own(scope, step_id):
            match event:
                case RunCompleted(output=str(text)):
                    return text
                case StepFailed(call_id=None, error=kind, message=message):
                    raise Refused(revived_error(kind, message))
                case RunFailed(error="BudgetExceededError", message=message):
                    raise BudgetExceededError(message, resource="seconds")
                case RunFailed(error=kind, message=message):
                    raise revived_error(kind, message)
                case RunInterrupted(reason=reason):
                    raise Stopped(reason)
                case _:
                    pass
        raise ReplayMismatchError(
            f"step {step_id}: the recording breaks off before an answer was checked", step_id=step_id
        )

    async def result(
        self, scope: str, prepared: PreparedCall, ctx: ToolContext, run_again: Callable[[], Any]
    ) -> ToolResult:
        """The result of a call from the recording. An agent is run again, a run in a tool is not."""
        call = prepared.call
        starts = self.cursor.calls.get((scope, call.id))
        if not starts:
            raise ReplayMismatchError(
                f"step {ctx.step_id}: the call {call.name!r} ({call.id}) is not in the recording",
                step_id=ctx.step_id,
                actual=self.cursor.compare.plain(call),
            )
        end, inside = self._rest_of_call(scope, call.id, starts.pop(0))
        is_cut = self._is_cut(end)
        # Without events inside, an agent had not begun when it was cut, or had ended in an earlier part.
        if prepared.tool.is_agent and (inside or not (is_cut or isinstance(self._at(end), ToolCompleted))):
            again = self._run_again(scope, ctx, end, run_again)
            if not is_cut or _has_its_end(inside):
                return await _to_its_end(again, is_cut=is_cut)
            await again  # it may be cut on the way; where its runs had ended before that, it is cut now
            await self._cut(scope, end)
        return await self._emit_again(scope, prepared, ctx, end, inside)

    async def _run_again(
        self, scope: str, ctx: ToolContext, end: int, run_again: Callable[[], Any]
    ) -> ToolResult:
        result: ToolResult = await run_again()
        await self._turn_of(end)
        ended = self._at(end)
        if isinstance(ended, ToolCompleted) and result.ok:  # its middleware may have had the last word
            result = replace(result, value=ended.value)
        if result.error is not None and self._is_limit(scope, end):
            ctx.link.limit = self._limit(scope, ctx, end)
        duration = ended.duration_ms if isinstance(ended, ToolCompleted | StepFailed) else 0.0
        return replace(result, duration_ms=duration)

    async def _emit_again(
        self,
        scope: str,
        prepared: PreparedCall,
        ctx: ToolContext,
        end: int,
        inside: list[tuple[int, Event]],
    ) -> ToolResult:
        back, is_cut = refunded_places(inside), self._is_cut(end)
        for index, event in inside:
            await self._turn_of(index, is_cut=is_cut)
            if isinstance(event, ToolProgress):
                ctx.link.progress(event.done, event.total, event.message)
            else:
                reemit_one(event, ctx, is_spent=index not in back)
        for number, last in _ends_of_runs(inside).items():
            ctx.link.run_ended(Child(prepared.call.id, _RUN, ctx.attempt, _stand_in(last), number))
        await self._turn_of(end, is_cut=is_cut)
        ended = self._at(end)
        if is_cut:
            await self._cut(scope, end)
        if isinstance(ended, StepFailed) and ended.decision == "waiting":
            return self._waiting_again(scope, prepared, ctx, (end, ended), inside)
        result = self._ended_as(prepared, ended)
        if result.error is not None and self._is_limit(scope, end):
            ctx.link.limit = self._limit(scope, ctx, end)
        return result

    def _at(self, index: int) -> Event | None:
        return self.cursor.events[index] if index < len(self.cursor.events) else None

    def _is_cut(self, end: int) -> bool:
        ended = self._at(end)
        return ended is None or is_decision(ended, "cancelled")

    async def _turn_of(self, index: int, *, is_cut: bool = True) -> None:
        """Wait for a turn; of a call that was not cut it comes, though its run is being stopped."""
        waits = index < len(self.cursor.events)
        while waits:
            try:
                await self.cursor.turn(index)
                waits = False
            except asyncio.CancelledError:
                if is_cut:
                    raise

    def _ended_as(self, prepared: PreparedCall, end: Event | None) -> ToolResult:
        call = prepared.call
        match end:
            case ToolCompleted(value=value, duration_ms=duration, finish=finish, parts=parts):
                self.cursor.elapsed += duration / 1000
                return ToolResult(call.id, call.name, value, None, duration, finish, parts)
            case StepFailed(error=kind, message=message, duration_ms=duration):
                self.cursor.elapsed += duration / 1000
                error = revived_dispatch(kind, message)
                error.call_id, error.tool_name = call.id, call.name
                error.__cause__ = revived_cause(end.cause, message) if end.cause else None
                return ToolResult(call.id, call.name, None, error, duration)
            case _:
                raise ReplayMismatchError(f"the call {call.name!r} has no end in the recording")

    def _is_limit(self, scope: str, end: int) -> bool:
        """Whether a call ended by a limit of its run, or of one above."""
        ended = self._at(end)
        if ended is None or not is_decision(ended, "fail"):
            return ended is not None and is_decision(ended, "limit")
        # Version 0.2 wrote "fail", as where the policy does not forgive a fault, by which the run then fails.
        after = (event for event in self.cursor.events[end + 1 :] if event.scope == scope)
        last = next((event for event in after if isinstance(event, (StepStarted, *ENDS))), None)
        return not isinstance(last, RunFailed) or last.error == "BudgetExceededError"

    def _limit(self, scope: str, ctx: ToolContext, end: int) -> BudgetExceededError:
        """The limit that was met in a call: of its run, or of the highest one whose call ended so too."""
        owner: Any = ctx.budget
        message, resource = "a limit of the budget was met", "steps"
        for event in self.cursor.events[end + 1 :]:
            if isinstance(event, StepFailed | ToolCompleted) and _holds(event, scope):
                if not is_decision(event, "limit"):
                    break
                scope, owner = event.scope, owner.above
            elif event.scope == scope and isinstance(event, RunFailed):
                message = event.message
            elif event.scope == scope and isinstance(event, RunCompleted):
                resource = event.stopped_by or resource
                break  # its own: a run that meets a limit above fails
        return BudgetExceededError(message, resource=resource, owner=owner)

    def _waiting_again(
        self,
        scope: str,
        prepared: PreparedCall,
        ctx: ToolContext,
        ended: tuple[int, StepFailed],
        inside: list[tuple[int, Event]],
    ) -> ToolResult:
        """A call of a tool in which a run was interrupted: what it waits for stands for the run itself."""
        call, (index, end) = prepared.call, ended
        if not any(isinstance(one, RunInterrupted) for one in _ends_of_runs(inside).values()):
            return self._replayed_question(scope, prepared, ctx, index)
        ctx.link.must_wait = True
        if end.error == ToolFailedError.__name__:  # the tool had made something else of it
            return ToolResult(call.id, call.name, None, None, end.duration_ms)
        error = revived_dispatch(end.error, end.message)
        error.__cause__ = RunInterruptedError(end.message, None)
        return ToolResult(call.id, call.name, None, error, end.duration_ms)

    def _replayed_question(
        self, scope: str, prepared: PreparedCall, ctx: ToolContext, index: int
    ) -> ToolResult:
        """A call that asked a question of its own: the end of its run has it."""
        call = prepared.call
        ends = (event for event in self.cursor.events[index:] if event.scope == scope)
        last = next((event for event in ends if isinstance(event, RunInterrupted)), None)
        pending = () if last is None else tuple(item for item in last.pending if _is_of(item, ctx))
        held = waiting_for(pending, ctx.run_id, ctx.step_id)
        ctx.link.run_ended(Child(call.id, ITSELF, ctx.attempt, held, 0))
        error = revived_dispatch("ToolExecutionError", "it waits for an answer")
        error.__cause__ = RunInterruptedError("it waits for an answer", held)
        return ToolResult(call.id, call.name, None, error)

    async def _cut(self, scope: str, end: int) -> NoReturn:
        """Come to the same end as a call that was cut off: stopped, out of time, or cut by a sibling."""
        for event in self.cursor.events[end:]:
            if event.scope != scope:
                continue
            if isinstance(event, RunInterrupted):
                raise Stopped(event.reason)
            if isinstance(event, RunFailed) and event.error in ("GuardrailError", "AgentError"):
                known = GuardrailError if event.error == "GuardrailError" else AgentError
                raise known(event.message)  # its middleware's, or that of a sibling: the run ends the same
            if isinstance(event, RunFailed) and event.error != "BudgetExceededError":
                await asyncio.get_running_loop().create_future()  # a sibling has failed: it cuts this one
            if isinstance(event, RunFailed):
                raise BudgetExceededError(event.message, resource="seconds")
            if isinstance(event, StepStarted | RunCompleted):
                raise BudgetExceededError("out of time", resource="seconds")
        raise Stopped("the recording breaks off")

    def _rest_of_call(self, scope: str, call_id: str, start: int) -> tuple[int, list[tuple[int, Event]]]:
        """Where a call ends, and the events of the runs inside it until then."""
        dispatched = self.cursor.events[start]
        attempt = dispatched.attempt if isinstance(dispatched, ToolDispatched) else 1
        name = call_id if attempt == 1 else f"{call_id}#{attempt}"
        below = f"{scope}/{name}" if scope else name
        inside: list[tuple[int, Event]] = []
        for index in range(start + 1, len(self.cursor.events)):
            event = self.cursor.events[index]
            if event.scope == below or event.scope.startswith(f"{below}/"):
                inside.append((index, replace(event, scope=event.scope[len(below) + 1 :])))
            elif event.scope == scope:
                if isinstance(event, ToolProgress) and event.call_id == call_id:
                    inside.append((index, event))
                if isinstance(event, ToolCompleted | StepFailed) and event.call_id == call_id:
                    return index, inside
        return len(self.cursor.events), inside


def _is_trim(event: ContextReduced) -> bool:
    """Whether results of tools were shortened, which no model is asked about."""
    kept = [message for cut in event.cuts for message in cut.messages]
    return bool(kept) and all(message.role is Role.TOOL for message in kept)


def _ends_of_runs(inside: Sequence[tuple[int, Event]]) -> dict[int, Event]:
    """How the runs right inside a call ended, by their numbers."""
    last: dict[int, Event] = {}
    for _, event in inside:
        if event.scope == "" and not isinstance(event, ToolProgress):
            last[1] = event
        elif event.scope.startswith("~") and "/" not in event.scope:
            last[int(event.scope[1:])] = event
    return {number: event for number, event in last.items() if isinstance(event, ENDS)}


def _stand_in(event: Event) -> Outcome[Any]:
    """An outcome in place of that of a run inside a call, which is not run again: how it ended."""
    at = (RunInfo(event.run_id, "", ""), Trail.of([]), Spent(), event.step_id)
    match event:
        case RunInterrupted(reason=reason, pending=pending):
            return interrupted_phase(*at, reason, pending)
        case RunFailed(message=message):
            return failed_phase(*at, AgentError(message))
        case _:
            return completed_phase(*at, "", "")


async def _to_its_end(call: Coroutine[Any, Any, ToolResult], *, is_cut: bool) -> ToolResult:
    """The result of a call which had arrived while its run was being stopped: it does so again.

    Of a call that was cut nobody takes the result, but the run inside it is left the time that it had.
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
    """Whether the call that ended had this run inside."""
    below = f"{end.scope}/{end.call_id}" if end.scope else str(end.call_id)
    return end.call_id is not None and (scope == below or scope.startswith((f"{below}/", f"{below}#")))


def _has_its_end(inside: Sequence[tuple[int, Event]]) -> bool:
    """Whether the run inside a call that was cut has its end in the log: it is stopped there again."""
    own = [event for _, event in inside if not event.scope]
    return bool(own) and isinstance(own[-1], RunInterrupted) and own[-1].reason == TASK_CANCELLED


def _is_of(item: PendingCall, ctx: ToolContext) -> bool:
    """Whether that is a question which the call itself has asked."""
    return item.question is not None and item.call.id == ctx.call_id and item.scope == ctx.scope
