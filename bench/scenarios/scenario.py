"""A scenario: a setup, and an operation that is repeated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Scenario:
    """`setup(folder)` makes what `run` needs, in an empty folder of its own; `run` returns its steps.

    A run that does not come to the right end raises. Rooms are imported in `setup`, so that one that is
    missing is reported as such and costs the other scenarios nothing.
    """

    name: str
    title: str
    setup: Callable[[Path], Any]
    run: Callable[[Any], Awaitable[int]]
    gated: bool = True  # fast enough to be measured for every change
    in_process: bool = True  # its memory is that of the process that runs it
