"""Keeper: a process that has one tool ready, and forks a worker for each call.

A worker has the environment and the limits of its tool, and no file descriptors except the one for its
result. The keeper adopts the orphans of its worker, and kills them before it replies.
"""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import Any, NoReturn

from wesichain.core.internal import parse_json
from wesichain.tools.failures import describe

from .frames import ANSWERED, DIED, FAILED, HEADER, KILLED, READY, THREADED, frame, read_frame
from .tree import (
    adopt_orphans,
    die_with_parent,
    drop_privileges,
    end_all,
    exit_on,
    serve_and_exit,
    thread_count,
)
from .work import IsolatedWork, rebuild_failure

_EXIT_SECONDS = 0.5  # for a worker to end after it has closed its pipe


def keep(descriptor: int, server: int) -> NoReturn:
    """Run calls of one tool, one at a time, until the program closes its end of the socket."""
    os.setsid()
    exit_on(signal.SIGTERM)
    adopt_orphans()
    die_with_parent(server, signal.SIGTERM)
    confine_workers()
    workers: set[int] = set()
    serve_and_exit(lambda: _serve(descriptor, workers), workers)


def _serve(descriptor: int, workers: set[int]) -> None:
    with socket.socket(fileno=descriptor) as program:
        hello = read_frame(program.recv)
        if hello is None:
            return
        rules: Any = parse_json(hello.decode())
        work = _create_tool(rules, program)
        while (request := read_frame(program.recv)) is not None:
            program.sendall(frame(_call(program, work, request, rules=rules, workers=workers)))


def _create_tool(rules: Any, program: socket.socket) -> IsolatedWork | None:
    """Create the tool before its calls, unless its module starts threads, which a fork does not copy."""
    sys.path[:] = rules["path"]
    os.environ.clear()
    os.environ.update(rules["env"])
    work: IsolatedWork | None = None
    if rules["ready"]:
        # The signal ends this process if the import hangs; by then the program has stopped waiting.
        signal.setitimer(signal.ITIMER_REAL, rules["seconds"] + 1)
        try:
            work = IsolatedWork(rules["tool"])
        except BaseException as error:  # noqa: BLE001  # an import may raise anything
            program.sendall(frame(FAILED + describe(error).encode()))
            os._exit(0)
        if thread_count() > 1:
            program.sendall(frame(THREADED))
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.collect()
        gc.freeze()  # a collection in a worker would copy all pages
    program.sendall(frame(READY))
    return work


def _call(
    program: socket.socket, work: IsolatedWork | None, request: bytes, *, rules: Any, workers: set[int]
) -> bytes:
    keeper = os.getpid()
    readable, writable = os.pipe()
    worker = os.fork()
    if worker == 0:
        _run_worker(keeper, writable, rules, work, request)
    workers.add(worker)
    os.close(writable)
    try:
        outcome = _receive_result(program, worker, readable, limit=rules["limit"])
    finally:
        os.close(readable)
    status = _end(worker, kill_now=outcome != DIED)
    end_all(workers)
    workers.clear()
    return outcome if outcome != DIED else DIED + how_it_ended(status, rules["limits"]).encode()


def _receive_result(program: socket.socket, worker: int, readable: int, *, limit: int) -> bytes:
    """Return the worker's result, or why there is none: it died, wrote too much, or was killed."""
    poll = select.poll()
    poll.register(program, select.POLLIN)
    poll.register(readable, select.POLLIN)
    # Descendants of the worker may keep the pipe open.
    ended = os.pidfd_open(worker) if hasattr(os, "pidfd_open") else -1
    if ended >= 0:
        poll.register(ended, select.POLLIN)
    received = bytearray()
    try:
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if program.fileno() in ready:
                if not program.recv(1):
                    sys.exit(0)  # the program has ended
                return KILLED
            if readable not in ready:
                return DIED
            part = os.read(readable, 1 << 16)
            received += part
            if len(received) >= HEADER:
                size = int.from_bytes(received[:HEADER], "big")
                if size > limit:
                    return DIED + f"its result has {size} bytes; the limit is {limit}".encode()
                if HEADER + size <= len(received):
                    return ANSWERED + received[HEADER : HEADER + size]
            if not part:
                return DIED
    finally:
        if ended >= 0:
            os.close(ended)


def _end(worker: int, *, kill_now: bool) -> int:
    """Wait for the worker or kill it, and return its status. Its descendants are left to `end_all`."""
    for _ in range(0 if kill_now else int(_EXIT_SECONDS / 0.005)):
        pid, status = os.waitpid(worker, os.WNOHANG)
        if pid:
            return status
        select.select([], [], [], 0.005)
    os.kill(worker, signal.SIGKILL)  # its id is valid until it is waited for
    return os.waitpid(worker, 0)[1]


def how_it_ended(status: int, limits: dict[str, int | None]) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"its process ended with status {code} before it returned a result"
    if -code == signal.SIGXCPU:
        return f"it used more than its {limits['cpu_seconds']} s of CPU and was killed"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"its process was killed by {name}"


def _run_worker(
    keeper: int, writable: int, rules: Any, work: IsolatedWork | None, request: bytes
) -> NoReturn:
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.setsid()
        die_with_parent(keeper, signal.SIGKILL)
        confine(writable, rules["limits"])
        data = frame(_run_call(work, rules["tool"], request))
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):
                stream.flush()
        with os.fdopen(writable, "wb") as result:
            result.write(data)
        status = 0
    finally:
        os._exit(status)  # without running code of the keeper or atexit functions


def _run_call(work: IsolatedWork | None, tool: Any, request: bytes) -> bytes:
    try:
        work = work or IsolatedWork(tool)
    except BaseException as error:  # noqa: BLE001  # an import may raise anything
        return rebuild_failure(error)
    return work.answer(request)


_MEGABYTE = 1 << 20
_MAX_DESCRIPTORS = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # it can be lowered, not raised


def confine_workers() -> None:
    """In the keeper, for all of its workers: allow no new privileges and no core files."""
    drop_privileges()
    lower_limit(resource.RLIMIT_CORE, 0)


def confine(result_pipe: int, limits: dict[str, int | None]) -> None:
    """In a worker: close all descriptors except the standard ones and that of the result, and set limits."""
    os.closerange(3, result_pipe)
    os.closerange(result_pipe + 1, _MAX_DESCRIPTORS)
    cpu, memory, files = limits["cpu_seconds"], limits["memory_mb"], limits["file_mb"]
    if cpu is not None:
        lower_limit(resource.RLIMIT_CPU, cpu, extra=1)
    if files is not None:
        lower_limit(resource.RLIMIT_FSIZE, files * _MEGABYTE)
    if memory is not None:
        used = _private_bytes()
        which = resource.RLIMIT_DATA if used is not None else resource.RLIMIT_AS
        lower_limit(which, (used or 0) + memory * _MEGABYTE)


def lower_limit(which: int, value: int, *, extra: int = 0) -> None:
    """Lower a limit, unless it is lower already."""
    hard = resource.getrlimit(which)[1]
    top = value + extra if hard == resource.RLIM_INFINITY else min(value + extra, hard)
    resource.setrlimit(which, (min(value, top), top))


def _private_bytes() -> int | None:
    """Return the bytes that count against RLIMIT_DATA; None if the system does not provide them."""
    with suppress(OSError, ValueError), open("/proc/self/status", "rb") as file:  # noqa: PTH123  # pathlib is not imported here
        for line in file:
            if line.startswith(b"VmData:"):
                return int(line.split()[1]) * 1024
    return None
