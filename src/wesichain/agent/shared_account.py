"""The shared limits of a run: each model call is charged before it is made, and settled after its reply.

The charge is made in the transaction that stores its entry, `debit N`. It is what the call may cost at most:
what a process left unsettled when it died stays charged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wesichain.core import LlmRequest, LlmResponse, Usage, to_json
from wesichain.core.internal import cost_of
from wesichain.errors import BudgetExceededError, ConfigError
from wesichain.journal.internal import Debit
from wesichain.policy import SharedLimit
from wesichain.store import Charge, LimitReachedError

if TYPE_CHECKING:
    from .run_state import RunState

_PER_MESSAGE = 16  # tokens beside those of its text


class SharedAccount:
    """Charges the model calls of one run to its shared limits, and those of the runs above it."""

    def __init__(self, run: RunState[Any], limits: tuple[SharedLimit, ...]) -> None:
        self._run = run
        self._limits = limits
        if run.log.log.writer is None:
            names = ", ".join(repr(limit.name) for limit in limits)
            raise ConfigError(
                f"the shared limits {names} are counted in journals: pass journals=, or Agent(journals=)"
            )

    async def debit(self, request: LlmRequest, number: int) -> None:
        """Charge the request with this number; raises `BudgetExceededError` if a limit does not allow it."""
        run, name = self._run, f"debit {number}"
        if run.log.has(name):  # by a process that has died
            return
        most = self._most(request)
        charges = [
            Charge(limit.key(resource), limit.per, most[resource], bound)
            for limit in self._limits
            for resource in most
            if (bound := getattr(limit, resource)) is not None
        ]
        writer: Any = run.log.log.writer
        try:
            await writer.first(f"{run.log.place}{name}", Debit(most), charges=charges)
        except LimitReachedError as error:
            raise BudgetExceededError(
                f"the shared limit {error.limit!r} is used up: {error.used:g} of {error.most:g} in its period",
                step_id=number,
                resource=f"shared {error.limit}",
                limit=error.most,
                used=error.used,
                owner=run.account,
            ) from error

    def settle(self, reply: LlmResponse, number: int, cost: float) -> None:
        """Give back what a call was charged beyond what it did cost, with the next entries."""
        run = self._run
        place = run.log.number_of(f"debit {number}")
        if place is None:
            return
        log = run.log.log
        debit: Debit = log.body(place)
        spent = {"calls": 1.0, "tokens": float(reply.usage.total_tokens), "cost": cost}
        back = {name: most - spent[name] for name, most in debit.most.items() if most > spent[name]}
        writer: Any = log.writer
        writer.charge(
            [
                Charge(limit.key(resource), limit.per, -amount, at=log.records[place][2])
                for limit in self._limits
                for resource, amount in back.items()
                if getattr(limit, resource) is not None
            ]
        )

    def _most(self, request: LlmRequest) -> dict[str, float]:
        """What a request may cost at most, of what its limits count."""
        counted = {
            name for limit in self._limits for name in ("cost", "tokens") if getattr(limit, name) is not None
        }
        most = {"calls": 1.0}
        if not counted:
            return most
        output = request.settings.max_tokens
        if output is None:
            raise ConfigError(
                f"the shared limit {self._limits[0].name!r} charges a model call with what it may cost at most: "
                f"give ModelSettings(max_tokens=...)"
            )
        # A token has at least one byte.
        tools = len(to_json(list(request.tools)).encode()) if request.tools else 0
        given = sum(len(to_json(message).encode()) + _PER_MESSAGE for message in request.messages) + tools
        if "tokens" in counted:
            most["tokens"] = float(given + output)
        if "cost" in counted:
            most["cost"] = cost_of(Usage(given, output), self._run.account.price_for_limits(request.model))
        return most
