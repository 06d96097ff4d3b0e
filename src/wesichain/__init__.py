"""Tool-calling ReAct agents that are correct by construction, fast, and learn from their runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._version import __version__
from .agent import Agent, AgentRuntime, Approve, ApproveWith, Conversation, Handoff, Provide, Refuse
from .core import Document, Image, LlmRequest, LlmResponse, Message, Role, ToolCall
from .errors import RunFailedError, RunInterruptedError, WesichainError
from .middleware import Middleware
from .policy import Budget, FailFast, ObserveErrors, Recovery, RepromptN, SelfCorrect
from .tools import (
    CancellationToken,
    Finish,
    JsonTool,
    RunContext,
    ToolContext,
    ToolError,
    ToolSet,
    TypedTool,
    tool,
)

if TYPE_CHECKING:
    from .graph import END, START, GraphBuilder, ReActAgentNode

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
    "Document",
    "FailFast",
    "Finish",
    "GraphBuilder",
    "Handoff",
    "Image",
    "JsonTool",
    "LlmRequest",
    "LlmResponse",
    "Message",
    "Middleware",
    "ObserveErrors",
    "Provide",
    "ReActAgentNode",
    "Recovery",
    "Refuse",
    "RepromptN",
    "Role",
    "RunContext",
    "RunFailedError",
    "RunInterruptedError",
    "SelfCorrect",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolSet",
    "TypedTool",
    "WesichainError",
    "__version__",
    "tool",
]

_OF_THE_GRAPH = frozenset({"END", "START", "GraphBuilder", "ReActAgentNode"})


def __getattr__(name: str) -> object:
    """The graph engine is loaded when it is first named: an agent alone does not need it."""
    if name not in _OF_THE_GRAPH:
        raise AttributeError(f"module 'wesichain' has no attribute {name!r}")
    from . import graph

    return getattr(graph, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
