"""The facts about a run that are the same in every phase of it."""

from __future__ import annotations

from typing import ClassVar

from wesichain.core import ModelSettings, Part
from wesichain.core.internal import Spent, Value
from wesichain.journal.internal import JournalLog
from wesichain.policy import Budget


class RunInfo(Value):
    """The facts about a run that are the same in every phase of it.

    `log` is the log of the tree of runs, `place` the place of this run in it, and `since` the number of the
    first record of this leg of the work.
    """

    __aside__: ClassVar[tuple[str, ...]] = ("log", "since")

    run_id: str
    task: str
    state: object  # as passed by the caller; for a task in text, the text
    log: JournalLog
    place: str = ""
    since: int = 0
    first_new: int = 0  # the index of the first message of this run, behind its history
    earlier: int = 0  # model calls of finished runs, counted in the caller's state
    step: int = 0  # the last step before the run, if its state has some
    before: Spent | None = None  # what the caller's state has spent
    parts: tuple[Part, ...] = ()  # the task, if it is more than text
    agent: str = "agent"  # the name of the agent that acts now
    opened_by: str = ""  # the name of the agent that began the run, if it was handed off since
    model: str = ""  # of this run, if it is not the agent's
    settings: ModelSettings | None = None  # of this run; they override those of its agent
    budget: Budget | None = None  # of this run, if it is not the agent's
