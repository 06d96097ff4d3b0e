"""Tools: functions a model may call, described by their types, checked at every call, bounded in time."""

from wesichain.errors import ToolError, ToolErrorKind

from .context import CancellationToken, RunContext, ToolContext
from .definition import Effect, Tool, ToolOptions, ToolWarning
from .finish import Finish
from .function import FunctionTool, tool
from .identifiers import Id
from .isolation import Isolation
from .json_tool import JsonTool, validate_json
from .registry import Offered, ToolRegistry, ToolSet
from .results import PreparedCall, ToolResult, ToolStats
from .running.threads import in_thread
from .search import TextEmbedder, ToolSearch
from .sources import DynamicTools, ToolSource
from .typed import TypedTool

__all__ = [
    "CancellationToken",
    "DynamicTools",
    "Effect",
    "Finish",
    "FunctionTool",
    "Id",
    "Isolation",
    "JsonTool",
    "Offered",
    "PreparedCall",
    "RunContext",
    "TextEmbedder",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolErrorKind",
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
