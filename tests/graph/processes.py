"""Legs of a run in other processes: a few workers that share nothing but the store."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from random import Random
from threading import Lock
from typing import Any

from typing_extensions import override

from tests.conftest import ROOT
from tests.graph.programs import Machine, random_program
from tests.warm import python
from wesichain.errors import ConflictingUpdateError, GraphInterruptedError
from wesichain.graph import Checkpointer, ExecutionOptions, Graph, MemoryCheckpointer, ThreadEntry, ThreadInfo
from wesichain.graph.postgres import PostgresCheckpointer
from wesichain.graph.sqlite import SqliteCheckpointer

CONFLICT = "two tasks wrote what only one may"


class Cut(BaseException):
    """The process is gone."""


class Mortal(Checkpointer):
    """A store that stops the run at a given write, before or just after it."""

    def __init__(self, store: Checkpointer) -> None:
        self.store = store
        self.is_dead = False
        self.live(-1)

    @override
    async def append(
        self, thread_id: str, entries: Sequence[ThreadEntry], *, after: int, settles: str | None = None
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
        """Accept so many more writes; -1 for any number."""
        self.lives, self.after, self.is_dead = lives, after, False

    @override
    async def read(self, thread_id: str, *, since: int | None = None) -> Sequence[ThreadEntry]:
        return await self.store.read(thread_id, since=since)

    @override
    async def delete(self, thread_id: str, *, before: int | None = None) -> None:
        await self.store.delete(thread_id, before=before)

    @override
    async def threads(self) -> Sequence[ThreadInfo]:
        return await self.store.threads()


# --- a leg -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leg:
    """A part of a run up to its next stop: it starts a run, or resumes one with answers or from a checkpoint."""

    thread: str
    is_new: bool = False
    answers: dict[str, Any] = field(default_factory=dict)
    moment: str | None = None
    lives: int = -1
    dies_after: bool = False


@dataclass(frozen=True)
class Stop:
    """The end of a leg: the state, a conflict, the death of the process, or questions (their ids and values)."""

    state: Any = None
    asked: tuple[tuple[str, Any], ...] | None = None
    is_cut: bool = False


async def run_leg(graph: Graph[Any], leg: Leg) -> Stop:
    try:
        if leg.is_new:
            ended: Any = await graph.invoke({"log": ["in"]}, ExecutionOptions(thread_id=leg.thread))
        elif leg.answers:
            ended = await graph.resume(leg.thread, leg.answers)
        else:
            ended = await graph.resume(leg.thread, checkpoint_id=leg.moment)
    except ConflictingUpdateError:
        return Stop(CONFLICT)
    except Cut:
        return Stop(is_cut=True)
    except GraphInterruptedError as stop:
        return Stop(asked=tuple((one.id, one.value) for one in stop.interrupts))
    return Stop({name: value for name, value in ended.items() if name != "era"})  # one version alone has it


# --- in another process ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """The input of a process: the program's seed, its versions, the store, and the leg.

    `place` is a path or a URL; a store in memory travels as the `entries` of the thread.
    """

    seed: int
    versions: list[dict[str, str] | None]
    place: str
    leg: Leg
    entries: Sequence[ThreadEntry] = ()


@dataclass(frozen=True)
class Report:
    stop: Stop
    visits: Counter[str]
    entries: Sequence[ThreadEntry]


def work(job: Job) -> Report:
    """Run a leg here."""
    return asyncio.run(_work(job))


async def _work(job: Job) -> Report:
    machine = Machine(random_program(Random(job.seed)))
    for renamed in job.versions:
        machine.deploy_version(renamed)
    async with opened(job.place) as store:
        if job.entries:
            await store.append(job.leg.thread, job.entries, after=0)
        mortal = Mortal(store)
        mortal.live(job.leg.lives, after=job.leg.dies_after)
        stop = await run_leg(machine.build(mortal), job.leg)
        entries = () if job.place else await store.read(job.leg.thread, since=1)
    return Report(stop, machine.visits, entries)


@asynccontextmanager
async def opened(place: str) -> AsyncIterator[Checkpointer]:
    """Open the store of a place for the block."""
    if not place:
        yield MemoryCheckpointer()
    elif place.startswith("postgres"):
        postgres = PostgresCheckpointer(place, connections=2)
        yield postgres
        await postgres.close()
    else:
        sqlite = SqliteCheckpointer(place)
        yield sqlite
        sqlite.close()


class Workers:
    """Processes that take turns, so that a thread is always continued by another process."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self._processes = processes
        self._last: dict[str, int] = {}

    async def run(self, job: Job) -> Report:
        turn = (self._last.get(job.leg.thread, 0) + 1) % len(self._processes)
        self._last[job.leg.thread] = turn
        return await self._processes[turn].run(job)


class Process:
    """A process that runs legs in sequence."""

    def __init__(self) -> None:
        command = [*python(), "-c", "from tests.graph.processes import serve; serve()"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lock = Lock()

    async def run(self, job: Job) -> Report:
        return await asyncio.to_thread(self._ask, job)

    def _ask(self, job: Job) -> Report:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            pickle.dump(job, self._process.stdin)
            self._process.stdin.flush()
            report: Report = pickle.load(self._process.stdout)
        return report

    def close(self) -> None:
        self._process.communicate()


def serve() -> None:
    """Run the legs that come over standard input (in the worker process)."""
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)  # of the process that started this one
        except EOFError:
            return
        pickle.dump(work(job), sys.stdout.buffer)
        sys.stdout.buffer.flush()


@contextmanager
def workers(count: int = 2) -> Iterator[Workers]:
    processes = [Process() for _ in range(count)]
    try:
        yield Workers(processes)
    finally:
        for process in processes:
            process.close()
