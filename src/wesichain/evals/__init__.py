"""Evaluations: run cases with an agent, score each run, and compare two versions."""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr

from .cases import Case, case_of, read_cases
from .comparison import Comparison, compare
from .evaluation import evaluate
from .results import Report, Result, read_results
from .scores import Check, Judge, Score

if TYPE_CHECKING:
    from .improvement import Improvement, improve, improve_sync
else:
    __getattr__ = lazy_getattr(
        __name__,
        {".improvement": ("Improvement", "improve", "improve_sync")},
        moved_to=("wesichain.evals.internal",),
    )

__all__ = [
    "Case",
    "Check",
    "Comparison",
    "Improvement",
    "Judge",
    "Report",
    "Result",
    "Score",
    "case_of",
    "compare",
    "evaluate",
    "improve",
    "improve_sync",
    "read_cases",
    "read_results",
]
