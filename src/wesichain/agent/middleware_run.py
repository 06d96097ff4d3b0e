"""Middleware around runs: each `wrap_run`, the first outermost, around a run or a part of one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Generic, TypeAlias, TypeGuard, TypeVar

from wesichain.core.internal import CallToken
from wesichain.errors import AgentError, ConfigError, ReplayMismatchError
from wesichain.middleware import Middleware
from wesichain.tools import RunContext

from .drive import Drive, program_ended
from .middleware_calls import onion, raiser
from .phases import Completed, Failed, Idle, Interrupted, Outcome, Phase
from .run_state import TASK_CANCELLED

OutT = TypeVar("OutT")

Start: TypeAlias = Callable[..., Idle[Any]]
Again: TypeAlias = Callable[[Any], Drive[Any]]


def has_ended(outcome: object) -> TypeGuard[Outcome[Any]]:
    """Whether a middleware returned an outcome."""
    return isinstance(outcome, Completed | Failed | Interrupted)


class MiddlewareRun(Generic[OutT]):
    """A run inside its middleware, with the interface of a `Drive`.

    The completion of the run is emitted when the middleware has let its answer pass: a log has one end.
    `start` makes the first phase of a run of another task, `again` a further run.
    """

    __slots__ = ("_again", "_ctx", "_drive", "_is_begun", "_middleware", "_start", "_stepper", "outcome")

    def __init__(
        self,
        drive: Drive[OutT],
        middleware: Sequence[Middleware],
        start: Start | None,
        again: Again | None,
    ) -> None:
        self._drive = _holding(drive)  # the run that was begun last
        self._middleware, self._start, self._again = middleware, start, again
        self._is_begun = False
        self._stepper: Stepper[Outcome[OutT]] | None = None  # where the run is taken a step at a time
        self._ctx: RunContext[Any] = _context_of(drive)
        self.outcome: Outcome[OutT] | None = None

    @property
    def phase(self) -> Phase[OutT]:
        """The phase that the run is in; at its end, the outcome that the middleware returned."""
        return self._drive.phase if self.outcome is None else self.outcome

    async def run_to_end(self) -> Outcome[OutT]:
        """Run it, inside its middleware, to its end."""
        first, task = self._drive, asyncio.current_task()
        cancels = 0 if task is None else task.cancelling()
        try:
            outcome: Any = await onion(self._middleware, "wrap_run", self._ctx, self._carry)(first.task)
            self.outcome = self._drive.release(_checked(outcome))
        except (ConfigError, ReplayMismatchError) as error:  # the caller's mistake, not the run's
            self.outcome = self._drive.fail(error)
            if first.inner is not None:
                first.inner.fail(error)
            raise
        except AgentError as error:
            self.outcome = self._drive.fail(error)
        except BaseException as cause:  # a middleware is anybody's code
            is_cancel = isinstance(cause, asyncio.CancelledError)
            is_asked_for = task is None or task.cancelling() > cancels
            if is_asked_for if is_cancel else not isinstance(cause, Exception):
                self._drive.cut(TASK_CANCELLED if is_cancel else program_ended(cause))
                self.outcome = self._drive.outcome
                raise
            name = raiser(self._middleware, cause) or "a middleware"
            broken = AgentError(f"{name}.wrap_run raised {type(cause).__name__}: {cause}")
            broken.__cause__ = cause
            self.outcome = self._drive.fail(broken)
        return self.outcome

    async def step(self) -> Phase[OutT]:
        """Let the run take one transition; the last one leads to what the middleware returns."""
        if self._stepper is None:
            self._stepper = Stepper(self.run_to_end)
        await self._stepper.step()
        return self.phase

    def stop(self, reason: str) -> None:
        """End a run that nobody will carry on, without its middleware."""
        self._drive.stop(reason)
        self.outcome = self._drive.outcome

    async def leave(self, reason: str) -> None:
        """End a run whose next step nobody takes; the middleware around it is given that end."""
        if self._stepper is None:
            self.stop(reason)
        elif not self._stepper.is_over:
            self._drive.stop(reason)
            await self._stepper.leave(reason)

    def snapshot(self, reason: str = "between two steps") -> Interrupted[OutT]:
        """The present moment as data that another process can resume. The run itself goes on."""
        return self._drive.snapshot(reason)

    # --- inside the middleware -------------------------------------------------------------------------

    async def _carry(self, task: Any) -> Outcome[OutT]:
        if not self._is_begun:
            self._is_begun = True
            if task != self._drive.task:
                self._begin_with(task)
        elif self._again is None:
            raise ConfigError("call_next was called twice; a run that goes on cannot be begun anew")
        else:
            if self._drive.outcome is not None:
                self._drive.release(self._drive.outcome)
            self._drive = _holding(self._again(task))
        drive = self._drive
        agent = drive.run.current_agent
        if self._stepper is None and not (agent is not None and agent.has_parts):
            return await drive.run_to_end()
        return await self._carry_parts(drive)

    async def _carry_parts(self, drive: Drive[OutT]) -> Outcome[OutT]:
        """Take the steps as they are asked for, and each agent's part inside that agent's own middleware."""
        run, agent = drive.run, drive.run.current_agent
        given: Outcome[OutT] | None = None
        while drive.outcome is None:
            around = () if agent is None else run.effects.around(agent.part_middleware, step_id=run.step)
            carry = partial(self._carry_part, drive)
            given = await _through_part(around, _context_of(drive), carry, drive.task)
        return drive.outcome if given is None else given

    async def _carry_part(self, drive: Drive[OutT]) -> Outcome[OutT]:
        """Take the steps of one agent, to the end of the run or until it is handed to another."""
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
        """Begin with another task than the one that the run was given."""
        if self._start is None:
            raise ConfigError(
                f"call_next was given another task, {str(task)[:100]!r}; that of a run which goes on, or was "
                f"given as a state or a phase, stays as it is"
            )
        self._drive.begin_with(self._start(task, self._drive.run.run_id))


def _checked(outcome: Any) -> Outcome[Any]:
    if has_ended(outcome):
        return outcome
    raise ConfigError(
        f"wrap_run gave a {type(outcome).__name__}; return an outcome, such as the one that "
        f"call_next(task) gives"
    )


def _context_of(drive: Drive[Any]) -> RunContext[Any]:
    """The run as its middleware sees it, with its present messages."""
    return drive.run.context(lambda: drive.phase.messages, token=CallToken(drive.run))


def _holding(drive: Drive[OutT]) -> Drive[OutT]:
    drive.holds_completion = True
    return drive


async def _through_part(
    middleware: Sequence[Middleware],
    ctx: RunContext[Any],
    carry: Callable[[], Coroutine[Any, Any, Any]],
    own: Any,
) -> Any:
    """Carry one agent's part of a run that was handed to it, inside that agent's own middleware.

    The run has begun before, like one that is resumed: its task stays, and it is carried once. Returns the
    outcome that the middleware returns: of the run, or of a part that ends with a handoff.
    """
    is_begun = False

    def begin(task: Any) -> Coroutine[Any, Any, Any]:
        nonlocal is_begun
        if is_begun or task != own:
            what = "was called twice" if is_begun else f"was given another task, {str(task)[:100]!r}"
            raise ConfigError(
                f"call_next {what} in wrap_run of the agent {ctx.agent!r}; a run that was handed to it "
                f"has begun before, and goes on once, with its own task"
            )
        is_begun = True
        return carry()

    outcome: Any = await onion(middleware, "wrap_run", ctx, begin)(own)
    if not has_ended(outcome) or not is_begun:
        what = f"gave a {type(outcome).__name__}" if is_begun else "did not call on"
        raise ConfigError(
            f"wrap_run of the agent {ctx.agent!r} {what}; a run that was handed to it has begun "
            f"before: return the outcome that call_next(task) gives, or raise a GuardrailError"
        )
    return outcome


T = TypeVar("T")


class Stepper(Generic[T]):
    """Carries something in a task of its own, which waits for its turn before each of its steps.

    What stands around a run is one coroutine from its beginning to its end: it cannot return between two
    steps, so it is let wait there instead.
    """

    def __init__(self, run_to_end: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = run_to_end
        self._task: asyncio.Task[T] | None = None
        self._turn: asyncio.Future[None] | None = None  # that the task waits for
        self._waits: asyncio.Future[None] | None = None  # done when the task waits
        self.left: str | None = None  # why nobody takes the steps any more

    @property
    def is_over(self) -> bool:
        return self._task is not None and self._task.done()

    async def step(self) -> T | None:
        """Let one step be taken. Returns what was carried when it is at its end, None before."""
        if self._task is None:
            self._task = asyncio.create_task(self._work())
            await self._until_it_waits(self._task)
        if not self._task.done():
            self._give_turn()
            await self._until_it_waits(self._task)
        return self._task.result() if self._task.done() else None

    async def turn(self) -> None:
        """Wait, inside, until the next step is to be taken."""
        self._turn = asyncio.get_running_loop().create_future()
        if self._waits is not None and not self._waits.done():
            self._waits.set_result(None)
        if self.left is None:
            await self._turn

    async def leave(self, reason: str) -> T:
        """Nobody takes another step: what is carried is let end, with this reason."""
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
        except asyncio.CancelledError:  # whoever takes the step was cancelled: so is what is carried
            task.cancel()
            await asyncio.wait({task})
            raise
