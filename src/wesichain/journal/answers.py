"""Answers: whether what a person gives is an answer to the question."""

from __future__ import annotations

from typing import Any

from wesichain.core import ToolCall
from wesichain.core.internal import Approve, ApproveWith, Provide, Refuse, is_object
from wesichain.errors import ApprovalExpiredError, ConfigError

from .entries import Answer, Asked
from .expected import check_answer
from .questions import pending_call

_DECISIONS = (Approve, ApproveWith, Refuse, Provide)


def checked_answer(asked: Asked, given: Any, by: str, *, now: float) -> Answer:
    """The answer to a question; raises `ConfigError` for what is none."""
    name = asked.name or (asked.call.name if asked.call is not None else asked.token)
    if asked.expires_at is not None and now > asked.expires_at:
        raise ApprovalExpiredError(f"the question {name!r} has expired; run the task again")
    by = by or getattr(given, "by", None) or ""
    if asked.name:
        value = given.value if isinstance(given, Provide) else given
        check_answer(name, asked.expects, value)
        return Answer(value=value, by=by)
    if not isinstance(given, _DECISIONS):
        raise ConfigError(f"{given!r} is no decision on {name!r}; use Approve(), Provide(value) or Refuse()")
    _check_decision(asked, asked.call, given)
    return Answer(given, by=by)


def _check_decision(asked: Asked, call: ToolCall | None, given: Any) -> None:
    """Raise a `ConfigError` for a decision that does not fit the call that it is about."""
    name = "" if call is None else call.name
    match given:
        case Refuse():
            return
        case Provide(value=value, error=error) if asked.external:
            question = pending_call(asked).question
            if question is not None and error is None:
                filled = question.filled(value) if is_object(value) else value
                check_answer(name, asked.expects, filled)
            return
        case Approve() if not asked.external:
            return
        case ApproveWith(args=args) if not asked.external:
            check_answer(name, asked.parameters, args)
            return
        case _:
            use = "Provide(value), Provide(error=...)" if asked.external else "Approve(), ApproveWith(args)"
            raise ConfigError(f"{given!r} is no decision on {name!r}; use {use} or Refuse(reason)")
