"""Running: what keeps a tool within its time: a drive for coroutines, threads."""

from .drive import GRACE, CallDrive, OutOfTimeError, Steps, settled
from .threads import in_thread

__all__ = ["GRACE", "CallDrive", "OutOfTimeError", "Steps", "in_thread", "settled"]
