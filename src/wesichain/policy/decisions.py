"""Decisions: what a policy may say of a fault."""

from __future__ import annotations

from typing import Any, TypeAlias

from wesichain.core.internal import dataclass
from wesichain.errors import PolicyConfigError


@dataclass(frozen=True, slots=True)
class OnceWithToolCatalog:
    """Tell the model what was wrong and show it the tools, once for each class of error."""


@dataclass(frozen=True, slots=True)
class N:
    """Tell the model what was wrong, at most n times for each class of error."""

    n: int

    def __post_init__(self) -> None:
        given: Any = self.n
        if not isinstance(given, int) or given <= 0:
            raise PolicyConfigError(
                f"N({self.n!r}): a model is reprompted at least once; use n >= 1, or Fail()"
            )


RepromptStrategy: TypeAlias = OnceWithToolCatalog | N


@dataclass(frozen=True, slots=True)
class Fail:
    """End the run in Failed."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Send the same request, or run the same call, again after `delay` seconds."""

    consume_budget: bool = True
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Reprompt:
    """Tell the model what was wrong, as an observation, and let it think again."""

    strategy: RepromptStrategy
    consume_budget: bool = True
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Interrupt:
    """End the run in Interrupted, so that a person can look and resume."""


PolicyDecision: TypeAlias = Fail | Retry | Reprompt | Interrupt
