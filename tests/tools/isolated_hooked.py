"""Tools of a module that wants to hear of every fork, and has no types to be read."""

from __future__ import annotations

import os
import sys

from wesichain.tools import tool

FORKED: list[int] = []
os.register_at_fork(after_in_child=lambda: FORKED.append(os.getpid()))


@tool(isolate=True, description="Tell whether this process was told that it is a child.")
def forked() -> bool:
    return os.getpid() in FORKED


@tool(isolate=True, description="Name the modules that are loaded.")
def loaded() -> list[str]:
    return sorted(sys.modules)
