"""States: where a durable run stands, and the names that runs and agents may have."""

from __future__ import annotations

import re
from enum import StrEnum

from wesichain.errors import ConfigError, DurableError

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class RunState(StrEnum):
    """Where a run stands. `pending`: in the queue. `interrupted`: it waits for a person, or was halted."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


def checked_id(run_id: str) -> str:
    if not _ID.fullmatch(run_id):
        raise DurableError(f"{run_id[:150]!r} is no run id: use letters, digits and _ . : @ - (128 at most)")
    return run_id


def checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name[:80]!r} is no agent's name: use letters, digits and _ . - (64 at most)")
    return name
