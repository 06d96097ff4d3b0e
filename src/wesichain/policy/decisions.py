"""Decisions: what a policy can decide after an error."""

from __future__ import annotations

from typing import Any, TypeAlias

from wesichain.core.internal import Value
from wesichain.errors import PolicyConfigError


class OnceWithToolCatalog(Value):
    """Return the error and a list of the tools to the model, once for each class of error."""


class N(Value):
    """Return the error to the model, at most n times for each class of error."""

    n: int

    def __post_init__(self) -> None:
        given: Any = self.n
        if not isinstance(given, int) or given <= 0:
            raise PolicyConfigError(
                f"N({self.n!r}): a model is reprompted at least once; use n >= 1, or Fail()"
            )


RepromptStrategy: TypeAlias = OnceWithToolCatalog | N


class Fail(Value):
    """End the run as Failed."""


class Retry(Value):
    """Send the same request, or run the same call, again after `delay` seconds."""

    consume_budget: bool = True
    delay: float = 0.0


class Reprompt(Value):
    """Return the error to the model as an observation."""

    strategy: RepromptStrategy
    consume_budget: bool = True
    delay: float = 0.0


class Interrupt(Value):
    """End the run as Interrupted, so that a person can resume it."""


PolicyDecision: TypeAlias = Fail | Retry | Reprompt | Interrupt
