"""Functions that know nothing of agents, and tell what is loaded where they run."""

from __future__ import annotations

import sys


def loaded(*, fail: bool = False) -> list[str]:
    """Name the modules that are loaded."""
    if fail:
        raise LookupError("there is nothing")
    return sorted(sys.modules)
