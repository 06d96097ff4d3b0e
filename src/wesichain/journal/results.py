"""The results of runs of other rooms, read from their logs: each room says how its own are read."""

from __future__ import annotations

from typing import Any

from wesichain.errors import ConfigError

from .entries import End
from .exceptions import revived
from .log import JournalLog
from .readers import READERS


def result_in(log: JournalLog) -> Any:
    """The result of a run that has ended. Raises the error of one that has failed."""
    begin, number = log.begin_of(), log.number_of("end")
    assert begin is not None and number is not None, "the run has ended"
    if begin.program_kind != "function":
        read = READERS.get(begin.program_kind)
        if read is None:
            raise ConfigError(
                f"the run {log.run_id!r} is one of the {begin.program_kind} {begin.program!r}: import "
                f"wesichain.{begin.program_kind} to read its result"
            )
        return read(log)
    end: End = log.body(number)
    if end.fault is not None:
        raise revived(end.fault)
    return end.value
