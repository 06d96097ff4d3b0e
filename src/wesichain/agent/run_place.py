"""The place of a run: the log that it is in, and what it is inside of."""

from __future__ import annotations

from typing import Any

from wesichain.core import ModelSettings
from wesichain.core.internal import NO_SETTINGS, Mutable, Spent, Value, field
from wesichain.errors import BudgetExceededError
from wesichain.journal.internal import Begin, End, Go, JournalLog
from wesichain.policy import Budget


class RecordedOptions(Value):
    """Options of a run, as its log has them."""

    model: str = ""
    settings: ModelSettings | None = None
    budget: Any = None

    @property
    def kept_budget(self) -> Budget | None:
        """The budget, which is data in a log that was read."""
        given = self.budget
        return given if given is None or isinstance(given, Budget) else Budget.from_plain(given)


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
    def options(self) -> RecordedOptions:
        """The model, the settings and the budget that the run was given, at its beginning or later."""
        first = self.begin
        if first is None:
            return RecordedOptions()
        made = RecordedOptions(first.own_model, first.settings, first.budget)
        for number in () if self.place else self.log.index.options:
            go: Go = self.log.body(number)
            made = RecordedOptions(
                go.own_model or made.model,
                go.settings if made.settings is None else made.settings.merge(go.settings or NO_SETTINGS),
                go.budget or made.budget,
            )
        return made

    @property
    def run_again(self) -> RunPlace | None:
        """The place of the further run that ended this one, where a middleware ran the task again."""
        number = self.log.number_of(f"{self.place}end")
        place = "" if number is None else self.log.body(number).place
        return RunPlace(self.log, place, self.link) if place else None

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
