"""Stores of journals' logs under kill -9, many processes, many threads, and forks."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.store.entry_writer import PROGRAM, made, opened, write_round
from tests.store.test_entries import drop_tables
from tests.warm import python
from wesichain.store import Entry, Logs, Query


async def check(logs: Logs, acknowledged: dict[str, int], *, is_complete: bool) -> None:
    """What was acknowledged is there, and of each append everything or nothing."""
    found = await logs.read("shared")
    names = [entry.name for entry in found]
    assert [entry.seq for entry in found] == [*range(1, len(found) + 1)]
    assert [f"{name}+" for name in names[::2]] == names[1::2], "an append was parted"
    assert await logs.charged("rounds", "month") == len(names) / 2
    for writer, last in acknowledged.items():
        rounds = [int(name.split()[1]) for name in names[::2] if name.startswith(f"{writer} ")]
        assert rounds == [*range(len(rounds))]
        assert last + 1 <= len(rounds) <= last + (1 if is_complete else 2)
        own = [entry.name for entry in await logs.read(f"own {writer}")]
        assert own == [str(number) for number in range(len(own))]
        assert 3 * (last + 1) <= len(own) <= 3 * len(rounds)
        for number in range(len(rounds) + 1):
            name = f"{writer} {number}"
            assert await logs.holder(name) == (("shared", f"{name}+") if number < len(rounds) else None)
    listed = {info.name: info.seq for info in await logs.list(Query())}
    assert listed["shared"] == len(names)


def start(kind: str, place: str, writer: str, count: int) -> subprocess.Popen[str]:
    command = [*python(), "-c", PROGRAM, kind, place, writer, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed(process: subprocess.Popen[str], *, after_rounds: int, delay: float) -> int:
    """Kill a writer so many seconds after a round; return the last round that it has acknowledged."""
    out: Any = process.stdout
    last = -1
    for _ in range(after_rounds):
        last = int(out.readline())
    threading.Event().wait(delay)
    process.kill()
    last = int((out.read().split() or [last])[-1])
    process.communicate(timeout=60)
    return last


@pytest.mark.parametrize("kind", ["folder", "sqlite"])
def test_kill_9_takes_nothing_that_was_acknowledged_and_no_part_of_an_append(
    kind: str, tmp_path: Path
) -> None:
    chance = random.Random()
    acknowledged: dict[str, int] = {}
    for generation in range(4):
        writers = [f"w{generation}.{number}" for number in range(2)]
        running = [start(kind, str(tmp_path), writer, 100_000) for writer in writers]
        for writer, process in zip(writers, running, strict=True):
            delay = chance.random() * 0.02
            acknowledged[writer] = killed(process, after_rounds=chance.randrange(1, 4), delay=delay)

        async def look() -> None:
            logs = made(kind, tmp_path)
            await check(logs, acknowledged, is_complete=False)
            await logs.close()

        asyncio.run(look())


@pytest.mark.parametrize("kind", ["folder", "sqlite", "postgres"])
def test_processes_that_write_the_same_log_lose_nothing(kind: str, tmp_path: Path, postgres: str) -> None:
    drop_tables(postgres)
    place = postgres if kind == "postgres" else str(tmp_path)
    writers = [f"w{number}" for number in range(3)]
    running = [start(kind, place, writer, 12) for writer in writers]
    assert [process.communicate(timeout=120)[1] for process in running] == [""] * 3

    async def look() -> None:
        logs = opened(kind, place)
        await check(logs, dict.fromkeys(writers, 11), is_complete=True)
        await logs.close()

    asyncio.run(look())


@pytest.mark.parametrize("kind", ["folder", "sqlite", "postgres"])
def test_fifty_threads_share_a_store(kind: str, tmp_path: Path, postgres: str) -> None:
    drop_tables(postgres)
    logs = opened(kind, postgres if kind == "postgres" else str(tmp_path))
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            asyncio.run(write_round(logs, f"w{number}", 0))
        except BaseException as error:  # reported by the waiting thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "a call did not return"
    assert failures == []

    async def look() -> None:
        await check(logs, {f"w{number}": 0 for number in range(50)}, is_complete=True)
        await logs.close()

    asyncio.run(look())


@pytest.mark.parametrize("kind", ["folder", "sqlite", "postgres"])
def test_a_forked_child_writes_for_itself(kind: str, tmp_path: Path, postgres: str) -> None:
    drop_tables(postgres)
    place = postgres if kind == "postgres" else str(tmp_path)
    logs = opened(kind, place)
    asyncio.run(write_round(logs, "w", 0))
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(write_round(logs, "w", 1))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    async def look() -> None:
        await write_round(logs, "w", 2)
        await check(logs, {"w": 2}, is_complete=True)
        await logs.close()

    asyncio.run(look())


@pytest.mark.parametrize("kind", ["folder", "sqlite", "postgres"])
async def test_dropping_a_store_ends_its_threads(kind: str, tmp_path: Path, postgres: str) -> None:
    drop_tables(postgres)
    before = {*threading.enumerate()}
    for _ in range(3):
        logs = opened(kind, postgres if kind == "postgres" else str(tmp_path))
        await logs.append("t", [Entry(1, "a", "", 1.0)], after=0)
        await logs.read("t")
        del logs
        await asyncio.to_thread(_join, before)
        await opened(kind, postgres if kind == "postgres" else str(tmp_path)).delete("t")


def _join(before: set[threading.Thread]) -> None:
    for thread in threading.enumerate():
        if thread not in before and thread.name.startswith("wesichain-"):
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.parametrize("kind", ["folder", "sqlite", "postgres"])
async def test_an_append_that_is_cancelled_is_made(kind: str, tmp_path: Path, postgres: str) -> None:
    drop_tables(postgres)
    logs = opened(kind, postgres if kind == "postgres" else str(tmp_path))
    await logs.append("t", [Entry(1, "a", "", 1.0)], after=0)
    tasks = [
        asyncio.ensure_future(logs.append(name, [Entry(seq, "b", "", 1.0)], after=seq - 1))
        for name, seq in (("t", 2), ("u", 1))
    ]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    assert [type(found) for found in await asyncio.gather(*tasks, return_exceptions=True)] == [
        asyncio.CancelledError
    ] * 2
    await logs.append("v", [Entry(1, "c", "", 1.0)], after=0)
    while not await logs.read("u") or len(await logs.read("t")) < 2:
        await asyncio.sleep(0)
    await logs.close()
