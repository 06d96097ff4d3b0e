"""Decisions: what a policy may say of a fault."""

from __future__ import annotations

from typing import Any, TypeAlias

from wesichain.core.internal import Value
from wesichain.errors import PolicyConfigError


class OnceWithToolCatalog(Value):
    """Tell the model what was wrong and show it the tools, once for each class of error."""


class N(Value):
    """Tell the model what was wrong, at most n times for each class of error."""

    n: int

    def __post_init__(self) -> None:
        given: Any = self.n
        if not isinstance(given, int) or given <= 0:
            raise PolicyConfigError(
                f"N({self.n!r}): a model is reprompted at least once; use n >= 1, or Fail()"
            )


RepromptStrategy: TypeAlias = OnceWithToolCatalog | N


class Fail(Value):
    """End the run in Failed."""


class Retry(Value):
    """Send the same request, or run the same call, again after `delay` seconds."""

    consume_budget: bool = True
    delay: float = 0.0


class Reprompt(Value):
    """Tell the model what was wrong, as an observation, and let it think again."""

    strategy: RepromptStrategy
    consume_budget: bool = True
    delay: float = 0.0


class Interrupt(Value):
    """End the run in Interrupted, so that a person can look and resume."""


PolicyDecision: TypeAlias = Fail | Retry | Reprompt | Interrupt
