"""Pool: the fork server and the keepers of isolated tools, as the program uses them."""

from __future__ import annotations

import asyncio
import atexit
import os
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from functools import partial
from typing import Any

from wesichain.core.internal import dump_json
from wesichain.platform.processes import after_fork, send_socket, start_with_socket
from wesichain.tools.failures import RemoteError
from wesichain.tools.running import in_thread

from .frames import HEADER, READY, THREADED, frame

_START = """
import json, sys
sys.path[:], descriptor = json.loads(sys.argv[1])
from wesichain.tools.isolated.fork_server import main
main(descriptor)
"""
# Variables that most programs need; none of them is a secret.
_VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
_MAX_IDLE = 8  # keepers
IMPORT_SECONDS = 60.0  # the limit for importing the module of a tool
_NO_SERVER = "the server of isolated processes cannot be started"


class ChildDiedError(RemoteError):
    """The process ended without a result, or its result is not allowed."""


class ToolRebuildError(ChildDiedError):
    """The tool cannot be created in another process."""

    def __init__(self, why: str) -> None:
        super().__init__(f"it cannot be created in a separate process: {why}")


def environment(names: tuple[str, ...]) -> dict[str, str]:
    """Return the environment variables that are passed to an isolated tool."""
    known = os.environ.get
    return {name: value for name in (*_VARIABLES, *names) if (value := known(name)) is not None}


class Keeper:
    """The connection to one keeper, for one request at a time; `kill` can be called from any thread."""

    def __init__(self, end: socket.socket, server: _Server, key: str) -> None:
        end.setblocking(False)
        self._socket = end
        self.server = server  # the keeper ends with this process
        self.key = key
        self.is_spent = False
        weakref.finalize(self, end.close)  # if the event loop ends before the keeper is used

    @property
    def is_gone(self) -> bool:
        """Whether an idle keeper has ended: an idle keeper sends nothing, so only the end can be read."""
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    async def ask(self, request: bytes) -> bytes | None:
        """Send a request and return the reply; None if the keeper has ended."""
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
        """End the running call; the keeper still sends a reply."""
        self.is_spent = True  # the byte may arrive after the reply, so there can be no further request
        with suppress(OSError):
            self._socket.send(b"k")

    def close(self) -> None:
        self.is_spent = True
        self._socket.close()


class _Server:
    """A process without any state of the program, which forks keepers."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process = process
        self._control = control
        self.pid = process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, end: socket.socket) -> None:
        """Fork a keeper that serves this socket. Raises `OSError` if the server has ended."""
        send_socket(self._control, end)

    def close(self) -> None:
        """End the server and all of its descendants."""
        self._control.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)


class Pool:
    """Starts the server when it is first needed, and keeps idle keepers for later calls."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._server: _Server | None = None
        self._idle: list[Keeper] = []
        self._threaded: set[str] = set()  # the keys of tools whose modules start threads
        self._ends: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    async def take(self, rules: dict[str, Any]) -> Keeper:
        """Return an idle keeper of the tool that the rules describe, or start one."""
        key = dump_json(rules)
        keeper = self._take_idle(key)
        while keeper is None:
            hello = {**rules, "ready": key not in self._threaded, "path": sys.path, "seconds": IMPORT_SECONDS}
            for _ in range(2):  # again with a new server if the first was killed
                keeper = await in_thread(partial(self._fork, key))
                reply = await _import_reply(keeper, dump_json(hello).encode())
                if reply is not None:
                    break
            else:
                raise ChildDiedError("its process ended while the tool was created")
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
                return None  # it was killed, and its keepers end with it
            for keeper in [each for each in reversed(self._idle) if each.key == key]:
                self._idle.remove(keeper)
                if not keeper.is_gone:
                    return keeper
                keeper.close()
        return None

    def give_back(self, keeper: Keeper) -> None:
        """Return a keeper for the next call of its tool, or close it if it cannot be used again."""
        with self._lock:
            if keeper.is_spent or keeper.server is not self._server:
                keeper.close()
                return
            self._idle.append(keeper)
            if len(self._idle) > _MAX_IDLE:
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
                    self._stop(server)
        raise ChildDiedError(f"{_NO_SERVER}: it ends at once")

    def _start(self) -> _Server:
        ours, theirs = socket.socketpair()
        self._ends.add(ours)
        with theirs:
            try:
                process = start_with_socket(
                    [sys.executable, "-I", "-u", "-c", _START, dump_json([sys.path, theirs.fileno()])],
                    theirs,
                    stdin=subprocess.DEVNULL,
                    stdout=standard_error(),
                    env=environment(()),
                )
            except OSError as error:
                ours.close()
                raise ChildDiedError(f"{_NO_SERVER}: {error}") from error
        self._server = _Server(process, ours)
        return self._server

    def _stop(self, server: _Server) -> None:
        self._server = None
        while self._idle:
            self._idle.pop().close()
        server.close()

    def close(self) -> None:
        """Close idle keepers, and end the server with all of its descendants."""
        with self._lock:
            if self._server is not None:
                self._stop(self._server)

    def reset_after_fork(self) -> None:
        """In a forked child: close the inherited sockets, which would keep the parent's server alive."""
        for end in list(self._ends):
            with suppress(OSError):
                end.close()
        self.__init__()  # type: ignore[misc]  # the same object, empty

    def processes(self) -> list[int]:
        with self._lock:
            return [self._server.pid] if self._server is not None else []


async def _import_reply(keeper: Keeper, hello: bytes) -> bytes | None:
    """Return the reply of a new keeper after it has imported its tool; None if it has ended."""
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
    """Return where the output of isolated tools goes. Standard output may be used by a protocol."""
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2


pool = Pool()


def warm_processes() -> list[int]:
    """Return the ids of the fork servers that this process has started; keepers are their children."""
    return pool.processes()


after_fork(pool.reset_after_fork)
atexit.register(pool.close)
