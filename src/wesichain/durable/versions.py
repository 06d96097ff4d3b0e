"""Versions: the program that a run belongs to, and the adoption of runs by a changed program.

An adopted run continues under another program than it began with, after its last finished step. Recorded
results stay: a recorded call needs neither its tool nor arguments that are still valid. An active call of a
tool that was removed is not run, and its result says so to the model.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from copy import copy
from functools import partial
from typing import Any, TypeVar

from typing_extensions import override

from wesichain.agent import Agent, AgentRuntime
from wesichain.agent.internal import LiveEffects, team_of
from wesichain.core import JsonValue, ToolCall
from wesichain.core.internal import replace
from wesichain.errors import ConfigError, InvalidArgsError, UnknownToolError
from wesichain.tools import JsonTool, ToolContext, ToolRegistry, ToolSearch
from wesichain.tools.internal import PreparedCall

from .journal.records import fingerprint

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")


def version_of(agent: Agent[Any]) -> str:
    """The version of an agent: a hash of its instructions, tools and output type, and of its inner agents.

    It includes the agents that a run may be handed off to. Instructions and tools that functions return are
    not included; instructions are recorded when a run begins.
    """
    others = [[name, *_program_of(other)] for name, other in sorted(team_of(agent.runtime).items())]
    return fingerprint([*_program_of(agent), *others])[:12]


def _program_of(agent: Any, above: tuple[Any, ...] = ()) -> list[Any]:
    own: ToolRegistry = agent.runtime.registry
    searched = [source.registry for source in own.sources if isinstance(source, ToolSearch)]
    specs = [*agent.runtime.offered(), *(spec for registry in searched for spec in registry.specs())]
    parts = [agent.fixed_instructions, [[spec.name, spec.description, spec.parameters] for spec in specs]]
    used = [one for registry in (own, *searched) for tool in registry for one in tool.agents]
    inner = [_program_of(one, (*above, agent)) for one in used if _is_agent(one) and one not in above]
    return [*parts, inner] if inner else parts


def _is_agent(found: object) -> bool:
    return isinstance(found, Agent)


def checked_version(version: str) -> str:
    if not _VERSION.fullmatch(version):
        raise ConfigError(f"{version[:80]!r} is not a version: use letters, digits and _ . + - (64 at most)")
    return version


OutT = TypeVar("OutT")
_ANYTHING = {"type": "object", "additionalProperties": True}


class AdoptedTools(ToolRegistry):
    """The tools of this program, and placeholders for removed tools that the run has called."""

    def __init__(self, tools: ToolRegistry, known: Collection[str], recorded: Collection[str]) -> None:
        super().__init__(tools, tools.sources)
        self._ids = known  # the ids of calls in recorded replies
        self._done = recorded  # those of them that have a recorded result

    @override
    def prepare(self, call: ToolCall) -> PreparedCall | UnknownToolError | InvalidArgsError:
        found = super().prepare(call)
        is_gone = isinstance(found, UnknownToolError) and call.id in self._ids
        if is_gone or (not isinstance(found, PreparedCall) and call.id in self._done):
            return PreparedCall(call, _RemovedTool(call.name), call.args)
        return found

    @override
    def run(self, prepared: PreparedCall, ctx: ToolContext | None = None) -> Any:
        if isinstance(prepared.tool, _RemovedTool):
            return ToolRegistry([prepared.tool]).run(prepared, ctx)
        return super().run(prepared, ctx)


class _RemovedTool(JsonTool):
    """A placeholder for a tool that was removed from the program."""

    def __init__(self, name: str) -> None:
        def explain(_: Any) -> JsonValue:
            return f"The tool {name!r} was removed from the program: the call was not run."

        super().__init__(name, "A tool of an earlier version.", _ANYTHING, explain, effect="pure")


def adopting(
    runtime: AgentRuntime[OutT], *, known: Collection[str], recorded: Collection[str]
) -> AgentRuntime[OutT]:
    """A copy of the runtime for a run that another program began, with placeholders for removed tools."""
    made: Any = copy(runtime)
    made.adapt = partial(AdoptedTools, known=known, recorded=recorded)  # also for agents after a hand-off
    tools = made.adapt(runtime.registry)
    settings = made.settings
    made.settings = replace(settings, judge=settings.judge.with_tools(tools))
    made._live = LiveEffects(made.llm, tools)
    found: AgentRuntime[OutT] = made
    return found
