"""Subagents: agents to which a run can delegate tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import Field
from typing_extensions import TypedDict, override

from wesichain.agent import Agent, AgentTool, Capability
from wesichain.errors import ConfigError
from wesichain.tools import Effect, RunContext, ToolContext, TypedTool

_INSTRUCTIONS = (
    "You can give tasks to other agents with delegate. An agent sees only the text of its task: write down "
    "all that it needs to know. Tasks that do not depend on each other can be given in one reply."
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


class Subagents(Capability):
    """One tool, `delegate(agent, task)`, that runs one of these agents and returns its answer.

    Each task is a separate run, which receives the task and nothing else from the parent run. It spends from
    the same budget, is part of the same log and is cancelled with the parent run; its calls that wait for a
    decision are pending calls of the parent run. The instructions contain each agent's `description`.
    """

    def __init__(self, agents: Mapping[str, Agent[Any, Any]], *, effect: Effect = "once") -> None:
        given: Any = agents
        if not isinstance(given, Mapping) or not agents:
            raise ConfigError("Subagents takes at least one agent by name: Subagents({'reader': agent})")
        for name, agent in agents.items():
            if not isinstance(cast("Any", name), str) or not _NAME.fullmatch(name):
                raise ConfigError(
                    f"Subagents: {name!r} is not a name for an agent; use one that matches {_NAME.pattern}"
                )
            if not hasattr(agent, "as_tool"):
                raise ConfigError(f"Subagents: {name!r} is {type(agent).__name__}; use an Agent")
        self._agents = dict(agents)
        self.tools = (_Delegate(self._agents, effect),)

    @override
    def instructions(self, ctx: RunContext[Any]) -> str:
        known = (f"- {name}: {_described(agent)}" for name, agent in self._agents.items())
        return "\n".join((_INSTRUCTIONS, *known))


def _described(agent: Agent[Any, Any]) -> str:
    return agent.description or f"the agent {agent.name!r}."


class _Delegate(TypedTool[Any, Any]):
    """The tool that runs one of several agents."""

    name = "delegate"
    description = "Give a task to another agent, and get its answer."
    is_agent = True
    timeout = AgentTool.timeout

    def __init__(self, agents: Mapping[str, Agent[Any, Any]], effect: Effect) -> None:
        self._tools = {name: agent.as_tool(name=name, effect=effect) for name, agent in agents.items()}
        self.agents = tuple(agents.values())
        self.effect = effect
        self.plan()

    @override
    def types(self) -> tuple[Any, Any]:
        names = tuple(self._tools)
        whom = Annotated[Literal[names], Field(description="The agent that is to do it.")]  # type: ignore[valid-type]  # created from names
        what = Annotated[str, Field(description="The task, with all that the agent needs to know.")]
        return TypedDict("Task", {"agent": whom, "task": what}), Any  # type: ignore[operator]  # created at run time

    @override
    async def run(self, args: Any, ctx: ToolContext) -> Any:
        return await self._tools[args["agent"]].run({"task": args["task"]}, ctx)
