"""Commands that run an agent on the tasks of a file: batches, evaluations, improvements."""

from .batch import run_batch
from .evaluating import eval_
from .improving import improve

__all__ = ["eval_", "improve", "run_batch"]
