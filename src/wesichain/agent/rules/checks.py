"""Output checks: functions of the user that check or change a well-formed answer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from wesichain.core.internal import Value, positions_of
from wesichain.errors import AgentError, CodecError, ConfigError, ToolError
from wesichain.tools import RunContext

from .answers import OutputForm

DepsT = TypeVar("DepsT")
OutT = TypeVar("OutT")
# `(output)` or `(ctx, output)`, sync or async; returns the output, or raises ValueError or ToolError.
OutputCheck: TypeAlias = (
    Callable[[OutT], OutT | Awaitable[OutT]] | Callable[[RunContext[DepsT], OutT], OutT | Awaitable[OutT]]
)


class Refused(Exception):  # noqa: N818  # carries the error
    """A check has refused the answer; the text of `cause` is returned to the model."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Checks(Value):
    """The checks of one runtime, in order: each gets the output of the one before it."""

    form: OutputForm[Any]
    functions: tuple[tuple[Callable[..., Any], bool], ...] = ()  # each with whether it takes the context

    @staticmethod
    def of(form: OutputForm[Any], functions: Sequence[OutputCheck[Any, Any]]) -> Checks:
        return Checks(form, tuple((function, _takes_context(function)) for function in functions))

    async def run(self, ctx: RunContext[Any], output: Any, text: str) -> tuple[Any, str]:
        """Return the checked answer and its text; raise `Refused` if a check refuses it."""
        before = self._written(output)
        for function, takes_context in self.functions:
            try:
                found = function(ctx, output) if takes_context else function(output)
                output = await found if inspect.isawaitable(found) else found
            except (ValueError, ToolError) as cause:
                raise Refused(cause) from cause
            except Exception as cause:
                raise AgentError(
                    f"the output check {_name(function)} raised {type(cause).__name__}: {cause}; "
                    f"raise ValueError or ToolError to return the error to the model",
                    step_id=ctx.step_id,
                ) from cause
            after = self._written(output)
            if after is None and before is not None:
                raise ConfigError(
                    f"the output check {_name(function)} returned {output!r:.80}, which is not of the "
                    f"output type; return the output"
                )
            if after is not None and after != before:
                before = text = after
        return output, text

    def _written(self, output: Any) -> str | None:
        """The answer as text; None if values of its type cannot be written."""
        try:
            return self.form.write(output)
        except CodecError:
            return None


def _takes_context(function: Any) -> bool:
    needed, most = positions_of(function)
    if needed > 2 or most < 1:
        raise ConfigError(f"the output check {_name(function)} takes (output) or (ctx, output)")
    return needed == 2


def _name(function: Any) -> str:
    return repr(getattr(function, "__name__", None) or type(function).__name__)
