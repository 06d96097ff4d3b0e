"""Learning: runs and the feedback on them become lessons and strategies in the prompts of later runs."""

from . import _numpy as _numpy  # names what is missing before anything else fails
from .curator import CuratorDelta, SemanticCurator
from .embedders import Embedder, FunctionEmbedder
from .entities import (
    DATA_MODEL,
    Evidence,
    EvidenceTally,
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
from .generator import CoTGenerator, ReActGenerator
from .learner import Generator, Learner, Reflector
from .model_reflector import ModelReflector
from .page import PageChange
from .playbook import Playbook
from .reflector import GroundedReflector, Reflection, RunReader
from .report import LearningSummary, RunRecord
from .storage import Delta, PlaybookChange, Repaired
from .trace_log import TraceLog

__all__ = [
    "DATA_MODEL",
    "CoTGenerator",
    "CuratorDelta",
    "Delta",
    "Embedder",
    "Evidence",
    "EvidenceTally",
    "Feedback",
    "FunctionEmbedder",
    "Generator",
    "GroundedReflector",
    "Learner",
    "LearningSummary",
    "ModelReflector",
    "PageChange",
    "Playbook",
    "PlaybookBullet",
    "PlaybookChange",
    "Provenance",
    "ReActGenerator",
    "ReasoningStep",
    "Reflection",
    "Reflector",
    "Repaired",
    "RunReader",
    "RunRecord",
    "SemanticCurator",
    "TaskInput",
    "TaskOutput",
    "ToolCallingStrategy",
    "ToolInvocation",
    "TraceLog",
    "mask",
    "stage_of",
]
