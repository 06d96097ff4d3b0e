"""`Journal`: a place in the log of a run, where what a function does and waits for has names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Any, Literal, TypeAlias, TypeVar, cast, overload

from wesichain.core import JsonValue
from wesichain.core.internal import CancellationToken, Suspended, Value, abandon, to_plain
from wesichain.errors import ConfigError, WaitTimeoutError
from wesichain.policy import Backoff

from .entries import Answer, Asked, End, Left, Received, Say, Sleep, Woke
from .entry_names import escape
from .expected import Expected
from .frame import Frame
from .log import JournalLog, answer_of
from .steps import FunctionStep, Reconcile, perform

T = TypeVar("T")
Effect: TypeAlias = Literal["idempotent", "once", "pure"]
Moment: TypeAlias = float | timedelta | datetime


class JournalEntry(Value):
    """One entry of a run: its name, its body as JSON data, when it was written, and by whom."""

    name: str
    body: JsonValue
    at: float
    by: str = ""


class _Missing:
    """The default of a wait that has none."""


_MISSING: Any = _Missing()


class Journal:
    """The log of a run, as a function sees it that is run by `journals.run(function, ...)`.

    What the function does and waits for has a name. When the run continues, in this process or in another
    one, what has been done is not done again: its value is taken from the log.
    """

    __slots__ = ("_frame", "_once_place", "_place", "_used")

    def __init__(self, frame: Any, place: str = "", once_place: str | None = None) -> None:
        """`once_place` is where steps stand that are done once, if that is another place."""
        self._frame: Frame = frame  # which the framework alone makes
        self._place = place
        self._once_place = place if once_place is None else once_place
        self._used: set[str] = set()

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._log.run_id

    @property
    def cancellation(self) -> CancellationToken:
        """The token that is cancelled when the run is stopped."""
        return self._frame.token or CancellationToken()

    @property
    def link(self) -> Any:
        """What agents, graphs and functions need that run with `parent=` this journal."""
        return self._frame.link_at(self._place)

    @property
    def _log(self) -> JournalLog:
        return self._frame.log

    def below(self, name: str) -> Journal:
        """A part of the journal with names of its own: those of steps inside it can be used again."""
        self._use(f"below {name}", name)
        own = f"{escape(name)}/"
        return Journal(self._frame, self._place + own, self._once_place + own)

    def _use(self, name: str, shown: str) -> None:
        """Take a name, which can be used once."""
        if not isinstance(cast("Any", shown), str) or not shown or shown.endswith(" ?"):
            raise ConfigError(f"{shown!r} is no name for a step: use a text that does not end with ' ?'")
        if name in self._used:
            raise ConfigError(
                f"the name {shown!r} is used twice in the run {self.run_id!r}; give each step a name of its "
                f"own, or use journal.below(name) for a part that is repeated"
            )
        self._used.add(name)

    # --- doing -----------------------------------------------------------------------------------

    @overload
    async def perform(
        self,
        name: str,
        function: Callable[[], Awaitable[T]],
        *,
        effect: Effect = ...,
        unique: str | None = ...,
        reconcile: Reconcile | None = ...,
        retry: Backoff | None = ...,
    ) -> T: ...
    @overload
    async def perform(
        self,
        name: str,
        function: Callable[[], T],
        *,
        effect: Effect = ...,
        unique: str | None = ...,
        reconcile: Reconcile | None = ...,
        retry: Backoff | None = ...,
    ) -> T: ...
    async def perform(
        self,
        name: str,
        function: Callable[[], Any],
        *,
        effect: Effect = "idempotent",
        unique: str | None = None,
        reconcile: Reconcile | None = None,
        retry: Backoff | None = None,
    ) -> Any:
        """Call a function once in the run, and return its value.

        The value is written to the log, and is what the log gives back: JSON data. A function that raises
        makes this raise `PerformFailedError`, whenever the run continues; with `retry`, it is called again
        before, after these waits. A synchronous function runs in a thread.

        With `effect="once"` the function is never called again after it has begun: if the process died
        meanwhile, `reconcile(name, None)` returns the value, or None for "it did not happen"; without it,
        `OutcomeUnknownError` is raised. With `unique`, it is done once in all runs of these journals that use
        this text, such as "charge:order-42": another run is given its value. `reconcile` is then called with
        the text.
        """
        step = FunctionStep(name, function, effect, unique, reconcile, retry)
        step.check()
        self._use(f"perform {name}", name)
        return await perform(self._frame, self._once_place if step.is_once else self._place, step)

    # --- waiting ---------------------------------------------------------------------------------

    @overload
    async def ask(
        self,
        name: str,
        question: str,
        *,
        expects: type[T],
        timeout: Moment | None = ...,
        default: T = ...,
    ) -> T: ...
    @overload
    async def ask(
        self,
        name: str,
        question: str,
        *,
        expects: None = ...,
        timeout: Moment | None = ...,
        default: Any = ...,
    ) -> Any: ...
    async def ask(
        self,
        name: str,
        question: str,
        *,
        expects: Any = None,
        timeout: Moment | None = None,
        default: Any = _MISSING,
    ) -> Any:
        """Ask a person, and wait for the answer: `journals.answer(run_id, {name: value})`.

        An answer is checked against the type that `expects` it before it is taken. After `timeout`, the
        `default` is the answer; without one, `WaitTimeoutError` is raised.
        """
        self._use(f"perform {name}", name)  # one namespace with `perform`
        expected = Expected.of(expects, name)
        asked = await self._asked(name, question, expected, timeout)
        answer = answer_of(self._log, asked.token)
        if answer is None:
            await self._check_open(asked)
            await self._append_first(self._log.answer_name(asked.token), Answer(expired=True))
            answer = answer_of(self._log, asked.token)
            assert answer is not None, "it was appended, by us or by a person"
        if answer.expired:
            return _default(default, name, "nobody answered in time")
        return expected.read(answer.given)

    async def _asked(self, name: str, question: str, expected: Expected, timeout: Moment | None) -> Asked:
        """The question as it was asked first."""
        log = self._log
        token = log.token_of(self._place, name)
        if token is not None:
            known = log.find(f"{self._place}asked {token}", Asked)
            assert known is not None, "its token is that of an entry"
            return known
        self._frame.check_act(f"{self._place}asked {name}")
        due = None if timeout is None else await self._moment(timeout)
        token = token_hex(16)
        asked = Asked(token, name, question, expected.schema, due)
        log.ask(f"{self._place}asked {token}", asked)
        return asked

    async def _check_open(self, asked: Asked) -> None:
        """Raise `Suspended` as long as a question can be answered."""
        if asked.expires_at is None or await self._log.now() < asked.expires_at:
            raise Suspended(f"the run {self.run_id!r} waits for the answer to {asked.name!r}")

    async def _append_first(self, name: str, body: Value) -> None:
        """Append an entry, unless somebody else has appended one of this name."""
        self._frame.check_act(name)
        if self._log.writer is None:
            self._log.write(name, body)
        else:
            await self._log.writer.first(name, body)

    async def receive(self, name: str, *, timeout: Moment | None = None, default: Any = _MISSING) -> Any:
        """Wait for a signal, and return its value: `journals.signal(run_id, name, value)`.

        Signals of one name are a queue: each call takes the next one, also one that came before.
        """
        number = 1
        while f"receive {name} {number}" in self._used:
            number += 1
        self._use(f"receive {name} {number}", name)
        log, own = self._log, f"{escape(name)} {number}"
        heard = log.find(f"{self._place}heard {own}", Received)
        if heard is None:
            heard = await self._next_signal(name, own, timeout)
        if heard.expired:
            return _default(default, name, "no signal came in time")
        say = log.find(heard.name, Say)
        assert say is not None, "what was heard is in the log"
        return say.value

    async def _next_signal(self, name: str, own: str, timeout: Moment | None) -> Received:
        """Take the next signal of a name, or note that its time is over."""
        log, entry = self._log, f"{self._place}heard {own}"
        self._frame.check_act(entry)
        due = None if timeout is None else await self._due(f"{self._place}wait {own}", timeout)
        while (found := log.next_signal(name)) is None and (due is None or await log.now() < due):
            await self._frame.pause(self._place, "signal", name, due)
        if found is None and log.writer is not None:
            await log.writer.look()  # one that came in time, and was not read yet
            found = log.next_signal(name)
        heard = Received(expired=True) if found is None else Received(found)
        log.write(entry, heard)
        return heard

    async def sleep(self, name: str, seconds: float | timedelta) -> None:
        """Wait so long, whatever happens to the process meanwhile."""
        await self.until(name, seconds)

    async def until(self, name: str, moment: Moment) -> None:
        """Wait for a moment: seconds from now, a `timedelta`, or a `datetime` with a time zone."""
        self._use(f"perform {name}", name)
        log, own = self._log, escape(name)
        if log.find(f"{self._place}woke {own}", Woke) is not None:
            log.find(f"{self._place}sleep {own}", Sleep)
            return
        due = await self._due(f"{self._place}sleep {own}", moment)
        while (now := await log.now()) < due:
            await self._frame.pause(self._place, "time", name, due)
        self._frame.check_act(f"{self._place}woke {own}")
        log.write(f"{self._place}woke {own}", Woke(now))

    async def _due(self, entry: str, moment: Moment) -> float:
        """The moment that a wait ends, which is recorded when it begins."""
        known = self._log.find(entry, Sleep)
        if known is None:
            self._frame.check_act(entry)
            known = Sleep(await self._moment(moment))
            self._log.write(entry, known)
        return known.until

    async def _moment(self, moment: Moment) -> float:
        """A moment in seconds since the epoch, by the clock of the store."""
        if isinstance(moment, datetime):
            if moment.tzinfo is None:
                raise ConfigError(f"{moment!r} has no time zone: use datetime.now(UTC), or seconds from now")
            return moment.timestamp()
        seconds = moment.total_seconds() if isinstance(moment, timedelta) else moment
        return await self._log.now() + seconds

    async def gather(self, *awaitables: Awaitable[Any]) -> list[Any]:
        """The results of all, side by side. What waits lets the others finish, and so does what fails."""
        tasks = [asyncio.ensure_future(_outcome(one)) for one in awaitables]
        try:
            outcomes = await asyncio.gather(*tasks)
        except BaseException:
            await abandon(tasks)
            raise
        failures = [one for _, one in outcomes if one is not None]
        # A failure goes first: whoever handles it need not wait for the others.
        for error in sorted(failures, key=lambda one: isinstance(one, Suspended)):
            raise error
        return [value for value, _ in outcomes]

    # --- reading ---------------------------------------------------------------------------------

    def entries(self) -> Sequence[JournalEntry]:
        """The entries of the run, in order."""
        made, log = list[JournalEntry](), self._log
        for number, name in log.entries():
            body: Any = log.body(number)
            made.append(JournalEntry(name, to_plain(body), log.records[number][2], getattr(body, "by", "")))
        return made

    @property
    def unclaimed(self) -> tuple[str, ...]:
        """The names of recorded entries that the function did not ask for when it continued the run."""
        if self._frame.token is not None:
            return self._log.unclaimed
        last = self._log.last
        return last.unclaimed if isinstance(last, Left | End) else ()


async def _outcome(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """The value of an awaitable, or what it raised."""
    try:
        return await awaitable, None
    except (Suspended, Exception) as error:  # noqa: BLE001  # raised by `gather`
        return None, error


def _default(default: Any, name: str, why: str) -> Any:
    if default is _MISSING:
        raise WaitTimeoutError(f"{name!r}: {why}, and it has no default", name=name)
    return default
