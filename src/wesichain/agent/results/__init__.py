"""Results: what a run gives, at its end, event by event, or step by step."""

from .result import RunResult, Source, question_of, result_of
from .stream import EventQueue, RunSteps, RunStream

__all__ = ["EventQueue", "RunResult", "RunSteps", "RunStream", "Source", "question_of", "result_of"]
