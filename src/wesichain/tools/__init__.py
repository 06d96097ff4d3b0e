"""Tools: functions that a model can call, with schemas from type hints, validation and timeouts."""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr
from wesichain.errors import ToolError, ToolErrorKind

from .context import CancellationToken, RunContext, ToolContext
from .definition import Approval, Effect, Id, Isolation, Tool, ToolOptions, ToolWarning, TypedTool
from .function import FunctionTool, tool
from .json_schema.issues import Issue
from .registry import Offered, ToolLike, ToolRegistry, ToolSet
from .results import PreparedCall, ToolResult, ToolStats
from .return_values import Finish
from .tool_sources import DynamicTools, ToolSource

if TYPE_CHECKING:
    from .json_tool import JsonTool, validate_json
    from .running.threads import in_thread
    from .tool_search import TextEmbedder, ToolSearch
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            ".json_tool": ("JsonTool", "validate_json"),
            ".running.threads": ("in_thread",),
            ".tool_search": ("TextEmbedder", "ToolSearch"),
        },
    )

__all__ = [
    "Approval",
    "CancellationToken",
    "DynamicTools",
    "Effect",
    "Finish",
    "FunctionTool",
    "Id",
    "Isolation",
    "Issue",
    "JsonTool",
    "Offered",
    "PreparedCall",
    "RunContext",
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
    "in_thread",
    "tool",
    "validate_json",
]
