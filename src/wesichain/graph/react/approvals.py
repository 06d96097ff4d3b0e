"""Approvals: calls that wait for a person, as a question of the graph, and its answer as decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wesichain.agent import (
    AgentRuntime,
    Approve,
    ApproveWith,
    Decision,
    Interrupted,
    Provide,
    Refuse,
    check_decision,
)
from wesichain.core.internal import PendingCall, RefusalOf, from_plain
from wesichain.errors import CodecError, ConfigError, GraphError
from wesichain.graph.questions import Answered, pause
from wesichain.graph.state.kinds import is_mapping

_RESTART = "start over with graph.invoke(..., ExecutionOptions(thread_id=..., restart=True))"


def question(pending: Sequence[PendingCall]) -> dict[str, Any]:
    """The question that a person is shown: each call, with the token that its decision is given for."""
    return {
        "reason": "external" if all(one.external for one in pending) else "approval",
        "calls": [_preview(one) for one in pending],
    }


def _preview(one: PendingCall) -> dict[str, Any]:
    shown: dict[str, Any] = {"token": one.token, "id": one.call.id, "tool": one.call.name}
    shown |= {"args": one.call.args, "scope": [*one.scope], "external": one.external}
    if one.expires_at is not None:
        shown["expires_at"] = one.expires_at
    if one.question is not None:
        shown["question"] = {"message": one.question.message, "schema": dict(one.question.schema)}
    return shown


def decided(
    given: Answered, pending: Sequence[PendingCall], runtime: AgentRuntime[Any], *, now: float, memo: Any
) -> dict[str, Decision]:
    """The decisions that an answer gives; where it gives none, the question is asked again, with its memo."""
    try:
        return decisions(given.answer, pending, runtime.refusal_of, now=now)
    except (ConfigError, GraphError) as error:
        pause(question(pending), memo, problem=str(error))


def decisions(
    answer: Any,
    pending: Sequence[PendingCall],
    refusal_of: RefusalOf,
    *,
    now: float,
) -> dict[str, Decision]:
    """Read an answer: a decision for all of the calls, or a mapping from their tokens to decisions.

    A decision is `Approve()`, `ApproveWith(args)` or `Refuse(reason)`, or in short True or False; on a call
    that somebody else carries out it is `Provide(value)`, `Provide(error=...)` or `Refuse(reason)`.
    """
    given = _read(answer, pending)
    for one in pending:
        check_decision(one, given[one.token], refusal_of, now=now, remedy=_RESTART)
    return given


def _read(answer: Any, pending: Sequence[PendingCall]) -> dict[str, Decision]:
    tokens = [one.token for one in pending]
    if is_mapping(answer) and answer and answer.keys() <= set(tokens):
        missing = [one.call.name for one in pending if one.token not in answer]
        if missing:
            raise GraphError(f"decide on every call that waits: {', '.join(missing)} has no decision yet")
        return {token: _decision(answer[token]) for token in tokens}
    return dict.fromkeys(tokens, _decision(answer))


def stored(plain: Any) -> Interrupted[str]:
    """A run that waits, from the data that it was kept as."""
    kind: Any = Interrupted
    found: Interrupted[str] = from_plain(kind, plain)
    return found


def _decision(answer: Any) -> Decision:
    if isinstance(answer, Approve | ApproveWith | Refuse | Provide):
        return answer
    if answer is True:
        return Approve()
    if answer is False:
        return Refuse()
    try:
        decision: Decision = from_plain(Decision, answer)
    except CodecError as error:
        raise GraphError(
            f"{answer!r} is not a decision; answer with Approve(), ApproveWith(args), Refuse(reason), True "
            f"or False, for all calls or for each token"
        ) from error
    return decision
