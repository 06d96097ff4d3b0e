"""Keeper: has one tool ready, forks a worker for each call, and sees that nothing is left of it.

A worker sees the environment that the keeper was given, no descriptor but its answer's, and the limits of
its call. The keeper adopts whatever its worker leaves behind, and kills it before it answers.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn, Protocol

from .forking import fork
from .frames import ANSWERED, DIED, HEADER, KILLED, READY, THREADED, UNMADE, frame, read_frame
from .limits import confine, confine_all
from .plain import PlainWork, describe, read, unmade, write
from .tree import adopt_orphans, die_with_parent, end_all, leave_on, thread_count

_LAST_BREATH = 0.5  # seconds from closing its pipe to a worker's end
_QUICK = 50  # milliseconds in which most answers are there; what the keeper touches meanwhile is copied
# Plain numbers and the plain function: what `signal` does for its enums would be copied by every worker.
_reset: Callable[[int, int], object] = import_module("_signal").signal
_DEFAULT = int(signal.SIG_DFL)
_TERM, _INT, _KILL = int(signal.SIGTERM), int(signal.SIGINT), int(signal.SIGKILL)
_LITTLE, _MUCH = 448, 1 << 16  # bytes to read: most answers are short, and a short text is kept among others
_POLLIN = int(select.POLLIN)
_STANDARD = (sys.stdout, sys.stderr)


class KeptWork(Protocol):
    """One tool, ready to be called: the keeper makes a call of a request, the worker runs it."""

    def warm_up(self) -> None: ...
    def prepare(self, request: dict[str, Any]) -> Any: ...
    def run(self, call: Any) -> bytes: ...


def keep(descriptor: int, server: int) -> NoReturn:
    """Serve calls of one tool, one at a time, until the program closes its end of the socket."""
    os.setsid()
    leave_on(signal.SIGTERM)
    adopt_orphans()
    die_with_parent(server, signal.SIGTERM)
    confine_all()
    workers: set[int] = set()
    try:
        try:
            with socket.socket(fileno=descriptor) as program:
                hello = read_frame(program.recv)
                rules: Any = read(hello) if hello else None
                work = _prepare(rules, program) if hello else None
                poll = select.poll()
                poll.register(descriptor, select.POLLIN)
                while (request := read_frame(program.recv)) is not None:
                    answer = _call(program, poll, work, read(request), rules=rules, workers=workers)
                    program.sendall(frame(answer))
        finally:
            end_all(workers)
    finally:  # the signal raises once, wherever we are: the second time nothing keeps us from it
        end_all(workers)
        os._exit(0)


def _prepare(hello: Any, program: socket.socket) -> KeptWork | None:
    """Make the tool before its calls, unless it starts threads, which no fork copies."""
    sys.path[:] = hello["path"]
    os.environ.clear()
    os.environ.update(hello["env"])
    with suppress(OSError):
        os.chdir(hello["cwd"])
    if not hello["ready"]:
        program.sendall(frame(READY))
        return None
    try:
        work = _made(hello["recipe"])
    except BaseException as error:  # noqa: BLE001  # a module that is loaded may raise anything
        program.sendall(frame(UNMADE + describe(error).encode()))
        os._exit(0)
    if thread_count() > 1:
        program.sendall(frame(THREADED))
        os._exit(0)
    work.warm_up()
    gc.collect()
    gc.freeze()  # a collection in a worker would touch, and so copy, all there is
    program.sendall(frame(READY))
    return work


def _made(recipe: Any) -> KeptWork:
    return PlainWork(recipe, _answer_oddly) if recipe["is_plain"] else _whole(recipe)


def _whole(recipe: Any) -> KeptWork:
    from .work import IsolatedWork  # it loads types and all

    return IsolatedWork(recipe)


def _answer_oddly(recipe: Any, value: Any) -> bytes:
    """In the worker: the answer of a tool that was to return JSON, and has returned something else."""
    try:
        work = _whole(recipe)
    except BaseException as error:  # noqa: BLE001  # a type that is made may raise anything
        return write(unmade(error))
    return work.run(lambda: value)


def _call(
    program: socket.socket,
    poll: select.poll,
    work: KeptWork | None,
    request: Any,
    *,
    rules: Any,
    workers: set[int],
) -> bytes:
    keeper = os.getpid()
    run = work.run if work else _made_late
    call = work.prepare(request) if work else {**request, "recipe": rules["recipe"]}
    try:  # noqa: SIM105  # an object less to make, and to copy memory for
        os.chdir(request["cwd"])
    except OSError:
        pass
    readable, writable = os.pipe()
    poll.register(readable, _POLLIN)
    worker = fork()
    if worker == 0:
        _be_the_worker(keeper, writable, rules["limits"], run, call)
    first = poll.poll(_QUICK)
    workers.add(worker)
    os.close(writable)
    try:
        answer, verdict = _listen(program, poll, worker, readable, first, limit=rules["limit"])
    finally:
        poll.unregister(readable)
        os.close(readable)
    status = _end(worker, hurry=bool(answer) or verdict != DIED)
    end_all(workers)
    workers.clear()
    if answer is not None:
        return ANSWERED + answer
    if verdict == DIED:
        return DIED + _how_it_ended(status, rules["limits"]).encode()
    return verdict


def _listen(
    program: socket.socket,
    poll: select.poll,
    worker: int,
    readable: int,
    found: list[tuple[int, int]],
    *,
    limit: int,
) -> tuple[bytes | None, bytes]:
    """The worker's answer; or why there is none: it died, it said too much, the program wants it ended."""
    ended = -1
    said = bytearray()
    descriptor = program.fileno()
    try:
        while True:
            if not found and ended < 0 and hasattr(os, "pidfd_open"):  # one that takes long may die silently
                ended = os.pidfd_open(worker)
                poll.register(ended, _POLLIN)
            ready: list[int] = []
            for each, _ in found or poll.poll():
                ready.append(each)  # a comprehension is a function to make, and to copy
            if descriptor in ready:
                if not program.recv(1):
                    sys.exit(0)  # the program is gone; what is here goes with it
                return None, KILLED
            if readable in ready:
                part = os.read(readable, _MUCH if said else _LITTLE)
                said += part
                size = int.from_bytes(said[:HEADER], "big") if len(said) >= HEADER else 0
                if size > limit:
                    return None, DIED + f"it answered with {size} bytes; at most {limit} are taken".encode()
                if len(said) >= HEADER and len(said) >= HEADER + size:
                    return bytes(said[HEADER : HEADER + size]), ANSWERED
                if not part:
                    return None, DIED
            elif ended in ready:
                return None, DIED
            found = poll.poll(0) if ended < 0 else []
    finally:
        if ended >= 0:
            poll.unregister(ended)
            os.close(ended)


def _end(worker: int, *, hurry: bool) -> int:
    """End the worker, unless it is ending by itself; how it ended."""
    if not hurry:
        waited, status = _wait(worker, seconds=_LAST_BREATH)
        if waited:
            return status
    try:
        os.killpg(worker, _KILL)
    except (ProcessLookupError, PermissionError):  # the group exists only once the worker has made it
        with suppress(ProcessLookupError, PermissionError):
            os.kill(worker, _KILL)
    return os.waitpid(worker, 0)[1]


def _wait(worker: int, *, seconds: float) -> tuple[bool, int]:
    for _ in range(int(seconds / 0.005)):
        pid, status = os.waitpid(worker, os.WNOHANG)
        if pid:
            return True, status
        select.select([], [], [], 0.005)
    return False, 0


def _how_it_ended(status: int, limits: dict[str, int | None]) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"its process ended with status {code} before it gave a result"
    if -code == signal.SIGXCPU:
        return f"it used more than its {limits['cpu_seconds']} s of CPU and was killed"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"its process was killed by {name}"


def _be_the_worker(
    keeper: int, writable: int, limits: Any, run: Callable[[Any], bytes], call: Any
) -> NoReturn:
    status = 1
    try:
        _reset(_TERM, _DEFAULT)
        _reset(_INT, _DEFAULT)
        os.setsid()
        die_with_parent(keeper, _KILL)
        confine(writable, limits)
        answer = run(call)
        if sys.stdout is not _STANDARD[0] or sys.stderr is not _STANDARD[1]:
            _flush()
        data = frame(answer)
        written = os.write(writable, data)
        while written < len(data):
            written += os.write(writable, memoryview(data)[written:])
        status = 0
    finally:
        os._exit(status)  # no unwinding into the keeper's frames, no atexit


def _flush() -> None:
    """Write out what a tool's own streams hold; the interpreter's have no buffer here."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()


def _made_late(request: Any) -> bytes:
    try:
        work = _made(request["recipe"])
    except BaseException as error:  # noqa: BLE001  # a module that is loaded may raise anything
        return write(unmade(error))
    return work.run(work.prepare(request))
