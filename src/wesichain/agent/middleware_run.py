"""Middleware around runs: the `wrap_run` methods around a run, or around one agent's part of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Generic, TypeAlias, TypeGuard, TypeVar

from wesichain.core.internal import CallToken
from wesichain.errors import AgentError, ConfigError, JournalError
from wesichain.middleware import Middleware
from wesichain.tools import RunContext

from .drive import Drive, FirstEntry, program_ended
from .middleware_calls import onion, raiser
from .phases import Completed, Failed, Idle, Interrupted, Outcome, Phase
from .run_state import TASK_CANCELLED

OutT = TypeVar("OutT")

Start: TypeAlias = Callable[[Any], tuple[Idle[Any], FirstEntry]]
Again: TypeAlias = Callable[[Any, int], Drive[Any]]  # of a task, and which run of it this is


def has_ended(outcome: object) -> TypeGuard[Outcome[Any]]:
    """Whether a middleware returned an outcome."""
    return isinstance(outcome, Completed | Failed | Interrupted)


class MiddlewareRun(Generic[OutT]):
    """A run inside its middleware, with the interface of a `Drive`.

    The end of the run is recorded after the middleware has returned, so that the log has one end. `start`
    makes the first phase of a run of another task, `again` a further run, inside the first one.
    """

    __slots__ = (
        "_again",
        "_ctx",
        "_drive",
        "_first",
        "_middleware",
        "_runs",
        "_start",
        "_stepper",
        "outcome",
    )

    def __init__(
        self,
        drive: Drive[OutT],
        middleware: Sequence[Middleware],
        start: Start | None,
        again: Again | None,
    ) -> None:
        self._first = self._drive = _holding(drive)  # the latter is the run that began last
        self._middleware, self._start, self._again = middleware, start, again
        self._runs = 0
        self._stepper: Stepper[Outcome[OutT]] | None = None  # if the run is taken step by step
        self._ctx: RunContext[Any] = _context_of(drive)
        self.outcome: Outcome[OutT] | None = None

    @property
    def phase(self) -> Phase[OutT]:
        """The phase of the run; at its end, the outcome that the middleware returned."""
        return self._drive.phase if self.outcome is None else self.outcome

    async def run_to_end(self) -> Outcome[OutT]:
        """Run to the end, inside the middleware."""
        first, task = self._first, asyncio.current_task()
        cancels = 0 if task is None else task.cancelling()
        try:
            outcome: Any = await onion(self._middleware, "wrap_run", self._ctx, self._run_inside)(first.task)
            self.outcome = self._released(_checked(outcome))
        except (ConfigError, JournalError) as error:  # a mistake of the caller
            self._drive.mistake(error)
            raise
        except AgentError as error:
            self.outcome = self._failed(error)
        except BaseException as cause:  # middleware may raise anything
            is_cancel = isinstance(cause, asyncio.CancelledError)
            is_requested = task is None or task.cancelling() > cancels
            if is_requested if is_cancel else not isinstance(cause, Exception):
                self._drive.cut(TASK_CANCELLED if is_cancel else program_ended(cause))
                if self._drive is not first:
                    first.cut(TASK_CANCELLED if is_cancel else program_ended(cause))
                self.outcome = self._drive.outcome
                raise
            name = raiser(self._middleware, cause) or "a middleware"
            broken = AgentError(f"{name}.wrap_run raised {type(cause).__name__}: {cause}")
            broken.__cause__ = cause
            self.outcome = self._failed(broken)
        return self.outcome

    def _released(self, given: Outcome[OutT]) -> Outcome[OutT]:
        """Record the end of the run that began last, and with it that of the first; return the outcome."""
        outcome = self._drive.release(given)
        if self._drive is self._first or self._drive.outcome is None:
            return outcome
        ended = self._first.end_as(self._drive.outcome)
        return ended if outcome is self._drive.outcome else outcome

    def _failed(self, error: AgentError) -> Outcome[OutT]:
        failed = self._drive.fail(error)
        return failed if self._drive is self._first else self._first.end_as(failed)

    async def step(self) -> Phase[OutT]:
        """Take one transition and return the next phase; the last one is what the middleware returned."""
        if self._stepper is None:
            self._stepper = Stepper(self.run_to_end)
        await self._stepper.step()
        return self.phase

    def stop(self, reason: str) -> None:
        """Interrupt the run, without its middleware."""
        self._drive.stop(reason)
        self.outcome = self._drive.outcome

    async def leave(self, reason: str) -> None:
        """Interrupt the run and let the middleware around it return."""
        if self._stepper is None:
            self.stop(reason)
        elif not self._stepper.is_over:
            self._drive.stop(reason)
            await self._stepper.leave(reason)

    def snapshot(self, reason: str = "between two steps") -> Interrupted[OutT]:
        """The current state as data that another process can resume from. The run itself continues."""
        return self._drive.snapshot(reason)

    # --- inside the middleware -------------------------------------------------------------------------

    async def _run_inside(self, task: Any) -> Outcome[OutT]:
        self._runs += 1
        if self._runs == 1:
            if task != self._drive.task and not self._drive.run.is_recorded:
                self._begin_with(task)
        elif self._again is None:
            raise ConfigError(
                "call_next was called twice, in a run that began with a state or a phase; pass the task as text"
            )
        else:
            if self._drive is not self._first and self._drive.outcome is not None:
                self._drive.release(self._drive.outcome)
            self._drive = _holding(self._again(task, self._runs))
        drive = self._drive
        agent = drive.run.current_agent
        if self._stepper is None and not (agent is not None and agent.has_parts):
            return await drive.run_to_end()
        return await self._run_parts(drive)

    async def _run_parts(self, drive: Drive[OutT]) -> Outcome[OutT]:
        """Run each agent's part inside that agent's own middleware."""
        run, agent = drive.run, drive.run.current_agent
        given: Outcome[OutT] | None = None
        while drive.outcome is None:
            around = () if agent is None else agent.part_middleware
            run_part = partial(self._run_part, drive)
            given = await _wrap_part(around, _context_of(drive), run_part, drive.task)
        return drive.outcome if given is None else given

    async def _run_part(self, drive: Drive[OutT]) -> Outcome[OutT]:
        """Take the steps of one agent, to the end of the run or until a handoff to another agent."""
        drive.is_handed_over = False
        while drive.outcome is None and not drive.is_handed_over:
            if self._stepper is not None:
                await self._stepper.turn()
            if self._stepper is not None and self._stepper.left is not None:
                drive.stop(self._stepper.left)
            else:
                await drive.step()
        return (
            drive.snapshot(f"handed over to {drive.run.name!r}") if drive.outcome is None else drive.outcome
        )

    def _begin_with(self, task: Any) -> None:
        """Begin the run with another task."""
        if self._start is None:
            raise ConfigError(
                f"call_next was called with another task, {str(task)[:100]!r}; the task of a resumed run, or "
                f"of one that began with a state or a phase, cannot be changed"
            )
        self._drive.begin_with(*self._start(task))


def _checked(outcome: Any) -> Outcome[Any]:
    if has_ended(outcome):
        return outcome
    raise ConfigError(
        f"wrap_run returned a {type(outcome).__name__}; return an outcome, such as the one that "
        f"call_next(task) returns"
    )


def _context_of(drive: Drive[Any]) -> RunContext[Any]:
    """The context of a run for its middleware, with the present messages."""
    return drive.run.context(lambda: drive.phase.messages, token=CallToken(drive.run))


def _holding(drive: Drive[OutT]) -> Drive[OutT]:
    drive.holds_end = True
    return drive


async def _wrap_part(
    middleware: Sequence[Middleware],
    ctx: RunContext[Any],
    run_part: Callable[[], Coroutine[Any, Any, Any]],
    own: Any,
) -> Any:
    """Run one agent's part of a run that was handed off to it, inside that agent's own middleware.

    Since the run has begun before, the middleware cannot change its task or run it again. Returns the outcome
    that the middleware returns: of the run, or of a part that ends with a handoff.
    """
    is_begun = False

    def begin(task: Any) -> Coroutine[Any, Any, Any]:
        nonlocal is_begun
        if is_begun or task != own:
            what = "was called twice" if is_begun else f"was called with another task, {str(task)[:100]!r}"
            raise ConfigError(
                f"call_next {what} in wrap_run of the agent {ctx.agent!r}; a run that was handed off to it "
                f"has begun before, and continues once, with its own task"
            )
        is_begun = True
        return run_part()

    outcome: Any = await onion(middleware, "wrap_run", ctx, begin)(own)
    if not has_ended(outcome) or not is_begun:
        what = f"returned a {type(outcome).__name__}" if is_begun else "did not call call_next"
        raise ConfigError(
            f"wrap_run of the agent {ctx.agent!r} {what}; a run that was handed off to it has begun "
            f"before: return the outcome that call_next(task) returns, or raise a GuardrailError"
        )
    return outcome


T = TypeVar("T")


class Stepper(Generic[T]):
    """Runs a coroutine in a task of its own, which waits before each of its steps.

    Middleware around a run is one coroutine from the start of the run to its end: it cannot return between
    two steps, and waits there instead.
    """

    def __init__(self, run_to_end: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = run_to_end
        self._task: asyncio.Task[T] | None = None
        self._turn: asyncio.Future[None] | None = None  # awaited by the task before a step
        self._waits: asyncio.Future[None] | None = None  # done when the task waits
        self.left: str | None = None  # the reason why no more steps are taken

    @property
    def is_over(self) -> bool:
        return self._task is not None and self._task.done()

    async def step(self) -> T | None:
        """Let the coroutine take one step. Returns its result at its end, None before that."""
        if self._task is None:
            self._task = asyncio.create_task(self._work())
            await self._until_it_waits(self._task)
        if not self._task.done():
            self._give_turn()
            await self._until_it_waits(self._task)
        return self._task.result() if self._task.done() else None

    async def turn(self) -> None:
        """Called by the coroutine: wait until it may take the next step."""
        self._turn = asyncio.get_running_loop().create_future()
        if self._waits is not None and not self._waits.done():
            self._waits.set_result(None)
        if self.left is None:
            await self._turn

    async def leave(self, reason: str) -> T:
        """Let the coroutine run to its end, since no more steps are taken, for this reason."""
        assert self._task is not None, "a step was taken before"
        self.left = reason
        self._give_turn()
        return await self._task

    def _give_turn(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    async def _until_it_waits(self, task: asyncio.Task[T]) -> None:
        self._waits = asyncio.get_running_loop().create_future()
        try:
            either: set[asyncio.Future[Any]] = {task, self._waits}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # cancel the coroutine with the task that takes the step
            task.cancel()
            await asyncio.wait({task})
            raise
