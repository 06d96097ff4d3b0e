"""Agents that call tools: every call validated, every run limited and recorded, lessons drawn from runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._version import __version__
from .agent import Agent, AgentRuntime, Approve, ApproveWith, Flow, Provide, Refuse
from .core import Document, Image, LlmRequest, LlmResponse, Message, ModelSettings, Role, ToolCall
from .core.internal import lazy_getattr
from .errors import RunFailedError, RunInterruptedError, WesichainError
from .middleware import Middleware
from .policy import Budget, FailFast, ObserveErrors, Recovery, RepromptN, SelfCorrect
from .tools import (
    CancellationToken,
    Finish,
    RunContext,
    ToolContext,
    ToolError,
    ToolSet,
    TypedTool,
    tool,
)

if TYPE_CHECKING:
    from .agent import Capability, Conversation, Handoff
    from .graph import END, START, GraphBuilder, ReActAgentNode
    from .journal import FolderJournals, Journal, MemoryJournals, PostgresJournals, SqliteJournals
    from .tools import JsonTool
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            ".agent": ("Capability", "Conversation", "Handoff"),
            ".graph": ("END", "START", "GraphBuilder", "ReActAgentNode"),
            ".journal": (
                "FolderJournals",
                "Journal",
                "MemoryJournals",
                "PostgresJournals",
                "SqliteJournals",
            ),
            ".tools": ("JsonTool",),
        },
    )

__all__ = [
    "END",
    "START",
    "Agent",
    "AgentRuntime",
    "Approve",
    "ApproveWith",
    "Budget",
    "CancellationToken",
    "Capability",
    "Conversation",
    "Document",
    "FailFast",
    "Finish",
    "Flow",
    "FolderJournals",
    "GraphBuilder",
    "Handoff",
    "Image",
    "Journal",
    "JsonTool",
    "LlmRequest",
    "LlmResponse",
    "MemoryJournals",
    "Message",
    "Middleware",
    "ModelSettings",
    "ObserveErrors",
    "PostgresJournals",
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
    "SqliteJournals",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolSet",
    "TypedTool",
    "WesichainError",
    "__version__",
    "tool",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
