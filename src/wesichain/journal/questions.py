"""Questions to people, as lists show them."""

from __future__ import annotations

from wesichain.core import ToolCall
from wesichain.core.internal import PendingCall

from .entries import Asked


def pending_call(asked: Asked) -> PendingCall:
    """A question about a call, as people see it."""
    call = asked.call or ToolCall(asked.token, asked.name, None)
    return PendingCall(
        call,
        asked.token,
        asked.expires_at,
        asked.agents,
        asked.external,
        asked.form,
        asked.parameters,
    )
