"""A model turn: a request, a reply, what the reply is, and the transition that it leads to."""

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
from .effects import JournalEntry, OnText
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
    """Asks the model for one run, and judges its replies: the first half of a step.

    `arrived` is a reply that is not acted on yet, `carried_over` that one where it came before an
    interruption. `slots` are the calls of the reply just judged, `limit` the limit that the run has met.
    `emitted` and `emitted_in_steps` count the messages that events have, all of them and those of steps:
    `follows` says that what is new in the next request is the reply and its results, and nothing else.
    """

    __slots__ = (
        "_delay", "_run", "_stream", "arrived", "carried_over", "context", "emitted", "emitted_in_steps",
        "follows", "last_content", "last_reply", "limit", "slots",
    )  # fmt: skip

    _delay: float  # seconds before the next request
    limit: BudgetExceededError | None
    arrived: LlmResponse | None
    carried_over: LlmResponse | None
    last_reply: LlmResponse | None  # that was judged
    slots: list[Slot] | None
    context: ModelContext | None  # what is sent to the model, where that is not the whole log

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
        """Continue with what the run had in hand: the words of its model, and a reply that had arrived."""
        for message in messages:
            if message.role is Role.ASSISTANT:
                self.last_content = message.text
        if reply is not None:
            self.arrived = self.carried_over = reply
            self.last_content = reply.content
        if self._run.tally.limit is not None:
            self.limit = self._run.account.exceeded(self._run.tally.limit)

    def hand_over(self, thinking: Thinking[OutT]) -> None:
        """Another agent goes on, to whom all that it is shown is new."""
        self.emitted = self.emitted_in_steps = 0
        self.follows = False
        words = (message.text for message in reversed(thinking.messages) if message.role is Role.ASSISTANT)
        self.last_content = next(words, "")  # as a run that is resumed here would take it
        self.context = _context_of(self._run, thinking) if self._run.settings.context else None

    def observed(self, length: int, *, went_well: bool) -> None:
        """The calls have ended. Where all went well, their events have all of the first `length` messages."""
        self.follows = self.follows and went_well
        if self.follows:
            self.emitted = length

    async def think(self, phase: Thinking[OutT]) -> Phase[OutT]:
        """Ask until there is a reply that can be acted on or corrected; every turn is one model call."""
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
            elif run.current_agent is not None:  # a reply from before is one to the tools of then
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
        """Let views make what is sent fit, ask for tools that can change, and keep the order of a journal."""
        run, limit, may_ask = self._run, self.limit, self.limit is None
        # Out of time, nothing is sent any more.
        context = None if limit is not None and limit.resource == "seconds" else self.context
        if self._delay:  # the rest that the provider was to have
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
        """An answer as the user's checks leave it, or what one of them refuses as a wrong one."""
        try:
            output, text = await self.check(phase, answer.output, answer.text, checks)
        except Refused as refused:
            return self._run.settings.judge.refused(answer, refused.cause, step_id=self._run.step)
        return replace(answer, output=output, text=text)

    async def check(self, phase: Active[OutT], output: OutT, text: str, checks: Checks) -> tuple[OutT, str]:
        run = self._run
        read = run.settings.judge.output.read
        entry: JournalEntry[tuple[OutT, str]] = JournalEntry(
            "check", run.step, _text_of, lambda text: (read(text), text)
        )
        ctx = run.context(lambda: phase.messages)
        return await run.wait(run.effects.remember(entry, lambda: checks.run(ctx, output, text)))

    def _follow(
        self, phase: Thinking[OutT], reply: LlmResponse, verdict: Verdict[OutT]
    ) -> Phase[OutT] | None:
        """Take the transition that a reply leads to; None asks the same again."""
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
        """A model that could not be asked. A call that was cut off spends no step, and will be made again."""
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
        """The next request, with its event and price; out of budget, the last one, if there may be one."""
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
        """A reply that came, with its event and its price. One that ends in an error is no reply."""
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
        """Ask again, as the policy decided: now or later, for a step or for free."""
        self._run.tally.free = decided.free
        self._delay = max(self._delay, decided.decision.delay)

    def _begin(self, phase: Thinking[OutT], reply: LlmResponse) -> Acting[OutT]:
        for call in reply.tool_calls:
            self._run.used_ids[call.id] = None
        return phase.act(reply)

    def _settle(self, phase: Thinking[OutT], plan: CallPlan) -> Acting[OutT] | None:
        """Go on with the calls when those that cannot be run are settled; None asks the model again.

        Several bad calls in one reply are one fault: all their errors are returned to the model at once.
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
        """Return the error in its reply to the model; None asks the same again."""
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
        """The words on each call of a reply whose answers are wrong: its fault, or that it was not run."""
        results: list[Observed] = []
        for call, error in zip(malformed.reply.tool_calls, malformed.errors, strict=True):
            text = sentences.not_run(sentences.BESIDE_ANSWER)
            if error is not None:
                text = self._run.fault_text(sentences.invalid_call(str(error)), decided.decision)
            results.append(Observed(text, text, call.id, call.name, ok=False))
        return results

    # --- the last word -------------------------------------------------------------------------------

    def _last_request(self, phase: Thinking[OutT], refusal: BudgetExceededError) -> LlmRequest | None:
        """The last request, by `on_limit`: one without tools; None takes the last content; or it fails."""
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
        """End with the last text of the model, as far as it is an answer."""
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
