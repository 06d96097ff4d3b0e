"""Recipe: what a tool is made of, apart from its function; enough to make it again in another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from wesichain.tools.definition import Tool
from wesichain.tools.function import FunctionTool
from wesichain.tools.json_tool import JsonTool


class Recipe(NamedTuple):
    """A function, and the options with which it becomes a tool of that kind; the options are JSON."""

    kind: str
    function: Callable[..., Any]
    options: dict[str, Any]

    def make(self) -> Tool:
        """The tool; its timeout, its limits and the like are the program's to keep."""
        if self.kind == "json":
            return JsonTool(invoke=self.function, **self.options)
        return FunctionTool(self.function, **self.options)


def recipe_of(tool: Tool) -> Recipe | None:
    """The recipe of a tool; None for a tool that is an object of its own class."""
    options = {"name": tool.name, "description": tool.description, "max_output": tool.max_output}
    if isinstance(tool, JsonTool):
        schemas = {"schema": tool.spec.parameters, "returns": tool.returns}
        return Recipe("json", tool.invoke, {**options, **schemas})
    return Recipe("function", tool.function, options) if isinstance(tool, FunctionTool) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]  # any function
