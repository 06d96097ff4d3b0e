"""Running: what keeps a tool within its time: a drive for coroutines, threads."""

from .drive import GRACE, Drive, OutOfTimeError, Steps
from .threads import in_thread

__all__ = ["GRACE", "Drive", "OutOfTimeError", "Steps", "in_thread"]
