"""Short ways to talk to an agent in the tests of the kit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wesichain import Agent, Capability
from wesichain.core import ToolCall
from wesichain.testing import ScriptedLlm
from wesichain.tools import Tool, ToolRegistry, ToolSet


async def call(registry: ToolRegistry, tool: str, /, **args: Any) -> Any:
    """The value that a tool returns for these arguments; its error is raised."""
    result = await registry.dispatch(ToolCall("c", tool, args))
    if result.error is not None:
        raise result.error
    return result.value


def tools_of(*capabilities: Capability) -> ToolRegistry:
    return ToolSet.of([tool for one in capabilities for tool in one.tools]).build()


def scripted(replies: Sequence[Any], *capabilities: Capability, **options: Any) -> tuple[Agent, ScriptedLlm]:
    llm = ScriptedLlm(replies)
    tools: Sequence[Tool] = options.pop("tools", ())
    return Agent(llm, tools=tools, capabilities=list(capabilities), **options), llm
