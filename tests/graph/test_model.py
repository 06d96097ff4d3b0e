"""The engine compared with a plain interpreter: random programs with questions, crashes, forks, branches and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from tests.draws import sampled
from tests.graph.behaviours import behaviour
from tests.graph.processes import CONFLICT, Job, Leg, Mortal, Stop, Workers, opened, run_leg, workers
from tests.graph.programs import Machine, random_program
from tests.graph.reference import Conflict, Interpreter, answer_to
from wesichain.errors import CheckpointError
from wesichain.graph import Checkpointer, Graph, MemoryCheckpointer, compact
from wesichain.graph.postgres import PostgresCheckpointer
from wesichain.graph.sqlite import SqliteCheckpointer


class Trial:
    """One program, run by the engine with random interruptions.

    With `workers`, each leg of a run, from one stop to the next, runs in another process.
    """

    def __init__(
        self, seed: int, store: Checkpointer, place: str = "", workers: Workers | None = None
    ) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.program = random_program(self.chance)
        self.machine = Machine(self.program)
        self.store = store
        self.place = place
        self.workers = workers
        self.is_cut = self.chance.random() < 0.4
        self.name = f"trial {seed}"
        self.graph: Graph[Any] | None = None  # for the lifetime of this process

    def expected(self) -> tuple[Any, Interpreter]:
        interpreter = Interpreter()
        try:
            ended = interpreter.run(self.program, {"log": ["in"]})
        except Conflict:
            return CONFLICT, interpreter
        return {name: value for name, value in ended.items() if name != "era"}, interpreter

    async def run(self) -> Any:
        """Run to the end, with random interruptions; return the result."""
        stop = await self._take(Leg(self.name, is_new=True))
        for _ in range(2000):
            if stop.is_cut:
                self.graph = None
                is_new = not await self.store.read(self.name)
                stop = await self._take(Leg(self.name, is_new=is_new))
            elif stop.asked is not None:
                await self._read_by_another()
                if self.chance.random() < 0.15:
                    await compact(self.store, self.name)
                if self.chance.random() < 0.5:
                    self.graph = None
                stop = await self._take(Leg(self.name, answers=await self._answers(stop)))
            else:
                return stop.state
        raise AssertionError("the run does not come to an end")

    async def _take(self, leg: Leg) -> Stop:
        """Run a leg in the last or a new process, perhaps with a later version, perhaps with a crash."""
        if self.graph is None or self.workers is not None:
            if self.chance.random() < 0.25:
                self.machine.deploy(self.chance)
            if self.is_cut and self.chance.random() < 0.8:
                lives, after = self.chance.randint(1, 12), self.chance.random() < 0.5
                leg = replace(leg, lives=lives, dies_after=after)
            mortal = Mortal(self.store)
            mortal.live(leg.lives, after=leg.dies_after)
            self.graph = self.machine.build(mortal)
        return await (run_leg(self.graph, leg) if self.workers is None else self._take_elsewhere(leg))

    async def _take_elsewhere(self, leg: Leg) -> Stop:
        assert self.workers is not None
        entries = () if self.place else await self.store.read(self.name, since=1)
        job = Job(self.seed, self.machine.versions, self.place, leg, entries)
        report = await self.workers.run(job)
        self.machine.visits += report.visits
        if not self.place:
            await self.store.delete(self.name)
            if report.entries:
                await self.store.append(self.name, report.entries, after=0)
        return report.stop

    async def _read_by_another(self) -> None:
        """A program that lacks nodes and joins can read the thread; if it cannot resume it, it changes nothing."""
        store = self.store
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

    async def _answers(self, stop: Stop) -> dict[str, Any]:
        """Answers to some of the questions, or to none."""
        saved = await self.machine.build(self.store).get_state(self.name)
        assert stop.asked is not None
        assert {one.id for one in saved.interrupts} == {known for known, _ in stop.asked}
        asked = [one for one in stop.asked if self.chance.random() < 0.7]
        return {known: answer_to(value) for known, value in asked}

    async def elsewhere(self) -> Any:
        """Run a fork or a branch from a random checkpoint to its end; return the result."""
        self.is_cut, self.graph = False, None
        here = self.machine.build(self.store)
        moment = self.chance.choice(await here.history(self.name)).checkpoint_id
        leg = Leg(self.name, moment=moment)
        if self.chance.random() < 0.5:
            self.name = await here.fork(self.name, moment)
            leg = Leg(self.name)
        stop = await self._take(leg)
        for _ in range(2000):
            if stop.asked is None:
                return stop.state
            stop = await self._take(Leg(self.name, answers=await self._answers(stop)))
        raise AssertionError("the branch does not come to an end")


async def trial(seed: int, store: Checkpointer, place: str = "", workers: Workers | None = None) -> None:
    one = Trial(seed, store, place, workers)
    expected, interpreter = one.expected()
    found = await one.run()
    assert found == expected, f"seed {seed}"
    if not one.is_cut and expected != CONFLICT:
        assert one.machine.visits == interpreter.visits, f"seed {seed}: something ran twice, or not at all"
    assert await one.elsewhere() == expected, f"seed {seed}, elsewhere"


async def _trials(seeds: Sequence[int], store: Checkpointer) -> None:
    for seed in seeds:
        await trial(seed, store)


async def in_processes(seeds: Sequence[int], place: str, workers: Workers) -> None:
    """Trials whose legs take turns in other processes, two trials at a time."""
    async with opened(place) as store:
        ahead = iter(seeds)

        async def some() -> None:
            for seed in ahead:
                await trial(seed, store, place, workers)

        await asyncio.gather(some(), some())


@pytest.mark.sampled
@behaviour(
    "G01",
    "G03",
    "G88",
    "G21",
    "G22",
    "G23",
    "G24",
    "G25",
    "G29",
    "G30",
    "G34",
    "G37",
    "G63",
    "G65",
    "G66",
    "G67",
)
def test_the_engine_does_what_the_interpreter_does() -> None:
    asyncio.run(_trials(sampled(range(60), 14), MemoryCheckpointer()))


@pytest.mark.sampled
def test_the_same_on_sqlite(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "t.db")
    asyncio.run(_trials(sampled(range(1000, 1010), 2), store))
    store.close()


def forget(url: str) -> None:
    with psycopg.connect(url) as db:
        db.execute("DROP TABLE IF EXISTS wesichain_entries, wesichain_threads, wesichain_schema CASCADE")


@pytest.mark.sampled
def test_the_same_on_postgres(postgres: str) -> None:
    forget(postgres)

    async def main() -> None:
        store = PostgresCheckpointer(postgres)
        await _trials(sampled(range(2000, 2006), 1), store)
        await store.close()

    asyncio.run(main())


@pytest.mark.sampled
def test_every_stop_goes_on_in_another_process(postgres: str, tmp_path: Path) -> None:
    forget(postgres)
    with workers() as others:
        asyncio.run(in_processes(sampled(range(3000, 3006), 2), "", others))
        asyncio.run(in_processes(sampled(range(4000, 4006), 2), str(tmp_path / "t.db"), others))
        asyncio.run(in_processes(sampled(range(5000, 5004), 1), postgres, others))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_five_thousand_programs_in_other_processes(block: int, tmp_path: Path) -> None:
    """4,000 in memory, 1,000 on SQLite."""
    with workers() as others:
        asyncio.run(in_processes(range(100_000 + block * 200, 100_200 + block * 200), "", others))
        place = str(tmp_path / "t.db")
        asyncio.run(in_processes(range(150_000 + block * 50, 150_050 + block * 50), place, others))


@pytest.mark.slow
def test_three_hundred_programs_in_other_processes_on_postgres(postgres: str) -> None:
    forget(postgres)
    with workers() as others:
        asyncio.run(in_processes(range(170_000, 170_300), postgres, others))
