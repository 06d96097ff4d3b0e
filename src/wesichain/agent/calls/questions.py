"""Questions about the calls of a reply, and the decisions of people on them.

A token binds a decision to exactly one call with its arguments. A decision is checked before it is recorded,
and it is recorded once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wesichain.agent.rules import sentences
from wesichain.agent.trail import Observed, failed, observed_of
from wesichain.core import JsonValue, ToolCall
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
from wesichain.journal.internal import Asked
from wesichain.tools.internal import PreparedCall

UNKNOWN = "unknown"  # a question about what became of a call


def approval_token(run_id: str, step: int, call: ToolCall, about: int | str = 0) -> str:
    """The token of one call with its arguments, in one step of one run.

    `about` counts the decisions on it that did not hold, because who decided may not; or it says that the
    question is what became of the call.
    """
    whole = [run_id, step, call.id, call.name, call.args]
    return _digest([*whole, about] if about else whole)


def question_token(run_id: str, step: int, call: ToolCall, question: Question, number: int) -> str:
    """The token of one question of one call; `number` counts equal questions.

    A call that is made again and asks the same question gets the same token, and so the same answer.
    """
    token = approval_token(run_id, step, call)
    return _digest([token, question.message, dict(question.schema), number])


def _digest(value: Any) -> str:
    from hashlib import sha256  # takes three milliseconds to import

    text = json.dumps(value, sort_keys=True, default=repr)
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def asked_about(
    run: Any,
    call: ToolCall,
    *,
    external: bool = False,
    form: Question | None = None,
    number: int = 0,
    parameters: JsonValue = None,
    why: str = "",
    unknown: bool = False,
) -> Asked:
    """A question about a call: whether to run it, what its result is, or what the running call asks."""
    ttl = run.settings.approval_ttl
    expires_at = None if ttl is None else run.settings.clock.time() + ttl
    token = (
        approval_token(run.run_id, run.step, call, UNKNOWN if unknown else run.denied.get(call.id, 0))
        if form is None
        else question_token(run.run_id, run.step, call, form, number)
    )
    return Asked(
        token,
        call=call,
        step=run.step,
        agents=run.scope,
        external=external or form is not None,
        question="" if form is None else form.message,
        expects=None if form is None else dict(form.schema),
        parameters=parameters,
        expires_at=expires_at,
        why=why,
        unknown=unknown,
    )


def decided(run: Any, prepared: PreparedCall, decision: Decision) -> PreparedCall | Observed:
    """The call after a decision on it. The arguments of `ApproveWith` are in the reply already."""
    call = prepared.call
    match decision:
        case Approve() | ApproveWith():
            return prepared
        case Refuse(reason=reason):
            return failed(call, sentences.refused(reason))
        case Provide(value=value, error=error):
            result = run.settings.registry.provide(prepared, value, error=error)
            if result.error is not None:
                return failed(call, sentences.tool_error(str(result.error)))
            return observed_of(call, result)


def check_all_decided(
    pending: tuple[PendingCall, ...],
    decisions: Mapping[str, Decision],
    refusal_of: RefusalOf,
    *,
    now: float,
) -> None:
    """Raise a `ConfigError` unless every waiting call has a valid decision, and no other token is given."""
    check_decisions(decisions)
    waiting = {item.token: item for item in pending}
    unknown = [token for token in decisions if token not in waiting]
    if unknown:
        raise ConfigError(f"no call waits for the token {unknown[0]!r}; take tokens from outcome.pending")
    missing = [
        f"{item.call.name!r} (call {item.call.id}, token {token})"
        for token, item in waiting.items()
        if token not in decisions
    ]
    if missing:
        raise ConfigError(f"decide on every waiting call: there is no decision yet on {', '.join(missing)}")
    for token, item in waiting.items():
        check_decision(item, decisions[token], refusal_of, now=now, remedy="run the task again")


def check_decision(
    item: PendingCall,
    decision: Any,
    refusal_of: RefusalOf | None,
    *,
    now: float,
    remedy: str,
) -> None:
    """Raise an error for a decision that cannot be applied.

    `refusal_of` checks arguments; None if the agent is not in this process. `remedy` is what the error says
    to do after an approval has expired.
    """
    call = item.call
    if item.expires_at is not None and now > item.expires_at:
        raise ApprovalExpiredError(f"the approval of {call.name!r} has expired; {remedy}")
    match decision:
        case Refuse():
            pass
        case Provide() if item.external or item.unknown:
            _check_answer(item, decision)
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


def _check_answer(item: PendingCall, answer: Provide) -> None:
    """Raise a `ConfigError` for an answer that does not match the schema of its question."""
    question, value = item.question, answer.value
    if question is None or answer.error is not None:
        return
    from wesichain.tools import validate_json  # loaded with the first question

    issues = validate_json(question.schema, question.filled(value)) if is_object(value) else ["not an object"]
    if issues:
        raise ConfigError(f"the answer to {item.call.name!r} is not what it asks for: {issues[0]}")


def misfit(item: PendingCall, args: JsonValue) -> str | None:
    """Why arguments do not match the schema of a pending call; None if they do, or if it has no schema."""
    if item.parameters is None:
        return None
    from wesichain.tools import validate_json  # loaded with the first changed arguments

    return "; ".join(validate_json(item.parameters, args)) or None
