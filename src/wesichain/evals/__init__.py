"""Evaluations: cases through an agent, what each run was worth, and whether a new version is better."""

from .cases import Case, case_of, read_cases
from .comparing import Comparison, compare
from .evaluating import evaluate
from .improving import Improvement, improve, improve_sync
from .results import Report, Result, read_results
from .scoring import Check, Judge, Judgement, Score

__all__ = [
    "Case",
    "Check",
    "Comparison",
    "Improvement",
    "Judge",
    "Judgement",
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
