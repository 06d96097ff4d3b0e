"""A user's function as a program over a log: one leg of the work on it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wesichain.core import JsonValue, to_json
from wesichain.core.internal import CancellationToken, Value, parse_json
from wesichain.errors import (
    CodecError,
    ConfigError,
    JournalConflictError,
    JournalMismatchError,
    RunIdConflictError,
)
from wesichain.policy import Budget
from wesichain.policy.internal import Account

from .entries import FORMAT, Begin, End, Go, Left
from .faults import fault_of, revived
from .frame import Frame
from .host import writer_id
from .journal import Journal
from .log import Log
from .suspended import Suspended
from .waiting import Waiting, pending_of

_UNLIMITED = 2**62  # steps of a function's budget that limits none


class Ended(Value):
    """A function that has returned."""

    value: Any


class Arguments(Value):
    """The arguments of a function's run, as they are stored."""

    args: Sequence[JsonValue]
    kwargs: Mapping[str, JsonValue]

    @staticmethod
    def of(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        """The arguments; raises `ConfigError` for those that JSON cannot hold."""
        try:
            plain = parse_json(to_json({"args": list(args), "kwargs": dict(kwargs)}))
        except CodecError as error:
            raise ConfigError(
                f"the arguments of {name!r} cannot be stored: {error}; pass JSON data, and make other objects in "
                f"the function"
            ) from error
        return Arguments(plain["args"], plain["kwargs"])

    @property
    def plain(self) -> dict[str, Any]:
        return {"args": list(self.args), "kwargs": dict(self.kwargs)}

    @property
    def text(self) -> str:
        """The arguments in one line, for lists."""
        named = [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return ", ".join([*map(repr, self.args), *named])


def name_of_function(function: Callable[..., Any]) -> str:
    """The qualified name by which a function's runs are known."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if module else str(name)


class FunctionProgram:
    """A function with its arguments, which can be run over the log of its run."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        by: str | None = None,
        budget: Budget | None = None,
    ) -> None:
        given: Any = function
        if not callable(given):
            raise ConfigError(f"{given!r} is not a function; pass one that takes a Journal first")
        self.function = function
        self.name = name_of_function(function)
        self.arguments = Arguments.of(self.name, args, kwargs or {})
        self._by = by or ""
        self._budget = budget

    def check(self, begin: Begin, run_id: str) -> None:
        """Raise a `RunIdConflictError` if the run is one of another function, or of other arguments."""
        if begin.kind_of != "function" or begin.program != self.name:
            raise RunIdConflictError(
                f"the run {run_id!r} is one of {begin.program!r}, not of {self.name!r}; use another run_id"
            )
        if begin.values != self.arguments.plain:
            raise RunIdConflictError(
                f"the run {run_id!r} of {self.name!r} has other arguments, {begin.task}; use another run_id, or "
                f"leave the arguments as they were"
            )

    def first_entry(self) -> Begin:
        """The entry that a run begins with."""
        return Begin(
            FORMAT,
            self.name,
            "function",
            task=self.arguments.text,
            budget=self._budget,
            values=self.arguments.plain,
            by=self._by,
        )

    async def leg(self, log: Log, token: CancellationToken) -> Ended | Waiting:
        """Run the function over its log, to its end or until it waits. Raises what the function raises."""
        begin = log.begin_of("")
        if begin is None:
            begin = self.first_entry()
            log.write("begin", begin)
        log.write(f"go {log.leg}", Go(writer_id() if log.writer is None else log.writer.name, self.name))
        frame = Frame(log, self._account(begin, log), token=token)
        try:
            value = self.function(Journal(frame), *self.arguments.args, **self.arguments.kwargs)
            value = await value if inspect.isawaitable(value) else value
            plain = parse_json(to_json(value))
        except Suspended as suspended:
            return _leave(log, frame, str(suspended))
        except asyncio.CancelledError:
            log.write(f"left {log.leg}", Left("the task that ran it was cancelled"))
            raise
        except JournalConflictError:
            raise
        except Exception as error:
            cause = error if frame.failure is None else frame.failure
            _write_failure(log, cause)
            if cause is error:
                raise
            raise cause from error
        if frame.failure is not None:
            _write_failure(log, frame.failure)
            raise frame.failure
        text = value if isinstance(value, str) else to_json(plain)
        log.write("end", End("completed", value=plain, text=text))
        return Ended(plain)

    def _account(self, begin: Begin, log: Log) -> Account:
        """The account of the whole run, with what was spent before."""
        given: Any = self._budget or begin.budget
        budget = given if isinstance(given, Budget) or given is None else Budget.from_plain(given)
        spent = log.spent_in("") if log.known else None
        return Account(budget or Budget(steps=_UNLIMITED), now=log.clock.monotonic(), spent=spent, place="")


def _write_failure(log: Log, error: Exception) -> None:
    """Record that the run failed. A run that goes on is not failed by a program that does not fit."""
    if log.leg > 1 and isinstance(error, ConfigError | JournalMismatchError):
        log.write(f"left {log.leg}", Left(f"{type(error).__name__}: {error}"))
    else:
        log.write("end", End("failed", fault=fault_of(error)))


def _leave(log: Log, frame: Frame, reason: str) -> Waiting:
    """Record what the run waits for, or that it was stopped."""
    if frame.token.cancelled:
        reason = frame.token.reason or "stopped"
        log.write(f"left {log.leg}", Left(reason))
        return Waiting(log.run_id, reason)
    waits = log.all_waits()
    log.write(f"left {log.leg}", Left("waiting", waits, inside=log.take_left_inside()))
    return Waiting(log.run_id, reason, tuple(map(pending_of, waits)))


def value_in(log: Log) -> Any:
    """The value of a function whose run has ended. Raises the error of one that has failed."""
    number = log.number_of("end")
    assert number is not None, "the run has ended"
    end: End = log.body(number)
    if end.fault is not None:
        raise revived(end.fault)
    return end.value


def left_in(log: Log) -> Left | None:
    """Where the last leg of the work on a run ended; None for a run that is under way, or was killed."""
    for number in range(len(log.records) - 1, -1, -1):
        name = log.records[number][0]
        if name.__class__ is str and name.startswith(("left ", "go ")):
            return log.body(number) if name.startswith("left ") else None  # type: ignore[no-any-return]
    return None


def stop_in(log: Log) -> str | None:
    """The reason of a stop that is in force: it came after the last leg had begun, and nobody resumed since."""
    for number in range(len(log.records) - 1, -1, -1):
        name = log.records[number][0]
        if name.__class__ is str:
            if name.startswith("stop "):
                reason: str = log.body(number).reason
                return reason
            if name.startswith("go "):
                return None
    return None
