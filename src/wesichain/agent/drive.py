"""The loop: carries a phase to its end. There is no other in this project.

Each turn looks at the phase, asks the effects for what the world is needed for (a reply, a tool's
result), lets the rules and the policy judge it, and takes the transition. Whatever ends a run ends
it here, with its event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar, assert_never

from wesichain.core import JsonValue, LlmRequest, LlmResponse, Message, PendingCall, Role, dump_json
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
from .phases import (
    Acting,
    Active,
    Completed,
    Failed,
    Idle,
    Interrupted,
    LimitName,
    Observed,
    Observing,
    Outcome,
    Phase,
    Thinking,
    Unfinished,
)
from .rules import Answer, Decision, Malformed, Plan, Rejected, is_response, wording
from .running import Running, Stopped

OutT = TypeVar("OutT")

_ENDED = (Completed, Failed, Interrupted)
_TASK_CANCELLED = "the task that ran it was cancelled"


class Drive(Generic[OutT]):
    """Drives one run. Made for it, used once."""

    __slots__ = (
        "_batch",
        "_decisions",
        "_done",
        "_last_content",
        "_limit",
        "_on_text",
        "_run",
        "_seen",
        "_slots",
    )

    def __init__(
        self,
        run: Running[OutT],
        *,
        stream: bool = False,
        decisions: Mapping[str, Decision] | None = None,
        done: tuple[Observed, ...] = (),
    ) -> None:
        self._run = run
        self._decisions: Mapping[str, Decision] = decisions or {}
        self._done = {item.call_id: item for item in done}  # of the batch in hand, before an interruption
        self._slots: list[Slot] | None = None  # the calls of the reply just judged
        self._batch: Batch[OutT] | None = None  # the calls that are being run
        self._seen = 0  # messages that the model has been shown, so that an event holds each once
        self._last_content = ""
        self._limit: BudgetExceededError | None = None
        self._on_text = self._tell_text if stream else None

    async def carry(self, phase: Active[OutT], *, resumed: bool = False) -> Outcome[OutT]:
        """Carry a phase to its end."""
        run = self._run
        run.narrator.run_started(phase.user_input, run.settings.model, run.specs(), resumed=resumed)
        if resumed:
            self._recall(phase)
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
            refusal = self._limit or run.refusal()
            if refusal is not None and not run.free:
                return await self._out_of_budget(phase, refusal)
            reply = await self._ask(phase)
            if isinstance(reply, ModelTransportError):
                decision = run.decide(phase, reply)
                await run.sleep(decision.delay)
                continue
            verdict = run.settings.judge.judge(
                reply, step_id=run.step, used_ids=run.used_ids, excluded=run.tally.excluded
            )
            match verdict:
                case Answer(output=output, text=text):
                    run.check_stop()  # a cancel during the last model call wins over its answer
                    return phase.complete(output, text=text, spent=run.account.spent())
                case Plan():
                    following: Phase[OutT] | None = await self._take(phase, verdict)
                case Malformed():
                    following = await self._correct(phase, verdict)
                case _:
                    assert_never(verdict)
            if following is not None:
                return following

    def _ask(self, phase: Thinking[OutT]) -> Coroutine[Any, Any, LlmResponse | ModelTransportError]:
        """One model call, with its events; what the model raises is a value."""
        run = self._run
        if not run.free:
            run.account.spend_step()
        run.free = False
        run.step += 1
        trail = phase.trail
        run.narrator.step_started(run.step, trail.messages_since(self._seen))
        self._seen = trail.length
        schema = run.settings.judge.output.schema
        return self._exchange(LlmRequest(run.settings.model, trail.messages, run.specs(), schema))

    async def _exchange(self, request: LlmRequest) -> LlmResponse | ModelTransportError:
        run = self._run
        started = run.now()
        try:
            reply = await run.wait(run.effects.ask(request, step_id=run.step, on_text=self._on_text))
        except (Stopped, AgentError, ConfigError, ReplayMismatchError):
            raise
        except Exception as cause:  # noqa: BLE001  # a model may be anybody's code
            return _unreachable(cause, run.step)
        if not is_response(reply):
            return reply  # the judge says what it is instead
        if reply.finish_reason == "error":
            text = reply.content[:200]
            return _unreachable(LlmResponseError(f"it ended with an error: {text}", retryable=True), run.step)
        run.account.spend_usage(reply.usage)
        run.narrator.model_responded(run.step, reply, round((run.now() - started) * 1000, 3))
        self._last_content = reply.content
        return reply

    async def _take(self, phase: Thinking[OutT], plan: Plan) -> Acting[OutT] | None:
        """Go on with the calls. Those that cannot be run are settled first: None asks the model again."""
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
        for call in plan.reply.tool_calls:
            run.used_ids.add(call.id)
        self._slots = slots
        return phase.act(plan.reply)

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
        batch = self._batch = Batch(run, phase, self._slots or self._recalled(phase.reply))
        self._slots = None
        pending = batch.prepare(self._decisions)
        if pending:
            return self._interrupt(phase, "approval", tuple(pending))
        limit: BudgetExceededError | None = None
        try:
            if is_new and run.settings.loop_guard is not None:
                batch.guard(run.settings.loop_guard)
            await batch.perform()
        except BudgetExceededError as error:
            limit = error
        except AgentError as error:
            return self._fail(phase.observe(batch.observed()), error)
        following = phase.observe(batch.observed())
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

    async def _out_of_budget(self, phase: Thinking[OutT], refusal: BudgetExceededError) -> Phase[OutT]:
        """What `on_limit` says: fail, take the last content, or ask once more without tools."""
        run = self._run
        match run.settings.on_limit:
            case "fail":
                raise refusal
            case "answer" if refusal.resource in ("steps", "tool_calls"):
                phase_messages = (*phase.messages, Message(Role.USER, wording.OUT_OF_STEPS))
                run.step += 1
                run.narrator.step_started(run.step, phase_messages[self._seen :])
                output = run.settings.judge.output
                tools = () if output.final_tool is None else (output.final_tool,)
                reply = await self._exchange(
                    LlmRequest(run.settings.model, phase_messages, tools, output.schema)
                )
                if isinstance(reply, ModelTransportError):
                    raise reply
                calls = [call.args for call in reply.tool_calls]
                answer: JsonValue = calls[0] if calls and output.final_tool is not None else reply.content
            case "answer" | "partial":
                answer = self._last_content
            case _:
                assert_never(run.settings.on_limit)
        return self._last_word(phase, answer, refusal)

    def _last_word(
        self, phase: Thinking[OutT], answer: JsonValue, refusal: BudgetExceededError
    ) -> Completed[OutT]:
        run = self._run
        try:
            output = run.settings.judge.output.read(answer)
        except CodecError as error:
            raise refusal from error
        text = answer if isinstance(answer, str) else dump_json(answer)
        resource: Any = refusal.resource
        stopped_by: LimitName = resource
        return phase.complete(output, text=text, spent=run.account.spent(), stopped_by=stopped_by)

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

    def _recall(self, phase: Active[OutT]) -> None:
        """Take up what a resumed run has said so far."""
        self._seen = len(phase.messages)
        for message in phase.messages:
            self._run.used_ids.update(call.id for call in message.tool_calls)
            if message.role is Role.ASSISTANT:
                self._last_content = message.content


def _unreachable(cause: Exception, step: int) -> ModelTransportError:
    why = str(cause) or type(cause).__name__
    error = ModelTransportError(f"the model could not be asked: {why}", step_id=step)
    error.__cause__ = cause
    return error
