"""Steps: how a function of the user is called once in a run, and its value recorded."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from wesichain.core import to_json
from wesichain.core.internal import GRACE, Value, parse_json
from wesichain.errors import CodecError, ConfigError, OutcomeUnknownError, PerformFailedError
from wesichain.policy import Backoff
from wesichain.store import Claim, UniqueConflictError
from wesichain.tools.internal import in_thread

from .entries import Intent, Performed, RecordedError
from .entry_names import escape
from .exceptions import fault_of, revived
from .frame import Frame

Reconcile: TypeAlias = Callable[[str, Any], Any]


class FunctionStep(Value):
    """What `Journal.perform` was given."""

    name: str
    function: Callable[[], Any]
    effect: str = "idempotent"
    unique: str | None = None
    reconcile: Reconcile | None = None
    retry: Backoff | None = None

    @property
    def is_once(self) -> bool:
        return self.effect == "once" or self.unique is not None

    def check(self) -> None:
        """Raise a `ConfigError` for what does not fit together."""
        name = self.name
        if self.effect not in ("idempotent", "once", "pure"):
            raise ConfigError(
                f"perform({name!r}, effect={self.effect!r}): use 'idempotent', 'once' or 'pure'"
            )
        if self.unique == "":
            raise ConfigError(
                f"perform({name!r}, unique=''): name what is done once, such as 'charge:order-42'"
            )
        if self.retry is not None and self.is_once:
            raise ConfigError(
                f"perform({name!r}, retry=...): a step that is done once is not retried; leave retry= out, "
                f"or effect= and unique="
            )


async def perform(frame: Frame, place: str, step: FunctionStep) -> Any:
    """The value of a step: from the log, or from its function, which is then recorded."""
    entry = f"{place}perform {escape(step.name)}"
    known = frame.log.find(entry, Performed)
    if known is not None:
        return _value_of(known, step.name)
    async with frame.acting(entry):
        if step.is_once:
            return await _do_once(frame, entry, step)
        if step.effect != "pure":
            await frame.log.flush()
        return await _attempts(frame, entry, step)


# --- steps that are done once --------------------------------------------------------------------


async def _do_once(frame: Frame, entry: str, step: FunctionStep) -> Any:
    if frame.log.has(f"{entry} ?"):
        found = await _reconciled(step, f"the step {step.name!r} had begun when its process ended")
        if found is not None:
            return await _record(frame, entry, step, found)
    elif step.unique is None:
        frame.log.write(f"{entry} ?", Intent())
        await frame.log.flush()
    else:
        taken = await _claim(frame, entry, step.unique)
        if taken is not None:
            return await _done_by(frame, entry, step, taken)
    return await _attempts(frame, entry, step)


async def _claim(frame: Frame, entry: str, unique: str) -> UniqueConflictError | None:
    """Write the intent with the claim; returns who has it, if another step has."""
    writer, claim = frame.log.writer, Claim(unique, entry)
    assert writer is not None, "a run that acts has a store"
    try:
        await writer.first(f"{entry} ?", Intent(unique), claims=[claim])
    except UniqueConflictError as taken:
        return taken
    return None


async def _done_by(frame: Frame, entry: str, step: FunctionStep, taken: UniqueConflictError) -> Any:
    """The value of a step that another step, mostly of another run, has claimed."""
    assert frame.uniques is not None, "a run that acts has a store"
    if taken.log == frame.log.run_id:
        raise ConfigError(
            f"perform({step.name!r}, unique={step.unique!r}): the step {taken.name!r} of the same run has "
            f"this unique; use its value"
        )
    done = await frame.uniques.outcome(taken.log, taken.name)
    if done is None:
        what = f"{step.unique!r} was begun by the run {taken.log!r}, whose process has ended"
        found = await _reconciled(step, what, is_other=True)
        return await _record(frame, entry, step, found, of=taken.log)
    if done.fault is not None:  # its claim was released
        return await _do_once(frame, entry, step)
    frame.log.write(entry, Performed(done.value, of=taken.log))
    await frame.log.flush()
    return done.value


async def _reconciled(step: FunctionStep, what: str, *, is_other: bool = False) -> Any:
    """What came of a step that had begun; None if it did not happen. Raises if nobody knows."""
    unique = step.unique or ""
    if step.reconcile is not None:
        reconcile, about = step.reconcile, unique or step.name
        found = await called(lambda: reconcile(about, None))
        if found is not None or not is_other:
            return found
        advice = "reconcile= says that it did not happen: continue that run, which does it"
    else:
        advice = "find out whether it happened, or give reconcile="
    raise OutcomeUnknownError(
        f"{what}, and what came of it is unknown; it is not done again: {advice}",
        name=step.name,
        unique=unique,
    )


# --- calling and recording -------------------------------------------------------------------------


async def _attempts(frame: Frame, entry: str, step: FunctionStep) -> Any:
    """Call the function until it returns, or `retry` is used up. Each failed attempt is an entry."""
    log, retry = frame.log, step.retry
    place, _, own = entry.rpartition("perform ")
    attempt = 1
    while log.find(f"{place}retry {own} {attempt}", Performed) is not None:
        attempt += 1
    while True:
        started = log.clock.monotonic()
        try:
            value = await called(step.function, late=lambda future: _record_late(frame, entry, step, future))
        except Exception as error:
            failed = Performed(fault=fault_of(error), ms=(log.clock.monotonic() - started) * 1000)
            if retry is None or attempt >= retry.attempts:
                await _store(frame, entry, step, failed)
                raise _failed(step.name, fault_of(error)) from error
            log.write(f"{place}retry {own} {attempt}", failed)
            await log.clock.sleep(retry.delay(attempt))
            frame.check_act(entry)
            attempt += 1
            continue
        return await _record(frame, entry, step, value, ms=(log.clock.monotonic() - started) * 1000)


async def _record(
    frame: Frame, entry: str, step: FunctionStep, value: Any, *, ms: float = 0.0, of: str = ""
) -> Any:
    """Store the value of a step, and return it as the log gives it back."""
    done = _performed(step, value, ms, of)
    frame.log.write(entry, done)
    if step.effect != "pure":
        await frame.log.flush()
    return _value_of(done, step.name)


def _performed(step: FunctionStep, value: Any, ms: float = 0.0, of: str = "") -> Performed:
    """The entry with the value of a step."""
    try:
        return Performed(parse_json(to_json(value)), ms=ms, of=of)
    except CodecError as cause:
        error = CodecError(
            f"the step {step.name!r} returned a value that cannot be written: {cause}; return JSON data. "
            f"What it did has happened, and is not done again"
        )
        error.__cause__ = cause
        return Performed(fault=fault_of(error), ms=ms)


def _record_late(frame: Frame, entry: str, step: FunctionStep, future: asyncio.Future[Any]) -> None:
    """Record what a step returned that was cancelled meanwhile."""
    error = future.exception()
    if error is None:
        frame.log.write(entry, _performed(step, future.result()))
    elif isinstance(error, Exception):
        frame.log.write(entry, Performed(fault=fault_of(error)))


async def _store(frame: Frame, entry: str, step: FunctionStep, failed: Performed) -> None:
    """Store the failure of a step; one that is unique may then be done by another run."""
    writer = frame.log.writer
    if step.unique is None or writer is None:
        frame.log.write(entry, failed)
        await frame.log.flush()
    else:
        await writer.first(entry, failed, releases=[step.unique])


async def called(
    function: Callable[[], Any], *, late: Callable[[asyncio.Future[Any]], None] | None = None
) -> Any:
    """The value of a function: a sync one runs in a thread, so that the event loop stays free.

    A thread cannot be cancelled. If its caller is, and it returns within the grace period, `late` is called
    with its future before the cancellation goes on.
    """
    if inspect.iscoroutinefunction(function):
        return await function()
    future = in_thread(function)
    try:
        value = await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future], timeout=GRACE)
        if late is not None and future.done() and not future.cancelled():
            late(future)
        raise
    return await value if inspect.isawaitable(value) else value


def _value_of(known: Performed, name: str) -> Any:
    """The recorded value of a step; raises what it raised."""
    if known.fault is None:
        return known.value
    if known.fault.error.name == "CodecError":
        raise revived(known.fault)
    raise _failed(name, known.fault) from revived(known.fault)


def _failed(name: str, fault: RecordedError) -> PerformFailedError:
    chain = tuple(raised.classes for raised in fault.chain)
    return PerformFailedError(
        f"the step {name!r} failed: {fault.error.name}: {fault.message}", name=name, chain=chain
    )
