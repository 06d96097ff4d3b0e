"""Approvals: the token that binds a person's word to exactly one call."""

from __future__ import annotations

import json

from wesichain.core import ToolCall


def approval_token(run_id: str, position: int, call: ToolCall) -> str:
    """The token of one call at one point of one run: another call, or other arguments, have another."""
    from hashlib import sha256  # three milliseconds of an import, for those who ask somebody

    text = json.dumps([run_id, position, call.id, call.name, call.args], sort_keys=True, default=repr)
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]
