"""Evaluations: run cases with an agent, score each run, and compare two versions."""

from .cases import Case, case_of, read_cases
from .comparison import Comparison, compare
from .evaluation import evaluate
from .improvement import Improvement, improve, improve_sync
from .results import Report, Result, read_results
from .scores import Check, Judge, Judgement, Score

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
