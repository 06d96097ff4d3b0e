"""Pool: the program's side of isolation: one server, and keepers that wait for calls of their tools."""

from __future__ import annotations

import asyncio
import atexit
import os
import select
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from functools import partial
from typing import Any

from wesichain.core.internal import dump_json
from wesichain.tools.failures import RemoteError
from wesichain.tools.running import in_thread

from .frames import HEADER, READY, THREADED, frame

_START = """
import json, sys
sys.path[:], descriptor = json.loads(sys.argv[1])
from wesichain.tools.isolated.fork_server import main
main(descriptor)
"""
# What programs need to find others and to read text and time; none of it is a secret.
_ALWAYS = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
_MOST_IDLE = 8  # keepers
IMPORT_SECONDS = 60.0  # in which a keeper has to import the module of its tool
_NO_SERVER = "the server of isolated processes cannot be started"


class ChildDiedError(RemoteError):
    """The process ended without an answer, or with one that is not allowed; the message says how."""


class ToolRebuildError(ChildDiedError):
    """The tool cannot be made in another process; the message says why."""

    def __init__(self, why: str) -> None:
        super().__init__(f"it cannot be made in a process of its own: {why}")


def environment(names: tuple[str, ...]) -> dict[str, str]:
    """The variables of our environment that an isolated tool gets."""
    known = os.environ.get
    return {name: value for name in (*_ALWAYS, *names) if (value := known(name)) is not None}


class Keeper:
    """The program's end of one keeper: one request at a time, in the running loop; `kill` from any."""

    def __init__(self, end: socket.socket, server: _Server, key: str) -> None:
        end.setblocking(False)
        self._socket = end
        self.server = server  # the process that it ends with
        self.key = key
        self.is_spent = False
        weakref.finalize(self, end.close)  # one that was made for a loop that has ended meanwhile

    @property
    def is_gone(self) -> bool:
        """Whether an idle keeper has ended: it says nothing by itself, so what can be read is its end."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    async def ask(self, request: bytes) -> bytes | None:
        """Send a request and wait for the reply; None where the keeper is gone."""
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, frame(request))
            header = await self._receive(HEADER)
            reply = await self._receive(int.from_bytes(header, "big"))
        except (OSError, EOFError):
            self.close()
            return None
        return reply

    async def _receive(self, size: int) -> bytes:
        loop, received = asyncio.get_running_loop(), bytearray()
        while len(received) < size:
            part = await loop.sock_recv(self._socket, min(size - len(received), 1 << 16))
            if not part:
                raise EOFError
            received += part
        return bytes(received)

    def kill(self) -> None:
        """End the call under way; its reply still comes."""
        self.is_spent = True  # the byte may come after the reply: nothing more is asked of this one
        with suppress(OSError):
            self._socket.send(b"k")

    def close(self) -> None:
        self.is_spent = True
        self._socket.close()


class _Server:
    """A process with nothing of the program's in it, which forks keepers."""

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
    """Starts a server at the first need of one, and keeps a few keepers warm."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._server: _Server | None = None
        self._idle: list[Keeper] = []
        self._threaded: set[str] = set()  # the keys of tools that start threads when they are made
        self._ends: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    async def take(self, rules: dict[str, Any]) -> Keeper:
        """A keeper of the tool that the rules describe: an idle one, or a new one, which takes a while."""
        key = dump_json(rules)
        keeper = self._take_idle(key)
        while keeper is None:
            hello = {**rules, "ready": key not in self._threaded, "path": sys.path, "seconds": IMPORT_SECONDS}
            for _ in range(2):  # the server may have been killed: then there is a new one
                keeper = await in_thread(partial(self._fork, key))
                reply = await _import_reply(keeper, dump_json(hello).encode())
                if reply is not None:
                    break
            else:
                raise ChildDiedError("the process that would run it ended while it was made")
            if reply[:1] == READY:
                break
            keeper.close()
            if reply[:1] != THREADED:
                raise ToolRebuildError(reply[1:].decode(errors="replace"))
            self._threaded.add(key)
            keeper = None
        return keeper

    def _take_idle(self, key: str) -> Keeper | None:
        with self._lock:
            if self._server is None or not self._server.is_alive:
                return None  # it was killed; its keepers are about to end
            for keeper in [each for each in reversed(self._idle) if each.key == key]:
                self._idle.remove(keeper)
                if not keeper.is_gone:
                    return keeper
                keeper.close()
        return None

    def give_back(self, keeper: Keeper) -> None:
        """Keep a keeper for the next call of its tool, unless nothing more can be asked of it."""
        with self._lock:
            if keeper.is_spent or keeper.server is not self._server:
                keeper.close()
                return
            self._idle.append(keeper)
            if len(self._idle) > _MOST_IDLE:
                self._idle.pop(0).close()

    def _fork(self, key: str) -> Keeper:
        with self._lock:
            for _ in range(2):
                server = self._server or self._start()
                ours, theirs = socket.socketpair()
                self._ends.add(ours)
                try:
                    with theirs:
                        server.fork(theirs)
                    return Keeper(ours, server, key)
                except OSError:  # it was killed
                    ours.close()
                    self._forget(server)
        raise ChildDiedError(f"{_NO_SERVER}: it ends at once")

    def _start(self) -> _Server:
        ours, theirs = socket.socketpair()
        self._ends.add(ours)
        with theirs:
            try:
                process = subprocess.Popen(  # noqa: S603  # our own interpreter and words
                    [sys.executable, "-I", "-u", "-c", _START, dump_json([sys.path, theirs.fileno()])],
                    stdin=subprocess.DEVNULL,
                    stdout=standard_error(),
                    env=environment(()),
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise ChildDiedError(f"{_NO_SERVER}: {error}") from error
        self._server = _Server(process, ours)
        return self._server

    def _forget(self, server: _Server) -> None:
        self._server = None
        while self._idle:
            self._idle.pop().close()
        server.close()

    def close(self) -> None:
        """End all that is idle, and the server with everything below it."""
        with self._lock:
            if self._server is not None:
                self._forget(self._server)

    def start_anew(self) -> None:
        """In a forked child: the server is the parent's, and its end must not be held open from here."""
        for end in list(self._ends):
            with suppress(OSError):
                end.close()
        self.__init__()  # type: ignore[misc]  # the pool of this process, under the same name

    def processes(self) -> list[int]:
        with self._lock:
            return [self._server.pid] if self._server is not None else []


async def _import_reply(keeper: Keeper, hello: bytes) -> bytes | None:
    """The reply of a new keeper once it has imported its tool; None if it has ended."""
    try:
        async with asyncio.timeout(IMPORT_SECONDS):
            return await keeper.ask(hello)
    except TimeoutError:
        keeper.close()
        raise ToolRebuildError(f"importing its module takes more than {IMPORT_SECONDS:g} s") from None
    except asyncio.CancelledError:
        keeper.close()
        raise


def standard_error() -> int:
    """Where an isolated tool prints: standard output may be a protocol's."""
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2


pool = Pool()


def warm_processes() -> list[int]:
    """The ids of the processes that wait for calls of isolated tools; those below them are theirs."""
    return pool.processes()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.start_anew)
atexit.register(pool.close)
