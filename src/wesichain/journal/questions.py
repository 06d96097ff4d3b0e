"""Questions to people, as lists show them."""

from __future__ import annotations

from typing import Any

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


def waiting_for(asked: Asked) -> dict[str, Any]:
    """A question in a list of what runs wait for."""
    call = asked.call
    kind = "external" if asked.external else "approval"
    if call is None or asked.form is not None:
        kind = "question"
    return {
        "kind": kind,
        "name": asked.name or (call.name if call is not None else ""),
        "token": asked.token,
    }
