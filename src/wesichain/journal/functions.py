"""A user's function as a program over a log: one leg of the work on it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wesichain.core import JsonValue, to_json
from wesichain.core.internal import CancellationToken, Suspended, Value, parse_json
from wesichain.errors import (
    CodecError,
    ConfigError,
    JournalConflictError,
    JournalMismatchError,
    RunIdConflictError,
)
from wesichain.policy import Budget
from wesichain.policy.internal import Account
from wesichain.store import StoreUnavailableError

from .entries import FORMAT, Begin, End, Go, Left
from .exceptions import fault_of
from .frame import RunFrame
from .journal import Journal
from .log import JournalLog
from .waiting import Waiting, pending_of

_UNLIMITED = 2**62  # steps of a function's budget that limits none


class FunctionReturned(Value):
    """A function that has returned."""

    value: Any


class FunctionProgram:
    """A function with its arguments, which can be run over the log of its run."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        by: str | None = None,
        budget: Budget | None = None,
    ) -> None:
        """`name` is that of the program; the function's qualified name, without one."""
        given: Any = function
        if not callable(given):
            raise ConfigError(f"{given!r} is not a function; pass one that takes a Journal first")
        self.name = name or name_of_function(function)
        self._function = function
        self._args, self._kwargs = _stored_arguments(self.name, args, kwargs or {})
        self._by = by or ""
        self._budget = budget

    def check(self, begin: Begin, run_id: str) -> None:
        """Raise a `RunIdConflictError` if the run is one of another function, or of other arguments."""
        if begin.program != self.name:
            raise RunIdConflictError(
                f"the run {run_id!r} is one of {begin.program!r}, not of {self.name!r}; use another run_id"
            )
        if (begin.args, begin.kwargs) != (self._args, self._kwargs):
            raise RunIdConflictError(
                f"the run {run_id!r} of {self.name!r} has other arguments, ({begin.task}); use another "
                f"run_id, or leave the arguments as they were"
            )

    async def leg(self, log: JournalLog, token: CancellationToken) -> FunctionReturned | Waiting:
        """Run the function over its log, to its end or until it waits. Raises what the function raises."""
        begin = self._begin(log)
        frame = RunFrame(log, token=token, account=self._account(begin, log))
        try:
            value = self._function(Journal(frame), *self._args, **self._kwargs)
            value = await value if inspect.isawaitable(value) else value
            plain = _stored_value(self.name, value)
        except asyncio.CancelledError:
            frame.close()
            log.write(f"left {log.leg}", Left("the task that ran it was cancelled", unclaimed=log.unclaimed))
            raise
        except (JournalConflictError, StoreUnavailableError):  # the run can go on, here or elsewhere
            frame.close()
            raise
        except Suspended as suspended:
            await frame.end()
            if frame.failure is not None:
                _write_failure(log, frame.failure)
                raise frame.failure from None
            return _leave(log, token, str(suspended))
        except Exception as error:
            await frame.end()
            cause = frame.failure or error
            _write_failure(log, cause)
            if cause is error:
                raise
            raise cause from error
        except BaseExceptionGroup as group:  # of a task group, some of whose tasks wait
            await frame.end()
            failure = group.split(Suspended)[1]
            if failure is None:
                return _leave(log, token, f"the run {log.run_id!r} waits")
            if isinstance(failure, Exception):
                _write_failure(log, failure)
            raise failure from None
        await frame.end()
        if frame.failure is not None:
            _write_failure(log, frame.failure)
            raise frame.failure
        log.write("end", End(plain, unclaimed=log.unclaimed))
        return FunctionReturned(plain)

    def _begin(self, log: JournalLog) -> Begin:
        begin = log.claim_begin("")
        if begin is None:
            begin = self.first_entry()
            log.write("begin", begin)
        log.write(f"go {log.leg}", Go("" if log.writer is None else log.writer.name))
        return begin

    def first_entry(self) -> Begin:
        """The entry that a run begins with."""
        task = [*map(repr, self._args), *(f"{name}={value!r}" for name, value in self._kwargs.items())]
        return Begin(
            FORMAT,
            self.name,
            task=", ".join(task),
            by=self._by,
            args=self._args,
            kwargs=self._kwargs,
            budget=self._budget,
        )

    def _account(self, begin: Begin, log: JournalLog) -> Account:
        """The account of the whole run, with what was spent before."""
        given: Any = self._budget or begin.budget
        budget = given if isinstance(given, Budget) or given is None else Budget.from_plain(given)
        spent = log.spent_in("") if log.known else None
        return Account(budget or Budget(steps=_UNLIMITED), now=log.clock.monotonic(), spent=spent, place="")


def name_of_function(function: Callable[..., Any]) -> str:
    """The qualified name by which a function's runs are known."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if module else str(name)


def _stored_arguments(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[JsonValue, ...], Mapping[str, JsonValue]]:
    """The arguments as the log gives them back; raises `ConfigError` for those that JSON cannot hold."""
    try:
        plain: Any = parse_json(to_json({"args": list(args), "kwargs": dict(kwargs)}))
    except CodecError as error:
        raise ConfigError(
            f"the arguments of {name!r} cannot be stored: {error}; pass JSON data, and make other objects in "
            f"the function"
        ) from error
    return tuple(plain["args"]), plain["kwargs"]


def _stored_value(name: str, value: Any) -> Any:
    """The value of a function as the log gives it back."""
    try:
        return parse_json(to_json(value))
    except CodecError as error:
        raise CodecError(
            f"{name!r} returned a value that cannot be stored: {error}; return JSON data"
        ) from error


def _write_failure(log: JournalLog, error: Exception) -> None:
    """Record that the run failed. A run that was continued is not failed by a program that does not fit."""
    if log.leg > 1 and isinstance(error, ConfigError | JournalMismatchError):
        log.write(f"left {log.leg}", Left(f"{type(error).__name__}: {error}", unclaimed=log.unclaimed))
    else:
        log.write("end", End(fault=fault_of(error), unclaimed=log.unclaimed))


def _leave(log: JournalLog, token: CancellationToken, reason: str) -> Waiting:
    """Record what the run waits for, or that it was stopped."""
    if token.cancelled:
        reason = token.reason or "stopped"
        log.write(f"left {log.leg}", Left(reason, unclaimed=log.unclaimed))
        return Waiting(log.run_id, reason)
    waits = log.waits()
    log.write(f"left {log.leg}", Left("waiting", waits, log.unclaimed))
    return Waiting(log.run_id, reason, tuple(map(pending_of, waits)))
