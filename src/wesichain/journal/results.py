"""The results of runs of other rooms, read from their logs: each room says how its own is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wesichain.errors import ConfigError

_READERS: dict[str, Callable[[Any], Any]] = {}


def register_result(kind: str, read: Callable[[Any], Any]) -> None:
    """Say how the result of a run of a kind ("agent", "graph") is read from its log."""
    _READERS[kind] = read


def result_reader(kind: str) -> Callable[[Any], Any]:
    """The function that reads the result of a run; it raises the error of a run that has failed."""
    found = _READERS.get(kind)
    if found is None:
        raise ConfigError(
            f"the run is one of a {kind}, and no part of this program knows how its result is read; import "
            f"wesichain.{kind}"
        )
    return found
