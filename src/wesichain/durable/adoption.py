"""Adoption: a run goes on under another program than it began with, from its last finished step.

What was done stands: a call that has a record needs neither its tool nor arguments that would still fit. A
call that was under way, of a tool that is there no more, is not run; the model is told so.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from typing_extensions import override

from wesichain.agent import AgentRuntime, LiveEffects
from wesichain.core import JsonValue, ToolCall
from wesichain.errors import InvalidArgsError, UnknownToolError
from wesichain.tools import JsonTool, PreparedCall, ToolContext, ToolRegistry

OutT = TypeVar("OutT")
_ANYTHING = {"type": "object", "additionalProperties": True}


class AdoptedTools(ToolRegistry):
    """The tools of this program, and stand-ins for those that earlier calls of the run were made to."""

    def __init__(self, tools: ToolRegistry, known: Collection[str], recorded: Collection[str]) -> None:
        super().__init__(tools, tools.sources)
        self._ids = known  # the ids of calls in replies that were recorded
        self._done = recorded  # and of those of them that have a result

    @override
    def prepare(self, call: ToolCall) -> PreparedCall | UnknownToolError | InvalidArgsError:
        found = super().prepare(call)
        is_gone = isinstance(found, UnknownToolError) and call.id in self._ids
        if is_gone or (not isinstance(found, PreparedCall) and call.id in self._done):
            return PreparedCall(call, _Gone(call.name), call.args)
        return found

    @override
    def run(self, prepared: PreparedCall, ctx: ToolContext | None = None) -> Any:
        if isinstance(prepared.tool, _Gone):
            return ToolRegistry([prepared.tool]).run(prepared, ctx)
        return super().run(prepared, ctx)


class _Gone(JsonTool):
    """Stands in for a tool that the program has no more."""

    def __init__(self, name: str) -> None:
        def tell(_: Any) -> JsonValue:
            return f"The tool {name!r} is there no more, since the program has changed: the call was not run."

        super().__init__(name, "A tool of an earlier version.", _ANYTHING, tell, effect="pure")


def adopting(
    runtime: AgentRuntime[OutT], *, known: Collection[str], recorded: Collection[str]
) -> AgentRuntime[OutT]:
    """The runtime for a run that another program began: the same, with stand-ins for tools that are gone."""
    made: Any = copy(runtime)
    made.adapt = partial(AdoptedTools, known=known, recorded=recorded)  # those of agents it is handed to
    tools = made.adapt(runtime.registry)
    settings = made._settings
    made._settings = replace(settings, registry=tools, judge=replace(settings.judge, registry=tools))
    made._live = LiveEffects(made._llm, tools)
    found: AgentRuntime[OutT] = made
    return found
