"""Approvals: what people are asked about the calls of one reply, and what becomes of the calls then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from wesichain.agent.phases import Acting, Interrupted
from wesichain.agent.rules import approval_token, sentences
from wesichain.agent.run_state import RunState
from wesichain.agent.trail import Observed, failed, observed_of
from wesichain.core import LlmResponse, ToolCall
from wesichain.core.internal import Approve, ApproveWith, Decision, PendingCall, Provide, Refuse, is_object
from wesichain.errors import ConfigError
from wesichain.tools import PreparedCall


class Approvals:
    """The questions about the calls of one Acting phase, and the decisions on them."""

    __slots__ = ("_asked", "_phase", "_run", "decisions")

    def __init__(
        self,
        run: RunState[Any],
        phase: Acting[Any],
        asked: Sequence[PendingCall] = (),
        decisions: Mapping[str, Decision] | None = None,
    ) -> None:
        """`asked`: the questions of this run and of those below it, when it was interrupted."""
        self._run = run
        self._phase = phase
        self._asked = {item.call.id: item for item in asked if item.scope == run.scope}
        self.decisions: Mapping[str, Decision] = {} if decisions is None else decisions

    def question(self, prepared: PreparedCall) -> PendingCall:
        """The question about a call: the one that was asked before, or a new one."""
        run, call = self._run, prepared.call
        asked = self._asked.get(call.id)
        if asked is not None and self._is_about(asked, call):
            return asked
        ttl = run.settings.approval_ttl
        expires_at = None if ttl is None else run.settings.clock.time() + ttl
        token = approval_token(run.run_id, run.step, call)
        tool = prepared.tool
        parameters = None if tool.external else tool.spec.parameters
        return PendingCall(call, token, expires_at, run.scope, tool.external, parameters=parameters)

    def was_asked(self, call: ToolCall) -> bool:
        """Whether people were asked about this very call before."""
        asked = self._asked.get(call.id)
        return asked is not None and self._is_about(asked, call)

    def _is_about(self, asked: PendingCall, call: ToolCall) -> bool:
        """Whether a question that was stored is still about this call, and its token bound to it."""
        run, decision = self._run, self.decisions.get(asked.token)
        is_same = asked.call == call or (
            isinstance(decision, ApproveWith) and asked.call.name == call.name and decision.args == call.args
        )
        positions = (run.step, self._phase.trail.length)  # the second is that of the first version
        return is_same and any(
            asked.token == approval_token(run.run_id, position, asked.call) for position in positions
        )

    def check_changed_args(self, call: ToolCall, error: Exception) -> None:
        """Raise a `ConfigError` where a person has given the arguments that do not fit."""
        asked = self._asked.get(call.id)
        if asked is not None and isinstance(self.decisions.get(asked.token), ApproveWith):
            raise ConfigError(f"the approved arguments do not fit: {error}")

    def decided(self, prepared: PreparedCall, decision: Decision) -> PreparedCall | Observed:
        """The call after a decision on it; other arguments stand in the reply already (`ApproveWith`)."""
        call = prepared.call
        match decision:
            case Approve() | ApproveWith():
                return prepared
            case Refuse(reason=reason):
                return failed(call, sentences.refused(reason))
            case Provide(value=value, error=error):
                result = self._run.settings.registry.provide(prepared, value, error=error)
                if result.error is not None:
                    return failed(call, sentences.tool_error(str(result.error)))
                return observed_of(call, result)


def with_decided_args(
    interrupted: Interrupted[Any], decisions: Mapping[str, Decision], scope: tuple[str, ...]
) -> LlmResponse | None:
    """The reply in hand with the arguments that people have put in place of the model's; None as it is.

    A decision belongs to a call of one run: `scope` tells this run's own from those of runs below it.
    """
    changed = {
        item.call.id: decision.args
        for item in interrupted.pending
        if item.scope == scope and isinstance(decision := decisions.get(item.token), ApproveWith)
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
