"""Agents: the class `Agent`, its runtime, the state machine of a run, the agent loop and replay."""

from typing import TYPE_CHECKING

from wesichain.core.internal import (
    Advice,
    Adviser,
    Approve,
    ApproveWith,
    Clock,
    Decision,
    PendingCall,
    Provide,
    Refuse,
    lazy_getattr,
)
from wesichain.middleware import Middleware
from wesichain.tools import RunContext

from .agent import Agent, Instructions, Task
from .flow.flow import Flow
from .model_names import AnyModel
from .options import AgentOptions, LoopGuard, OnLimit, RunOptions, Sinks
from .phases import (
    Acting,
    Completed,
    Failed,
    Idle,
    Interrupted,
    Observing,
    Outcome,
    Phase,
    Thinking,
)
from .results import RunResult, Source
from .runtime import AgentRuntime
from .trail import Observed

if TYPE_CHECKING:
    from .bounds import Bounds
    from .calls.agent_tool import AgentTool
    from .capability import Capability, CapabilityText
    from .handoffs.handoff import Handoff, History
    from .memory.stored_conversations import PostgresConversations, SqliteConversations
    from .memory.stores import Conversation, Conversations, MemoryConversations, RunMemory, StoredConversation
    from .replay import replay
    from .results.stream import RunSteps, RunStream
    from .rules.answers import OutputMode
    from .rules.checks import OutputCheck
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            ".bounds": ("Bounds",),
            ".calls.agent_tool": ("AgentTool",),
            ".capability": ("Capability", "CapabilityText"),
            ".handoffs.handoff": ("Handoff", "History"),
            ".memory.stored_conversations": ("PostgresConversations", "SqliteConversations"),
            ".memory.stores": (
                "Conversation",
                "Conversations",
                "MemoryConversations",
                "RunMemory",
                "StoredConversation",
            ),
            ".replay": ("replay",),
            ".results.stream": ("RunSteps", "RunStream"),
            ".rules.answers": ("OutputMode",),
            ".rules.checks": ("OutputCheck",),
        },
        moved_to=("wesichain.agent.internal",),
    )

__all__ = [
    "Acting",
    "Advice",
    "Adviser",
    "Agent",
    "AgentOptions",
    "AgentRuntime",
    "AgentTool",
    "AnyModel",
    "Approve",
    "ApproveWith",
    "Bounds",
    "Capability",
    "CapabilityText",
    "Clock",
    "Completed",
    "Conversation",
    "Conversations",
    "Decision",
    "Failed",
    "Flow",
    "Handoff",
    "History",
    "Idle",
    "Instructions",
    "Interrupted",
    "LoopGuard",
    "MemoryConversations",
    "Middleware",
    "Observed",
    "Observing",
    "OnLimit",
    "Outcome",
    "OutputCheck",
    "OutputMode",
    "PendingCall",
    "Phase",
    "PostgresConversations",
    "Provide",
    "Refuse",
    "RunContext",
    "RunMemory",
    "RunOptions",
    "RunResult",
    "RunSteps",
    "RunStream",
    "Sinks",
    "Source",
    "SqliteConversations",
    "StoredConversation",
    "Task",
    "Thinking",
    "replay",
]
