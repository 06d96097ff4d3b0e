"""Results: what a run gives, at its end, event by event, or step by step."""

from .result import RunResult, Source, question_of, result_of

__all__ = ["RunResult", "Source", "question_of", "result_of"]
