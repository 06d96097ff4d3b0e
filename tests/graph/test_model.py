"""The engine against a plain interpreter: random programs, asked, cut, forked, taken back, and made anew."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from typing_extensions import override

from tests.graph.programs import Machine, random_program
from tests.graph.reference import Conflict, Interpreter, answer_to
from wesichain.errors import CheckpointError, ConflictingUpdateError, GraphInterruptedError
from wesichain.graph import Checkpointer, Entry, ExecutionOptions, MemoryCheckpointer, ThreadInfo, compact
from wesichain.graph.postgres import PostgresCheckpointer
from wesichain.graph.sqlite import SqliteCheckpointer

CONFLICT = "two tasks wrote what only one may"


class Cut(BaseException):
    """The process is gone."""


class Mortal(Checkpointer):
    """A store that takes so many writes and then cuts the run, before the write or just after it."""

    def __init__(self, store: Checkpointer) -> None:
        self.store = store
        self.is_dead = False
        self.live(-1)

    @override
    async def append(
        self, thread_id: str, entries: Sequence[Entry], *, after: int, settles: str | None = None
    ) -> None:
        self.lives -= 1
        if self.is_dead or (self.lives == 0 and not self.after):
            self.is_dead = True
            raise Cut
        await self.store.append(thread_id, entries, after=after, settles=settles)
        if self.lives == 0:
            self.is_dead = True
            raise Cut

    def live(self, lives: int, *, after: bool = False) -> None:
        """Take so many writes from now on; -1 for any number."""
        self.lives, self.after, self.is_dead = lives, after, False

    @override
    async def read(self, thread_id: str, *, since: int | None = None) -> Sequence[Entry]:
        return await self.store.read(thread_id, since=since)

    @override
    async def delete(self, thread_id: str, *, before: int | None = None) -> None:
        await self.store.delete(thread_id, before=before)

    @override
    async def threads(self) -> Sequence[ThreadInfo]:
        return await self.store.threads()


class Trial:
    """One program, run by the engine with everything that can come in between."""

    def __init__(self, seed: int, store: Checkpointer) -> None:
        self.chance = Random(seed)
        self.program = random_program(self.chance)
        self.machine = Machine(self.program)
        self.store = Mortal(store)
        self.is_cut = self.chance.random() < 0.4
        self.name = f"trial {seed}"

    def expected(self) -> tuple[Any, Interpreter]:
        interpreter = Interpreter()
        try:
            return _shown(interpreter.run(self.program, {"log": ["in"]})), interpreter
        except Conflict:
            return CONFLICT, interpreter

    async def run(self) -> Any:
        """The end that the engine comes to, whatever happens on the way."""
        graph = self._graph()
        going: Any = graph.invoke({"log": ["in"]}, ExecutionOptions(thread_id=self.name))
        for _ in range(2000):
            try:
                return _shown(await going)
            except ConflictingUpdateError:
                return CONFLICT
            except Cut:
                self.store.live(-1)
                graph = self._graph()
                going = self._go_on(graph, {}, is_new=not await self.store.read(self.name))
            except GraphInterruptedError as stop:
                await self._read_by_another()
                if self.chance.random() < 0.15:
                    await compact(self.store.store, self.name)
                if self.chance.random() < 0.5:
                    graph = self._graph()
                going = self._go_on(graph, await self._answers(graph, stop))
        raise AssertionError("the run does not come to an end")

    async def _read_by_another(self) -> None:
        """A program that lacks nodes and joins reads the thread; it may not go on, and changes nothing then."""
        store = self.store.store
        other, mine = self.machine.without(self.chance, store), self.machine.build(store)
        before = await store.read(self.name, since=1)
        state, own = await other.get_state(self.name), await mine.get_state(self.name)
        assert [one.id for one in state.interrupts] == [one.id for one in own.interrupts]
        if not self.machine.deployed:
            assert (state.values, state.next) == (own.values, own.next)
        assert len(await other.history(self.name)) == len(await mine.history(self.name))
        gone = [name for name in own.next if name not in other.definition.nodes]
        if gone:
            with pytest.raises(CheckpointError):
                await other.resume(self.name)
        assert await store.read(self.name, since=1) == before

    def _graph(self) -> Any:
        """The program in a new process, perhaps of a later version, perhaps to be cut again."""
        if self.chance.random() < 0.25:
            self.machine.deploy(self.chance)
        if self.is_cut and self.chance.random() < 0.8:
            self.store.live(self.chance.randint(1, 12), after=self.chance.random() < 0.5)
        return self.machine.build(self.store)

    def _go_on(self, graph: Any, answers: dict[str, Any], *, is_new: bool = False) -> Any:
        if is_new:
            return graph.invoke({"log": ["in"]}, ExecutionOptions(thread_id=self.name))
        return graph.resume(self.name, answers) if answers else graph.resume(self.name)

    async def _answers(self, graph: Any, stop: GraphInterruptedError) -> dict[str, Any]:
        """The answers to some of the questions, or to none."""
        saved = await graph.get_state(self.name)
        assert {one.id for one in saved.interrupts} == {one.id for one in stop.interrupts}
        asked = [one for one in stop.interrupts if self.chance.random() < 0.7]
        return {one.id: answer_to(one.value) for one in asked}

    async def elsewhere(self) -> Any:
        """The end that a fork or a branch from somewhere in the thread's history comes to."""
        self.store.live(-1)
        self.is_cut = False
        graph = self._graph()
        history = await graph.history(self.name)
        moment = self.chance.choice(history)
        if self.chance.random() < 0.5:
            self.name = await graph.fork(self.name, moment.checkpoint_id)
            going = graph.resume(self.name)
        else:
            going = graph.resume(self.name, checkpoint_id=moment.checkpoint_id)
        for _ in range(2000):
            try:
                return _shown(await going)
            except ConflictingUpdateError:
                return CONFLICT
            except GraphInterruptedError as stop:
                going = self._go_on(graph, await self._answers(graph, stop))
        raise AssertionError("the branch does not come to an end")


def _shown(state: Any) -> Any:
    """A state as it is compared: without what only one version has."""
    return {name: value for name, value in state.items() if name != "era"}


async def trial(seed: int, store: Checkpointer) -> None:
    one = Trial(seed, store)
    expected, interpreter = one.expected()
    found = await one.run()
    assert found == expected, f"seed {seed}"
    if not one.is_cut and expected != CONFLICT:
        assert one.machine.visits == interpreter.visits, f"seed {seed}: something ran twice, or not at all"
    assert await one.elsewhere() == expected, f"seed {seed}, elsewhere"


async def _trials(seeds: range, store: Checkpointer) -> None:
    for seed in seeds:
        await trial(seed, store)


def test_the_engine_does_what_the_interpreter_does() -> None:
    asyncio.run(_trials(range(150), MemoryCheckpointer()))


def test_the_same_on_sqlite(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "t.db")
    asyncio.run(_trials(range(1000, 1025), store))
    store.close()


def forget(url: str) -> None:
    with psycopg.connect(url) as db:
        db.execute("DROP TABLE IF EXISTS wesichain_entries, wesichain_threads, wesichain_schema CASCADE")


def test_the_same_on_postgres(postgres: str) -> None:
    forget(postgres)

    async def main() -> None:
        store = PostgresCheckpointer(postgres)
        await _trials(range(2000, 2010), store)
        await store.close()

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_ten_thousand_programs(block: int, tmp_path: Path) -> None:
    """9,000 in memory, 1,000 on SQLite."""
    asyncio.run(_trials(range(10_000 + block * 450, 10_000 + (block + 1) * 450), MemoryCheckpointer()))
    store = SqliteCheckpointer(tmp_path / "t.db")
    asyncio.run(_trials(range(50_000 + block * 50, 50_000 + (block + 1) * 50), store))
    store.close()


@pytest.mark.slow
def test_three_hundred_programs_on_postgres(postgres: str) -> None:
    forget(postgres)

    async def main() -> None:
        store = PostgresCheckpointer(postgres)
        await _trials(range(70_000, 70_300), store)
        await store.close()

    asyncio.run(main())
