"""Asking: one turn of the loop's first half: a request, a reply, what it is, and what is made of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, TypeVar, assert_never

from wesichain.agent.calls import Slot
from wesichain.agent.effects import Entry, OnText
from wesichain.agent.phases import Acting, Active, Completed, LimitName, Observing, Phase, Thinking
from wesichain.agent.rules import (
    Answer,
    CallPlan,
    Checks,
    FlawedPlan,
    Malformed,
    Pause,
    Refused,
    Rejected,
    Verdict,
    is_response,
    sentences,
)
from wesichain.agent.run_state import PASSING, CutOff, FaultDecision, LimitAbove, RunState, Stopped
from wesichain.agent.trail import Observed
from wesichain.core import (
    ContentOmitted,
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    constructor_of,
)
from wesichain.errors import (
    BudgetExceededError,
    CodecError,
    LlmResponseError,
    ModelTransportError,
)
from wesichain.policy import Retry

from .showing import Showing

OutT = TypeVar("OutT")

_request = constructor_of(LlmRequest)


class Asking(Showing[OutT]):
    """Asks the model for one run, and judges what it says. The loop (`Drive`) is the other half."""

    __slots__ = (
        "_arrived",
        "_delay",
        "_follows",
        "_last_content",
        "_reported",
        "_shown",
        "_slots",
        "_stream",
        "_taken_up",
    )

    _arrived: LlmResponse | None  # a reply that is not acted on yet
    _taken_up: LlmResponse | None  # that one, if it came in an earlier part of the run, which alone was told
    _slots: list[Slot] | None  # the calls of the reply just judged
    _reported: int  # messages that events have told, so that each is told once
    _shown: int  # likewise, as steps have: what only replies and results tell is not in it
    _follows: bool  # what is new in the next request is the reply, its results, and nothing else
    _last_content: str
    _delay: float  # seconds before the next request
    _stream: bool

    async def _think(self, phase: Thinking[OutT]) -> Phase[OutT]:
        """Ask until there is a reply that can be acted on, or told about; every turn is one model call."""
        run: RunState[OutT] = self._run
        while True:
            reply: LlmResponse | ModelTransportError | None = self._arrived
            if reply is None:
                run.check_stop()
                if self._delay:
                    await self._rest()
                seen = self._seen
                question = None if seen is None else self._reduce(phase, seen)
                if seen is not None and question is not None:
                    await self._show(phase, seen, question)
                if run.present is not None:
                    await run.present.offer(phase)
                request = self._request(phase)
                if request is None:
                    return await self._last_word(phase, None)
                started = run.now()
                aloud = self._aloud() if self._stream else None
                try:
                    asked = run.effects.ask(request, step_id=run.step, on_text=aloud)
                    reply = self._take_reply(await (asked if run.is_bare else run.watch(asked)), started)
                except BaseException as cause:  # noqa: BLE001  # a model may be anybody's code
                    reply = self._reply_failed(cause)
            if isinstance(reply, ModelTransportError):
                self._ask_again(phase, reply)
                continue
            self._arrived = reply
            run.check_stop()  # a cancel during the last model call wins over its answer, which is kept
            if self._limit is not None:
                following: Phase[OutT] | None = await self._last_word(phase, reply)
            else:
                verdict = run.settings.judge.judge(
                    reply, step_id=run.step, used_ids=run.used_ids, excluded=run.tally.excluded
                )
                if run.settings.checks is not None and isinstance(verdict, Answer):
                    verdict = await self._checked(phase, verdict, run.settings.checks)
                following = self._follow(phase, reply, verdict)
            self._arrived = None
            if following is not None:
                return following

    def _aloud(self) -> OnText:
        """Who is told the text of a reply as it comes."""
        from wesichain.agent.stream_relay import StreamRelay  # loaded with the first stream

        return StreamRelay(self._run)

    async def _rest(self) -> None:
        """Give the provider the rest that it was to have."""
        delay, self._delay = self._delay, 0.0
        await self._run.sleep(delay)

    def _ask_again(self, phase: Thinking[OutT], fault: ModelTransportError) -> None:
        """Let the policy say when; the last word is asked for once."""
        if self._limit is not None:
            raise fault
        self._retry(self._run.decide(phase, fault))

    async def _checked(
        self, phase: Active[OutT], answer: Answer[OutT], checks: Checks
    ) -> Answer[OutT] | Malformed:
        """An answer as the user's checks leave it, or what one of them refuses as a wrong one."""
        try:
            output, text = await self._check(phase, answer.output, answer.text, checks)
        except Refused as refused:
            return self._run.settings.judge.refused(answer, refused.cause, step_id=self._run.step)
        return replace(answer, output=output, text=text)

    async def _check(self, phase: Active[OutT], output: OutT, text: str, checks: Checks) -> tuple[OutT, str]:
        run = self._run
        read = run.settings.judge.output.read
        entry: Entry[tuple[OutT, str]] = Entry("check", run.step, _text_of, lambda text: (read(text), text))
        ctx = run.context(phase)
        return await run.wait(run.effects.remember(entry, lambda: checks.run(ctx, output, text)))

    def _follow(
        self, phase: Thinking[OutT], reply: LlmResponse, verdict: Verdict[OutT]
    ) -> Phase[OutT] | None:
        """Take the transition that a reply leads to; None asks the same again."""
        run = self._run
        if isinstance(verdict, CallPlan):  # as in the loop: a class pattern costs more
            sound = verdict.reply
            run.tally.row = None  # a good step
            self._slots = [*verdict.calls]
            self._follows = sound is reply is not self._taken_up
            return self._begin(phase, sound)
        if isinstance(verdict, Answer):
            return phase.complete(
                verdict.output, text=verdict.text, spent=run.spent(), step=run.step, citations=reply.citations
            )
        match verdict:
            case FlawedPlan():
                return self._settle(phase, verdict)
            case Malformed():
                return self._correct(phase, verdict)
            case Pause(reply=sound):
                return self._begin(phase, sound).observe([])
            case _:
                assert_never(verdict)

    def _reply_failed(self, cause: BaseException) -> ModelTransportError:
        """A model that could not be asked. A call that was cut off spends no step, and will be made again."""
        run = self._run
        if isinstance(cause, Stopped | CutOff | asyncio.CancelledError):
            self._give_back_step()
        elif isinstance(cause, Exception) and not isinstance(cause, PASSING):
            if not run.is_stopped:
                return _unreachable(cause, run.step)
            self._give_back_step()
            run.check_stop()
        raise cause

    def _give_back_step(self) -> None:
        if self._limit is None and not self._run.tally.free:
            self._run.account.spend_step(-1)

    def _request(self, phase: Thinking[OutT]) -> LlmRequest | None:
        """The next request, with its event and price; out of budget, the last one, if there may be one."""
        run = self._run
        if run.settings.free_steps:
            run.tally.free = True
        free = run.tally.free
        if self._limit is None:
            account = run.account
            now = run.now() if account.is_timed else 0.0
            self._limit = account.own_refusal(now, free=free)
            if account.is_nested:
                above = account.refusal_above(now, free=free)
                if above is not None:
                    raise LimitAbove(above)
        if self._limit is not None:
            return self._last_request(phase, self._limit)
        if not free:
            run.account.spend_step()
        run.step += 1
        trail, emitter = phase.trail, run.emitter
        messages = trail.messages_since(self._reported)
        emitter.step_started(run.step, messages, follows=self._follows, free=free)
        self._reported = self._shown = trail.length
        self._follows = False
        if emitter.has_listeners and run.is_stopped:  # by somebody who was just told: nobody has been asked
            self._give_back_step()
            run.check_stop()
        shown = trail.messages if self._seen is None else self._seen.messages
        settings = run.model_settings()
        return _request(
            run.settings.model, shown, run.specs(), run.settings.judge.output.schema, (), settings
        )

    def _take_reply(self, reply: LlmResponse, started: float) -> LlmResponse | ModelTransportError:
        """A reply that came, with its event and its price. One that ends in an error is no reply."""
        run = self._run
        if not is_response(reply):
            return reply  # the judge says what it is instead
        if reply.finish_reason == "error":
            text = reply.content[:200]
            return _unreachable(LlmResponseError(f"it ended with an error: {text}", retryable=True), run.step)
        run.tally.free = False
        cost = run.account.spend_usage(reply.usage)
        run.emitter.model_responded(run.step, reply, int((run.now() - started) * 1e6) / 1000, cost)
        if reply.omitted:
            run.emitter.tell(ContentOmitted, run.step, run.settings.model, reply.omitted)
        self._last_content = reply.content
        return reply

    def _retry(self, decided: Any) -> None:
        """Ask again, as the policy says: now or later, for a step or for nothing."""
        self._run.tally.free = decided.free
        self._delay = max(self._delay, decided.decision.delay)

    def _begin(self, phase: Thinking[OutT], reply: LlmResponse) -> Acting[OutT]:
        for call in reply.tool_calls:
            self._run.used_ids[call.id] = None
        return phase.act(reply)

    def _settle(self, phase: Thinking[OutT], plan: FlawedPlan) -> Acting[OutT] | None:
        """Go on with the calls when those that cannot be run are settled; None asks the model again.

        Several bad calls in one reply are one fault: the model is told of all of them at once.
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
                self._retry(decided)
            else:
                run.tell_fault(item.error, decided)
            text = run.told(sentences.invalid_call(str(item.error)), decided.decision)
            slots.append(Observed(text, text, item.call.id, item.call.name, ok=False))
        if decided is not None and isinstance(decided.decision, Retry):
            return None
        self._slots = slots
        return self._begin(phase, plan.reply)

    def _correct(self, phase: Thinking[OutT], malformed: Malformed) -> Observing[OutT] | None:
        """Tell the model what was wrong with its reply; None asks the same again."""
        run = self._run
        decided = run.decide(phase, malformed.error)
        self._retry(decided)
        if isinstance(decided.decision, Retry):
            return None
        if malformed.errors:
            return self._begin(phase, malformed.reply).observe(self._wrong_answers(malformed, decided))
        text = run.told(sentences.invalid_call(str(malformed.error)), decided.decision)
        return phase.act(replace(malformed.reply, reasoning="")).observe([Observed(text, text)])

    def _wrong_answers(self, malformed: Malformed, decided: FaultDecision) -> list[Observed]:
        """The words on each call of a reply whose answers are wrong: its fault, or that it was not run."""
        told: list[Observed] = []
        for call, error in zip(malformed.reply.tool_calls, malformed.errors, strict=True):
            text = sentences.not_run(sentences.BESIDE_ANSWER)
            if error is not None:
                text = self._run.told(sentences.invalid_call(str(error)), decided.decision)
            told.append(Observed(text, text, call.id, call.name, ok=False))
        return told

    # --- the last word -------------------------------------------------------------------------------

    def _last_request(self, phase: Thinking[OutT], refusal: BudgetExceededError) -> LlmRequest | None:
        """The last request, by `on_limit`: one without tools; None takes the last content; or it fails."""
        run = self._run
        match run.settings.on_limit:
            case "fail":
                raise refusal
            case "answer" if refusal.resource in ("steps", "tool_calls"):
                run.tally.limit = refusal.resource
                note = Message(Role.USER, sentences.OUT_OF_STEPS)
                run.step += 1
                new = (*phase.trail.messages_since(self._reported), note)
                run.emitter.step_started(run.step, new, follows=self._follows, free=True)
                messages = (*(phase.messages if self._seen is None else self._seen.messages), note)
                output = run.settings.judge.output
                settings = replace(run.model_settings(), tool_choice=None)
                return LlmRequest(
                    run.settings.model, messages, output.final_tools, output.schema, settings=settings
                )
            case "answer" | "partial":
                return None
            case _:
                assert_never(run.settings.on_limit)

    async def _last_word(self, phase: Thinking[OutT], reply: LlmResponse | None) -> Completed[OutT]:
        """End with what the model said last, as far as it is an answer."""
        run, refusal = self._run, self._limit
        assert refusal is not None
        run.check_stop()
        judge, checks = run.settings.judge, run.settings.checks
        try:
            if reply is None:
                output, text = judge.output.read(self._last_content), self._last_content
            else:
                found = judge.last_word(reply, step_id=run.step)
                if not isinstance(found, Answer):
                    raise refusal from found
                output, text = found.output, found.text
            if checks is not None:
                output, text = await self._check(phase, output, text, checks)
        except (CodecError, Refused) as error:
            raise refusal from error
        resource: Any = refusal.resource
        stopped_by: LimitName = resource
        return phase.complete(output, text=text, spent=run.spent(), step=run.step, stopped_by=stopped_by)


def _text_of(checked: tuple[object, str]) -> str:
    return checked[1]


def _unreachable(cause: Exception, step: int) -> ModelTransportError:
    why = str(cause) or type(cause).__name__
    error = ModelTransportError(f"the model could not be asked: {why}", step_id=step)
    error.__cause__ = cause
    return error
