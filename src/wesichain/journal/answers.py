"""Answers: whether what a person gives is an answer to the question."""

from __future__ import annotations

from typing import Any

from wesichain.core import JsonValue
from wesichain.core.internal import Approve, ApproveWith, Decision, Provide, Refuse, is_object, roles_of
from wesichain.errors import ApprovalExpiredError, ConfigError

from .entries import Answer, Asked
from .expected import check_answer
from .questions import pending_call


def checked_answer(asked: Asked, given: JsonValue | Decision, by: str, *, now: float) -> Answer:
    """The answer to a question; raises `ConfigError` for what is none."""
    name = asked.shown_name or asked.token
    if asked.expires_at is not None and now >= asked.expires_at:
        raise ApprovalExpiredError(f"the question {name!r} has expired, and takes no answer any more")
    if asked.name:
        value = given.value if isinstance(given, Provide) else given
        check_answer(name, asked.expects, value)
        return Answer(value, by, roles_of(by))
    decision = _decision(asked, given)
    return Answer(by=by or decision.by, roles=roles_of(by or decision.by), decision=decision)


def _decision(asked: Asked, given: Any) -> Decision:
    """A decision about a call, which fits it."""
    name = asked.shown_name
    match given:
        case Refuse():
            return given
        case Provide(value=value, error=error) if asked.external or asked.unknown:
            question = pending_call(asked).question
            if question is not None and error is None:
                check_answer(name, asked.expects, question.filled(value) if is_object(value) else value)
            return given
        case Approve() if not asked.external:
            return given
        case ApproveWith(args=args) if not asked.external:
            check_answer(name, asked.parameters, args)
            return given
        case _:
            use = "Provide(value), Provide(error=...)" if asked.external else "Approve(), ApproveWith(args)"
            raise ConfigError(f"{given!r} is no decision on {name!r}; use {use} or Refuse(reason)")
