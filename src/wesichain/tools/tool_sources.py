"""Sources: tools that are not offered all the time; what they are is asked for in each step of a run."""

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
    """Stands among the tools of an agent, in the place of those that it gives.

    `always` are the tools that it offers in every step, `names` those that it may offer beside them, as far
    as that is known: no other tool of the agent may be called so.
    """

    always: tuple[Tool, ...] = ()
    names: tuple[str, ...] = ()


class DynamicTools(ToolSource):
    """Tools that a function returns for each step: `DynamicTools(lambda ctx: tools_for(ctx.deps.user))`.

    The function is given the `RunContext`, or nothing; it is sync or async, and gives a list of tools and
    functions. What it gives is offered in this step, and nothing else of its is run. It is called again
    where a step is gone through again (a run that is resumed in another process, a durable run that is
    recovered), so that it should go by its context, as instructions do. A replay does without it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ToolDefinitionError(
                f"DynamicTools({preview(function)}): pass a function of the RunContext that gives tools"
            )
        needed, most = positions_of(function)
        if needed > 1:
            raise ToolDefinitionError(
                f"DynamicTools({preview(function)}): it takes the RunContext, or nothing"
            )
        self._function = function
        self._takes_context = most > 0

    async def tools(self, ctx: RunContext[Any]) -> tuple[Any, ...]:
        """The tools of this step. A function that raises ends the run as failed, with its error as cause."""
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
                raise ToolDefinitionError(f"{self._name} gave {preview(item)}; it gives tools and functions")
        return made

    @property
    def _name(self) -> str:
        function = self._function
        return (
            f"the function of the dynamic tools, {getattr(function, '__name__', type(function).__name__)!r},"
        )
