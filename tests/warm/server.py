"""The warm process: it has the imports behind it, and forks a process for each program that it is handed.

A connection is a job: its pipes, words, folder and environment; the answers are the process id and the exit
status. A connection that closes early ends its program; one that hands over nothing keeps the warm process
here, which ends with the last of them.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import termios
import threading
import traceback
import warnings
from pathlib import Path
from typing import Any, NoReturn, cast

from wesichain import Agent, tool
from wesichain.testing import FunctionLlm

from . import client

# What the programs import, and what is loaded late inside of it: each of them would pay for it again.
USED = (
    "anthropic",
    "dbos",
    "faiss",
    "mcp",
    "mcp.server.mcpserver",
    "openai",
    "opentelemetry.sdk.trace",
    "starlette.testclient",
    "uvicorn",
    "wesichain.cli.app",
    "wesichain.durable",
    "wesichain.graph.sqlite",
    "wesichain.learning",
    "wesichain.llm.anthropic",
    "wesichain.llm.openai",
    "wesichain.tools.mcp",
    "wesichain.trace",
    "wesichain.web",
)


OWN = "wesichain.cli"  # looks at the terminal and the environment as it is imported: each program does that itself


def warm() -> None:
    """Load everything once. No thread is started: a fork has none but its own."""
    for name in USED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name in [*sys.modules]:
        if name == OWN or name.startswith(f"{OWN}."):
            del sys.modules[name]

    @tool
    async def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    Agent(FunctionLlm(lambda _: "yes"), tools=[add], output_type=list[int])
    gc.freeze()  # what is here stays: a child's collector need not look at it, and copy it by that


def serve(address: str) -> None:
    if os.fork():  # nobody's child: what runs here is no process that the tests of a worker have left behind
        os._exit(0)
    client.address = address
    warm()
    assert threading.active_count() == 1
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    try:
        Server(listener).run()
    finally:
        Path(address).unlink()
        Path(f"{address}.lock").unlink(missing_ok=True)


class Server:
    """Connections, and the programs that run for them."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._running: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        bell, ringer = socket.socketpair()
        ringer.setblocking(False)
        bell.setblocking(False)
        self._bell, self._ringer = bell, ringer
        self._selector.register(bell, selectors.EVENT_READ)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ringer.fileno(), warn_on_full_buffer=False)

    def run(self) -> None:
        is_used = False
        while not is_used or len(self._selector.get_map()) > 2:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    door, _ = self._listener.accept()
                    self._selector.register(door, selectors.EVENT_READ)
                    is_used = True
                elif key.fileobj is self._bell:
                    with contextlib.suppress(BlockingIOError):
                        self._bell.recv(4096)
                    self._reap()
                else:
                    self._hear(cast("socket.socket", key.fileobj))

    def _hear(self, door: socket.socket) -> None:
        """A job, or the end of who asked for one."""
        head, pipes, _, _ = socket.recv_fds(door, 4, 3)
        if not head:
            self._forget(door)
            return
        left = int.from_bytes(head, "big")
        body = b""
        while len(body) < left:
            body += door.recv(left - len(body))
        child = os.fork()
        if child == 0:
            self._leave_to_the_child()
            leave(status_of(json.loads(body), pipes))
        for pipe in pipes:
            os.close(pipe)
        self._running[child] = door
        self._tell(door, child)

    def _leave_to_the_child(self) -> None:
        signal.set_wakeup_fd(-1)
        for key in [*self._selector.get_map().values()]:
            cast("socket.socket", key.fileobj).close()
        self._ringer.close()
        self._selector.close()
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _forget(self, door: socket.socket) -> None:
        for pid, owner in self._running.items():
            if owner is door:
                os.kill(pid, signal.SIGKILL)  # still ours, as it was not reaped
        self._selector.unregister(door)
        door.close()

    def _reap(self) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._tell(self._running.pop(pid), os.waitstatus_to_exitcode(status))

    @staticmethod
    def _tell(door: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more
            door.sendall(f"{number}\n".encode())


def status_of(job: dict[str, Any], pipes: list[int]) -> int:
    """The exit status that the program comes to."""
    try:
        become(job, pipes)
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except KeyboardInterrupt:
        traceback.print_exc()
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def leave(status: int) -> NoReturn:
    """End as a program does, but for taking all its modules apart, which costs more than most programs."""
    cast("Any", threading)._shutdown()
    cast("Any", atexit)._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def become(job: dict[str, Any], pipes: list[int]) -> None:
    """Take the pipes, the folder and the environment, and run what the words say, as Python would."""
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    if job["terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    system: Any = sys
    system.stdin = system.__stdin__ = os.fdopen(0, closefd=False)
    system.stdout = system.__stdout__ = os.fdopen(1, "w", 1 if os.isatty(1) else -1, closefd=False)
    system.stderr = system.__stderr__ = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    words: list[str] = job["words"]
    while words[0] == "-W":
        warnings.simplefilter(cast("Any", words[1]))
        words = words[2:]
    sys.path[:0] = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path.insert(0, "")
        exec(compile(words[1], "<string>", "exec"), vars(sys.modules["__main__"]))
    elif words[0] == "-m":
        sys.argv = words[1:]
        sys.path.insert(0, job["cwd"])
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(words[0]).resolve().parent))
        runpy.run_path(words[0], run_name="__main__")
