"""Approvals: the token that binds a person's word to exactly one call."""

from __future__ import annotations

import json

from wesichain.core import ToolCall
from wesichain.core.internal import Question


def approval_token(run_id: str, position: int, call: ToolCall) -> str:
    """The token of one call at one point of one run: another call, or other arguments, have another."""
    text = json.dumps([run_id, position, call.id, call.name, call.args], sort_keys=True, default=repr)
    return _digest(text)


def question_token(run_id: str, position: int, call: ToolCall, question: Question, number: int) -> str:
    """The token of one question of one call; `number` counts those that are the same.

    A call that is made anew and asks the same again has the same token, so that what was answered stands.
    """
    asked = [approval_token(run_id, position, call), question.message, dict(question.schema), number]
    return _digest(json.dumps(asked, sort_keys=True, default=repr))


def _digest(text: str) -> str:
    from hashlib import sha256  # three milliseconds of an import, for those who ask somebody

    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]
