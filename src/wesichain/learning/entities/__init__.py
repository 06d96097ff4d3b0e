"""The values that learning is about: tasks and their traces, feedback, bullets and their stages."""

from .bullets import (
    DATA_MODEL,
    PlaybookBullet,
    Provenance,
    ToolCallingStrategy,
    collapse,
    is_followed,
    is_number,
    is_said,
)
from .conditions import (
    BAD,
    GOOD,
    LATE,
    OTHER,
    Kind,
    case_of,
    count_of,
    deciding,
    fits,
    is_found_late,
    marks_of,
    on_side,
    with_case,
    word_of,
)
from .domains import check_domain, hashed_name
from .evidence import Evidence, Tally, Watch
from .feedback import Feedback, Outcome, Signal
from .fingerprints import Fingerprints, changed_tools, fingerprint_of, fingerprints_of
from .forms import Mend, form_of, mends
from .masking import MASK, mask, one_line
from .stages import SECTIONS, STAGES, VISIBLE, Ruling, Section, Stage, earned_by, settle, stage_of
from .steps import ReasoningStep, TaskAction, ToolInvocation
from .tasks import TaskInput, TaskOutput
from .transcript import read_steps, tell
from .wording import LESSONS, Lesson, in_case, in_order, sentence_of, shown_text

__all__ = [
    "BAD",
    "DATA_MODEL",
    "GOOD",
    "LATE",
    "LESSONS",
    "MASK",
    "OTHER",
    "SECTIONS",
    "STAGES",
    "VISIBLE",
    "Evidence",
    "Feedback",
    "Fingerprints",
    "Kind",
    "Lesson",
    "Mend",
    "Outcome",
    "PlaybookBullet",
    "Provenance",
    "ReasoningStep",
    "Ruling",
    "Section",
    "Signal",
    "Stage",
    "Tally",
    "TaskAction",
    "TaskInput",
    "TaskOutput",
    "ToolCallingStrategy",
    "ToolInvocation",
    "Watch",
    "case_of",
    "changed_tools",
    "check_domain",
    "collapse",
    "count_of",
    "deciding",
    "earned_by",
    "fingerprint_of",
    "fingerprints_of",
    "fits",
    "form_of",
    "hashed_name",
    "in_case",
    "in_order",
    "is_followed",
    "is_found_late",
    "is_number",
    "is_said",
    "marks_of",
    "mask",
    "mends",
    "on_side",
    "one_line",
    "read_steps",
    "sentence_of",
    "settle",
    "shown_text",
    "stage_of",
    "tell",
    "with_case",
    "word_of",
]
