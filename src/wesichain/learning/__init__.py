"""Learning: runs are reflected on, strategies are curated and retrieved, later runs need fewer steps."""

from .curator import CuratorDelta, SemanticCurator
from .embedders import Embedder, FunctionEmbedder
from .entities import (
    DATA_MODEL,
    Feedback,
    PlaybookBullet,
    Provenance,
    ReasoningStep,
    TaskInput,
    TaskOutput,
    ToolCallingStrategy,
    ToolInvocation,
    mask,
    stage_of,
)
from .gate import Health, RunRecord, Verdict, judge, regression
from .generator import CoTGenerator, ReActGenerator
from .learner import Generator, Learner
from .playbook import Playbook
from .prose import ProseWriter
from .reflector import Adaptation, GroundedReflector, Reflection
from .report import LearningSummary, Rollback, plot, progress_bar
from .storage import Change, Delta, Match, Repaired
from .trace_log import TraceLog

__all__ = [
    "DATA_MODEL",
    "Adaptation",
    "Change",
    "CoTGenerator",
    "CuratorDelta",
    "Delta",
    "Embedder",
    "Feedback",
    "FunctionEmbedder",
    "Generator",
    "GroundedReflector",
    "Health",
    "Learner",
    "LearningSummary",
    "Match",
    "Playbook",
    "PlaybookBullet",
    "ProseWriter",
    "Provenance",
    "ReActGenerator",
    "ReasoningStep",
    "Reflection",
    "Repaired",
    "Rollback",
    "RunRecord",
    "SemanticCurator",
    "TaskInput",
    "TaskOutput",
    "ToolCallingStrategy",
    "ToolInvocation",
    "TraceLog",
    "Verdict",
    "judge",
    "mask",
    "plot",
    "progress_bar",
    "regression",
    "stage_of",
]
