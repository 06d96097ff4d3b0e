"""`Journal`: a place in the log of a run, where what a function does and waits for has names."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast, overload

from wesichain.core import JsonValue, to_json
from wesichain.core.internal import CancellationToken, Value, abandon, parse_json, to_plain
from wesichain.errors import (
    CodecError,
    ConfigError,
    OutcomeUnknownError,
    PerformFailedError,
    WaitTimeoutError,
)
from wesichain.policy import Backoff
from wesichain.tools.internal import in_thread

from .entries import Answer, Asked, Fault, Heard, Intent, Performed, Sleep, Woke
from .expected import Expected
from .faults import fault_of, revived
from .log import Log
from .mailbox import signal_value, waiting_signal
from .names import escape_name
from .suspended import Suspended
from .tokens import token_of
from .waiting import wait_for

T = TypeVar("T")
Effect: TypeAlias = Literal["idempotent", "once", "pure"]
Moment: TypeAlias = float | timedelta | datetime
Reconcile: TypeAlias = Callable[[str, Any], Any]


class JournalEntry(Value):
    """One entry of a run: its name, its body as JSON data, when it was written, and by whom."""

    name: str
    body: JsonValue
    at: float
    by: str = ""


class Holder(Protocol):
    """What a journal is a place of: a leg of a function's run, a call, or the visit of a node."""

    @property
    def log(self) -> Log: ...
    @property
    def token(self) -> CancellationToken: ...
    def check_act(self, name: str) -> None:
        """Raise before an act that the log does not have, if none may begin."""
        ...

    def waits(self) -> None:
        """Something in here waits. The log has what for."""
        ...

    def link_at(self, place: str) -> Any:
        """What runs inside a place need of it."""
        ...


class _Missing:
    """The default of a wait that has none."""


_MISSING: Any = _Missing()


class Journal:
    """The log of a run, as a function sees it that is run by `journals.run(function, ...)`.

    What the function does and waits for has a name. When the run continues, in this process or in another
    one, what has been done is not done again: its value is taken from the log.
    """

    __slots__ = ("_holder", "_once_place", "_place", "_used")

    def __init__(self, holder: Holder, place: str = "", *, once_place: str | None = None) -> None:
        self._holder = holder
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
        return self._holder.token

    @property
    def link(self) -> Any:
        """What agents and graphs that run inside this function need of it."""
        return self._holder.link_at(self._place)

    @property
    def _log(self) -> Log:
        return self._holder.log

    def below(self, name: str) -> Journal:
        """A part of the journal with names of its own: those of steps inside it can be used again."""
        self._use(f"below {name}", name)
        return Journal(self._holder, f"{self._place}{escape_name(name)}/")

    def _use(self, name: str, shown: str) -> None:
        """Take a name, which can be used once."""
        if not isinstance(cast("Any", shown), str) or not shown or shown.endswith(" ?"):
            raise ConfigError(f"{shown!r} is no name for a step: use a text that does not end with ' ?'")
        if name in self._used:
            raise ConfigError(
                f"the name {shown!r} is used twice in the run {self.run_id!r}; give each step a name of its own, "
                f"or use journal.below(name) for a part that is repeated"
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
        reconcile: Reconcile | None = ...,
        retry: Backoff | None = ...,
    ) -> T: ...
    async def perform(
        self,
        name: str,
        function: Callable[[], Any],
        *,
        effect: Effect = "idempotent",
        reconcile: Reconcile | None = None,
        retry: Backoff | None = None,
    ) -> Any:
        """Call a function once in the run, and return its value.

        The value is written to the log, and is what the log gives back: JSON data. A function that raises
        makes this raise `PerformFailedError`, whenever the run continues. With `effect="once"` the function
        is never called again after it has begun: if the process died meanwhile, this raises
        `OutcomeUnknownError`, unless `reconcile(name, None)` returns the value, or None for "it did not
        happen". `retry`: call it again after an exception, with these waits.
        """
        if effect not in ("idempotent", "once", "pure"):
            raise ConfigError(f"perform(effect={effect!r}): use 'idempotent', 'once' or 'pure'")
        if retry is not None and effect == "once":
            raise ConfigError(
                f"perform({name!r}, effect='once', retry=...): what is done once is not retried; leave retry= out"
            )
        self._use(f"perform {name}", name)
        place = self._once_place if effect == "once" else self._place
        entry, log = f"{place}perform {escape_name(name)}", self._log
        known = log.find(entry, Performed)
        if known is not None:
            return _value_of(known, name)
        self._holder.check_act(entry)
        if effect == "once":
            if log.has(f"{entry} ?"):
                found = await self._reconciled(name, reconcile)
                if found is not _MISSING:
                    return self._record(entry, name, found)
            else:
                log.write(f"{entry} ?", Intent())
        if effect != "pure":
            await log.flush()
        return await self._attempts(entry, name, function, retry)

    async def _attempts(
        self, entry: str, name: str, function: Callable[[], Any], retry: Backoff | None
    ) -> Any:
        """Call the function until it returns, or `retry` is used up. Each failed attempt is an entry."""
        log, most = self._log, 1 if retry is None else retry.attempts
        place, _, own = entry.rpartition("perform ")
        attempt = 1
        while log.find(f"{place}retry {own} {attempt}", Performed) is not None:
            attempt += 1
        while True:
            started = log.clock.monotonic()
            try:
                value = await called(function)
            except Exception as error:
                fault, ms = fault_of(error), (log.clock.monotonic() - started) * 1000
                if retry is None or attempt >= most:
                    log.write(entry, Performed(fault=fault, ms=ms))
                    raise _failed(name, fault) from error
                log.write(f"{place}retry {own} {attempt}", Performed(fault=fault, ms=ms))
                await log.clock.sleep(retry.delay(attempt))
                self._holder.check_act(entry)
                attempt += 1
                continue
            return self._record(entry, name, value, ms=(log.clock.monotonic() - started) * 1000)

    def _record(self, entry: str, name: str, value: Any, *, ms: float = 0.0) -> Any:
        """Write the value of a step, and return it as the log gives it back."""
        try:
            plain = parse_json(to_json(value))
        except CodecError as cause:
            error = CodecError(
                f"the step {name!r} returned a value that cannot be written: {cause}; return JSON data. What it "
                f"did has happened, and is not done again"
            )
            self._log.write(entry, Performed(fault=fault_of(error), ms=ms))
            raise error from cause
        self._log.write(entry, Performed(plain, ms=ms))
        return plain

    async def _reconciled(self, name: str, reconcile: Reconcile | None) -> Any:
        """What came of a `once` step that had begun; `_MISSING` if it did not happen."""
        if reconcile is None:
            raise OutcomeUnknownError(
                f"the step {name!r} had begun when its process ended, and what came of it is unknown; it is not "
                f"done again: find out whether it happened, or give reconcile=",
                name=name,
            )
        found = await called(lambda: reconcile(name, None))
        return _MISSING if found is None else found

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
        expected, log = Expected.of(expects, name), self._log
        token = token_of(self.run_id, self._place, name)
        known = log.find(f"{self._place}answer {token}", Answer)
        if known is None:
            asked = log.find(f"{self._place}asked {token}", Asked)
            if asked is None:
                self._holder.check_act(f"{self._place}asked {token}")
                due = None if timeout is None else await self._moment(timeout)
                asked = Asked(token, name, question, expected.schema, expires_at=due)
                log.ask(f"{self._place}asked {token}", asked)
            if asked.expires_at is None or await log.now() < asked.expires_at:
                self._holder.waits()
                raise self._waiting(f"the answer to {name!r}")
            known = Answer(expired=True)
            log.write(f"{self._place}answer {token}", known)
        if known.expired:
            return _default(default, name, "nobody answered in time")
        return expected.read(known.given)

    async def receive(self, name: str, *, timeout: Moment | None = None, default: Any = _MISSING) -> Any:
        """Wait for a signal, and return its value: `journals.signal(run_id, name, value)`.

        Signals of one name are a queue: each call takes the next one, also one that came before.
        """
        number = 1
        while f"receive {name} {number}" in self._used:
            number += 1
        self._use(f"receive {name} {number}", name)
        log, own = self._log, f"{escape_name(name)} {number}"
        known = log.find(f"{self._place}heard {own}", Heard)
        if known is None:
            known = await self._next_signal(name, own, timeout)
            log.write(f"{self._place}heard {own}", known)
        if known.expired:
            return _default(default, name, "no signal came in time")
        return signal_value(log, known.names[0])

    async def _next_signal(self, name: str, own: str, timeout: Moment | None) -> Heard:
        """The next signal of a name, or that its time is over. Raises `Suspended` as long as there is none."""
        due = None
        if timeout is not None:
            due = await self._due(f"{self._place}sleep {own}", timeout)
        found = waiting_signal(self._log, name)
        if found is not None:
            return Heard((found,))
        if due is None or await self._log.now() < due:
            raise self._wait("signal", name, due)
        return Heard(expired=True)

    async def sleep(self, name: str, seconds: float | timedelta) -> None:
        """Wait so long, whatever happens to the process meanwhile."""
        await self.until(name, seconds)

    async def until(self, name: str, moment: Moment) -> None:
        """Wait for a moment: seconds from now, a `timedelta`, or a `datetime` with a time zone."""
        self._use(f"perform {name}", name)
        log, own = self._log, escape_name(name)
        if log.find(f"{self._place}woke {own}", Woke) is not None:
            return
        due = await self._due(f"{self._place}sleep {own}", moment)
        now = await log.now()
        if now < due:
            raise self._wait("time", name, due)
        log.write(f"{self._place}woke {own}", Woke(now))

    async def _due(self, entry: str, moment: Moment) -> float:
        """The moment that a wait ends, which is recorded when it begins."""
        known = self._log.find(entry, Sleep)
        if known is None:
            self._holder.check_act(entry)
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

    def _wait(self, kind: str, name: str, due: float | None) -> Suspended:
        """Note what the run waits for, and return the exception to raise."""
        self._log.wait(self._place, wait_for(kind, name, at=due))
        self._holder.waits()
        return self._waiting(f"the {kind} {name!r}")

    def _waiting(self, what: str) -> Suspended:
        return Suspended(f"the run {self.run_id!r} waits for {what}")

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
        log, made = self._log, list[JournalEntry]()
        for number, record in enumerate(log.records):
            if record[0].__class__ is str:
                body = log.body(number)
                made.append(JournalEntry(record[0], to_plain(body), record[2], getattr(body, "by", "") or ""))
        return made

    @property
    def unclaimed(self) -> tuple[str, ...]:
        """The names of recorded entries that the program did not ask for when it continued the run."""
        return self._log.unclaimed


async def called(function: Callable[[], Any]) -> Any:
    """The value of a function: a sync one runs in a thread, so that the event loop stays free."""
    value = function() if inspect.iscoroutinefunction(function) else await in_thread(function)
    return await value if inspect.isawaitable(value) else value


async def _outcome(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """The value of an awaitable, or what it raised."""
    try:
        return await awaitable, None
    except (Suspended, Exception) as error:
        return None, error


def _value_of(known: Performed, name: str) -> Any:
    """The recorded value of a step; raises what it raised."""
    if known.fault is None:
        return known.value
    if known.fault.error.name == "CodecError":
        raise revived(known.fault)
    raise _failed(name, known.fault) from revived(known.fault)


def _failed(name: str, fault: Fault) -> PerformFailedError:
    chain = tuple(raised.classes for raised in fault.chain)
    return PerformFailedError(
        f"the step {name!r} failed: {fault.error.name}: {fault.message}", name=name, chain=chain
    )


def _default(default: Any, name: str, why: str) -> Any:
    if default is _MISSING:
        raise WaitTimeoutError(f"{name!r}: {why}, and it has no default", name=name)
    return default


