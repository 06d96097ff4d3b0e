"""Keeper: a process that has one tool ready, and forks a worker for each call.

A worker has the environment and the limits of its tool, and no file descriptors except the one for its
result. The keeper adopts the orphans of its worker, and kills them before it replies.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any, NoReturn

from wesichain.core.internal import parse_json
from wesichain.platform.forks import (
    ChildEnds,
    ForkedChild,
    adopt_orphans,
    close_descriptors,
    drop_privileges,
    end_after,
    end_all,
    end_on_signals,
    end_with_parent,
    exit_on_termination,
    fork,
    is_out_of_cpu,
    serve_and_exit,
    set_limits,
    start_session,
    thread_count,
    wait_readable,
)
from wesichain.tools.failures import describe

from .frames import ANSWERED, DIED, FAILED, HEADER, KILLED, READY, THREADED, frame, read_frame
from .work import IsolatedWork, rebuild_failure

_EXIT_SECONDS = 0.5  # for a worker to end after it has closed its pipe


def keep(descriptor: int, server: int) -> NoReturn:
    """Run calls of one tool, one at a time, until the program closes its end of the socket."""
    start_session()
    exit_on_termination()
    adopt_orphans()
    end_with_parent(server)
    drop_privileges()
    workers: set[int] = set()
    serve_and_exit(lambda: _serve(descriptor, workers), workers)


def _serve(descriptor: int, workers: set[int]) -> None:
    with socket.socket(fileno=descriptor) as program:
        hello = read_frame(program.recv)
        if hello is None:
            return
        rules: Any = parse_json(hello.decode())
        work = _create_tool(rules, program)
        ends = ChildEnds()
        while (request := read_frame(program.recv)) is not None:
            program.sendall(frame(_call(program, work, request, rules=rules, workers=workers, ends=ends)))


def _create_tool(rules: Any, program: socket.socket) -> IsolatedWork | None:
    """Create the tool before its calls, unless its module starts threads, which a fork does not copy."""
    sys.path[:] = rules["path"]
    os.environ.clear()
    os.environ.update(rules["env"])
    work: IsolatedWork | None = None
    if rules["ready"]:
        end_after(rules["seconds"] + 1)  # if the import hangs; by then the program has stopped waiting
        try:
            work = IsolatedWork(rules["tool"])
        except BaseException as error:  # noqa: BLE001  # an import may raise anything
            program.sendall(frame(FAILED + describe(error).encode()))
            os._exit(0)
        if thread_count() > 1:
            program.sendall(frame(THREADED))
            os._exit(0)
        end_after(0)
        gc.collect()
        gc.freeze()  # a collection in a worker would copy all pages
    program.sendall(frame(READY))
    return work


def _call(
    program: socket.socket,
    work: IsolatedWork | None,
    request: bytes,
    *,
    rules: Any,
    workers: set[int],
    ends: ChildEnds,
) -> bytes:
    keeper = os.getpid()
    readable, writable = os.pipe()
    worker = ForkedChild(fork())
    if worker.pid == 0:
        ends.forget()
        _run_worker(keeper, writable, rules, work, request)
    workers.add(worker.pid)
    os.close(writable)
    try:
        outcome = _receive_result(program, worker, readable, ends=ends, limit=rules["limit"])
    finally:
        os.close(readable)
    code = worker.end(seconds=_EXIT_SECONDS if outcome == DIED else 0.0)
    end_all(workers)
    workers.clear()
    return outcome if outcome != DIED else DIED + how_it_ended(code, rules["limits"]).encode()


def _receive_result(
    program: socket.socket, worker: ForkedChild, readable: int, *, ends: ChildEnds, limit: int
) -> bytes:
    """Return the worker's result, or why there is none: it died, wrote too much, or was killed."""
    received = bytearray()
    has_ended = False  # its descendants may keep the pipe open
    while True:
        waits = 0.0 if has_ended else None
        ready = wait_readable(program.fileno(), readable, ends.fileno(), seconds=waits)
        if program.fileno() in ready:
            if not program.recv(1):
                sys.exit(0)  # the program has ended
            return KILLED
        if readable not in ready:
            if has_ended:
                return DIED
            ends.clear()
            has_ended = worker.has_ended()  # and may have written its result before that
            continue
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


def how_it_ended(code: int, limits: dict[str, int | None]) -> str:
    """Describe the end of a worker with an exit code, which is negative if a signal ended it."""
    if code >= 0:
        return f"its process ended with status {code} before it returned a result"
    if is_out_of_cpu(code):
        return f"it used more than its {limits['cpu_seconds']} s of CPU and was killed"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"its process was killed by {name}"


def _run_worker(
    keeper: int, writable: int, rules: Any, work: IsolatedWork | None, request: bytes
) -> NoReturn:
    status = 1
    try:
        end_on_signals()
        start_session()
        end_with_parent(keeper, at_once=True)
        close_descriptors(keep=writable)
        set_limits(rules["limits"])
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
