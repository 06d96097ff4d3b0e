"""Approvals: the questions about the calls of a reply, and the decisions of people on them.

A token binds a decision to exactly one call. A decision is checked before it is applied, and used once.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from wesichain.agent.phases import Acting, Interrupted
from wesichain.agent.rules import sentences
from wesichain.agent.run_state import RunState
from wesichain.agent.trail import Observed, failed, observed_of
from wesichain.core import JsonValue, LlmResponse, ToolCall
from wesichain.core.internal import (
    Approve,
    ApproveWith,
    Decision,
    PendingCall,
    Provide,
    Question,
    RefusalOf,
    Refuse,
    check_decisions,
    is_object,
    replace,
)
from wesichain.errors import ApprovalExpiredError, ConfigError
from wesichain.tools.internal import PreparedCall


def approval_token(run_id: str, position: int, call: ToolCall) -> str:
    """The token of one call with its arguments, at one position in one run."""
    text = json.dumps([run_id, position, call.id, call.name, call.args], sort_keys=True, default=repr)
    return _digest(text)


def question_token(run_id: str, position: int, call: ToolCall, question: Question, number: int) -> str:
    """The token of one question of one call; `number` counts equal questions.

    A call that is made again and asks the same question gets the same token, and so the same answer.
    """
    asked = [approval_token(run_id, position, call), question.message, dict(question.schema), number]
    return _digest(json.dumps(asked, sort_keys=True, default=repr))


def _digest(text: str) -> str:
    from hashlib import sha256  # takes three milliseconds to import

    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


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
        """`asked`: the pending calls of this run, and of runs below it, when it was interrupted."""
        self._run = run
        self._phase = phase
        self._asked = {item.call.id: item for item in asked if item.scope == run.scope}
        self.decisions: Mapping[str, Decision] = {} if decisions is None else decisions

    def question(self, prepared: PreparedCall, why: str = "") -> PendingCall:
        """The pending call for a call: the stored one, or a new one."""
        run, call = self._run, prepared.call
        asked = self.asked(call)
        if asked is not None:
            return asked
        ttl = run.settings.approval_ttl
        expires_at = None if ttl is None else run.settings.clock.time() + ttl
        token = approval_token(run.run_id, run.step, call)
        tool = prepared.tool
        parameters = None if tool.external else tool.spec.parameters
        return PendingCall(call, token, expires_at, run.scope, tool.external, None, parameters, why)

    def asked(self, call: ToolCall) -> PendingCall | None:
        """The stored pending call for this call, if the call is still the same and its token is valid."""
        asked = self._asked.get(call.id)
        if asked is None:
            return None
        run, decision = self._run, self.decisions.get(asked.token)
        is_same = asked.call == call or (
            isinstance(decision, ApproveWith) and asked.call.name == call.name and decision.args == call.args
        )
        positions = (run.step, self._phase.trail.length)  # version 0.1 used the second
        tokens = [approval_token(run.run_id, position, asked.call) for position in positions]
        return asked if is_same and asked.token in tokens else None

    def check_changed_args(self, call: ToolCall, error: Exception) -> None:
        """Raise a `ConfigError` if it was a person who changed the arguments, and they do not fit."""
        asked = self._asked.get(call.id)
        if asked is not None and isinstance(self.decisions.get(asked.token), ApproveWith):
            raise ConfigError(f"the approved arguments do not fit: {error}")

    def decided(self, prepared: PreparedCall, decision: Decision) -> PreparedCall | Observed:
        """The call after a decision on it. The arguments of `ApproveWith` are in the reply already."""
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
    """The unfinished reply with the arguments that people have changed; None if there are none.

    `scope` is that of this run: pending calls with another scope belong to runs below it.
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
    """Raise a `ConfigError` for an answer that does not match the schema of its question."""
    question, value = item.question, answer.value
    if question is None or answer.error is not None:
        return
    from wesichain.tools import validate_json  # loaded with the first question

    issues = validate_json(question.schema, question.filled(value)) if is_object(value) else ["not an object"]
    if issues:
        raise ConfigError(f"the answer to {item.call.name!r} is not what it asks for: {issues[0]}")


_MOST_TOKENS = 10_000


class UsedTokens:
    """The tokens that were used already: a decision is applied once."""

    def __init__(self) -> None:
        self._used: OrderedDict[str, None] = OrderedDict()

    @contextmanager
    def used(
        self,
        interrupted: Interrupted[Any],
        decisions: Mapping[str, Decision],
        now: float,
        refusal_of: RefusalOf,
    ) -> Generator[None]:
        """Check that every waiting call has a valid decision that was not used, and mark the tokens as used.

        After a `ConfigError` inside the block, the tokens can be used again.
        """
        check_decisions(decisions)
        waiting = {item.token: item for item in interrupted.pending}
        unknown = [token for token in decisions if token not in waiting]
        if unknown:
            raise ConfigError(f"no call waits for the token {unknown[0]!r}; take tokens from outcome.pending")
        missing = [
            f"{item.call.name!r} (call {item.call.id}, token {token})"
            for token, item in waiting.items()
            if token not in decisions
        ]
        if missing:
            raise ConfigError(
                f"decide on every waiting call: there is no decision yet on {', '.join(missing)}"
            )
        for token, item in waiting.items():
            if token in self._used:
                raise ConfigError(f"the approval of {item.call.name!r} was used already; a token works once")
            check_decision(item, decisions[token], refusal_of, now=now, remedy="run the task again")
        for token in waiting:
            self._used[token] = None
        while len(self._used) > _MOST_TOKENS:
            self._used.popitem(last=False)
        try:
            yield
        except ConfigError:
            for token in waiting:
                self._used.pop(token, None)
            raise


def check_decision(
    item: PendingCall,
    decision: Any,
    refusal_of: RefusalOf | None,
    *,
    now: float,
    remedy: str,
) -> None:
    """Raise an error for a decision that cannot be applied, before its token is used.

    `refusal_of` checks arguments; None if the agent is not in this process. `remedy` is what the error says
    to do after an approval has expired.
    """
    call = item.call
    if item.expires_at is not None and now > item.expires_at:
        raise ApprovalExpiredError(f"the approval of {call.name!r} has expired; {remedy}")
    match decision:
        case Refuse():
            pass
        case Provide() if item.external:
            check_answer(item, decision)
        case Approve() if not item.external:
            pass
        case ApproveWith(args=args) if not item.external:
            # The agent of a run below is not at hand; the pending call has the schema.
            if refusal_of is None or item.scope:
                refusal: object = misfit(item, args)
            else:
                refusal = refusal_of(replace(item, call=ToolCall(call.id, call.name, args)))
            if refusal is not None:
                raise ConfigError(f"the approved arguments do not fit: {refusal}")
        case _:
            use = "Provide(value), Provide(error=...)" if item.external else "Approve(), ApproveWith(args)"
            raise ConfigError(f"{decision!r} is no decision on {call.name!r}; use {use} or Refuse(reason)")


def misfit(item: PendingCall, args: JsonValue) -> str | None:
    """Why arguments do not match the schema of a pending call; None if they do, or if it has no schema."""
    if item.parameters is None:
        return None
    from wesichain.tools import validate_json  # loaded with the first changed arguments

    return "; ".join(validate_json(item.parameters, args)) or None
