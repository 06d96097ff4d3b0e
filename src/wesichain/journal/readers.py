"""How the results of runs are read from their logs: each room says it of its own runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .log import JournalLog

READERS: dict[str, Callable[[JournalLog], Any]] = {}


def register_result(kind: str, read: Callable[[JournalLog], Any]) -> None:
    """Say how the result of a run of a kind ("agent", "graph") is read from its log.

    `read` raises the error of a run that has failed.
    """
    READERS[kind] = read
