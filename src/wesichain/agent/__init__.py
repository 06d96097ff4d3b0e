"""The agent runtime: one typed machine, one loop, and the agent's friendly face."""

from wesichain.core import Approve, ApproveWith, Decision, Refuse

from .agent import Agent, RunResult, Source, result_of
from .conversation import Conversation
from .drive import Drive
from .effects import Caller, Effects, LiveEffects
from .models import resolve_model
from .narrate import Narrator
from .phases import (
    Acting,
    Active,
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
from .replay import ReplayEffects, replay, retell, revived_dispatch, revived_error
from .rules import LoopGuard, Tally
from .running import OnLimit, Running, Settings
from .runtime import AgentRuntime
from .stream import EventQueue, RunStream
from .trail import Observed, Trail

__all__ = [
    "Acting",
    "Active",
    "Agent",
    "AgentRuntime",
    "Approve",
    "ApproveWith",
    "Caller",
    "Completed",
    "Conversation",
    "Decision",
    "Drive",
    "Effects",
    "EventQueue",
    "Failed",
    "Idle",
    "Interrupted",
    "LiveEffects",
    "LoopGuard",
    "Narrator",
    "Observed",
    "Observing",
    "OnLimit",
    "Outcome",
    "Phase",
    "Refuse",
    "ReplayEffects",
    "RunInfo",
    "RunResult",
    "RunStream",
    "Running",
    "Settings",
    "Source",
    "Tally",
    "Thinking",
    "Trail",
    "Unfinished",
    "replay",
    "resolve_model",
    "result_of",
    "retell",
    "revived_dispatch",
    "revived_error",
]
