"""A user's function as a program over a log: one leg of the work on it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from wesichain.core import JsonValue, to_json
from wesichain.core.internal import CancellationToken, Value, parse_json
from wesichain.errors import CodecError, ConfigError, JournalConflictError, RunIdConflictError
from wesichain.policy import Budget
from wesichain.policy.internal import Account

from .entries import FORMAT, Begin, End, Go, Left
from .faults import fault_of, revived
from .frame import Frame
from .host import writer_id
from .journal import Journal
from .log import Log
from .suspended import Suspended

_UNLIMITED = 2**62  # steps of a function's budget that limits none


class Pending(Value, omit_defaults=True):
    """What a run waits for.

    `kind` is "question", "approval", "external", "signal", "time" or "batch". `token` is that of a question,
    `at` the moment at which the run continues by itself.
    """

    kind: str
    name: str
    token: str = ""
    question: JsonValue = None
    at: float | None = None


class Waiting(Value):
    """A run that was left: why, and what it waits for."""

    run_id: str
    reason: str
    pending: tuple[Pending, ...] = ()

    @property
    def due(self) -> float | None:
        """When the run continues by itself, if nothing comes before."""
        return min((one.at for one in self.pending if one.at is not None), default=None)

    @property
    def is_due_only(self) -> bool:
        """Whether it waits for nothing but moments."""
        return bool(self.pending) and all(one.kind in ("time", "batch") for one in self.pending)


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

    async def leg(
        self, log: Log, now: Callable[[], Awaitable[float]], token: CancellationToken
    ) -> Ended | Waiting:
        """Run the function over its log, to its end or until it waits. Raises what the function raises."""
        begin = log.begin_of("")
        log.write(f"go {log.leg}", Go(writer_id(), self.name))
        if begin is None:
            begin = self.first_entry()
            log.write("begin", begin)
        given: Any = self._budget or begin.budget
        budget = given if isinstance(given, Budget) or given is None else Budget.from_plain(given)
        spent = log.spent_in("") if log.known else None
        account = Account(
            budget or Budget(steps=_UNLIMITED), now=log.clock.monotonic(), spent=spent, place=""
        )
        frame = Frame(log, account, now=now, token=token)
        try:
            value = self.function(Journal(frame), *self.arguments.args, **self.arguments.kwargs)
            value = await value if inspect.isawaitable(value) else value
            self._check_inside(frame)
            plain = parse_json(to_json(value))
        except Suspended as suspended:
            return self._leave(log, frame, str(suspended))
        except asyncio.CancelledError:
            log.write(f"left {log.leg}", Left("the task that ran it was cancelled"))
            raise
        except JournalConflictError:
            raise
        except Exception as error:
            if frame.failure is not None and error is not frame.failure:
                raise frame.failure from error
            log.write("end", End("failed", fault=fault_of(error)))
            raise
        log.write(
            "end", End("completed", value=plain, text=value if isinstance(value, str) else to_json(plain))
        )
        return Ended(plain)

    def _check_inside(self, frame: Frame) -> None:
        if frame.failure is not None:
            raise frame.failure

    def _leave(self, log: Log, frame: Frame, reason: str) -> Waiting:
        """Record what the run waits for, or that it was stopped."""
        if frame.token.cancelled:
            reason = frame.token.reason or "stopped"
            log.write(f"left {log.leg}", Left(reason))
            return Waiting(log.run_id, reason)
        waits = frame.all_waits()
        pending = tuple(map(pending_of, waits))
        waiting = Waiting(log.run_id, reason, pending)
        log.write(f"left {log.leg}", Left("waiting", tuple(waits), waiting.due))
        return waiting


def pending_of(wait: Mapping[str, Any]) -> Pending:
    """A wait as its run shows it."""
    return Pending(
        str(wait.get("kind", "")),
        str(wait.get("name", "")),
        str(wait.get("token", "")),
        wait.get("question"),
        wait.get("at"),
    )


def outcome_in(log: Log) -> Ended | Waiting | None:
    """What a log says of the end of its run; None for one that is under way, or was killed.

    Raises the error of a run that has failed.
    """
    number = log.number_of("end")
    if number is not None:
        end: End = log.body(number)
        if end.fault is not None:
            raise revived(end.fault)
        return Ended(end.value)
    left = next((n for n in reversed(range(len(log.records))) if _is(log, n, ("left ", "go "))), None)
    if left is None or not _is(log, left, ("left ",)):
        return None
    body: Left = log.body(left)
    return Waiting(log.run_id, body.reason, tuple(map(pending_of, body.waits)))


def _is(log: Log, number: int, kinds: tuple[str, ...]) -> bool:
    name = log.records[number][0]
    return name.__class__ is str and name.startswith(kinds)
