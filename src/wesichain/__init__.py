"""Tool-calling ReAct agents that are correct by construction, fast, and learn from their runs."""

from ._version import __version__
from .agent import Agent, AgentRuntime, Approve, ApproveWith, Conversation, Refuse
from .core import LlmRequest, LlmResponse, Message, Role, ToolCall
from .errors import RunFailedError, RunInterruptedError, WesichainError
from .graph import END, START, GraphBuilder, ReActAgentNode
from .policy import Budget, FailFast, ObserveErrors, Recovery, RepromptN
from .tools import CancellationToken, JsonTool, ToolContext, ToolError, ToolSet, TypedTool, tool

__all__ = [
    "END",
    "START",
    "Agent",
    "AgentRuntime",
    "Approve",
    "ApproveWith",
    "Budget",
    "CancellationToken",
    "Conversation",
    "FailFast",
    "GraphBuilder",
    "JsonTool",
    "LlmRequest",
    "LlmResponse",
    "Message",
    "ObserveErrors",
    "ReActAgentNode",
    "Recovery",
    "Refuse",
    "RepromptN",
    "Role",
    "RunFailedError",
    "RunInterruptedError",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolSet",
    "TypedTool",
    "WesichainError",
    "__version__",
    "tool",
]
