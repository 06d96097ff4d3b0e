"""Questions: calls that wait for somebody's word, and what becomes of them when it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeAlias, TypeVar

from wesichain.agent.phases import Acting, Child, Interrupted
from wesichain.agent.rules import Rejected, approval_token, sentences
from wesichain.agent.run_under_way import Running
from wesichain.agent.trail import Observed
from wesichain.core import (
    Approve,
    ApproveWith,
    Decision,
    LlmResponse,
    LogView,
    Message,
    PendingCall,
    Provide,
    Refuse,
    ToolCall,
    constructor_of,
    is_object,
    text_of,
)
from wesichain.errors import ConfigError
from wesichain.tools import PreparedCall, ToolResult

from .site import Site

OutT = TypeVar("OutT")
Slot: TypeAlias = PreparedCall | Observed | None

_observed = constructor_of(Observed)
_NONE: dict[str, Any] = {}  # of a batch that nothing came before; never changed


class CallQuestions(Generic[OutT]):
    """The calls of one Acting phase before any of them is run.

    `slots` has an entry for each call, in order: what it takes to run it, then what came of it. None
    stands for a call that has to be checked first, in a run that goes on after an interruption. What
    stands from before it: the questions that were asked (`pending`), the runs inside calls that go on
    (`before`), how often each call was begun (`attempts`).
    """

    __slots__ = (
        "_asked",
        "_is_over",
        "_phase",
        "_sites",
        "attempts",
        "before",
        "decisions",
        "finish",
        "notes",
        "run",
        "slots",
        "todo",
        "waiting",
        "went_well",
    )

    def __init__(
        self,
        run: Running[OutT],
        phase: Acting[OutT],
        slots: list[Slot],
    ) -> None:
        self.run = run
        self._phase = phase
        self.slots = slots
        self.todo: list[int] | None = None  # the places of those that are to be run, once they are prepared
        self.notes: Sequence[Observed] = ()
        self.decisions: Mapping[str, Decision] = _NONE
        self._asked: Mapping[str, PendingCall] = _NONE
        self.before: dict[str, Child] = _NONE
        self.attempts: dict[str, int] = {}
        self.finish: Observed | None = None  # a tool said that its result is the run's
        self.waiting: Mapping[str, Child] = _NONE  # runs inside calls that were interrupted this time
        self._sites: dict[str, Site | None] = {}  # calls that were dispatched and have not ended
        self._is_over = False
        self.went_well = False

    def take_up(self, interrupted: Interrupted[OutT], decisions: Mapping[str, Decision]) -> None:
        """Go on from where the calls were interrupted, with what people have decided since."""
        unfinished = interrupted.unfinished
        assert unfinished is not None
        self.notes = [item for item in unfinished.done if item.call_id is None]
        self.decisions = {**unfinished.decisions, **decisions}
        self._asked = {item.call.id: item for item in interrupted.pending}
        self.before = {child.call_id: child for child in unfinished.children}
        self.attempts = dict(unfinished.attempts)

    @property
    def messages(self) -> LogView[Message]:
        return self._phase.messages

    def prepare(self) -> list[PendingCall]:
        """Make the calls ready, applying people's decisions; returns those that still wait for one."""
        pending: list[PendingCall] = []
        before = self.before
        todo: list[int] = []
        self.todo = todo
        for index, slot in enumerate(self.slots):
            ready = self._check(index) if slot is None else slot
            if not isinstance(ready, PreparedCall):
                continue
            todo.append(index)
            if before and ready.call.id in before:
                continue
            tool = ready.tool
            if tool.external or (tool.approval and self.run.needs_approval(ready, self._phase)):
                question = self._question(ready)
                decision = self.decisions.get(question.token)
                if decision is None:
                    pending.append(question)
                else:
                    self.slots[index] = decided = self._decided(ready, decision)
                    if not isinstance(decided, PreparedCall):
                        todo.pop()
        return pending

    def _question(self, prepared: PreparedCall) -> PendingCall:
        """The question about a call: the one that was asked before, or a new one."""
        run, call = self.run, prepared.call
        asked = self._asked.get(call.id)
        if asked is not None and self._is_about(asked, call):
            return asked
        ttl = run.settings.approval_ttl
        expires_at = None if ttl is None else run.settings.clock.time() + ttl
        token = approval_token(run.run_id, run.step, call)
        return PendingCall(call, token, expires_at, run.scope, prepared.tool.external)

    def _is_about(self, asked: PendingCall, call: ToolCall) -> bool:
        """Whether a question that was stored is still about this call, and its token bound to it."""
        run, decision = self.run, self.decisions.get(asked.token)
        is_same = asked.call == call or (
            isinstance(decision, ApproveWith) and asked.call.name == call.name and decision.args == call.args
        )
        positions = (run.step, self._phase.trail.length)  # the second is that of the first version
        return is_same and any(
            asked.token == approval_token(run.run_id, position, asked.call) for position in positions
        )

    def _check(self, index: int) -> PreparedCall | Observed:
        found = self.run.settings.judge.prepare(self._phase.reply.tool_calls[index], self.run.step)
        if isinstance(found, Rejected):
            asked = self._asked.get(found.call.id)
            if asked is not None and isinstance(self.decisions.get(asked.token), ApproveWith):
                raise ConfigError(f"the approved arguments do not fit: {found.error}")
            told = failed(found.call, sentences.invalid_call(str(found.error)))
            self.slots[index] = told
            return told
        self.slots[index] = found
        return found

    def _decided(self, prepared: PreparedCall, decision: Decision) -> PreparedCall | Observed:
        """The verdict on one call; other arguments stand in the reply already (`ApproveWith`)."""
        call = prepared.call
        match decision:
            case Approve() | ApproveWith():
                return prepared
            case Refuse(reason=reason):
                return failed(call, sentences.refused(reason))
            case Provide(value=value, error=error):
                result = self.run.settings.registry.provide(prepared, value, error=error)
                if result.error is not None:
                    return failed(call, sentences.tool_error(str(result.error)))
                return self.kept(call, result)

    def kept(self, call: ToolCall, result: ToolResult) -> Observed:
        """A result as it is kept; one that was to end the run is remembered."""
        value = result.value
        observed = _observed(value, text_of(value), call.id, call.name, True, result.parts)
        if result.finish and self.finish is None:
            self.finish = observed
        return observed


def failed(call: ToolCall, text: str) -> Observed:
    return Observed(text, text, call.id, call.name, ok=False)


def with_decided_args(interrupted: Interrupted[Any], decisions: Mapping[str, Decision]) -> LlmResponse | None:
    """The reply in hand with the arguments that people have put in place of the model's; None as it is."""
    changed = {
        item.call.id: decision.args
        for item in interrupted.pending
        if isinstance(decision := decisions.get(item.token), ApproveWith)
    }
    unfinished = interrupted.unfinished
    if unfinished is None or not changed:
        return None
    reply = unfinished.reply
    calls = tuple(
        replace(call, args=changed[call.id]) if call.id in changed else call for call in reply.tool_calls
    )
    return None if calls == reply.tool_calls else replace(reply, tool_calls=calls)


def check_answer(item: PendingCall, answer: Provide) -> None:
    """Refuse an answer that is not what the question asks for."""
    question, value = item.question, answer.value
    if question is None or answer.error is not None:
        return
    from wesichain.tools import validate_json  # loaded with the first question

    issues = (
        validate_json(question.schema, question.filled(value)) if is_object(value) else ["it is no object"]
    )
    if issues:
        raise ConfigError(f"the answer to {item.call.name!r} is not what it asks for: {issues[0]}")
