"""`Suspended`: raised through code that waits for something that has not come yet."""

from __future__ import annotations


class Suspended(BaseException):  # not an error
    """The run waits: for a person, a signal or a moment. It continues here when that has come.

    It is no `Exception`, so that `except Exception` around a wait does not catch it.
    """
