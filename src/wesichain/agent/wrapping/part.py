"""A part of a run: that of an agent which it was handed to, inside that agent's own middleware."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from wesichain.agent.phases import Completed, Failed, Interrupted
from wesichain.errors import ConfigError
from wesichain.middleware import Middleware
from wesichain.tools import RunContext


class Part:
    """Carries one part through the middleware around it, the first outermost.

    A part has begun before, like a run that is resumed: its task stays, and it is carried once.
    """

    __slots__ = ("_around", "_carry", "_ctx", "_is_begun")

    def __init__(
        self,
        around: Sequence[Middleware],
        carry: Callable[[], Coroutine[Any, Any, Any]],
        ctx: RunContext[Any],
    ) -> None:
        self._around = around
        self._carry = carry
        self._ctx = ctx
        self._is_begun = False

    async def run(self, task: Any) -> Any:
        """The outcome that the middleware gives: of the run, or of a part that ends with a handoff."""
        outcome: Any = await self._pass(0, task, task)
        if not _has_ended(outcome) or not self._is_begun:
            what = f"gave a {type(outcome).__name__}" if self._is_begun else "did not call on"
            raise ConfigError(
                f"wrap_run of the agent {self._ctx.agent!r} {what}; a run that was handed to it has begun "
                f"before: return the outcome that call_next(task) gives, or raise a GuardrailError"
            )
        return outcome

    def _pass(self, index: int, own: Any, task: Any) -> Coroutine[Any, Any, Any]:
        if index < len(self._around):
            return self._around[index].wrap_run(self._ctx, task, partial(self._pass, index + 1, own))
        if self._is_begun or task != own:
            what = "was called twice" if self._is_begun else f"was given another task, {str(task)[:100]!r}"
            raise ConfigError(
                f"call_next {what} in wrap_run of the agent {self._ctx.agent!r}; a run that was handed to it "
                f"has begun before, and goes on once, with its own task"
            )
        self._is_begun = True
        return self._carry()


def _has_ended(outcome: Any) -> bool:
    return isinstance(outcome, Completed | Failed | Interrupted)
