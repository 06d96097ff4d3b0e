"""States: where a durable run stands, what is listed of it, and the names that runs and agents may have."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

from wesichain.core import Question, ToolCall, dataclass
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


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run, as it is listed. Times are seconds since 1970, by the database's clock.

    `version` is the program that the run belongs to; `served` tells whether a living worker serves it.
    """

    run_id: str
    agent: str
    status: RunState
    version: str
    created_at: float
    updated_at: float
    error: str | None = None
    served: bool = False
    priority: int = 0
    key: str | None = None


@dataclass(frozen=True, slots=True)
class PendingDecision:
    """A call that waits for a person, and the run it belongs to."""

    run_id: str
    agent: str
    call: ToolCall
    token: str
    scope: tuple[str, ...] = ()
    expires_at: float | None = None
    external: bool = False  # nothing is run here: somebody provides the result
    question: Question | None = None  # it has begun, and somebody provides the answer to this


def checked_id(run_id: str) -> str:
    given: Any = run_id  # whatever the annotation says
    if not isinstance(given, str) or not _ID.fullmatch(given):
        shown = repr(given)[:150]
        raise DurableError(f"{shown} is no run id: use letters, digits and _ . : @ - (128 at most)")
    return run_id


def checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name[:80]!r} is no agent's name: use letters, digits and _ . - (64 at most)")
    return name
