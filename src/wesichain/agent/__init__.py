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
from .calls.call_approvals import check_decision
from .drive import Drive, OpenRun
from .effects import Caller, Effects, FixedCaller, JournalEntry, LiveEffects, unknown_outcome
from .emitter import Emitter
from .model_names import AnyModel, resolve_model
from .options import AgentOptions, LoopGuard, OnLimit, RunOptions, Sinks
from .phases import (
    Acting,
    Active,
    Child,
    Completed,
    Failed,
    Idle,
    Interrupted,
    Observing,
    Outcome,
    Phase,
    RunInfo,
    Thinking,
    Unfinished,
    with_output,
)
from .results import RunResult, Source, result_of
from .rules.checks import Refused
from .rules.tally import Tally
from .run_state import RunState, Settings
from .runtime import AgentRuntime
from .trail import Observed, Trail

if TYPE_CHECKING:
    from .bounds import Bounds
    from .calls.agent_tool import AgentTool
    from .capability import Capability, CapabilityText
    from .handoffs.current_agent import team_of
    from .handoffs.handoff import Actor, Handoff, History
    from .memory.stored_conversations import PostgresConversations, SqliteConversations
    from .memory.stores import Conversation, Conversations, MemoryConversations, RunMemory, StoredConversation
    from .playback.recorded_errors import (
        RaisedError,
        extra_call_events,
        reemit,
        reemit_extra_calls,
    )
    from .playback.replay import replay
    from .results.stream import EventQueue, RunSteps, RunStream
    from .rules.answers import OutputMode
    from .rules.checks import OutputCheck
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            ".bounds": ("Bounds",),
            ".calls.agent_tool": ("AgentTool",),
            ".capability": ("Capability", "CapabilityText"),
            ".handoffs.handoff": ("Actor", "Handoff", "History"),
            ".handoffs.current_agent": ("team_of",),
            ".memory.stored_conversations": ("PostgresConversations", "SqliteConversations"),
            ".memory.stores": (
                "Conversation",
                "Conversations",
                "MemoryConversations",
                "RunMemory",
                "StoredConversation",
            ),
            ".playback.recorded_errors": (
                "RaisedError",
                "extra_call_events",
                "reemit",
                "reemit_extra_calls",
            ),
            ".playback.replay": ("replay",),
            ".results.stream": ("EventQueue", "RunSteps", "RunStream"),
            ".rules.answers": ("OutputMode",),
            ".rules.checks": ("OutputCheck",),
        },
    )

__all__ = [
    "Acting",
    "Active",
    "Actor",
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
    "Caller",
    "Capability",
    "CapabilityText",
    "Child",
    "Clock",
    "Completed",
    "Conversation",
    "Conversations",
    "Decision",
    "Drive",
    "Effects",
    "Emitter",
    "EventQueue",
    "Failed",
    "FixedCaller",
    "Handoff",
    "History",
    "Idle",
    "Instructions",
    "Interrupted",
    "JournalEntry",
    "LiveEffects",
    "LoopGuard",
    "MemoryConversations",
    "Middleware",
    "Observed",
    "Observing",
    "OnLimit",
    "OpenRun",
    "Outcome",
    "OutputCheck",
    "OutputMode",
    "PendingCall",
    "Phase",
    "PostgresConversations",
    "Provide",
    "RaisedError",
    "Refuse",
    "Refused",
    "RunContext",
    "RunInfo",
    "RunMemory",
    "RunOptions",
    "RunResult",
    "RunState",
    "RunSteps",
    "RunStream",
    "Settings",
    "Sinks",
    "Source",
    "SqliteConversations",
    "StoredConversation",
    "Tally",
    "Task",
    "Thinking",
    "Trail",
    "Unfinished",
    "check_decision",
    "extra_call_events",
    "reemit",
    "reemit_extra_calls",
    "replay",
    "resolve_model",
    "result_of",
    "team_of",
    "unknown_outcome",
    "with_output",
]
