"""Tools: functions that a model can call, with schemas from type hints, validation and timeouts."""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr
from wesichain.errors import ToolError, ToolErrorKind

from .context import CancellationToken, RunContext, ToolContext
from .definition import Approval, Effect, Id, Isolation, Tool, ToolOptions, ToolWarning, TypedTool
from .function import FunctionTool, tool
from .labels import FromUser, Leaves, Outside, Secret
from .registry import ToolLike, ToolRegistry, ToolSet
from .results import ToolResult, ToolStats
from .return_values import Finish
from .tool_sources import DynamicTools, ToolSource

if TYPE_CHECKING:
    from .json_tool import JsonTool, validate_json
    from .tool_search import TextEmbedder, ToolSearch
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            ".json_tool": ("JsonTool", "validate_json"),
            ".tool_search": ("TextEmbedder", "ToolSearch"),
        },
        moved_to=("wesichain.tools.internal",),
    )

__all__ = [
    "Approval",
    "CancellationToken",
    "DynamicTools",
    "Effect",
    "Finish",
    "FromUser",
    "FunctionTool",
    "Id",
    "Isolation",
    "JsonTool",
    "Leaves",
    "Outside",
    "RunContext",
    "Secret",
    "TextEmbedder",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolErrorKind",
    "ToolLike",
    "ToolOptions",
    "ToolRegistry",
    "ToolResult",
    "ToolSearch",
    "ToolSet",
    "ToolSource",
    "ToolStats",
    "ToolWarning",
    "TypedTool",
    "tool",
    "validate_json",
]
