"""Who writes: the name of this process in a log."""

from __future__ import annotations

import os
from secrets import token_hex


class _Process:
    """The name of this process, made when it is needed first; a forked child has another."""

    def __init__(self) -> None:
        self._pid = 0
        self._name = ""

    def name(self) -> str:
        pid = os.getpid()
        if pid != self._pid:
            self._pid, self._name = pid, f"{pid}-{token_hex(6)}"
        return self._name


_process = _Process()


def writer_id() -> str:
    """The name of this process, unlike that of any other on any machine."""
    return _process.name()
