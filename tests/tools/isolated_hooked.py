"""A tool of a module that registers a function for the child of every fork."""

from __future__ import annotations

import os

from wesichain.tools import tool

FORKED: list[int] = []
os.register_at_fork(after_in_child=lambda: FORKED.append(os.getpid()))


@tool(isolate=True, description="Tell whether this process was told that it is a child.")
def forked() -> bool:
    return os.getpid() in FORKED
