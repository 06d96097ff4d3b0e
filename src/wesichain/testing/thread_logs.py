"""The contract suite for log stores. Subclass it and implement `make_logs`; pytest runs the tests.

class TestMyLogs(ThreadLogsContract):
    async def make_logs(self):
        return MyLogs(...)
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence

from typing_extensions import override

from wesichain.core.internal import replace
from wesichain.graph import Checkpointer, LogCheckpointer
from wesichain.store import ThreadEntry, ThreadLogs

from .checkpoints import CheckpointerContract, entry, numbers, refused
from .store_contract import law

NAMES = ("", " ", "a'; DROP TABLE entries; --", "%s", "../../etc", "ü😀", "a", "A", "x" * 5000)


class _Threads(LogCheckpointer):
    """Logs as a checkpointer, for the tests of both."""

    def __init__(self, logs: ThreadLogs) -> None:
        super().__init__(logs)
        self.logs = logs


class ThreadLogsContract(CheckpointerContract):
    """The contract of a log store: that of checkpointers, and the behaviour that other clients rely on.

    Conflicts have to raise `CheckpointError`.
    """

    @abstractmethod
    async def make_logs(self) -> ThreadLogs:
        """Return an empty store."""

    async def close(self, logs: ThreadLogs) -> None:  # most stores have no resources
        """Release the resources of a store."""

    @override
    async def make(self) -> Checkpointer:
        return _Threads(await self.make_logs())

    @override
    async def done(self, store: Checkpointer) -> None:
        assert isinstance(store, _Threads)
        await self.close(store.logs)

    @law
    async def test_who_comes_after_whatever_is_there_is_never_refused_and_lost_by_nobody(
        self, store: _Threads
    ) -> None:
        logs = store.logs

        async def write(writer: int) -> None:
            for number in range(6):
                await logs.append("t", _entries(f"{writer}.{number}", f"{writer}.{number}+"), after=None)

        await asyncio.gather(*[write(writer) for writer in range(6)])
        found = await logs.read("t", since=0)
        assert numbers(found) == list(range(1, 73))
        said = [one.body for one in found]
        assert said[1::2] == [f"{body}+" for body in said[::2]], "an append was parted"
        for writer in range(6):
            own = [body for body in said[::2] if body.startswith(f"{writer}.")]
            assert own == [f"{writer}.{number}" for number in range(6)]

    @law
    async def test_numbers_go_on_whoever_gives_them(self, store: _Threads) -> None:
        logs = store.logs
        await logs.append("t", _entries("one"), after=None)
        await logs.append("t", [entry(2, body="two")], after=1)
        await logs.append("t", _entries("three"), after=None)
        assert [(one.seq, one.body) for one in await logs.read("t", since=0)] == [
            (1, "one"),
            (2, "two"),
            (3, "three"),
        ]
        with refused():
            await logs.append("t", [entry(3)], after=2)

    @law
    async def test_a_number_is_used_once_also_after_the_beginning_was_deleted(self, store: _Threads) -> None:
        logs = store.logs
        await logs.append("t", _entries("one", "two", "three"), after=None)
        await logs.delete("t", before=4)
        assert list(await logs.read("t", since=0)) == []
        await logs.append("t", _entries("four"), after=None)
        assert numbers(await logs.read("t", since=0)) == [4]

    @law
    async def test_the_newest_come_with_every_older_one_that_has_an_owner(self, store: _Threads) -> None:
        logs = store.logs
        for number in range(1, 10):
            await logs.append(
                "t",
                [replace(one, owner="rule" if number in (1, 4) else "") for one in _entries(str(number))],
                after=None,
            )
        for newest, expected in ((1, [1, 4, 9]), (3, [1, 4, 7, 8, 9]), (6, [1, *range(4, 10)])):
            assert numbers(await logs.read("t", newest=newest)) == expected
        for newest in (9, 10, 1000):
            assert numbers(await logs.read("t", newest=newest)) == list(range(1, 10))
        assert list(await logs.read("nobody", newest=3)) == []

    @law
    async def test_what_was_added_to_last_is_listed_first_whatever_the_clocks_say(
        self, store: _Threads
    ) -> None:
        logs = store.logs
        for name, at in (("a", 5e9), ("b", 5e9), ("c", 1.0), ("a", 2.0), ("d", 0.0), ("b", 5e9)):
            await logs.append(name, _entries("x", at=at), after=None)
        assert [log.name for log in await logs.names()] == ["b", "d", "a", "c"]
        assert [one.at for one in await logs.read("a", since=0)] == [5e9, 2.0], "an entry keeps its time"

    @law
    async def test_logs_of_any_names_do_not_mix(self, store: _Threads) -> None:
        logs = store.logs
        for name in NAMES:
            await logs.append(name, _entries(name), after=None)
        for name in NAMES:
            assert [one.body for one in await logs.read(name, since=0)] == [name]
        assert [log.name for log in await logs.names()] == [*reversed(NAMES)]


def _entries(*bodies: str, at: float = 1.0) -> Sequence[ThreadEntry]:
    return [ThreadEntry(0, "", 0, at, body) for body in bodies]
