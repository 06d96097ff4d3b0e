"""Guards: middleware that checks a task, an answer or a tool call, and ends the run if it is refused."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias, TypeVar

from typing_extensions import override

from wesichain.core import ToolCall
from wesichain.core.internal import positions_of
from wesichain.errors import ConfigError, GuardrailError
from wesichain.tools import RunContext, ToolContext, ToolResult

from .middleware import CallRun, CallTool, DepsT_contra, Middleware

DepsT = TypeVar("DepsT")
Verdict: TypeAlias = bool | str | None
Result: TypeAlias = Verdict | Awaitable[Verdict]
Check: TypeAlias = Callable[[Any], Result] | Callable[[RunContext[DepsT], Any], Result]

_RETURNS = "return None or True to let it pass, False or a text (the reason) to refuse"


class _Guard(Middleware[DepsT_contra]):
    """The base of the guards: calls a check, and raises if it refuses."""

    what = ""

    def __init__(self, check: Check[DepsT_contra]) -> None:
        given: Any = check
        if not callable(given):
            raise ConfigError(f"{type(self).__name__}({given!r}): pass a function of (value) or (ctx, value)")
        self._check: Any = check
        self._takes_ctx = _takes_context(type(self).__name__, check)

    async def _let_pass(self, ctx: RunContext[DepsT_contra], value: object) -> None:
        """Return if the check lets the value pass, else raise. An exception in the check is a refusal."""
        name = getattr(self._check, "__name__", type(self._check).__name__)
        try:
            verdict: Any = self._check(ctx, value) if self._takes_ctx else self._check(value)
            if inspect.isawaitable(verdict):
                verdict = await verdict
        except GuardrailError:
            raise
        except Exception as error:
            raise GuardrailError(
                f"{self.what} was refused: the check {name!r} raised {type(error).__name__}: {error}"
            ) from error
        if verdict is None or verdict is True:
            return
        if verdict is False or isinstance(verdict, str):
            raise GuardrailError(f"{self.what} was refused: {verdict or f'the check {name!r} said no'}")
        raise GuardrailError(f"{self.what} was refused: the check {name!r} gave {verdict!r}; {_RETURNS}")


class InputGuard(_Guard[DepsT_contra]):
    """Checks the task before a run starts or is resumed: `InputGuard(lambda task: len(task) < 1000)`."""

    what = "the task"

    @override
    async def wrap_run(self, ctx: RunContext[DepsT_contra], task: Any, call_next: CallRun) -> Any:
        await self._let_pass(ctx, task)
        return await call_next(task)


class OutputGuard(_Guard[DepsT_contra]):
    """Checks the answer before a run completes: `OutputGuard(lambda answer: "secret" not in answer)`.

    In a streamed run, `stream="hold"` emits no piece of the answer before the check; "pass" emits the pieces
    as they arrive, so that the check comes too late for a reader of the stream.
    """

    what = "the answer"

    def __init__(self, check: Check[DepsT_contra], *, stream: Literal["hold", "pass"] = "hold") -> None:
        super().__init__(check)
        if stream not in ("hold", "pass"):
            raise ConfigError(f"OutputGuard(stream={stream!r}): use 'hold' or 'pass'")
        self.holds_stream = stream == "hold"

    @override
    async def wrap_run(self, ctx: RunContext[DepsT_contra], task: Any, call_next: CallRun) -> Any:
        outcome = await call_next(task)
        if hasattr(outcome, "output"):  # the run has completed
            await self._let_pass(ctx, outcome.output)
        return outcome


class ToolGuard(_Guard[DepsT_contra]):
    """Checks each tool call before it is run: `ToolGuard(lambda call: call.name != "delete")`."""

    what = "the tool call"

    @override
    async def wrap_tool(
        self, ctx: ToolContext[DepsT_contra], call: ToolCall, call_next: CallTool
    ) -> ToolResult:
        await self._let_pass(ctx, call)
        return await call_next(call)


def _takes_context(guard: str, check: Check[Any]) -> bool:
    """Whether a check takes (ctx, value), and not (value)."""
    needed, most = positions_of(check)
    if needed > 2 or most < 1:
        raise ConfigError(f"{guard}: a check takes (value) or (ctx, value), this one takes {needed}")
    return needed == 2
