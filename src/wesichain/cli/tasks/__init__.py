"""Files of tasks through an agent: batches, evaluations, and improvements."""

from .batch import run_batch
from .evaluating import eval_
from .improving import improve

__all__ = ["eval_", "improve", "run_batch"]
