"""Labelled tools: which tools of an agent and its team return outside text, and which it can reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wesichain.core.internal import Value
from wesichain.tools import DynamicTools, Outside, Tool, ToolRegistry, ToolSearch
from wesichain.tools.internal import NO_LABELS, FieldLabels


class ResultLabels(Value):
    """The labels of the results of a tool; `outside` holds for all that is in them."""

    outside: bool
    fields: FieldLabels = NO_LABELS


_OUTSIDE = ResultLabels(outside=True)
_INSIDE = ResultLabels(outside=False)


class LabelledTools:
    """The labels of results by the names of tools.

    After a handoff, or in a run that is resumed, only the name of a tool is known. If two agents have tools
    with the same name, the labels of both hold. A tool that a function offered for one step is outside.
    """

    def __init__(self, registries: Sequence[ToolRegistry]) -> None:
        sources = [source for registry in registries for source in registry.sources]
        searched = [source.registry for source in sources if isinstance(source, ToolSearch)]
        self._registries = (*registries, *searched)
        self._unknown = _OUTSIDE if any(isinstance(one, DynamicTools) for one in sources) else _INSIDE
        self._known: dict[str, ResultLabels] = {}

    def labels(self, name: str) -> ResultLabels:
        found = self._known.get(name)
        if found is None:
            tools = [tool for registry in self._registries if (tool := registry.get(name)) is not None]
            given = [ResultLabels(reads_outside(tool, whole=True), tool.labels.result) for tool in tools]
            found = _either(given) if given else self._unknown
            self._known[name] = found
        return found

    @property
    def read_outside(self) -> bool:
        """Whether any of the tools can return outside text."""
        tools = (tool for registry in self._registries for tool in registry)
        return self._unknown.outside or any(reads_outside(tool) for tool in tools)


def _either(given: Sequence[ResultLabels]) -> ResultLabels:
    if len(given) == 1:
        return given[0]
    labelled = [one.fields for one in given if one.fields != NO_LABELS]
    return ResultLabels(
        any(one.outside for one in given) or len(labelled) > 1, labelled[0] if labelled else NO_LABELS
    )


def reads_outside(tool: Tool, *, whole: bool = False, known: tuple[Any, ...] = ()) -> bool:
    """Whether results of a tool can carry outside text; with `whole`, whether all of a result counts."""
    labels = tool.labels
    if labels.trust == "outside" or (not whole and labels.result.has(Outside)):
        return True
    if any(reads_outside(one, known=known) for one in tool.tools):
        return True
    return any(_agent_reads_outside(agent, (*known, agent)) for agent in tool.agents if agent not in known)


def _agent_reads_outside(agent: Any, known: tuple[Any, ...]) -> bool:
    return any(
        any(isinstance(source, DynamicTools) for source in registry.sources)
        or any(reads_outside(tool, known=known) for tool in tools_in(registry))
        for registry in registries_of(agent.runtime)
    )


def registries_of(runtime: Any) -> list[ToolRegistry]:
    """The tools of an agent, and of those that its runs may be handed off to."""
    if not runtime.transfers:
        return [runtime.registry]
    from wesichain.agent.handoffs.current_agent import team_of  # loaded with the first handoff

    team = [agent.runtime.registry for agent in team_of(runtime).values() if agent.runtime is not runtime]
    return [runtime.registry, *team]


def tools_in(registry: ToolRegistry) -> Iterator[Tool]:
    """The tools of a registry, and those that its searches can find."""
    yield from registry
    for source in registry.sources:
        if isinstance(source, ToolSearch):
            yield from source.registry


def outside_reach(runtime: Any) -> dict[str, tuple[str, ...]]:
    """The parameters, by tool, that outside text can decide in runs of an agent without asking a person."""
    tools = [*_all_tools(runtime, ())]
    if not any(reads_outside(tool) for tool in tools):
        return {}
    flow = runtime.settings.flow
    reach: dict[str, tuple[str, ...]] = {}
    for tool in tools:
        if tool.is_agent:
            continue  # the calls in it are listed
        labels = tool.labels
        free = tuple(name for name in labels.parameters if flow is None or not labels.is_protected(name))
        if free or flow is None:
            reach[tool.name] = tuple(dict.fromkeys((*reach.get(tool.name, ()), *free)))
    return reach


def _all_tools(runtime: Any, known: tuple[Any, ...]) -> Iterator[Tool]:
    """The tools of an agent, and of all agents and programs below it."""
    for registry in registries_of(runtime):
        for tool in tools_in(registry):
            yield tool
            yield from tool.tools
            for agent in tool.agents:
                if agent not in known:
                    yield from _all_tools(agent.runtime, (*known, agent))
