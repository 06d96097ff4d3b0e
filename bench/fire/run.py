"""The trial by fire: every contestant under every fault, one process each."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.peers.children import CrashedError, StoppedError, lines_of
from bench.peers.environments import OURS, Contestant, InstallError, child_environ, prepare
from bench.peers.results import Cell

from .faults import FAULTS, GOOD, Fault
from .server import MisbehavingServer

OBSERVING = Contestant("wesichain_observing", OURS.environment)  # ours again, with the forgiving policy


async def trial(contestants: tuple[Contestant, ...], *, cache: Path) -> dict[str, dict[str, Cell]]:
    """How each contestant ended under each fault."""
    table: dict[str, dict[str, Cell]] = {}
    for contestant in (*contestants, OBSERVING) if OURS in contestants else contestants:
        try:
            python = prepare(contestant.environment, cache)
        except InstallError:
            continue  # the page says so where the times stand
        table[contestant.name] = {}
        for fault in FAULTS:
            cell = await endure(contestant, fault, python, environ=child_environ(cache / "home"))
            table[contestant.name][fault.name] = cell
            figures = f"{cell['requests']:4} requests {cell['seconds']:5.1f} s"
            line = f"{contestant.name:16} {fault.name:15} {figures}  {cell['ended']}: {cell['detail']}"
            print(line[:160], file=sys.stderr, flush=True)
    return table


async def endure(contestant: Contestant, fault: Fault, python: Path, *, environ: dict[str, str]) -> Cell:
    async with MisbehavingServer(fault) as server:
        command = ("-m", "bench.fire.worker", contestant.name, server.url, fault.name)
        cell: Cell
        try:
            (line,) = [said async for said in lines_of(python, *command, environ=environ, limit=300)]
            cell = line | {"requests": server.requests}
        except (CrashedError, StoppedError) as error:
            cell = {"ended": "crashed", "detail": str(error), "seconds": 0.0, "requests": server.requests}
        return cell


def verdict(fault: Fault, cell: Cell) -> str:
    """What the cell comes to: "recovered", "visible", "silent" or "running"."""
    match cell["ended"]:
        case "running":
            return "running"
        case "exception" | "status" | "crashed":
            return "visible"
        case _:
            well = cell["detail"].strip() == GOOD and not fault.forever
            return "recovered" if well else "silent"
