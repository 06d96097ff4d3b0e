"""Processes: whatever a child does, it is gone when the call ends, and nothing leaks."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import Strays
from wesichain.tools.running import IS_SUPPORTED, ChildDiedError, in_process

pytestmark = pytest.mark.skipif(not IS_SUPPORTED, reason="this system cannot fork")


def spin() -> bytes:
    while True:
        pass


def sleep() -> bytes:
    time.sleep(3600)
    return b""


async def stopped(work: object, after: float = 0.2) -> None:
    task = asyncio.create_task(in_process(work, limit=100, seconds=60))  # type: ignore[arg-type]
    await asyncio.sleep(after)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def descriptors() -> int:
    return psutil.Process().num_fds()


async def test_the_answer_comes_back() -> None:
    assert await in_process(lambda: b"x" * 90_000, limit=100_000, seconds=60) == b"x" * 90_000
    assert int(await in_process(lambda: str(os.getpid()).encode(), limit=100, seconds=60)) != os.getpid()


@pytest.mark.parametrize("work", [spin, sleep])
async def test_a_cancelled_child_is_gone_at_once(work: object, strays: Strays) -> None:
    await stopped(work)
    assert strays() == []


async def test_grandchildren_go_with_the_child(tmp_path: Path) -> None:
    note = tmp_path / "pid"

    def work() -> bytes:
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        note.write_text(str(process.pid))
        time.sleep(3600)
        return b""

    task = asyncio.create_task(in_process(work, limit=100, seconds=60))
    while not (note.exists() and note.read_text()):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    deadline = time.monotonic() + 10
    while psutil.pid_exists(int(note.read_text())) and time.monotonic() < deadline:
        if psutil.Process(int(note.read_text())).status() == psutil.STATUS_ZOMBIE:
            break  # it is dead; who reaps it is up to the system
        await asyncio.sleep(0.01)
    else:
        assert not psutil.pid_exists(int(note.read_text()))


async def test_a_child_that_dies_says_how() -> None:
    def die() -> bytes:
        faulthandler.disable()  # pytest's would print where; here that is known
        os.kill(os.getpid(), signal.SIGSEGV)
        return b""

    def leave() -> bytes:
        os._exit(7)

    with pytest.raises(ChildDiedError, match="SIGSEGV"):
        await in_process(die, limit=100, seconds=60)
    with pytest.raises(ChildDiedError, match="status 7"):
        await in_process(leave, limit=100, seconds=60)
    with pytest.raises(ChildDiedError, match="status 1"):
        await in_process(lambda: 1 / 0, limit=100, seconds=60)  # type: ignore[arg-type, return-value]


async def test_an_answer_beyond_the_limit_is_not_read() -> None:
    with pytest.raises(ChildDiedError, match="1000000 bytes; at most 100"):
        await in_process(lambda: b"x" * 1_000_000, limit=100, seconds=60)


async def test_a_child_that_closes_its_pipe_and_lives_on_is_killed(strays: Strays) -> None:
    def hide() -> bytes:
        os.closerange(3, 200)
        time.sleep(3600)
        return b""

    with pytest.raises(ChildDiedError, match="SIGKILL"):
        await in_process(hide, limit=100, seconds=60)
    assert strays() == []


async def test_a_call_that_is_cancelled_before_it_forks_never_forks(strays: Strays) -> None:
    task = asyncio.create_task(in_process(spin, limit=100, seconds=60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert strays() == []


async def test_an_orphan_ends_by_its_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wesichain.tools.running.processes._ORPHAN_SECONDS", 0.1)
    with pytest.raises(ChildDiedError, match="SIGALRM"):
        await in_process(spin, limit=100, seconds=0.1)


async def test_nothing_leaks(strays: Strays) -> None:
    await in_process(lambda: b"", limit=100, seconds=60)
    before = descriptors()
    for _ in range(10):
        await in_process(lambda: b"", limit=100, seconds=60)
    await stopped(sleep, after=0.02)
    assert descriptors() == before
    assert strays() == []


async def test_a_child_runs_beside_threads_that_hold_locks() -> None:
    lock, release = threading.Lock(), threading.Event()

    def hold() -> None:
        with lock:
            release.wait(30)

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    try:
        assert await in_process(lambda: b"free", limit=100, seconds=20) == b"free"
    finally:
        release.set()
        holder.join()


async def test_signals_of_the_child_do_not_reach_the_parent_s_loop() -> None:
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, seen.append, "SIGTERM")
    try:

        def work() -> bytes:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
            return b""

        with pytest.raises(ChildDiedError, match="SIGTERM"):
            await in_process(work, limit=100, seconds=60)
        await asyncio.sleep(0.05)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
    assert seen == []


def test_the_interpreter_s_exit_takes_its_children_along(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    program = f"""
import asyncio, os, pathlib, sys, time
from wesichain.tools.running import in_process
def spin():
    pathlib.Path({str(note)!r}).write_text(str(os.getpid()))
    while True: pass
async def main():
    asyncio.ensure_future(in_process(spin, limit=10, seconds=60))
    while not os.path.exists({str(note)!r}): await asyncio.sleep(0.01)
    asyncio.get_running_loop().stop()
loop = asyncio.new_event_loop()
try: loop.run_until_complete(main())
except RuntimeError: pass
"""
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, timeout=50, check=False
    )
    pid = int(note.read_text())
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.02)
