"""The values that learning is about: tasks and their traces, feedback, bullets and their stages."""

from .bullets import (
    DATA_MODEL,
    PlaybookBullet,
    Provenance,
    ToolCallingStrategy,
    collapse,
    is_followed,
)
from .domains import check_domain, hashed_name
from .feedback import Feedback, Outcome, Signal
from .masking import MASK, mask, one_line
from .stages import SECTIONS, STAGES, VISIBLE, Ruling, Section, Stage, settle, stage_of
from .tasks import ReasoningStep, TaskAction, TaskInput, TaskOutput, ToolInvocation

__all__ = [
    "DATA_MODEL",
    "MASK",
    "SECTIONS",
    "STAGES",
    "VISIBLE",
    "Feedback",
    "Outcome",
    "PlaybookBullet",
    "Provenance",
    "ReasoningStep",
    "Ruling",
    "Section",
    "Signal",
    "Stage",
    "TaskAction",
    "TaskInput",
    "TaskOutput",
    "ToolCallingStrategy",
    "ToolInvocation",
    "check_domain",
    "collapse",
    "hashed_name",
    "is_followed",
    "mask",
    "one_line",
    "settle",
    "stage_of",
]
