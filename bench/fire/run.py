"""The trial by fire: each contestant with each fault, in a process each."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from bench.peers.children import CrashedError, StoppedError, lines_of
from bench.peers.environments import OURS, YARDSTICK, Contestant, InstallError, child_environ, prepare
from bench.peers.results import Cell

from .faults import BEST, FAULTS, GOOD, MANY, Fault
from .server import MisbehavingServer

OBSERVING = Contestant("wesichain_observing", OURS.environment)  # ours again, with the forgiving policy
AT_ONCE = 6
PATIENCE = 900.0  # seconds for a run that goes on asking, on a machine that is busy


async def trial(contestants: tuple[Contestant, ...], *, cache: Path) -> dict[str, dict[str, Cell]]:
    """How each contestant ended under each fault; a few at a time, since most of it is waiting."""
    contestants = tuple(row for one in contestants for row in rows_of(one))
    table: dict[str, dict[str, Cell]] = {}
    environ = child_environ(cache / "home")
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(contestant: Contestant, fault: Fault, python: Path) -> None:
        async with turns:
            cell = await endure(contestant, fault, python, environ=environ)
        table[contestant.name][fault.name] = cell
        figures = f"{cell['requests']:4} requests {cell['seconds']:5.1f} s"
        line = f"{contestant.name:20} {fault.name:15} {figures}  {cell['ended']}: {cell['detail']}"
        print(line[:160], file=sys.stderr, flush=True)

    jobs: list[tuple[Contestant, Fault, Path]] = []
    for contestant in contestants:
        try:
            python = prepare(contestant.environment, cache)
        except InstallError:
            continue  # the page says so where the times stand
        table[contestant.name] = {}
        jobs += [(contestant, fault, python) for fault in FAULTS]
    jobs.sort(key=lambda job: -job[1].status)  # the longest waits first
    await asyncio.gather(*(one(*job) for job in jobs))
    return table


def rows_of(contestant: Contestant) -> tuple[Contestant, ...]:
    """A row with the usual settings, and one with the best documented ones; the yardstick has one."""
    if contestant == OURS:
        return contestant, OBSERVING
    if contestant == YARDSTICK:
        return (contestant,)
    return contestant, Contestant(f"{contestant.name}{BEST}", contestant.environment)


async def endure(contestant: Contestant, fault: Fault, python: Path, *, environ: dict[str, str]) -> Cell:
    """A run in its own process, which is stopped if it does not end."""
    async with MisbehavingServer(fault) as server:
        command = ("-m", "bench.fire.worker", contestant.name, server.url, fault.name)

        async def attempt() -> Cell:
            (line,) = [said async for said in lines_of(python, *command, environ=environ, limit=PATIENCE)]
            cell: Cell = line
            return cell

        running = asyncio.create_task(attempt())
        while not running.done() and not is_endless(server):
            await asyncio.wait([running], timeout=0.2)
        if not running.done():
            running.cancel()
            await asyncio.wait([running])
            seconds = time.monotonic() - server.began
            return {"ended": "running", "detail": "", "seconds": seconds, "requests": server.requests}
        try:
            return running.result() | {"requests": server.requests}
        except (CrashedError, StoppedError) as error:
            return {"ended": "crashed", "detail": str(error), "seconds": 0.0, "requests": server.requests}


def is_endless(server: MisbehavingServer) -> bool:
    return server.requests >= MANY or time.monotonic() - server.latest > server.fault.silence


def verdict(fault: Fault, cell: Cell) -> str:
    """The verdict of a cell: "recovered", "visible", "words", "silent" or "running"."""
    match cell["ended"]:
        case "running":
            return "running"
        case "exception" | "status" | "crashed":
            return "visible"
        case _:
            said = cell["detail"].strip()
            if said == GOOD:
                return "silent" if fault.forever else "recovered"
            return "words" if said else "silent"
