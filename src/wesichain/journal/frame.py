"""The frame of a function's run: its log, what it waits for, and what runs inside it need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from wesichain.core.internal import CancellationToken, Clock, to_plain
from wesichain.errors import ConfigError, JournalMismatchError
from wesichain.policy.internal import Account

from .claims import Claims
from .entries import Heard, Say
from .log import Log
from .names import parse
from .questions import waiting_for
from .suspended import Suspended


class Stopping(Suspended):
    """The run was asked to stop; it is left where it is."""


class Frame:
    """One leg of the work on a function's run."""

    def __init__(
        self,
        log: Log,
        account: Account,
        *,
        now: Callable[[], Awaitable[float]],
        scope: tuple[str, ...] = (),
        token: CancellationToken | None = None,
        clock: Clock | None = None,
        on_wait: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.log = log
        self.account = account
        self.scope = scope
        self.token = token or CancellationToken()
        self.clock = clock or log.clock
        self.pressure = None
        self.now = now
        self.waits: list[dict[str, Any]] = []  # what this leg waits for
        self.failure: Exception | None = None  # a mistake of the program in a run inside
        self._on_wait = on_wait
        self._links: dict[str, FrameLink] = {}
        self._taken: set[str] | None = None  # the signals that were received

    def check_act(self, name: str) -> None:
        """Raise before an act that the log does not have, if the run was stopped, or in a replay."""
        if self.log.refuse is not None:
            raise self.log.refuse(name)
        if self.token.cancelled:
            raise Stopping(self.token.reason or "stopped")

    async def flush(self) -> None:
        await self.log.flush()

    def wait(
        self, kind: str, name: str, *, token: str = "", question: Any = None, due: float | None = None
    ) -> Suspended:
        """Note what the run waits for, and return the exception to raise."""
        found = {"kind": kind, "name": name}
        wait: dict[str, Any] = {**found, **({"token": token} if token else {})}
        if question is not None:
            wait["question"] = question
        if due is not None:
            wait["at"] = due
        self.waits.append(wait)
        if self._on_wait is not None:
            self._on_wait(wait)
        return Suspended(f"the run {self.log.run_id!r} waits for {kind} {name!r}")

    def all_waits(self) -> list[dict[str, Any]]:
        """What the run waits for: in this function, and in the runs inside it."""
        known = {wait.get("token") for wait in self.waits}
        inside = [waiting_for(asked) for asked in self.log.questions() if asked.token not in known]
        return [*self.waits, *inside]

    # --- signals ---------------------------------------------------------------------------------

    def take_signal(self, name: str) -> str | None:
        """The name of the entry of the next signal with this name, which counts as received."""
        if self._taken is None:
            self._taken = set()
            for number in self.log.numbers_of("heard "):
                heard: Heard = self.log.body(number)
                self._taken.update(heard.names)
        for number in self.log.numbers_of("say "):
            entry = self.log.records[number][0]
            say: Say = self.log.body(number)
            if say.signal == name and entry not in self._taken:
                self._taken.add(entry)
                return str(entry)
        return None

    @staticmethod
    def has_signal(log: Log, name: str) -> bool:
        """Whether a signal with this name has come that nobody has received."""
        taken: set[str] = set()
        for number in log.numbers_of("heard "):
            taken.update(log.body(number).names)
        says = ((log.records[number][0], log.body(number)) for number in log.numbers_of("say "))
        return any(say.signal == name and entry not in taken for entry, say in says)

    def signal_value(self, entry: str) -> Any:
        """The value of a signal that was received."""
        found = self.log.find(entry, Say)
        if found is None:
            raise JournalMismatchError(f"the log has no entry {entry!r}, which was received", name=entry)
        return found.value

    # --- runs inside -----------------------------------------------------------------------------

    def link_at(self, place: str) -> FrameLink:
        """What runs inside a place of this function need of it."""
        link = self._links.get(place)
        if link is None:
            link = self._links[place] = FrameLink(self, place)
        return link

    def entries(self) -> Sequence[Any]:
        """The entries of the run, with their bodies as data."""
        from .journal import JournalEntry

        made: list[JournalEntry] = []
        for number, record in enumerate(self.log.records):
            if record[0].__class__ is str:
                body = self.log.body(number)
                made.append(JournalEntry(record[0], to_plain(body), record[2], getattr(body, "by", "") or ""))
        return made


class FrameLink:
    """The link between a function and an agent, a graph or another function that runs inside it."""

    def __init__(self, frame: Frame, place: str) -> None:
        self._frame = frame
        self._claims = Claims(frame.log, place, place, what="the function")

    @property
    def log(self) -> Log:
        return self._frame.log

    @property
    def account(self) -> Account:
        return self._frame.account

    @property
    def clock(self) -> Clock:
        return self._frame.clock

    @property
    def scope(self) -> tuple[str, ...]:
        return self._frame.scope

    @property
    def token(self) -> CancellationToken:
        return self._frame.token

    @property
    def pressure(self) -> Any:
        return self._frame.pressure

    suspends = True  # a run inside that waits suspends the function

    def claim(self, name: str, task: str, key: str | None = None, *, alone: bool = False) -> str:
        """The place of a run inside the function."""
        return self._claims.claim(name, task, key, alone=alone)

    def run_began(self, place: str, run: Any) -> None:
        del place, run

    def run_ended(self, place: str, outcome: Any) -> None:
        if getattr(outcome, "kind", "") != "interrupted":
            self._frame.log.settle(place)

    def run_failed(self, error: Exception) -> None:
        self._frame.failure = self._frame.failure or error


def kind_of_name(name: str) -> str:
    """The kind of an entry."""
    return parse(name).kind


def checked_run_id(run_id: Any) -> str:
    """A run id, or a `ConfigError`."""
    if not isinstance(run_id, str) or not run_id:
        raise ConfigError(f"run_id={run_id!r}: a run is named by a text of its own")
    return run_id
