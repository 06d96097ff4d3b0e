"""Which behaviours of the graph corpus have a test (marked with their numbers), and why the others have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def behaviour(*ids: str) -> Callable[[F], F]:
    """Mark a test as the test of these behaviours."""

    def mark(test: F) -> F:
        test.behaviours = ids  # type: ignore[attr-defined]  # read by test_behaviours
        return test

    return mark


REASONS = {
    "G47": "a policy: node_timeout bounds a visit whatever it does; a node that reports progress can bound itself",
    "G50": "a policy: cancel the run; what has finished is kept, and resume goes on from there",
    "G90": "update_state makes one checkpoint a call; a batch of them is a loop, and has no more guarantees",
    "G95": "one mode: every super-step is saved before the next begins, which is what the promises rest on",
    "K12": "a run's checkpoints are what later deltas build on; compact() and prune() forget without breaking them",
}
