"""Sources: tools that are determined anew in each step of a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from wesichain.core.internal import positions_of
from wesichain.errors import AgentError, ToolDefinitionError, WesichainError

from .context import RunContext
from .definition import Tool
from .failures import describe
from .json_schema.issues import preview


class ToolSource:
    """An item in a list of tools that provides tools in the steps of a run.

    `always` are the tools that it offers in every step, and `names` the known names of the others; no other
    tool of the agent can have these names.
    """

    always: tuple[Tool, ...] = ()
    names: tuple[str, ...] = ()


class DynamicTools(ToolSource):
    """Tools that a function returns for each step: `DynamicTools(lambda ctx: tools_for(ctx.deps.user))`.

    The function takes the `RunContext` or nothing, is sync or async, and returns a list of tools and
    functions. Only the tools that it returned for a step can be called in that step. It is called again when
    a step is repeated (a run that is resumed in another process, a durable run that is recovered, a replay),
    so its result should depend only on the context.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ToolDefinitionError(
                f"DynamicTools({preview(function)}): pass a function of the RunContext that returns tools"
            )
        needed, most = positions_of(function)
        if needed > 1:
            raise ToolDefinitionError(
                f"DynamicTools({preview(function)}): it has to take the RunContext, or nothing"
            )
        self._function = function
        self._takes_context = most > 0

    async def tools(self, ctx: RunContext[Any]) -> tuple[Any, ...]:
        """The tools of this step. If the function raises, the run fails with that error as cause."""
        try:
            found = self._function(ctx) if self._takes_context else self._function()
            given: Any = await found if inspect.isawaitable(found) else found
            made = () if given is None else tuple(given)
        except WesichainError:
            raise
        except Exception as cause:
            raise AgentError(f"{self._name} raised {describe(cause)}", step_id=ctx.step_id) from cause
        for item in made:
            if isinstance(item, ToolSource):
                raise ToolDefinitionError(
                    f"{self._name} returned {preview(item)}; it has to return tools and functions"
                )
        return made

    @property
    def _name(self) -> str:
        function = self._function
        return (
            f"the function of the dynamic tools, {getattr(function, '__name__', type(function).__name__)!r},"
        )
