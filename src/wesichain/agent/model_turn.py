"""A model turn: makes the request, receives the reply and takes the transition that the reply leads to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, assert_never

from wesichain.core import ContentOmitted, LlmRequest, LlmResponse, Message, Role
from wesichain.core.internal import NO_SETTINGS, replace
from wesichain.errors import (
    BudgetExceededError,
    CodecError,
    LlmResponseError,
    ModelTransportError,
)
from wesichain.policy import Retry

from .calls.batch import Slot
from .effects import OnText, RecordedInput
from .phases import Acting, Active, Completed, LimitName, Observing, Phase, Thinking
from .rules import sentences
from .rules.checks import Checks, Refused
from .rules.reply_judge import Answer, CallPlan, Malformed, Pause, Rejected, Verdict, is_response
from .run_state import PASSING, CutOff, FaultDecision, LimitAbove, RunState, Stopped
from .trail import Observed

if TYPE_CHECKING:
    from .model_context import ModelContext

OutT = TypeVar("OutT")


class ModelTurn(Generic[OutT]):
    """Calls the model for one run, and judges its replies: the first half of a step.

    `arrived` is a reply that is not processed yet, `carried_over` one that arrived before an interruption.
    `slots` are the calls of the last judged reply, `limit` is the limit that the run has met. `emitted` and
    `emitted_in_steps` count the messages that are in events of any kind, and in events of steps. `follows` is
    set if the next request adds nothing but the reply and its results.
    """

    __slots__ = (
        "_delay", "_run", "_stream", "arrived", "carried_over", "context", "emitted", "emitted_in_steps",
        "follows", "last_content", "last_reply", "limit", "slots",
    )  # fmt: skip

    _delay: float  # seconds before the next request
    limit: BudgetExceededError | None
    arrived: LlmResponse | None
    carried_over: LlmResponse | None
    last_reply: LlmResponse | None  # the last one that was judged
    slots: list[Slot] | None
    context: ModelContext | None  # if context views shorten the requests

    def __init__(self, run: RunState[OutT], phase: Active[OutT], stream: bool) -> None:
        self._run = run
        self._stream = stream
        self._delay = 0.0
        self.limit = self.arrived = self.carried_over = self.last_reply = self.slots = self.context = None
        self.emitted = self.emitted_in_steps = phase.info.told
        self.follows = False
        self.last_content = ""
        if run.settings.context or run.tally.cuts:
            self.context = _context_of(run, phase)

    def resume(self, reply: LlmResponse | None, messages: Sequence[Message]) -> None:
        """Continue an interrupted run, perhaps with a reply that had arrived before."""
        for message in messages:
            if message.role is Role.ASSISTANT:
                self.last_content = message.text
        if reply is not None:
            self.arrived = self.carried_over = reply
            self.last_content = reply.content
        if self._run.tally.limit is not None:
            self.limit = self._run.account.exceeded(self._run.tally.limit)

    def hand_over(self, thinking: Thinking[OutT]) -> None:
        """Continue as another agent, whose first request has no message that an event has already."""
        self.emitted = self.emitted_in_steps = 0
        self.follows = False
        words = (message.text for message in reversed(thinking.messages) if message.role is Role.ASSISTANT)
        self.last_content = next(words, "")  # the same as in a run that is resumed here
        self.context = _context_of(self._run, thinking) if self._run.settings.context else None

    def observed(self, length: int, *, went_well: bool) -> None:
        """Take note that the calls have ended. If all went well, events have the first `length` messages."""
        self.follows = self.follows and went_well
        if self.follows:
            self.emitted = length

    async def think(self, phase: Thinking[OutT]) -> Phase[OutT]:
        """Call the model until a reply leads to another phase; each round is one model call."""
        run: RunState[OutT] = self._run
        is_plain = self.context is None and run.current_agent is None and not run.remembers
        while True:
            reply: LlmResponse | ModelTransportError | None = self.arrived
            if reply is None:
                run.check_stop()
                if self._delay or not is_plain:
                    await self._prepare_request(phase)
                request = self._request(phase)
                if request is None:
                    return await self._finish_with_last_reply(phase, None)
                run.asked_at = run.now()
                on_text = self._relay() if self._stream else None
                try:
                    asked = run.effects.ask(request, step_id=run.step, on_text=on_text)
                    reply = self._take_reply(await (asked if run.is_bare else run.watch(asked)))
                except BaseException as cause:  # noqa: BLE001  # a model may be anybody's code
                    reply = self._reply_failed(cause)
            elif run.current_agent is not None:  # an earlier reply is for the tools offered at that time
                await run.current_agent.offer(phase, again=True)
            if isinstance(reply, ModelTransportError):
                if self.limit is not None:  # the last answer is requested once
                    raise reply
                self.retry(run.decide(phase, reply))
                continue
            self.arrived = reply
            run.check_stop()  # a cancel during the last model call wins over its answer, which is kept
            if self.limit is not None:
                following: Phase[OutT] | None = await self._finish_with_last_reply(phase, reply)
            else:
                verdict = run.settings.judge.judge(
                    reply, step_id=run.step, used_ids=run.used_ids, excluded=run.tally.excluded
                )
                if run.settings.checks is not None and isinstance(verdict, Answer):
                    verdict = await self._checked(phase, verdict, run.settings.checks)
                following = self._follow(phase, reply, verdict)
            self.arrived = None
            if following is not None:
                return following

    async def _prepare_request(self, phase: Thinking[OutT]) -> None:
        """Wait for a retry, shorten the context, offer tools that can change, and keep a journal's order."""
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
        if run.remembers and run.account.is_nested:
            await run.effects.turn()
            run.check_stop()

    def _relay(self) -> OnText:
        """The receiver of a reply's text while it streams."""
        from .stream_relay import StreamRelay  # loaded with the first stream

        return StreamRelay(self._run)

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
        run = self._run
        read = run.settings.judge.output.read
        entry: RecordedInput[tuple[OutT, str]] = RecordedInput(
            "check", run.step, _text_of, lambda text: (read(text), text)
        )
        ctx = run.context(lambda: phase.messages)
        return await run.wait(run.effects.remember(entry, lambda: checks.run(ctx, output, text)))

    def _follow(
        self, phase: Thinking[OutT], reply: LlmResponse, verdict: Verdict[OutT]
    ) -> Phase[OutT] | None:
        """Take the transition that a reply leads to; None repeats the request."""
        run, self.last_reply = self._run, reply
        # As in the loop: class patterns cost more, and `isinstance` where it is none.
        if type(verdict) is not Answer and isinstance(verdict, CallPlan):
            if verdict.is_flawed:
                return self._settle(phase, verdict)
            sound = verdict.reply
            if run.tally.row is not None:  # to set a field of a struct takes ten times as long as to look
                run.tally.row = None  # a good step
            calls: Any = verdict.calls  # none of a sound plan is rejected
            self.slots = [*calls]
            self.follows = sound is reply is not self.carried_over
            return self._begin(phase, sound)
        if isinstance(verdict, Answer):
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

    def _reply_failed(self, cause: BaseException) -> ModelTransportError:
        """The error of a model call, for the policy. A call that was cancelled raises, and spends no step."""
        run = self._run
        cause = run.fault_of(cause)
        if isinstance(cause, Stopped | CutOff | asyncio.CancelledError):
            self._give_back_step()
        elif isinstance(cause, Exception) and not isinstance(cause, PASSING):
            if not run.is_stopped:
                return _unreachable(cause, run.step)
            self._give_back_step()
            run.check_stop()
        raise cause

    def _give_back_step(self) -> None:
        if self.limit is None and not self._run.tally.free:
            self._run.account.spend_step(-1)

    def _request(self, phase: Thinking[OutT]) -> LlmRequest | None:
        """The next request, with its event and its step; at a limit, the last request, or None."""
        run = self._run
        if run.settings.free_steps:
            run.tally.free = True
        free = run.tally.free
        if self.limit is None:
            account = run.account
            now = run.now() if account.is_timed else 0.0
            self.limit = account.own_refusal(now, free=free)
            if account.is_nested:
                above = account.refusal_above(now, free=free)
                if above is not None:
                    raise LimitAbove(above)
        if self.limit is not None:
            return self._last_request(phase, self.limit)
        if not free:
            run.account.spend_step()
        run.step += 1
        trail, emitter = phase.trail, run.emitter
        messages = trail.messages_since(self.emitted)
        emitter.step_started(run.step, messages, follows=self.follows, free=free)
        self.emitted = self.emitted_in_steps = trail.length
        self.follows = False
        if emitter.has_listeners and run.is_stopped:  # by a listener: no request was sent yet
            self._give_back_step()
            run.check_stop()
        shown = trail.messages if self.context is None else self.context.messages
        fixed, asked = run.settings, NO_SETTINGS
        if run.own_settings is not None or fixed.model_settings is not NO_SETTINGS:
            asked = run.model_settings()
        return LlmRequest(fixed.model, shown, run.specs(), fixed.judge.output.schema, (), asked)

    def _take_reply(self, reply: LlmResponse) -> LlmResponse | ModelTransportError:
        """Charge a reply and emit its event. A reply that ends in an error is an error of the model call."""
        run = self._run
        if not is_response(reply):
            return reply  # the judge decides what it is instead
        if reply.finish_reason == "error":
            error = LlmResponseError(f"it ended with an error: {reply.content:.200}", retryable=True)
            return _unreachable(error, run.step)
        if run.tally.free:
            run.tally.free = False
        cost = run.account.spend_reply(reply)
        run.emitter.model_responded(run.step, reply, int((run.now() - run.asked_at) * 1e6) / 1000, cost)
        if reply.omitted:
            run.emitter.emit(ContentOmitted, run.step, run.settings.model, reply.omitted)
        self.last_content = reply.content
        return reply

    def retry(self, decided: Any) -> None:
        """Take over the policy's delay for the next request, and whether it spends a step."""
        self._run.tally.free = decided.free
        self._delay = max(self._delay, decided.decision.delay)

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
        for item in plan.calls:
            if not isinstance(item, Rejected):
                slots.append(item)
                continue
            if decided is None:
                decided = run.decide(phase, item.error)
                self.retry(decided)
            else:
                run.emit_fault(item.error, decided)
            text = run.fault_text(sentences.invalid_call(str(item.error)), decided.decision)
            slots.append(Observed(text, text, item.call.id, item.call.name, ok=False))
        if decided is not None and isinstance(decided.decision, Retry):
            return None
        self.slots = slots
        return self._begin(phase, plan.reply)

    def _correct(self, phase: Thinking[OutT], malformed: Malformed) -> Observing[OutT] | None:
        """Return the error of a malformed reply to the model; None repeats the request."""
        run = self._run
        decided = run.decide(phase, malformed.error)
        self.retry(decided)
        if isinstance(decided.decision, Retry):
            return None
        if malformed.errors:
            return self._begin(phase, malformed.reply).observe(self._wrong_answers(malformed, decided))
        text = run.fault_text(sentences.invalid_call(str(malformed.error)), decided.decision)
        return phase.act(replace(malformed.reply, reasoning="")).observe([Observed(text, text)])

    def _wrong_answers(self, malformed: Malformed, decided: FaultDecision) -> list[Observed]:
        """The observations of a reply with invalid answers: each call's error, or that it was not run."""
        results: list[Observed] = []
        for call, error in zip(malformed.reply.tool_calls, malformed.errors, strict=True):
            text = sentences.not_run(sentences.BESIDE_ANSWER)
            if error is not None:
                text = self._run.fault_text(sentences.invalid_call(str(error)), decided.decision)
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
                run.tally.limit = refusal.resource
                if self.context is not None:
                    self.context.fit()
                note = Message(Role.USER, sentences.OUT_OF_STEPS)
                run.step += 1
                new = (*phase.trail.messages_since(self.emitted), note)
                run.emitter.step_started(run.step, new, follows=self.follows, free=True)
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


def _text_of(checked: tuple[object, str]) -> str:
    return checked[1]


def _unreachable(cause: Exception, step: int) -> ModelTransportError:
    why = str(cause) or type(cause).__name__
    error = ModelTransportError(f"the model could not be asked: {why}", step_id=step)
    error.__cause__ = cause
    return error
