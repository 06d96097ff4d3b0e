"""The loop guard: when a model that repeats itself is warned, and when it is stopped."""

from __future__ import annotations

from wesichain.core import dataclass


@dataclass(frozen=True, slots=True)
class LoopGuard:
    """When the same call in a row is pointed out to the model, and when it ends the run."""

    tell_at: int = 3
    stop_at: int = 4


GUARD = LoopGuard()
