"""A program that writes rounds of entries to a store until it is killed, and says which it has written."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from wesichain.core.internal import Clock
from wesichain.store import Charge, Claim, Entry, FolderLogs, LogConflictError, Logs, SqliteLogs

PROGRAM = "from tests.store.entry_writer import main; main()"
_BODY = '"' + "z" * 3_000 + '"'


def made(kind: str, folder: Path, clock: Clock | None = None) -> Logs:
    if kind == "folder":
        return FolderLogs(folder / "logs", clock=clock)
    return SqliteLogs(folder / "logs.db", clock=clock, durable=False)


def opened(kind: str, place: str) -> Logs:
    if kind == "postgres":
        from wesichain.store import PostgresLogs

        return PostgresLogs(place)
    return made(kind, Path(place))


async def write_round(logs: Logs, writer: str, number: int) -> None:
    """Append two entries to the shared log, with a claim and a charge; then three to the writer's own."""
    name = f"{writer} {number}"
    found = await logs.read("shared")
    seq = found[-1].seq if found else 0
    while True:
        entries = [
            Entry(seq + 1, name, _BODY, 1.0),
            Entry(seq + 2, f"{name}+", _BODY[: number % 7 * 400], 1.0),
        ]
        try:
            await logs.append(
                "shared",
                entries,
                after=seq,
                claims=[Claim(name, f"{name}+")],
                charges=[Charge("rounds", "month", 1.0)],
            )
            break
        except LogConflictError:
            seq += len(await logs.read("shared", since=seq + 1))
    for own in range(3):
        after = 3 * number + own
        await logs.append(f"own {writer}", [Entry(after + 1, str(after), _BODY, 1.0)], after=after)


async def _write(kind: str, place: str, writer: str, count: str) -> None:
    logs = opened(kind, place)
    for number in range(int(count)):
        await write_round(logs, writer, number)
        print(number, flush=True)
        await asyncio.sleep(0.002)  # a lock is not passed on to who waits for it
    await logs.close()


def main() -> None:
    asyncio.run(_write(*sys.argv[1:]))
