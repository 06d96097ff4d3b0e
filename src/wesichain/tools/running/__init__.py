"""Running: time limits for coroutines, and threads for blocking functions."""

from .drive import GRACE, CallDrive, OutOfTimeError, Steps, settled
from .threads import in_thread

__all__ = ["GRACE", "CallDrive", "OutOfTimeError", "Steps", "in_thread", "settled"]
