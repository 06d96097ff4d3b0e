"""The record of a task: things that must not be done again when the task is, kept over its attempts."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from wesichain.core import JsonValue
from wesichain.graph.checkpoints import ThreadJournal
from wesichain.graph.context import Record
from wesichain.graph.superstep import NodeTask


class TaskRecord(Record):
    """The record of one task: in its thread's log, where there is one, until the super-step is over."""

    __slots__ = ("_journal", "_known", "_once", "_task")

    def __init__(self, journal: ThreadJournal | None, task: NodeTask, known: Mapping[str, JsonValue]) -> None:
        self._journal = journal
        self._task = task
        self._known = dict(known)
        self._once: dict[str, JsonValue] = {}

    @override
    def read(self, name: str) -> JsonValue:
        return self._known.get(name)

    @override
    async def write(self, name: str, data: JsonValue, *, once: str | None = None) -> None:
        if self._journal is not None:
            await self._journal.note_done(self._task, name, data, once)
        elif once is not None:
            self._once[once] = data
        self._known[name] = data

    @override
    def read_once(self, once: str) -> JsonValue:
        return self._once.get(once) if self._journal is None else self._journal.once(once)
