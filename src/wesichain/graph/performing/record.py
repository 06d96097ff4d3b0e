"""What a task has done that must not be done again when the task is: kept from attempt to attempt."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from wesichain.core import JsonValue
from wesichain.graph.checkpoints import Journal
from wesichain.graph.context import Record
from wesichain.graph.superstep import Task


class TaskRecord(Record):
    """The record of one task: in its thread's log, where there is one, until the super-step is over."""

    __slots__ = ("_journal", "_known", "_task")

    def __init__(self, journal: Journal | None, task: Task, known: Mapping[str, JsonValue]) -> None:
        self._journal = journal
        self._task = task
        self._known = dict(known)

    @override
    def read(self, name: str) -> JsonValue:
        return self._known.get(name)

    @override
    async def write(self, name: str, data: JsonValue) -> None:
        if self._journal is not None:
            await self._journal.note_done(self._task, name, data)
        self._known[name] = data
