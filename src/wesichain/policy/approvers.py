"""Rules of approvers: who may decide on a call."""

from __future__ import annotations

from typing import Any


def four_eyes(identity: Any, ctx: Any, args: Any) -> bool:
    """Whoever decides is named, and is not who asked for the run: `@tool(approval=True, approvers=four_eyes)`."""
    del args
    return bool(identity) and str(identity) != ctx.by
