"""Shared limits: what many runs together may spend in a period, counted in their journals."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from wesichain.core.internal import Value
from wesichain.errors import PolicyConfigError

Period: TypeAlias = Literal["hour", "day", "week", "month"] | float

RESOURCES = ("cost", "tokens", "calls")


class SharedLimit(Value):
    """A limit for all runs of the journals that have it in their budget: `Budget(shared=[SharedLimit(...)])`.

    `name` says whose it is, such as "tenant:acme". `cost` is in dollars, `calls` counts model calls. `per` is a
    period of the calendar in UTC ("hour", "day", "week", "month"), or the seconds of a sliding window. A model
    call is charged before it is made with what it may cost at most, which needs `ModelSettings(max_tokens=)`,
    and afterwards with what it did cost.
    """

    name: str
    cost: float | None = None
    tokens: int | None = None
    calls: int | None = None
    per: Period = "day"

    def __post_init__(self) -> None:
        given: Any = self.name
        if not isinstance(given, str) or not given:
            raise PolicyConfigError(f"SharedLimit({given!r}): name whose limit it is, such as 'tenant:acme'")
        limits = {name: getattr(self, name) for name in RESOURCES}
        if all(limit is None for limit in limits.values()):
            raise PolicyConfigError(
                f"SharedLimit({self.name!r}) limits nothing: give cost=, tokens= or calls="
            )
        for name, limit in limits.items():
            wrong = isinstance(limit, bool) or not (
                limit is None or (isinstance(limit, int | float) and limit >= 0)
            )
            if wrong:
                raise PolicyConfigError(
                    f"SharedLimit({self.name!r}, {name}={limit!r}): use 0 or more, or None"
                )
        per: Any = self.per
        if per not in ("hour", "day", "week", "month") and not (
            isinstance(per, int | float) and not isinstance(per, bool) and per > 0
        ):
            raise PolicyConfigError(
                f"SharedLimit({self.name!r}, per={per!r}): use 'hour', 'day', 'week', 'month' or seconds"
            )

    def key(self, resource: str) -> str:
        """The name of one resource of this limit in the store."""
        return f"{self.name} {resource}"
