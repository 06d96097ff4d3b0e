"""Learning: turns runs and the feedback on them into lessons and strategies in the prompts of later runs."""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr

from . import _numpy as _numpy  # raises an error with instructions if numpy is missing
from .curator import CuratorDelta, SemanticCurator
from .embedders import Embedder, FunctionEmbedder
from .entities.bullets import PlaybookBullet, Provenance, ToolCallingStrategy
from .entities.evidence import Evidence, EvidenceTally
from .entities.feedback import Feedback
from .entities.stages import stage_of
from .entities.steps import ReasoningStep, ToolInvocation
from .entities.tasks import TaskInput, TaskOutput
from .entities.wording import mask
from .generator import CoTGenerator, ReActGenerator
from .learner import Generator, Learner, Reflector
from .model_reflector import ModelReflector
from .page import PageChange
from .playbook import Playbook
from .reflector import GroundedReflector, Reflection, RunReader
from .report import LearningSummary, RunRecord
from .storage.backend import Repaired
from .storage.journal import Delta, PlaybookChange

if TYPE_CHECKING:
    from .trace_log import TraceLog
else:
    __getattr__ = lazy_getattr(
        __name__, {".trace_log": ("TraceLog",)}, moved_to=("wesichain.learning.internal",)
    )

__all__ = [
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
