"""Approvals: a person's word on a call that waits, bound to exactly that call."""

from __future__ import annotations

import hashlib
import json
from dataclasses import field
from typing import ClassVar, TypeAlias

from wesichain.core import OMIT, JsonValue, ToolCall, dataclass


@dataclass(frozen=True, slots=True)
class Approve:
    """Run the call as it is."""

    kind: ClassVar[str] = "approve"


@dataclass(frozen=True, slots=True)
class ApproveWith:
    """Run the call with other arguments."""

    kind: ClassVar[str] = "approve_with"
    args: JsonValue


@dataclass(frozen=True, slots=True)
class Refuse:
    """Do not run the call; the model is told the reason."""

    kind: ClassVar[str] = "refuse"
    reason: str = field(default="", metadata=OMIT)


Decision: TypeAlias = Approve | ApproveWith | Refuse


def approval_token(run_id: str, position: int, call: ToolCall) -> str:
    """The token of one call at one point of one run: another call, or other arguments, have another."""
    text = json.dumps([run_id, position, call.id, call.name, call.args], sort_keys=True, default=repr)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]
