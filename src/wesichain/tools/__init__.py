"""Tools: functions a model may call, described by their types, checked at every call, bounded in time."""

from wesichain.errors import ToolError, ToolErrorKind

from .context import CancellationToken, ToolContext
from .definition import Tool, ToolOptions, ToolWarning
from .function import FunctionTool, tool
from .json_tool import JsonTool, validate_json
from .registry import ToolRegistry, ToolSet
from .results import PreparedCall, ToolResult, ToolStats
from .typed import TypedTool

__all__ = [
    "CancellationToken",
    "FunctionTool",
    "JsonTool",
    "PreparedCall",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolErrorKind",
    "ToolOptions",
    "ToolRegistry",
    "ToolResult",
    "ToolSet",
    "ToolStats",
    "ToolWarning",
    "TypedTool",
    "tool",
    "validate_json",
]
