"""Running: what keeps a tool within its time: a drive for coroutines, threads, processes."""

from .drive import GRACE, Drive, OutOfTimeError
from .processes import IS_SUPPORTED, ChildDiedError, in_process
from .threads import in_thread

__all__ = ["GRACE", "IS_SUPPORTED", "ChildDiedError", "Drive", "OutOfTimeError", "in_process", "in_thread"]
