"""Pool: the program's side of isolation: servers, and keepers that wait for calls of their tools."""

from __future__ import annotations

import asyncio
import atexit
import os
import queue
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from wesichain.core import dump_json
from wesichain.tools.failures import RemoteError
from wesichain.tools.running import in_thread

from .frames import HEADER, READY, THREADED, frame, read_frame

# Our packages stand empty while the server's own modules are loaded: these need nothing of ours. Afterwards
# they are loaded as anywhere, by whoever needs them.
_START = """
import json, sys, types
sys.path[:], folders, descriptor, parent, preload = json.loads(sys.argv[1])
for name, folder in folders.items():
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
from wesichain.tools.isolated.fork_server import main
for name in folders:
    del sys.modules[name]
main(descriptor, parent, preload)
"""
_HERE = Path(__file__).parent
_FOLDERS = {
    "wesichain": str(_HERE.parent.parent),
    "wesichain.tools": str(_HERE.parent),
    "wesichain.tools.isolated": str(_HERE),
}
# What programs need to find others and to read text and time; none of it is a secret.
_ALWAYS = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
_MOST_IDLE = 8  # keepers
_AT_ONCE: int = getattr(socket, "MSG_DONTWAIT", 0)  # not on Windows, where nothing is isolated
_PEEK = int(socket.MSG_PEEK) | _AT_ONCE
_SMALL = 65_536  # bytes of a request that the system takes at once, whoever reads it when


class ChildDiedError(RemoteError):
    """The process ended without an answer, or with one that is not allowed; the message says how."""


def environment(names: tuple[str, ...]) -> dict[str, str]:
    """The variables of our environment that an isolated tool gets."""
    known = os.environ.get
    return {name: value for name in (*_ALWAYS, *names) if (value := known(name)) is not None}


class Keeper:
    """The program's end of one keeper: one call at a time, from any thread; `kill` from any other."""

    def __init__(self, end: socket.socket, key: str, server: _Server) -> None:
        self._socket = end
        self.key = key
        self.server = server  # the process that it ends with
        self.is_spent = False
        self._reply: asyncio.Future[bytes | None] | None = None
        self._stop_reading: Callable[[], object] | None = None
        weakref.finalize(self, end.close)  # one that was made for a loop that has ended meanwhile

    @property
    def is_gone(self) -> bool:
        """Whether an idle keeper has ended: it says nothing by itself, so what can be read is its end."""
        try:
            self._socket.recv(1, _PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def ask(self, request: bytes) -> bytes | None:
        """Send a request and wait for the reply; None where the keeper is gone."""
        try:
            self._socket.sendall(frame(request))
            reply = read_frame(self._socket.recv)
        except OSError:
            reply = None
        if reply is None:
            self.close()
        return reply

    def reply(self, request: bytes) -> asyncio.Future[bytes | None]:
        """As `ask`, in the running loop: a thread that waits for it costs more than the rest of it."""
        if len(request) > _SMALL:
            return in_thread(partial(self.ask, request))
        loop = asyncio.get_running_loop()
        self._reply = future = loop.create_future()
        number, said = self._socket.fileno(), bytearray()
        try:
            self._socket.sendall(frame(request))
            loop.add_reader(number, self._read, said)
            self._stop_reading = partial(loop.remove_reader, number)
        except OSError:
            self.close()
            future.set_result(None)
        return future

    def _read(self, said: bytearray) -> None:
        """What has come of a reply; the last of it settles whoever waits."""
        try:
            part = self._socket.recv(1 << 16, _AT_ONCE)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        said += part
        if part and (len(said) < HEADER or len(said) < HEADER + int.from_bytes(said[:HEADER], "big")):
            return
        self._stop()
        if not part:
            self.close()
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(bytes(said[HEADER:]) if part else None)

    def _stop(self) -> None:
        stop, self._stop_reading = self._stop_reading, None
        if stop is not None:
            with suppress(RuntimeError):  # the loop is closed
                stop()

    def kill(self) -> None:
        """End the call under way; its reply still comes."""
        self.is_spent = True  # the byte may come after the reply: nothing more is asked of this one
        with suppress(OSError):
            self._socket.send(b"k")

    def close(self) -> None:
        self.is_spent = True
        self._stop()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads
        self._socket.close()


class _Server:
    """A process that forks keepers, each with one module of ours in it (`preload`), and what that needs."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process = process
        self._control = control
        self.pid = process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, end: socket.socket) -> None:
        """Have a keeper forked that serves this socket; `OSError` where the server is gone."""
        socket.send_fds(self._control, [b"k"], [end.fileno()])

    def close(self) -> None:
        """End it, and everything below it."""
        self._control.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)


class Pool:
    """Starts a server at the first need of what it has loaded, and keeps a few keepers warm."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[str, _Server] = {}
        self._idle: list[Keeper] = []
        self._threaded: set[str] = set()  # recipes that start threads when they are made
        self._spawner = _Spawner()

    def take(self, key: str) -> Keeper | None:
        """An idle keeper of that tool, if there is one."""
        with self._lock:
            for keeper in [each for each in reversed(self._idle) if each.key == key]:
                if not keeper.server.is_alive:  # it was killed, and its keepers are about to end
                    self._forget(keeper.server)
                    return None
                self._idle.remove(keeper)
                if not keeper.is_gone:
                    return keeper
                keeper.close()
        return None

    def give_back(self, keeper: Keeper) -> None:
        with self._lock:
            if keeper.server not in self._servers.values():
                keeper.is_spent = True
            if not keeper.is_spent:
                self._idle.append(keeper)
            spare = self._idle.pop(0) if len(self._idle) > _MOST_IDLE else None
        if spare is not None:
            spare.close()
        if keeper.is_spent:
            keeper.close()

    def make(self, key: str, rules: dict[str, Any], *, preload: str) -> Keeper:
        """A new keeper of that tool; takes as long as its module does to load."""
        hello = {**rules, "ready": key not in self._threaded, "path": sys.path, "cwd": cwd()}
        keeper = self._fork(key, preload)
        reply = keeper.ask(dump_json(hello).encode())
        if reply is None:
            keeper = self._fork(key, preload)  # the server had been killed: there is a new one
            reply = keeper.ask(dump_json(hello).encode())
        if reply is None:
            raise ChildDiedError("the process that would run it ended while it was made")
        if reply[:1] == READY:
            return keeper
        keeper.close()
        if reply[:1] == THREADED:
            self._threaded.add(key)
            return self.make(key, rules, preload=preload)
        raise ChildDiedError(
            f"it cannot be made in a process of its own: {reply[1:].decode(errors='replace')}"
        )

    def _fork(self, key: str, preload: str) -> Keeper:
        ours, theirs = socket.socketpair()
        _open_ends.add(ours)
        with theirs, self._lock:
            for _ in range(2):
                server = self._reach(preload)
                try:
                    server.fork(theirs)
                    return Keeper(ours, key, server)
                except OSError:  # it is gone
                    self._forget(server)
        raise ChildDiedError("the server of isolated processes cannot be started")

    def _reach(self, preload: str) -> _Server:
        server = self._servers.get(preload)
        if server is not None and server.is_alive:
            return server
        if server is not None:
            self._forget(server)
        ours, theirs = socket.socketpair()
        _open_ends.add(ours)
        with theirs:
            known = [sys.path, _FOLDERS, theirs.fileno(), os.getpid(), preload]
            process = self._spawner.do(
                lambda: subprocess.Popen(  # noqa: S603  # our own interpreter and words
                    [sys.executable, "-I", "-u", "-c", _START, dump_json(known)],
                    stdin=subprocess.DEVNULL,
                    stdout=_standard_error(),
                    env={**environment(()), "LD_BIND_NOW": "1"},  # not at the first use, in each worker
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            )
        server = self._servers[preload] = _Server(process, ours)
        return server

    def _forget(self, server: _Server) -> None:
        self._servers = {preload: each for preload, each in self._servers.items() if each is not server}
        for keeper in [each for each in self._idle if each.server is server]:
            self._idle.remove(keeper)
            keeper.close()
        server.close()

    def close(self) -> None:
        """End all that is idle, and the servers with everything below them."""
        with self._lock:
            for server in list(self._servers.values()):
                self._forget(server)

    def processes(self) -> list[int]:
        with self._lock:
            return [server.pid for server in self._servers.values()]


def cwd() -> str:
    try:
        return os.getcwd()  # noqa: PTH109  # a text is sent
    except OSError:  # it has been deleted
        return "/"


def _standard_error() -> int:
    """Where an isolated tool prints: standard output may be a protocol's."""
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2


class _Spawner:
    """One thread that starts servers and lives as long as the program.

    The system signals a process when the thread that started it ends, not when its program does.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], queue.SimpleQueue[Any]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, job: Callable[[], Any]) -> Any:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="wesichain-spawner", daemon=True)
            self._thread.start()
        answer: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._jobs.put((job, answer))
        made = answer.get()
        if isinstance(made, Exception):
            raise ChildDiedError(f"the server of isolated processes cannot be started: {made}") from made
        return made

    def _run(self) -> None:
        while True:
            job, answer = self._jobs.get()
            try:
                answer.put(job())
            except Exception as error:  # noqa: BLE001  # told to the one who asked
                answer.put(error)


class _OpenEnds:
    """The sockets of this process: a fork of it must not hold them open when it has died."""

    def __init__(self) -> None:
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def add(self, end: socket.socket) -> None:
        self._sockets.add(end)

    def close(self) -> None:
        for end in list(self._sockets):
            with suppress(OSError):
                end.close()


_open_ends = _OpenEnds()
pool = Pool()


def warm_processes() -> list[int]:
    """The ids of the processes that wait for calls of isolated tools; those below them are theirs."""
    return pool.processes()


def _start_anew() -> None:
    """In a forked child: the server is the parent's."""
    global _open_ends, pool  # the one place that replaces them
    _open_ends.close()
    _open_ends, pool = _OpenEnds(), Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


@atexit.register
def _close() -> None:
    pool.close()
