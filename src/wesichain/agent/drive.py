"""The loop: carries a phase to its end. There is no other in this project.

Each turn looks at the phase, asks the effects for what the world is needed for (a reply, a tool's
result), lets the rules and the policy judge it, and takes the transition. Whatever ends a run ends
it here, with its event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar, assert_never

from wesichain.core import (
    Decided,
    Decision,
    JsonValue,
    LlmRequest,
    LlmResponse,
    Message,
    PendingCall,
    Role,
    maker,
    text_of,
)
from wesichain.errors import (
    AgentError,
    BudgetExceededError,
    CodecError,
    ConfigError,
    InternalInvariantError,
    LlmResponseError,
    ModelTransportError,
    ReplayMismatchError,
)
from wesichain.policy import Retry

from .batch import Batch, Slot
from .effects import OnText
from .phases import (
    Acting,
    Active,
    Completed,
    Failed,
    Idle,
    Interrupted,
    LimitName,
    Observing,
    Outcome,
    Phase,
    Thinking,
    Unfinished,
)
from .rules import Answer, FlawedPlan, Malformed, Plan, Rejected, is_response, wording
from .running import Running, Stopped
from .trail import Observed

OutT = TypeVar("OutT")

_request = maker(LlmRequest)
_ENDED = (Completed, Failed, Interrupted)
_TASK_CANCELLED = "the task that ran it was cancelled"


class Drive(Generic[OutT]):
    """Drives one run. Made for it, used once."""

    __slots__ = (
        "_batch",
        "_decisions",
        "_done",
        "_follows",
        "_last_content",
        "_limit",
        "_notes",
        "_on_text",
        "_run",
        "_seen",
        "_slots",
    )

    def __init__(self, run: Running[OutT]) -> None:
        self._run = run
        self._decisions: Mapping[str, Decision] = {}
        self._done: Mapping[str, Observed] = {}  # of the batch in hand, from before an interruption
        self._notes: Sequence[Observed] = ()  # to the model, likewise
        self._slots: list[Slot] | None = None  # the calls of the reply just judged
        self._batch: Batch[OutT] | None = None  # the calls that are being run
        self._seen = 0  # messages that the model has been shown, so that an event holds each once
        self._follows = False  # what is new in the next request is the reply, its results, and nothing else
        self._last_content = ""
        self._limit: BudgetExceededError | None = None
        self._on_text: OnText | None = None

    async def go_on(
        self,
        phase: Thinking[OutT] | Acting[OutT],
        decided: tuple[Decided, ...],
        done: Sequence[Observed],
        *,
        stream: bool = False,
    ) -> Outcome[OutT]:
        """Carry the phase of an interrupted run to its end, with what people decided and what was done."""
        self._decisions = {item.token: item.decision for item in decided}
        self._done = {item.call_id: item for item in done if item.call_id is not None}
        self._notes = [item for item in done if item.call_id is None]
        self._seen = phase.trail.length
        for message in phase.messages:
            self._run.used_ids.update((call.id, None) for call in message.tool_calls)
            if message.role is Role.ASSISTANT:
                self._last_content = message.content
        return await self.carry(phase, stream=stream, decided=decided)

    async def carry(
        self, phase: Active[OutT], *, stream: bool = False, decided: tuple[Decided, ...] | None = None
    ) -> Outcome[OutT]:
        """Carry a phase to its end; `decided` is given for a run that goes on."""
        run = self._run
        self._on_text = self._tell_text if stream else None
        run.narrator.run_started(phase.info.task, run.settings.model, run.specs(), decided)
        while True:
            try:
                match phase:
                    case Thinking():
                        following: Phase[OutT] = await self._think(phase)
                    case Acting():
                        following = await self._act(phase)
                    case Observing() | Idle():
                        following = phase.think()
                    case _:
                        assert_never(phase)
            except asyncio.CancelledError:
                run.token.cancel(_TASK_CANCELLED)
                run.narrator.run_interrupted(run.step, _TASK_CANCELLED, run.account.usage)
                raise
            except (ConfigError, ReplayMismatchError) as error:  # the caller's mistake, not the run's
                run.narrator.run_failed(run.step, error, run.account.usage)
                raise
            except Exception as cause:  # noqa: BLE001  # every way to end a run, a bug of ours included
                following = self._end(phase, cause)
            if isinstance(following, _ENDED):
                self._tell_end(following)
                return following
            phase = following

    def _tell_text(self, text: str) -> None:
        self._run.narrator.text_delta(self._run.step, text)

    # --- thinking ------------------------------------------------------------------------------------

    async def _think(self, phase: Thinking[OutT]) -> Phase[OutT]:
        """Ask until there is a reply that can be acted on, or told about; every turn is one model call."""
        run = self._run
        while True:
            run.check_stop()
            request = self._request(phase)
            if request is None:
                return self._last_word(phase, None)
            started = run.now()
            try:
                answer = await run.wait(run.effects.ask(request, step_id=run.step, on_text=self._on_text))
                reply = self._heard(answer, started)
            except (Stopped, AgentError, ConfigError, ReplayMismatchError):
                raise
            except Exception as cause:  # noqa: BLE001  # a model may be anybody's code
                reply = _unreachable(cause, run.step)
            if self._limit is not None:
                return self._last_word(phase, reply)
            if isinstance(reply, ModelTransportError):
                decision = run.decide(phase, reply)
                await run.sleep(decision.delay)
                continue
            verdict = run.settings.judge.judge(
                reply, step_id=run.step, used_ids=run.used_ids, excluded=run.tally.excluded
            )
            match verdict:
                case Plan(reply=sound, calls=calls):
                    self._slots = [*calls]
                    self._follows = sound is reply
                    return self._begin(phase, sound)
                case Answer(output=output, text=text):
                    run.check_stop()  # a cancel during the last model call wins over its answer
                    return phase.complete(output, text=text, spent=run.account.spent())
                case FlawedPlan():
                    following: Phase[OutT] | None = await self._settle(phase, verdict)
                case Malformed():
                    following = await self._correct(phase, verdict)
                case _:
                    assert_never(verdict)
            if following is not None:
                return following

    def _request(self, phase: Thinking[OutT]) -> LlmRequest | None:
        """The next request, with its event and price; out of budget, the last one, if there may be one."""
        run = self._run
        if not run.free:
            self._limit = self._limit or run.refusal()
        if self._limit is not None:
            return self._last_request(phase, self._limit)
        if not run.free:
            run.account.spend_step()
        run.free = False
        run.step += 1
        trail = phase.trail
        run.narrator.step_started(run.step, trail.messages_since(self._seen), follows=self._follows)
        self._seen, self._follows = trail.length, False
        return _request(run.settings.model, trail.messages, run.specs(), run.settings.judge.output.schema)

    def _heard(self, reply: LlmResponse, started: float) -> LlmResponse | ModelTransportError:
        """A reply that came, with its event and its price. One that ends in an error is no reply."""
        run = self._run
        if not is_response(reply):
            return reply  # the judge says what it is instead
        if reply.finish_reason == "error":
            text = reply.content[:200]
            return _unreachable(LlmResponseError(f"it ended with an error: {text}", retryable=True), run.step)
        run.account.spend_usage(reply.usage)
        run.narrator.model_responded(run.step, reply, int((run.now() - started) * 1e6) / 1000)
        self._last_content = reply.content
        return reply

    def _begin(self, phase: Thinking[OutT], reply: LlmResponse) -> Acting[OutT]:
        for call in reply.tool_calls:
            self._run.used_ids[call.id] = None
        return phase.act(reply)

    async def _settle(self, phase: Thinking[OutT], plan: FlawedPlan) -> Acting[OutT] | None:
        """Go on with the calls when those that cannot be run are settled; None asks the model again."""
        run = self._run
        slots: list[Slot] = []
        for item in plan.calls:
            if not isinstance(item, Rejected):
                slots.append(item)
                continue
            decision = run.decide(phase, item.error)
            await run.sleep(decision.delay)
            if isinstance(decision, Retry):
                return None
            text = run.told(wording.invalid_call(str(item.error)), decision)
            slots.append(Observed(text, text, item.call.id, item.call.name, ok=False))
        self._slots = slots
        return self._begin(phase, plan.reply)

    async def _correct(self, phase: Thinking[OutT], malformed: Malformed) -> Observing[OutT] | None:
        """Tell the model what was wrong with its reply; None asks the same again."""
        run = self._run
        if malformed.final:
            run.narrator.step_failed(run.step, malformed.error, "fail")
            raise malformed.error
        decision = run.decide(phase, malformed.error)
        await run.sleep(decision.delay)
        if isinstance(decision, Retry):
            return None
        text = run.told(wording.invalid_call(str(malformed.error)), decision)
        return phase.act(replace(malformed.reply, reasoning="")).observe([Observed(text, text)])

    # --- acting --------------------------------------------------------------------------------------

    async def _act(self, phase: Acting[OutT]) -> Phase[OutT]:
        run = self._run
        is_new = self._slots is not None
        batch = self._batch = Batch(run, phase, self._slots or self._recalled(phase.reply), self._notes)
        self._slots, self._notes = None, ()
        limit: BudgetExceededError | None = None
        try:
            if is_new and run.settings.loop_guard is not None:
                batch.guard(run.settings.loop_guard)
            pending = batch.prepare(self._decisions)
            if pending:
                return self._interrupt(phase, "approval", tuple(pending))
            await batch.perform()
        except BudgetExceededError as error:
            limit = error
        except AgentError as error:
            return self._fail(phase.observe(batch.observed()), error)
        following = phase.observe(batch.observed())
        self._follows = self._follows and batch.went_well
        if self._follows:  # the events of the calls have told everything but the notes
            self._seen = following.trail.length - len(batch.notes)
        if limit is not None and run.settings.on_limit == "fail":
            return self._fail(following, limit)
        self._batch, self._limit = None, limit
        return following

    def _recalled(self, reply: LlmResponse) -> list[Slot]:
        """The calls of a reply from before an interruption: done, or to be checked anew."""
        return [self._done.get(call.id) for call in reply.tool_calls]

    def _interrupt(
        self, phase: Active[OutT], reason: str, pending: tuple[PendingCall, ...] = ()
    ) -> Interrupted[OutT]:
        done = self._batch.done() if self._batch is not None else ()
        unfinished = Unfinished(phase.reply, done) if isinstance(phase, Acting) else None
        run = self._run
        return phase.interrupt(
            reason, spent=run.account.spent(), unfinished=unfinished, tally=run.tally, pending=pending
        )

    # --- ending --------------------------------------------------------------------------------------

    def _end(self, phase: Active[OutT], cause: Exception) -> Phase[OutT]:
        """The phase that an exception leads to; out of budget, that may be the last word instead."""
        match cause:
            case Stopped():
                return self._interrupt(phase, str(cause))
            case BudgetExceededError() if self._limit is None and self._may_answer(phase):
                self._limit = cause
                return phase
            case AgentError():
                return self._fail(phase, cause)
            case _:
                broken = InternalInvariantError(f"the loop broke: {type(cause).__name__}: {cause}")
                broken.__cause__ = cause
                return self._fail(phase, broken)

    def _may_answer(self, phase: Active[OutT]) -> bool:
        return self._run.settings.on_limit != "fail" and isinstance(phase, Thinking)

    def _fail(self, phase: Active[OutT], error: AgentError) -> Failed[OutT]:
        error.step_id = error.step_id or self._run.step
        return phase.fail(error, spent=self._run.account.spent())

    def _last_request(self, phase: Thinking[OutT], refusal: BudgetExceededError) -> LlmRequest | None:
        """What `on_limit` says: fail, ask once more without tools, or (None) take the last content."""
        run = self._run
        match run.settings.on_limit:
            case "fail":
                raise refusal
            case "answer" if refusal.resource in ("steps", "tool_calls"):
                messages = (*phase.messages, Message(Role.USER, wording.OUT_OF_STEPS))
                run.step += 1
                run.narrator.step_started(run.step, messages[self._seen :], follows=self._follows)
                output = run.settings.judge.output
                tools = () if output.final_tool is None else (output.final_tool,)
                return LlmRequest(run.settings.model, messages, tools, output.schema)
            case "answer" | "partial":
                return None
            case _:
                assert_never(run.settings.on_limit)

    def _last_word(
        self, phase: Thinking[OutT], reply: LlmResponse | ModelTransportError | None
    ) -> Completed[OutT]:
        """End with what the model said last, as far as it is an answer."""
        refusal = self._limit
        assert refusal is not None
        output = self._run.settings.judge.output
        answer: JsonValue = self._last_content
        if isinstance(reply, ModelTransportError):
            raise reply
        if reply is not None and is_response(reply) and reply.tool_calls and output.final_tool is not None:
            answer = reply.tool_calls[0].args
        try:
            found = output.read(answer)
        except CodecError as error:
            raise refusal from error
        text = text_of(answer)
        resource: Any = refusal.resource
        stopped_by: LimitName = resource
        return phase.complete(found, text=text, spent=self._run.account.spent(), stopped_by=stopped_by)

    def _tell_end(self, outcome: Outcome[OutT]) -> None:
        run = self._run
        match outcome:
            case Completed(text=text):
                run.narrator.run_completed(run.step, text, outcome.usage)
            case Failed(error=error):
                run.narrator.run_failed(run.step, error, outcome.usage)
            case Interrupted(reason=reason, pending=pending):
                run.narrator.run_interrupted(run.step, reason, outcome.usage, pending)
            case _:
                assert_never(outcome)


def _unreachable(cause: Exception, step: int) -> ModelTransportError:
    why = str(cause) or type(cause).__name__
    error = ModelTransportError(f"the model could not be asked: {why}", step_id=step)
    error.__cause__ = cause
    return error
