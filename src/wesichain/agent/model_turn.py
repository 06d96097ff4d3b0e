"""A model turn: makes the request, receives the reply and takes the transition that the reply leads to."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, assert_never, cast

from wesichain.context.internal import tokens_of
from wesichain.core import LlmRequest, LlmResponse, Message, Role, Usage
from wesichain.core.internal import NO_SETTINGS, replace
from wesichain.errors import (
    BudgetExceededError,
    CodecError,
    LlmResponseError,
    ModelTransportError,
)
from wesichain.journal.internal import (
    Check,
    Closing,
    Heard,
    Reply,
    Say,
    escape_id,
    fault_of,
    message_of,
    revived,
    unread,
)
from wesichain.policy import Reprompt, Retry

from .backend import OnText
from .calls.batch import Slot
from .phases import (
    Acting,
    Active,
    Completed,
    Interrupted,
    LimitName,
    Observing,
    Phase,
    Thinking,
    with_messages,
)
from .rules import sentences
from .rules.checks import Checks, Refused
from .rules.reply_judge import Answer, CallPlan, Malformed, NotAReply, Pause, Rejected, Verdict, is_response
from .run_state import PASSING, CutOff, FaultDecision, LimitAbove, RunState, Settled, Stopped, Told
from .trail import Observed, Trail

if TYPE_CHECKING:
    from .model_context import ModelContext

OutT = TypeVar("OutT")
NO_REQUEST: Any = object()  # in place of a reply, where no request was made
CUT: Any = object()  # in place of the reply to a request that a message has cut off


class ModelTurn(Generic[OutT]):
    """Calls the model for one run, and judges its replies: the first half of a step.

    `slots` are the calls of the last judged reply, `limit` is the limit that the run has met. `emitted` counts
    the messages that earlier requests had. `follows` is set if the next request adds nothing but the reply
    and its results; `is_asking` while a request is under way.
    """

    __slots__ = (
        "_answered", "_asked", "_base", "_delay", "_is_prepared", "_is_sound", "_number", "_run", "_sent", "_stream", "context", "emitted", "follows", "is_asking", "last_content", "limit", "slots",
    )  # fmt: skip

    _answered: Observing[OutT] | None  # where the run goes on after an answer, if a message has come
    _delay: float  # seconds before the next request
    _asked: int  # the number of messages of the last request that the log had
    _number: int  # of the request that is under way
    _sent: int  # `emitted` before the last calls ended
    _base: int  # the number of messages that the run, or the agent it was handed to, began with
    limit: BudgetExceededError | None
    slots: list[Slot] | None
    context: ModelContext | None  # if context views shorten the requests

    def __init__(self, run: RunState[OutT], phase: Active[OutT], stream: bool) -> None:
        self._run = run
        run.turn = self
        self._stream = stream
        self._delay = 0.0
        self.limit = self.slots = self.context = self._answered = None
        self.emitted = 0
        self._asked = self._sent = self._number = 0
        self._base = phase.trail.length
        self.follows = self.is_asking = self._is_sound = self._is_prepared = False
        self.last_content = ""
        if run.settings.context:
            self.context = _context_of(run, phase)

    def met_limit(self, limit: BudgetExceededError) -> None:
        """The run has met a limit while it waited; `on_limit` says what it does."""
        self.limit = limit
        self.note_limit(limit)

    def note_limit(self, limit: BudgetExceededError) -> None:
        """Record the limit that was met before a request, or while it was under way."""
        run = self._run
        if not self.is_asking:
            run.refused(str(run.step + 1), limit)
        else:
            self.is_asking = False
            run.refused(str(self._number), limit, steps=0 if run.tally.free else 1, step=run.step)

    def hand_over(self, thinking: Thinking[OutT]) -> None:
        """Continue as another agent, whose first request has no message of an earlier one."""
        self.emitted = self._asked = 0
        self._base = thinking.trail.length
        self.follows = False
        words = (message.text for message in reversed(thinking.messages) if message.role is Role.ASSISTANT)
        self.last_content = next(words, "")
        self.context = _context_of(self._run, thinking) if self._run.settings.context else None

    def unsent(self, trail: Trail) -> tuple[bool, tuple[Message, ...]]:
        """The messages of a trail that no request had, and whether the last reply and results come first."""
        if trail.length < self.emitted:  # the calls have ended, and the run was stopped before it went on
            return False, trail.messages_since(max(self._sent, self._base))
        return self.follows, trail.messages_since(max(self.emitted, self._base))

    def observed(self, length: int, *, went_well: bool) -> None:
        """Take note that the calls have ended. If all went well, the log has the first `length` messages."""
        self.follows = self._is_sound and went_well
        self._sent = self.emitted
        if self.follows:
            self.emitted = length

    async def think(self, phase: Thinking[OutT]) -> Phase[OutT]:
        """Call the model until a reply leads to another phase; each round is one model call."""
        run: RunState[OutT] = self._run
        while True:
            reply: Any = NO_REQUEST
            if run.is_recorded:
                phase, reply = self._recorded_reply(phase)
            is_known = reply is not NO_REQUEST
            if reply is CUT:
                continue
            if not is_known:
                if run.log.log.has_mail:
                    phase = self._with_mail(phase)
                reply = await self._ask(phase)
                if reply is CUT:
                    continue
                if reply is NO_REQUEST:
                    return await self._finish_with_last_reply(phase, None)
            if isinstance(reply, ModelTransportError):
                if self.limit is not None:  # the last answer is requested once
                    raise reply
                self._retry_after(phase, reply)
                continue
            if not is_known:
                run.check_stop()  # a cancel during the last model call wins over its answer, which is kept
            if self.limit is not None:
                return await self._finish_with_last_reply(phase, reply)
            if is_known or run.settings.checks is not None:
                following = await self._judge(phase, reply, is_known=is_known)
            else:
                if run.answers:
                    run.answers = {}
                following = self._follow(phase, reply, run.judged(reply))
            if following is not None:
                return following

    # --- messages from outside -----------------------------------------------------------------------

    def _with_mail(self, phase: Thinking[OutT], *, is_idle: bool = False) -> Thinking[OutT]:
        """The phase with the messages that have come for this agent."""
        run = self._run
        names = unread(run.log.log, run.log.place, is_idle=is_idle)
        if not names:
            return phase
        heard = Heard(tuple(names))
        run.log.write(f"heard {run.step + 1}", heard)
        return self._hear(phase, heard)

    def _hear(self, phase: Thinking[OutT], heard: Heard) -> Thinking[OutT]:
        log = self._run.log.log
        said = (log.find(name, Say) for name in heard.names)
        return with_messages(phase, [message_of(one) for one in said if one is not None])

    async def goes_on(self, phase: Completed[OutT]) -> Phase[OutT] | None:
        """Where a run goes on that would end, since a message has come; None if it ends.

        In a store, no message is taken from then on.
        """
        run, before = self._run, self._answered
        log, place = run.log.log, run.log.place
        if before is None or phase.stopped_by is not None:
            return None
        name = f"heard {run.step + 1}"
        if not run.log.has(name):
            if log.refuse is not None:
                return None
            if run.background is not None and not await self._end_background():
                return self._wait_in_background(before)

            def has_mail() -> bool:
                return log.has_mail and bool(unread(log, place, is_idle=True))

            if log.writer is None or place:
                if not has_mail():
                    return None
            elif await log.writer.close_mailbox(f"{place}closing {run.step}", Closing(), has_mail):
                return None
            self._answered, run.is_recorded = None, False  # the log has nothing behind this
            return self._with_mail(before.think(), is_idle=True)
        self._answered = None
        return before.think()

    async def _end_background(self) -> bool:
        """Wait for the calls beside the run, until one has a result; False if they only wait for others."""
        run, calls = self._run, self._run.background
        while calls.awaited and not unread(run.log.log, run.log.place, is_idle=True):
            await run.wait(calls.wait())
            run.check_stop()
        if unread(run.log.log, run.log.place, is_idle=True):
            return True
        if calls.waiting:
            return False
        await calls.end()
        return True

    def _wait_in_background(self, phase: Observing[OutT]) -> Interrupted[OutT]:
        """Interrupt the run, because calls beside it wait."""
        run = self._run
        pending = run.log.pending()
        reason = "approval" if pending else "waiting"
        return phase.interrupt(reason, spent=run.spent(), step=run.step, pending=pending)

    # --- asking --------------------------------------------------------------------------------------

    async def _ask(self, phase: Thinking[OutT]) -> Any:
        """Call the model, and record its reply or its error; `NO_REQUEST` if a limit allows none."""
        run = self._run
        run.check_stop()
        if not self._is_prepared and (
            self._delay or self.context is not None or run.current_agent is not None
        ):
            await self._prepare_request(phase)
        self._is_prepared = False
        if run.shared is not None and self.limit is None:
            await run.wait(run.shared.debit(self._draft(phase), run.step + 1))
        request = self._request(phase)
        if request is None:
            return NO_REQUEST
        number = self._number = run.step
        self.is_asking = True
        run.asked_at = run.now()
        if run.log.log.writer is not None:
            await run.wait(run.log.log.flush())
        on_text = self._relay() if self._stream else None
        try:
            asked = run.backend.ask(request, on_text=on_text)
            if run.log.log.can_be_told:
                reply = await run.watch(asked, cut_by_messages=True)
            else:
                reply = await (asked if run.is_bare else run.watch(asked))
        except Told:
            reply = self._cut_off(request, number)
        except BaseException as cause:  # noqa: BLE001  # a model may be anybody's code
            reply = self._reply_failed(cause, request, number)
        else:
            reply = self._take_reply(reply, request, number)
        self.is_asking = False
        return reply

    async def _prepare_request(self, phase: Thinking[OutT]) -> None:
        """Wait for a retry, shorten the context, and offer tools that can change."""
        run, limit, may_ask = self._run, self.limit, self.limit is None
        # Out of time, no request is sent.
        context = None if limit is not None and limit.resource == "seconds" else self.context
        if self._delay:  # the policy's delay before a retry
            delay, self._delay = self._delay, 0.0
            await run.sleep(delay)
        question = None if context is None else context.reduce(phase, may_ask=may_ask)
        if context is not None and question is not None:
            await context.consult(phase, question, may_ask=may_ask)
        if run.current_agent is not None:
            await run.current_agent.offer(phase)

    def _request(self, phase: Thinking[OutT]) -> LlmRequest | None:
        """The next request, with its event and its step; at a limit, the last request, or None."""
        run = self._run
        if run.settings.free_steps:
            run.tally.free = True
        free = run.tally.free
        if self.limit is None and (run.account.steps >= run.account.budget.steps or run.account.has_limits):
            self.limit = self._limit(free=free)
        if self.limit is not None:
            return self._last_request(phase, self.limit)
        trail, log = phase.trail, run.log
        if log.is_replayed:
            log.refuse(f"ask {run.step + 1}")
        if not free:
            run.account.spend_step()
        run.step += 1
        messages = trail.messages_since(self.emitted)
        log.step_started(run.step, messages, follows=self.follows, free=free)
        self.emitted = trail.length
        self.follows = False
        if log.log.append is None and run.is_stopped:  # by a listener: no request was sent yet
            self._give_back_step()
            run.check_stop()
        return self._draft(phase)

    def _draft(self, phase: Thinking[OutT]) -> LlmRequest:
        """A request with the messages of the phase, as the context views show them."""
        run, fixed, asked = self._run, self._run.settings, NO_SETTINGS
        shown = phase.trail.messages if self.context is None else self.context.messages
        if run.own_settings is not None or fixed.model_settings is not NO_SETTINGS:
            asked = run.model_settings()
        return LlmRequest(fixed.model, shown, run.specs(), fixed.judge.output.schema, (), asked)

    def _limit(self, *, free: bool) -> BudgetExceededError | None:
        """The limit of this run that forbids the next model call. One of a run above ends this run."""
        run, account = self._run, self._run.account
        now = run.now() if account.is_timed else 0.0
        own = account.own_refusal(now, free=free)
        if own is not None:
            run.refused(str(run.step + 1), own)
            return own
        if account.is_nested:
            above = account.refusal_above(now, free=free)
            if above is not None:
                run.refused(str(run.step + 1), above)
                raise LimitAbove(above, is_recorded=True)
        return None

    def _relay(self) -> OnText:
        """The receiver of a reply's text while it streams."""
        from .stream_relay import StreamRelay  # loaded with the first stream

        return StreamRelay(self._run)

    def _take_reply(
        self, reply: LlmResponse, request: LlmRequest, number: int
    ) -> LlmResponse | ModelTransportError:
        """Charge and record a reply. One that ends in an error is an error of the model call."""
        run, free = self._run, self._run.tally.free
        ms = int((run.now() - run.asked_at) * 1e6) / 1000
        last = 0 if run.step == number else run.step
        if not is_response(reply):  # the judge says what it is
            body = Reply(ms=ms, free=free, step=last, flaw=NotAReply.flaw_of(reply), request=request)
            run.log.write(f"ask {number}", body)
            return reply
        if reply.finish_reason == "error":
            error = LlmResponseError(f"it ended with an error: {reply.content:.200}", retryable=True)
            return self._unreachable(error, request, number)
        if free:
            run.tally.free = False
        is_paid = run.paid is not None
        cost, unpriced = run.paid or run.account.spend_reply(reply)
        if is_paid:
            run.paid = None
        if run.shared is not None:
            run.shared.settle(reply, number, cost)
        flaw = NotAReply.flaw_of_calls(reply) if reply.tool_calls else ""
        kept = replace(reply, tool_calls=()) if flaw else reply
        noted = self.limit is not None
        body = Reply(kept, None, ms, cost, free, is_paid, unpriced, last, flaw, noted, request)
        run.log.write(f"ask {number}", body)
        self.last_content = reply.content
        return reply

    def _reply_failed(self, cause: BaseException, request: LlmRequest, number: int) -> ModelTransportError:
        """The error of a model call, for the policy. A call that was cancelled raises, and spends no step."""
        run = self._run
        cause = run.fault_of(cause)
        if isinstance(cause, Stopped | CutOff | asyncio.CancelledError):
            self._give_back_step()
        elif isinstance(cause, Exception) and not isinstance(cause, PASSING):
            if not run.is_stopped:
                return self._unreachable(cause, request, number)
            self._give_back_step()
            run.check_stop()
        raise cause

    def _cut_off(self, request: LlmRequest, number: int) -> Any:
        """Record a request that a message has cut off. What it cost is not known: its input is charged."""
        run = self._run
        usage = Usage(sum(map(tokens_of, request.messages)))
        reply = LlmResponse(usage=usage)
        cost, unpriced = run.account.spend_reply(reply)
        ms = int((run.now() - run.asked_at) * 1e6) / 1000
        last, free = 0 if run.step == number else run.step, run.tally.free
        run.log.write(
            f"ask {number}",
            Reply(reply, None, ms, cost, free, unpriced=unpriced, step=last, cut=True, request=request),
        )
        return CUT

    def _unreachable(self, cause: Exception, request: LlmRequest, number: int) -> ModelTransportError:
        """Record the error of a model call, and return it as an error of the run."""
        run = self._run
        ms = int((run.now() - run.asked_at) * 1e6) / 1000
        last = 0 if run.step == number else run.step
        fault = fault_of(cause)
        run.log.write(
            f"ask {number}", Reply(None, fault, ms, free=run.tally.free, step=last, request=request)
        )
        return _transport_error(cause, run.step)

    def give_up(self) -> None:
        """Give back the step of a request that is under way, whose reply nobody takes."""
        if self.is_asking:
            self._give_back_step()

    def _give_back_step(self) -> None:
        if self.limit is None and not self._run.tally.free:
            self._run.account.spend_step(-1)

    # --- what the log has ----------------------------------------------------------------------------

    def _recorded_reply(self, phase: Thinking[OutT]) -> tuple[Thinking[OutT], Any]:
        """The reply or the error that the log has for the next request, with the messages of that request.

        Limits, offers and views are not looked at again: what was done was permitted.
        """
        run = self._run
        is_limited, before = False, run.step
        if self.limit is None:
            self.limit = run.recorded_limit(str(before + 1))
            is_limited = self.limit is not None
            if run.step > before:  # it cut a request off
                self.emitted = self._asked = phase.trail.length
                self.follows = False
            if self.limit is not None and self.limit.owner is not run.account:
                raise LimitAbove(self.limit, is_recorded=True)
        number = run.step + 1
        heard = run.log.find(f"heard {number}", Heard)
        if heard is not None:
            phase = self._hear(phase, heard)
        known = run.log.find(f"ask {number}", Reply)
        if known is None:
            run.is_recorded = False
            self._is_prepared = is_limited  # before the limit was met
            if self.context is not None:
                self.context.take_recorded(phase, number)
            return phase, NO_REQUEST
        self._delay = 0.0
        phase = self._recorded_request(phase, number, known)
        run.step = known.step or number
        if known.fault is not None:
            return phase, _transport_error(revived(known.fault), run.step)
        run.tally.free = False
        if known.cut:
            return phase, CUT
        if known.flaw or known.reply is None:
            return phase, NotAReply(known.flaw)
        self.last_content = known.reply.content
        return phase, known.reply

    def _recorded_request(self, phase: Thinking[OutT], number: int, known: Reply) -> Thinking[OutT]:
        """The phase with the messages that the recorded request had."""
        run = self._run
        started = run.log.started(number)
        trail = phase.trail
        if started is not None:
            recorded, follows, run.tally.free = started
            if self.limit is not None:  # the note of the last request is not part of the trail
                recorded = recorded[:-1]
            own = trail.messages_since(self.emitted)
            if own != recorded or self.follows != follows:
                run.check_same_request(f"ask {number}", recorded, own)
                since = self.emitted if follows and self.follows else self._asked
                phase = phase.with_tail(since, recorded)
                trail = phase.trail
        self.emitted = self._asked = trail.length
        self.follows = False
        if self.context is None and run.log.has(f"view {number} 1"):
            self.context = _context_of(run, phase)  # this program has no views, and the recorded one had
        if self.context is not None:
            self.context.take_recorded(phase, number)
        is_dynamic = run.current_agent is not None and run.current_agent.is_dynamic
        if run.current_agent is not None:
            run.current_agent.offer_recorded()
        if run.is_compared and self.limit is None and not is_dynamic and not run.log.log.index.options:
            run.step = number
            fixed = run.settings
            asked = LlmRequest(
                fixed.model, (), run.specs(), fixed.judge.output.schema, (), run.model_settings()
            )
            run.check_same_tools(f"ask {number}", known.request, asked)
        return phase

    # --- judging -------------------------------------------------------------------------------------

    async def _judge(
        self, phase: Thinking[OutT], reply: LlmResponse, *, is_known: bool
    ) -> Phase[OutT] | None:
        """Take the transition that a reply leads to; None repeats the request."""
        run = self._run
        decided = run.recorded_decision(f"{run.step} 1") if is_known else None
        if is_known and run.current_agent is not None and run.current_agent.is_dynamic:
            if not all(run.is_settled(call.id) for call in reply.tool_calls):
                await run.current_agent.offer_again(phase)  # the tools of that step
        verdict = run.judged(reply, is_settled=run.is_settled if is_known else None)
        if decided is not None:
            return self._corrected(phase, self._as_malformed(reply, verdict), decided)
        if run.settings.checks is not None and isinstance(verdict, Answer):
            verdict = await self._checked(phase, verdict, run.settings.checks)
        if run.answers:
            run.answers = {}
        if is_known and not isinstance(verdict, CallPlan):
            run.check_stop()  # the log has no decision and no end
        if is_known and run.log.log.has_questions and isinstance(verdict, CallPlan):
            verdict = run.with_decisions(verdict)
        return self._follow(phase, reply, verdict)

    def _as_malformed(self, reply: LlmResponse, verdict: Verdict[OutT]) -> Malformed:
        """A reply about which the policy has decided, though this program may find nothing wrong with it."""
        if isinstance(verdict, Malformed):
            return verdict
        judge, step = self._run.settings.judge, self._run.step
        why = ValueError("it was refused before")
        if isinstance(verdict, Answer):
            return judge.refused(verdict, why, step_id=step)
        return judge.refused(Answer(cast("Any", None), reply.content, reply), why, step_id=step)

    def _follow(
        self, phase: Thinking[OutT], reply: LlmResponse, verdict: Verdict[OutT]
    ) -> Phase[OutT] | None:
        """Take the transition that a verdict leads to; None repeats the request."""
        run = self._run
        # As in the loop: class patterns cost more, and `isinstance` where it is none.
        if type(verdict) is not Answer and isinstance(verdict, CallPlan):
            if verdict.is_flawed or (run.is_recorded and run.has_rejections(verdict.reply)):
                return self._settle(phase, verdict)
            sound = verdict.reply
            if run.tally.row is not None:  # to set a field of a struct takes ten times as long as to look
                run.tally.row = None  # a good step
            calls: Any = verdict.calls  # none of a sound plan is rejected
            self.slots = [*calls]
            self._is_sound = sound is reply
            return self._begin(phase, sound)
        if isinstance(verdict, Answer):
            if run.log.log.can_be_told or run.background is not None:
                self._answered = self._after_answer(phase, verdict)
            return phase.complete(
                verdict.output, text=verdict.text, spent=run.spent(), step=run.step, citations=reply.citations
            )
        match verdict:
            case Malformed():
                return self._correct(phase, verdict)
            case Pause(reply=sound):
                return self._begin(phase, sound).observe([])
            case _:
                assert_never(verdict)

    def _after_answer(self, phase: Thinking[OutT], answer: Answer[OutT]) -> Observing[OutT]:
        """Where the run goes on after an answer, which stays in its history."""
        observed = [
            Observed(sentences.ANSWERED, sentences.ANSWERED, call.id, call.name)
            for call in answer.reply.tool_calls
        ]
        return self._begin(phase, answer.reply).observe(observed)

    async def _checked(
        self, phase: Active[OutT], answer: Answer[OutT], checks: Checks
    ) -> Answer[OutT] | Malformed:
        """The answer after the output checks, or a malformed reply if one of them refuses it."""
        try:
            output, text = await self.check(phase, answer.output, answer.text, checks)
        except Refused as refused:
            return self._run.settings.judge.refused(answer, refused.cause, step_id=self._run.step)
        return replace(answer, output=output, text=text)

    async def check(self, phase: Active[OutT], output: OutT, text: str, checks: Checks) -> tuple[OutT, str]:
        """The answer after the checks, and its text; raises `Refused` if one of them refuses it."""
        run, name = self._run, f"check {self._run.step} 1"
        known = run.log.find(name, Check) if run.is_recorded else None
        if known is not None:
            if known.fault is not None:
                raise Refused(revived(known.fault))
            return run.settings.judge.output.read(known.text), known.text
        run.log.refuse(name)
        ctx = run.context(lambda: phase.messages)
        try:
            output, text = await run.wait(checks.run(ctx, output, text))
        except Refused as refused:
            run.log.write(name, Check(fault=fault_of(refused.cause)))
            raise
        run.log.write(name, Check(text))
        return output, text

    # --- replies with errors -------------------------------------------------------------------------

    def _retry_after(self, phase: Thinking[OutT], error: ModelTransportError) -> None:
        """Send the request again, if the policy says so."""
        run = self._run
        name = f"{run.step} 1"
        decided = run.recorded_decision(name) if run.is_recorded else None
        self.retry(decided or run.decide(phase, error, name, _no_text))

    def retry(self, decided: FaultDecision) -> None:
        """Take over the policy's delay for the next request, and whether it spends a step."""
        self._run.tally.free = decided.free
        self._delay = max(self._delay, decided.delay)

    def _begin(self, phase: Thinking[OutT], reply: LlmResponse) -> Acting[OutT]:
        for call in reply.tool_calls:
            self._run.used_ids[call.id] = None
        return phase.act(reply)

    def _settle(self, phase: Thinking[OutT], plan: CallPlan) -> Acting[OutT] | None:
        """Give invalid calls their errors and go on with the others; None repeats the request.

        Several invalid calls in one reply are one fault: all their errors are returned to the model at once.
        """
        run = self._run
        slots: list[Slot] = []
        decided: FaultDecision | None = None
        for item, call in zip(plan.calls, plan.reply.tool_calls, strict=True):
            name = f"{run.step} {escape_id(call.id)} 1"
            found = run.recorded_rejection(name) if run.is_recorded else None
            if found is None and not isinstance(item, Rejected):
                slots.append(item)
                continue
            if found is not None:
                decided = decided or found
                text = found.text
            elif decided is None:
                settle = partial(self._error_text, item.error)
                decided = run.decide(phase, item.error, name, settle, is_rejection=True)
                text = decided.text
            else:
                text = sentences.invalid_call(str(item.error))
                run.share_decision(name, item.error, decided, text)
            slots.append(Observed(text, text, call.id, call.name, ok=False))
        if decided is not None:
            self.retry(decided)
            if decided.again:
                return None
        self.slots, self._is_sound = slots, False
        return self._begin(phase, plan.reply)

    def _error_text(self, error: Exception, decision: Retry | Reprompt, _: bool) -> Settled:
        text = sentences.invalid_call(str(error))
        return Settled(self._run.fault_text(text, decision), again=isinstance(decision, Retry))

    def _correct(self, phase: Thinking[OutT], malformed: Malformed) -> Observing[OutT] | None:
        """Call the policy for a malformed reply; None repeats the request."""
        run = self._run
        settle = partial(self._error_text, malformed.error)
        return self._corrected(phase, malformed, run.decide(phase, malformed.error, f"{run.step} 1", settle))

    def _corrected(
        self, phase: Thinking[OutT], malformed: Malformed, decided: FaultDecision
    ) -> Observing[OutT] | None:
        """Return the error of a malformed reply to the model; None repeats the request."""
        self.retry(decided)
        if decided.again:
            return None
        if malformed.errors:
            observed = self._wrong_answers(malformed, decided.text)
            return self._begin(phase, malformed.reply).observe(observed)
        text = decided.text
        return phase.act(replace(malformed.reply, reasoning="")).observe([Observed(text, text)])

    def _wrong_answers(self, malformed: Malformed, first: str) -> list[Observed]:
        """The observations of a reply with invalid answers: each call's error, or that it was not run.

        `first` is the text for the first of the errors, about which the policy has decided.
        """
        results: list[Observed] = []
        for call, error in zip(malformed.reply.tool_calls, malformed.errors, strict=True):
            text = sentences.not_run(sentences.BESIDE_ANSWER)
            if error is malformed.error:
                text = first
            elif error is not None:
                text = sentences.invalid_call(str(error))
            results.append(Observed(text, text, call.id, call.name, ok=False))
        return results

    # --- at a limit ----------------------------------------------------------------------------------

    def _last_request(self, phase: Thinking[OutT], refusal: BudgetExceededError) -> LlmRequest | None:
        """The last request, without tools, or None to end with the last text, or an error, by `on_limit`."""
        run = self._run
        match run.settings.on_limit:
            case "fail":
                raise refusal
            case "answer" if refusal.resource in ("steps", "tool_calls"):
                if self.context is not None:
                    self.context.fit()
                run.log.refuse(f"ask {run.step + 1}")
                note = Message(Role.USER, sentences.OUT_OF_STEPS)
                run.step += 1
                new = (*phase.trail.messages_since(self.emitted), note)
                run.log.step_started(run.step, new, follows=self.follows, free=True)
                self.emitted, self.follows = phase.trail.length, False
                run.tally.free = True
                messages = (*(phase.messages if self.context is None else self.context.messages), note)
                output = run.settings.judge.output
                settings = replace(run.model_settings(), tool_choice=None)
                return LlmRequest(
                    run.settings.model, messages, output.final_tools, output.schema, settings=settings
                )
            case "answer" | "partial":
                return None
            case _:
                assert_never(run.settings.on_limit)

    async def _finish_with_last_reply(
        self, phase: Thinking[OutT], reply: LlmResponse | None
    ) -> Completed[OutT]:
        """End with the last text of the model, if it is an answer; else raise the limit."""
        run, refusal = self._run, self.limit
        assert refusal is not None
        if not run.is_recorded:
            run.check_stop()
        judge, checks = run.settings.judge, run.settings.checks
        try:
            if reply is None:
                if run.settings.on_limit == "answer" and not self.last_content:
                    raise refusal  # nothing was asked for that could be an answer
                output, text = judge.output.read(self.last_content), self.last_content
            else:
                found = judge.judge_last_reply(reply, step_id=run.step)
                if not isinstance(found, Answer):
                    raise refusal from found
                output, text = found.output, found.text
            if checks is not None:
                output, text = await self.check(phase, output, text, checks)
        except (CodecError, Refused) as error:
            raise refusal from error
        resource: Any = refusal.resource
        stopped_by: LimitName = resource
        return phase.complete(output, text=text, spent=run.spent(), step=run.step, stopped_by=stopped_by)


def _context_of(run: RunState[Any], phase: Active[Any]) -> ModelContext:
    from .model_context import ModelContext  # loaded with the first view

    return ModelContext(run, phase)


def _no_text(*_: Any) -> Settled:
    return Settled(again=True)


def _transport_error(cause: Exception, step: int) -> ModelTransportError:
    why = str(cause) or type(cause).__name__
    error = ModelTransportError(f"the model could not be asked: {why}", step_id=step)
    error.__cause__ = cause
    return error
