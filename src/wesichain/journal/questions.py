"""Questions to people, as outcomes and events show them."""

from __future__ import annotations

from wesichain.core import ToolCall
from wesichain.core.internal import PendingCall, Question, is_object

from .entries import Asked


def pending_call(asked: Asked) -> PendingCall:
    """A question about a call, or of one, as people see it."""
    question = None
    if asked.question:
        question = Question(asked.question, asked.expects if is_object(asked.expects) else {})
    return PendingCall(
        asked.call or ToolCall(asked.token, asked.name, None),
        asked.token,
        asked.expires_at,
        asked.agents,
        asked.external,
        question,
        asked.parameters if is_object(asked.parameters) else None,
        asked.why,
        asked.unknown,
    )
