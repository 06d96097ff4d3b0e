"""Names that were others before 0.2. They work until 0.3, with a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING
from warnings import warn

from .definition import RetryPolicy
from .questions import GraphInterrupt

if TYPE_CHECKING:
    Interrupt = GraphInterrupt
    Retry = RetryPolicy

_NOW = {"Interrupt": GraphInterrupt, "Retry": RetryPolicy}


def __getattr__(name: str) -> object:
    if name not in _NOW:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    now = _NOW[name].__name__
    warn(
        f"wesichain.graph.{name} is called {now} now; wesichain.policy has another {name}",
        DeprecationWarning,
        stacklevel=3,
    )
    return _NOW[name]
