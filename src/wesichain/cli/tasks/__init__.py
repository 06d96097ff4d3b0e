"""Files of tasks through an agent: batches, and evaluations."""

from .batch import run_batch
from .evaluating import eval_

__all__ = ["eval_", "run_batch"]
