"""The agent runtime: one typed machine, one loop, and the agent's friendly face."""

from wesichain.core import Approve, ApproveWith, Decision, Provide, Refuse

from .agent import Agent
from .calls import AgentTool
from .drive import Drive
from .effects import Caller, Effects, LiveEffects
from .handing import team_of
from .memory import (
    Conversation,
    Conversations,
    MemoryConversations,
    PostgresConversations,
    RunMemory,
    SqliteConversations,
    StoredConversation,
)
from .models import resolve_model
from .narrate import Narrator, name_of
from .options import AgentOptions, OnLimit, RunOptions
from .outcomes import with_output
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
)
from .replay import ReplayEffects, replay
from .replaying import retell, revived_cause, revived_dispatch, revived_error
from .results import EventQueue, RunResult, RunSteps, RunStream, Source, result_of
from .rules import Handoff, LoopGuard, Refused, Tally
from .running import Running, Settings
from .runtime import AgentRuntime
from .trail import Observed, Trail
from .wrapping import retell_spare, spare_events

__all__ = [
    "Acting",
    "Active",
    "Agent",
    "AgentOptions",
    "AgentRuntime",
    "AgentTool",
    "Approve",
    "ApproveWith",
    "Caller",
    "Child",
    "Completed",
    "Conversation",
    "Conversations",
    "Decision",
    "Drive",
    "Effects",
    "EventQueue",
    "Failed",
    "Handoff",
    "Idle",
    "Interrupted",
    "LiveEffects",
    "LoopGuard",
    "MemoryConversations",
    "Narrator",
    "Observed",
    "Observing",
    "OnLimit",
    "Outcome",
    "Phase",
    "PostgresConversations",
    "Provide",
    "Refuse",
    "Refused",
    "ReplayEffects",
    "RunInfo",
    "RunMemory",
    "RunOptions",
    "RunResult",
    "RunSteps",
    "RunStream",
    "Running",
    "Settings",
    "Source",
    "SqliteConversations",
    "StoredConversation",
    "Tally",
    "Thinking",
    "Trail",
    "Unfinished",
    "name_of",
    "replay",
    "resolve_model",
    "result_of",
    "retell",
    "retell_spare",
    "revived_cause",
    "revived_dispatch",
    "revived_error",
    "spare_events",
    "team_of",
    "with_output",
]
