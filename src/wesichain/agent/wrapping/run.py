"""A wrapped run: middleware around a run as a whole. Its last event waits until the middleware has spoken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

from typing_extensions import override

from wesichain.agent.calls import Batch, InnerRun
from wesichain.agent.drive import Drive
from wesichain.agent.outcomes import failed_phase
from wesichain.agent.phases import (
    Active,
    Completed,
    Failed,
    Idle,
    Interrupted,
    Observing,
    Outcome,
    Phase,
    Thinking,
    begin,
)
from wesichain.agent.run_state import RunState
from wesichain.core import ErrorStep, LogView, Message, Spent
from wesichain.errors import AgentError, ConfigError, ReplayMismatchError
from wesichain.middleware import Middleware
from wesichain.tools import RunContext

from .part import Part
from .stepper import Stepper
from .wrapped_effects import Link, context_of, raiser

OutT = TypeVar("OutT")

Start: TypeAlias = Callable[..., Idle[Any]]
Again: TypeAlias = Callable[[Any], Drive[Any]]

_ENDED = (Completed, Failed, Interrupted)


class WrappedDrive(Drive[OutT]):
    """Drives one run inside its middleware.

    That the run has completed is told when the middleware has let its answer pass: a log has one end, and
    it is the true one. `start` makes the first phase of a run of another task, `again` a further run.
    """

    __slots__ = (
        "_again", "_around", "_ctx", "_held", "_is_handed", "_last", "_start", "_stepper",
    )  # fmt: skip

    def __init__(
        self,
        run: RunState[OutT],
        phase: Active[OutT],
        *,
        stream: bool = False,
        inner: InnerRun | None = None,
        wrapped: tuple[Sequence[Middleware], Start | None, Again | None],
    ) -> None:
        super().__init__(run, phase, inner, stream=stream)
        self._around, self._start, self._again = wrapped
        self._held: Completed[OutT] | None = None  # an end that is not told yet
        self._is_handed = False  # another agent acts, since the part under way began
        self._last: WrappedDrive[OutT] | None = (
            None  # the run that was begun last: this one, or a further one
        )
        self._stepper: Stepper[Outcome[OutT]] | None = None  # where the run is taken a step at a time
        self._ctx: RunContext[Any] = context_of(run, _UnderWay(self))

    @override
    async def run_to_end(self) -> Outcome[OutT]:
        """Carry the run, in its middleware, to its end."""
        try:
            outcome: Any = await self._pass(0, self._task)
        except (ConfigError, ReplayMismatchError) as error:  # the caller's mistake, not the run's
            self._latest.fail(error)
            if self._inner is not None:
                self._inner.fail(error)
            raise
        except AgentError as error:
            return self._latest.fail(error)
        except asyncio.CancelledError:
            self._latest.cut()
            raise
        except Exception as cause:  # noqa: BLE001  # a middleware is anybody's code
            name = raiser(self._around, cause) or "a middleware"
            broken = AgentError(f"{name}.wrap_run raised {type(cause).__name__}: {cause}")
            broken.__cause__ = cause
            return self._latest.fail(broken)
        if not isinstance(outcome, _ENDED):
            wrong = ConfigError(
                f"wrap_run gave a {type(outcome).__name__}; return an outcome, such as the one that "
                f"call_next(task) gives"
            )
            self._latest.fail(wrong)
            raise wrong
        ended: Outcome[OutT] = cast("Any", outcome)
        return self._latest.release(ended)

    @override
    async def step(self) -> Phase[OutT]:
        """Let the run, in its middleware, take one transition; the last leads to what the middleware says."""
        if self._stepper is None:
            self._stepper = Stepper(self.run_to_end)
        return self._seen_of(await self._stepper.step())

    @override
    async def leave(self, reason: str) -> None:
        if self._stepper is None:
            self.stop(reason)
        elif not self._stepper.is_over:
            self._latest.stop(reason)
            self._seen_of(await self._stepper.leave(reason))

    def _seen_of(self, ended: Outcome[OutT] | None) -> Phase[OutT]:
        if ended is not None:
            self.phase = self.outcome = ended
        return self.phase

    @property
    def _task(self) -> Any:
        """The task: a text, or texts and parts."""
        info = self.phase.info
        return info.parts or info.task

    @property
    def _latest(self) -> WrappedDrive[OutT]:
        return self if self._last is None else self._last

    def _pass(self, index: int, task: Any) -> Coroutine[Any, Any, Any]:
        """Run from the middleware at this place inwards; behind the last one is the run itself."""
        if index == len(self._around):
            return self._carry_inside(task)
        return self._around[index].wrap_run(self._ctx, task, partial(self._pass, index + 1))

    async def _carry_inside(self, task: Any) -> Outcome[OutT]:
        if self._last is None:
            self._last = self
            if task != self._task:
                self._take_task(task)
            return await self._take(self)
        if self._again is None:
            raise ConfigError("call_next was called twice; a run that goes on cannot be begun anew")
        if self._last._held is not None:
            self._last.release(self._last._held)
        self._last = cast("Any", self._again(task))  # wrapped as this one is
        return await self._take(self._latest)

    async def _take(self, drive: WrappedDrive[OutT]) -> Outcome[OutT]:
        """Carry the run itself to its end, or take its steps as they are asked for.

        Where it may be handed to an agent with middleware around its part, it is carried part by part.
        """
        plain: Any = Drive
        run = drive._run
        has_parts = run.present is not None and run.present.has_parts
        if self._stepper is None and not has_parts:
            outcome: Outcome[OutT] = await plain.run_to_end(drive)
            return outcome
        self.outcome = None  # the end is where the middleware ends
        given: Outcome[OutT] | None = None
        while drive.outcome is None:
            around = _around_part(run) if has_parts else ()
            given = await Part(
                around, partial(self._take_part, drive), context_of(run, _UnderWay(drive))
            ).run(drive._task)
        return drive.outcome if given is None else given

    async def _take_part(self, drive: WrappedDrive[OutT]) -> Outcome[OutT]:
        """Take the steps of whoever acts now, to the end of the run or until it is handed on."""
        plain: Any = Drive
        drive._is_handed = False
        while drive.outcome is None and not drive._is_handed:
            if self._stepper is not None:
                await self._stepper.turn()
            if self._stepper is not None and self._stepper.left is not None:
                drive.stop(self._stepper.left)
            else:
                await plain.step(drive)
            self.phase = drive.phase
        return (
            drive.snapshot(f"handed over to {drive._run.name!r}") if drive.outcome is None else drive.outcome
        )

    def _take_task(self, task: Any) -> None:
        """Begin with another task than the one that the run was given."""
        if self._start is None:
            raise ConfigError(
                f"call_next was given another task, {str(task)[:100]!r}; that of a run which goes on, or was "
                f"given as a state or a phase, stays as it is"
            )
        made = self._start(task, run_id=self._run.run_id)
        info = replace(made.info, events=self.phase.info.events)
        self.phase = begin(info, made.trail)

    # --- the end -------------------------------------------------------------------------------------

    @property
    def _active(self) -> Active[OutT]:
        """The last phase before the end."""
        ended = isinstance(self.phase, _ENDED)
        return cast("Active[OutT]", self._previous if ended else self.phase)

    @override
    async def _change(self, phase: Observing[OutT], batch: Batch[OutT]) -> Phase[OutT]:
        following = await super()._change(phase, batch)
        if isinstance(following, Thinking):
            self._is_handed = True
        return following

    @override
    def _tell_end(self, outcome: Outcome[OutT]) -> None:
        if isinstance(outcome, Completed):
            self.outcome = self._held = outcome
        else:
            super()._tell_end(outcome)

    def release(self, given: Outcome[OutT]) -> Outcome[OutT]:
        """Tell the end that was held, unless the run was stopped since; returns the outcome that is given."""
        held, self._held = self._held, None
        if held is None:
            return given
        run, active = self._run, self._active
        if run.is_stopped and isinstance(active, Thinking):
            self._turn.arrived = self._turn.last_reply
            stopped = self._interrupt(active, run.token.reason or "cancelled")
            super()._tell_end(stopped)
            return stopped
        super()._tell_end(held)
        return given

    def fail(self, error: Any) -> Failed[OutT]:
        """End the run with an error; where its end was told already, the caller alone hears of it."""
        run, held = self._run, self._held
        is_told, self._held = self.outcome is not None and held is None, None
        if not self._has_begun:
            self.begin()
        if isinstance(error, AgentError):
            error.step_id = error.step_id or run.step
        trail = (held or self._active).trail.grown((), (ErrorStep(str(error)),))
        failed: Failed[OutT] = failed_phase(self._active.info, trail, run.spent(), run.step, error)
        if not is_told and not run.emitter.is_closed:
            self.phase = failed
            super()._tell_end(failed)
        return failed

    def cut(self) -> None:
        """The task was cancelled inside the middleware: the run is told as ended, if it was not."""
        held, self._held = self._held, None
        if self.outcome is not None and held is None:
            return
        if not self._has_begun:
            self.begin()
        if held is not None and not isinstance(self._active, Thinking):
            super()._tell_end(held)  # its calls were run, and are not run again
            return
        self._turn.arrived = None if held is None else self._turn.last_reply
        self.outcome = None
        self._cut_off(self._active)


def _around_part(run: RunState[Any]) -> Sequence[Middleware]:
    """The middleware around the part of whoever acts now."""
    return run.effects.around(run.present.part_middleware, step_id=run.step)


class _UnderWay(Link):
    """A run, as of now."""

    __slots__ = ("_drive",)

    def __init__(self, drive: Drive[Any]) -> None:
        self._drive = drive

    @property
    @override
    def messages(self) -> LogView[Message]:
        return self._drive.phase.messages

    @property
    @override
    def spent(self) -> Spent:
        return self._drive._run.spent()  # pyright: ignore[reportPrivateUsage]  # of the same room
