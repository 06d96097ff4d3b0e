"""Results of runs: at the end, event by event, or step by step."""

from .result import RunResult, Source, question_of, result_of

__all__ = ["RunResult", "Source", "question_of", "result_of"]
