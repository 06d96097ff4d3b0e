"""Limits of a run: what happens at the end of its budget, and when a model that repeats itself is stopped."""

from __future__ import annotations

from typing import Literal, TypeAlias

from wesichain.core.internal import dataclass

OnLimit: TypeAlias = Literal["fail", "partial", "answer"]


@dataclass(frozen=True, slots=True)
class LoopGuard:
    """When the same call in a row is pointed out to the model, and when it ends the run."""

    tell_at: int = 3
    stop_at: int = 4


GUARD = LoopGuard()
