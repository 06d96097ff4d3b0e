"""The place of a run: the log that it is in, and what it is inside of."""

from __future__ import annotations

from typing import Any

from wesichain.core.internal import Mutable, Spent, field
from wesichain.errors import BudgetExceededError
from wesichain.journal.internal import Begin, End, JournalLog


class RunPlace(Mutable):
    """The place of a run in a log. `link` is the call, node or function that it is inside of, if any."""

    log: JournalLog
    place: str = ""
    link: Any = None
    begin: Begin | None = field(init=False)  # what the log has of it

    def __post_init__(self) -> None:
        is_new = self.log.is_new and not self.place
        self.begin = None if is_new else self.log.claim_begin(self.place)

    @property
    def run_id(self) -> str:
        """The id of the run; of one inside another, it says where."""
        return f"{self.log.run_id}:{self.place[:-1]}" if self.place else self.log.run_id

    @property
    def has_ended(self) -> bool:
        return not self.log.strict and self.log.has(f"{self.place}end")

    @property
    def has_handoffs(self) -> bool:
        """Whether the log has a handoff of the run to another agent."""
        return self.begin is not None and any(
            name.startswith(f"{self.place}hand ") for name in self.log.index.numbers
        )

    def attach_limit(self, error: Exception) -> None:
        """Say of a recorded limit whose it is: of the run that this one is inside of, or of one above."""
        end = self.log.find(f"{self.place}end", End)
        if end is not None and end.limit_of is not None and isinstance(error, BudgetExceededError):
            error.owner = self.link.account.at_place(end.limit_of)

    @property
    def spent(self) -> Spent | None:
        """What the run, and those inside it, have spent before; None for a new one."""
        if self.begin is None:
            return None
        return self.log.spent_in(self.place)


class RunAgain:
    """What a further run is inside of, which a middleware has begun: the first one."""

    def __init__(self, run: Any) -> None:
        self.run = run

    suspends = False

    @property
    def clock(self) -> Any:
        return self.run.settings.clock

    @property
    def token(self) -> Any:
        return self.run.token

    @property
    def pressure(self) -> Any:
        return self.run.pressure

    @property
    def account(self) -> Any:
        return self.run.account

    @property
    def scope(self) -> tuple[str, ...]:
        scope: tuple[str, ...] = self.run.scope
        return scope

    def run_began(self, place: str, run: Any) -> None:
        del place, run

    def run_ended(self, place: str, outcome: Any) -> None:
        del place, outcome

    def run_failed(self, error: Exception) -> None:
        del error
