"""`Journal`: the place of a user's function in a log, where its steps and its waits have names."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, TypeVar, cast, overload

from wesichain.core import JsonValue, to_json
from wesichain.core.internal import Value, abandon, parse_json
from wesichain.errors import (
    CodecError,
    ConfigError,
    OutcomeUnknownError,
    PerformFailedError,
    WaitTimeoutError,
)
from wesichain.policy import Backoff
from wesichain.tools.internal import in_thread

from .entries import Answer, Asked, Heard, Intent, Performed, Sleep, Woke
from .expected import Expected
from .faults import fault_of, revived
from .frame import Frame
from .names import escape_name
from .suspended import Suspended
from .tokens import token_of

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

    def __init__(self, frame: Frame, place: str = "", *, once_place: str | None = None) -> None:
        self._frame = frame
        self._place = place
        self._once_place = place if once_place is None else once_place
        self._used: set[str] = set()

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._frame.log.run_id

    @property
    def link(self) -> Any:
        """What agents that run inside this function need of it."""
        return self._frame.link_at(self._place)

    def below(self, name: str) -> Journal:
        """A part of the journal with names of its own: those of steps inside it can be used again."""
        self._use(f"below {name}", name)
        return Journal(self._frame, f"{self._place}{escape_name(name)}/")

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
        unique: str | None = ...,
        reconcile: Callable[[str, Any], Any] | None = ...,
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
        reconcile: Callable[[str, Any], Any] | None = ...,
        retry: Backoff | None = ...,
    ) -> T: ...
    async def perform(
        self,
        name: str,
        function: Callable[[], Any],
        *,
        effect: Effect = "idempotent",
        unique: str | None = None,
        reconcile: Callable[[str, Any], Any] | None = None,
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
        self._use(f"perform {name}", name)
        place = self._once_place if effect == "once" else self._place
        entry, frame = f"{place}perform {escape_name(name)}", self._frame
        known = frame.log.find(entry, Performed)
        if known is not None:
            return _value_of(known, name)
        frame.check_act(entry)
        if effect == "once" and frame.log.has(f"{entry} ?"):
            found = await self._reconciled(name, reconcile)
            if found is not _MISSING:
                return self._record(entry, name, found)
        elif effect == "once":
            frame.log.write(f"{entry} ?", Intent())
        if effect != "pure":
            await frame.flush()
        return await self._attempts(entry, name, function, retry if effect != "once" else None)

    async def _attempts(
        self, entry: str, name: str, function: Callable[[], Any], retry: Backoff | None
    ) -> Any:
        """Call the function until it returns, or `retry` is used up."""
        log = self._frame.log
        attempt = 1
        kept = f"{entry.replace('perform ', 'retry ', 1) if entry.startswith('perform ') else entry}"
        del kept
        while True:
            started = log.clock.monotonic()
            try:
                value = await _called(function)
            except (Suspended, asyncio.CancelledError):
                raise
            except Exception as error:
                ms = (log.clock.monotonic() - started) * 1000
                if retry is not None and attempt < _tries(retry):
                    await log.clock.sleep(retry.delay(attempt))
                    attempt += 1
                    continue
                fault = fault_of(error)
                log.write(entry, Performed(fault=fault, ms=ms))
                raise _failed(name, fault) from error
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
            self._frame.log.write(entry, Performed(fault=fault_of(error), ms=ms))
            raise error from cause
        self._frame.log.write(entry, Performed(plain, ms=ms))
        return plain

    async def _reconciled(self, name: str, reconcile: Callable[[str, Any], Any] | None) -> Any:
        """What came of a `once` step that had begun; `_MISSING` if it did not happen."""
        if reconcile is None:
            raise OutcomeUnknownError(
                f"the step {name!r} had begun when its process ended, and what came of it is unknown; it is not "
                f"done again: find out whether it happened, or give reconcile=",
                name=name,
            )
        found = await _called(lambda: reconcile(name, None))
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
        expected = Expected.of(expects, name)
        frame, token = self._frame, token_of(self.run_id, self._place, name)
        known = frame.log.find(f"{self._place}answer {token}", Answer)
        if known is None:
            asked = frame.log.find(f"{self._place}asked {token}", Asked)
            if asked is None:
                frame.check_act(f"{self._place}asked {token}")
                due = None if timeout is None else await self._moment(timeout)
                asked = Asked(token, name, question, expected.schema, expires_at=due)
                frame.log.ask(f"{self._place}asked {token}", asked)
            if asked.expires_at is None or await frame.now() < asked.expires_at:
                raise frame.wait("question", name, token=token, question=question, due=asked.expires_at)
            known = Answer(expired=True)
            frame.log.write(f"{self._place}answer {token}", known)
        if known.expired:
            return _default(default, name, "nobody answered in time")
        return expected.read(known.value)

    async def receive(self, name: str, *, timeout: Moment | None = None, default: Any = _MISSING) -> Any:
        """Wait for a signal, and return its value: `journals.signal(run_id, name, value)`.

        Signals of one name are a queue: each call takes the next one, also one that came before.
        """
        frame = self._frame
        number = 1
        while f"receive {name} {number}" in self._used:
            number += 1
        self._used.add(f"receive {name} {number}")
        entry = f"{self._place}heard {escape_name(name)} {number}"
        known = frame.log.find(entry, Heard)
        if known is None:
            taken = frame.take_signal(name)
            if taken is not None:
                known = Heard((taken,))
            elif timeout is None:
                raise frame.wait("signal", name)
            else:
                due = await self._due(f"{entry} ?", timeout)
                if await frame.now() < due:
                    raise frame.wait("signal", name, due=due)
                known = Heard(expired=True)
            frame.log.write(entry, known)
        if known.expired:
            return _default(default, name, "no signal came in time")
        return frame.signal_value(known.names[0])

    async def sleep(self, name: str, seconds: float | timedelta) -> None:
        """Wait so long, whatever happens to the process meanwhile."""
        await self.until(name, seconds)

    async def until(self, name: str, moment: Moment) -> None:
        """Wait for a moment: seconds from now, a `timedelta`, or a `datetime` with a time zone."""
        self._use(f"perform {name}", name)
        frame, entry = self._frame, f"{self._place}woke {escape_name(name)}"
        if frame.log.find(entry, Woke) is not None:
            return
        due = await self._due(f"{self._place}sleep {escape_name(name)}", moment)
        now = await frame.now()
        if now < due:
            raise frame.wait("time", name, due=due)
        frame.log.write(entry, Woke(now))

    async def _due(self, entry: str, moment: Moment) -> float:
        """The moment that a wait ends, which is recorded when it begins."""
        frame = self._frame
        known = frame.log.find(entry, Sleep)
        if known is None:
            frame.check_act(entry)
            known = Sleep(await self._moment(moment))
            frame.log.write(entry, known)
        return known.until

    async def _moment(self, moment: Moment) -> float:
        """A moment in seconds since the epoch, by the clock of the store."""
        if isinstance(moment, datetime):
            if moment.tzinfo is None:
                raise ConfigError(f"{moment!r} has no time zone: use datetime.now(UTC), or seconds from now")
            return moment.timestamp()
        seconds = moment.total_seconds() if isinstance(moment, timedelta) else moment
        return await self._frame.now() + seconds

    async def gather(self, *awaitables: Awaitable[Any]) -> list[Any]:
        """The results of all, side by side. What waits lets the others finish, and so does what fails."""
        tasks = [asyncio.ensure_future(_outcome(one)) for one in awaitables]
        try:
            outcomes = await asyncio.gather(*tasks)
        except BaseException:
            await abandon(tasks)
            raise
        failures = [one for _, one in outcomes if one is not None]
        error = next((one for one in failures if not isinstance(one, Suspended)), None)
        if error is None and failures:
            error = failures[0]
        if error is not None:
            raise error
        return [value for value, _ in outcomes]

    # --- reading ---------------------------------------------------------------------------------

    def entries(self) -> Sequence[JournalEntry]:
        """The entries of the run, in order."""
        return self._frame.entries()

    @property
    def unclaimed(self) -> tuple[str, ...]:
        """The names of recorded entries that the program did not ask for when it continued the run."""
        return self._frame.log.unclaimed


async def _called(function: Callable[[], Any]) -> Any:
    """The value of a function: a sync one runs in a thread, so that the event loop stays free."""
    value = function() if inspect.iscoroutinefunction(function) else await in_thread(function)
    return await value if inspect.isawaitable(value) else value


async def _outcome(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """The value of an awaitable, or what it raised."""
    try:
        return await awaitable, None
    except (Suspended, Exception) as error:
        return None, error


def _tries(retry: Backoff) -> int:
    return int(getattr(retry, "attempts", 5))


def _value_of(known: Performed, name: str) -> Any:
    """The recorded value of a step; raises what it raised."""
    if known.fault is None:
        return known.value
    if known.fault.error.name == "CodecError":
        raise revived(known.fault)
    raise _failed(name, known.fault) from revived(known.fault)


def _failed(name: str, fault: Any) -> PerformFailedError:
    chain = tuple(raised.classes for raised in fault.chain)
    return PerformFailedError(
        f"the step {name!r} failed: {fault.error.name}: {fault.message}", name=name, chain=chain
    )


def _default(default: Any, name: str, why: str) -> Any:
    if default is _MISSING:
        raise WaitTimeoutError(f"{name!r}: {why}, and it has no default", name=name)
    return default


Waits: TypeAlias = Mapping[str, Any]
