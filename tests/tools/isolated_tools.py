"""Tools that try what an isolated tool must not be able to do, or to leave behind."""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import resource
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from wesichain.errors import ToolErrorKind
from wesichain.tools import Finish, Isolation, ToolContext, ToolError, TypedTool, tool

SECRETS: list[str] = []  # filled in by the tests, in their own process
CALLS: list[int] = []
SLEEPER = ["/bin/sleep", "3600"]


@tool(isolate=True, description="Tell the environment.")
def environment() -> dict[str, str]:
    return dict(os.environ)


@tool(
    isolate=Isolation(env=("WESICHAIN_TEST_GIVEN", "WESICHAIN_TEST_ABSENT")),
    description="Tell what was given.",
)
def given() -> dict[str, str]:
    return dict(os.environ)


@tool(isolate=True, description="Tell the memory of the module.")
def memory() -> list[str]:
    return SECRETS


@tool(isolate=True, description="Count the calls that this process remembers.")
def remember() -> int:
    CALLS.append(1)
    return len(CALLS)


@tool(isolate=True, description="Tell which process started this one.")
def parent() -> int:
    return os.getppid()


@tool(isolate=True, description="Draw a number.")
def draw() -> float:
    return random.random()


@tool(isolate=True, description="Tell the descriptors.")
def descriptors() -> dict[str, str]:
    return {fd.name: str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()}


@tool(isolate=True, description="Read a descriptor of the program.")
def read_descriptor(number: int) -> str:
    return os.read(number, 100).decode()


@tool(isolate=Isolation(memory_mb=64), description="Allocate.")
def allocate(megabytes: int) -> int:
    return len(bytearray(megabytes << 20))


@tool(isolate=True, description="Count.")
def counted(most: int | None = None) -> Any:
    yield from range(most or 3)


@tool(isolate=True, description="Count later.")
async def counted_later(most: int = 2) -> Any:
    for number in range(most):
        yield number


@tool(isolate=Isolation(cpu_seconds=1), timeout=60, description="Compute for ever.")
def compute() -> None:
    while True:
        pass


@tool(isolate=Isolation(file_mb=1), description="Write a large file.")
def write(path: str, megabytes: int) -> int:
    return Path(path).write_bytes(b"x" * (megabytes << 20))


@tool(isolate=True, timeout=60, description="Start a process that outlives the call, if it can.")
def start(how: str, note: str, stay: bool = False) -> int:
    if how == "session":
        pid = subprocess.Popen(SLEEPER, start_new_session=True, stdin=subprocess.DEVNULL).pid
    elif how == "child":
        pid = subprocess.Popen(SLEEPER).pid
    else:
        pid = daemon(note)
    Path(note).write_text(str(pid), encoding="utf-8")
    while stay:
        time.sleep(60)
    return pid


def daemon(note: str) -> int:
    """A process the old way: forked twice, a session of its own, deaf to all that can be ignored."""
    readable, writable = os.pipe()
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            os.execv(SLEEPER[0], SLEEPER)
        os.write(writable, str(pid).encode())
        os._exit(0)
    return int(os.read(readable, 20))


@tool(isolate=True, description="Kill who started this.")
def kill_above(group: bool = False) -> None:
    if group:
        os.killpg(os.getpgid(os.getppid()), signal.SIGKILL)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


@tool(isolate=True, description="Gain rights.")
def privileges() -> str:
    return Path("/proc/self/status").read_text(encoding="utf-8").split("NoNewPrivs:")[1].split()[0]


@tool(isolate=True, description="Tell how large a core file may be.")
def core_limits() -> list[int]:
    return [*resource.getrlimit(resource.RLIMIT_CORE)]


@tool(isolate=True, description="Tell the signals with another handler than that of a new process.")
def handled_signals() -> list[str]:
    return [one.name for one in signal.Signals if is_handled(one)]


def is_handled(number: signal.Signals) -> bool:
    ignored = number in (signal.SIGPIPE, signal.SIGXFSZ)  # by Python
    return signal.getsignal(number) != (signal.SIG_IGN if ignored else signal.SIG_DFL)


@tool(isolate=True, description="Tell whether its session is its own.")
def leads_session() -> bool:
    return os.getsid(0) == os.getpid()


@tool(isolate=True, description="Close everything, and stay.")
def hide() -> None:
    os.closerange(3, 4096)
    time.sleep(3600)


@tool(isolate=True, description="Leave a process that has all that this one has, and end.")
def leave() -> None:
    if os.fork() == 0:
        time.sleep(3600)
    os._exit(5)


@tool(isolate=True, description="Answer more than is taken.")
def flood() -> None:
    for fd in range(3, 64):
        try:
            os.write(fd, (1 << 40).to_bytes(8, "big"))
        except OSError:
            continue


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, note: str) -> None:
        self.note = note

    def __reduce__(self) -> Any:
        return Path(self.note).write_text, ("unpickled",)


@tool(isolate=True, description="Answer with a pickle.")
def answer_with_pickle(note: str) -> None:
    data = pickle.dumps(Bomb(note))
    for fd in range(3, 64):
        try:
            os.write(fd, len(data).to_bytes(8, "big") + data)
        except OSError:
            continue
    time.sleep(60)


@tool(isolate=True, description="Start a thread and take a lock.")
def locks() -> str:
    lock = threading.Lock()
    with lock:
        thread = threading.Thread(target=time.sleep, args=(0,))
        thread.start()
        thread.join()
    return "free"


# --- results that are not quite JSON ---------------------------------------------------------------


@dataclass
class Spot:
    x: int


class Size(IntEnum):
    SMALL = 1


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


class BadText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


ODD: dict[str, Callable[[], Any]] = {
    "plain": lambda: {"a": [1, 2.5, True, None, "é"]},
    "not-declared": lambda: [1],
    "date": lambda: {"on": date(2026, 1, 2)},
    "tuple": lambda: {"pair": (1, 2)},
    "set": lambda: {"one": {1}},
    "dataclass": lambda: {"spot": Spot(1)},
    "enum": lambda: {"size": Size.SMALL},
    "number-key": lambda: {1: 2},
    "nan": lambda: {"n": float("nan")},
    "object": lambda: {"o": object},
    "many-digits": lambda: {"n": 10**5000},
    "half-a-character": lambda: {"t": "\ud800"},
    "deep": lambda: nested(100),
    "as-deep-as-may-be": lambda: nested(199),
    "too-deep": lambda: nested(200),
    "far-too-deep": lambda: nested(5000),
    "large": lambda: {"t": "é" * 400_000},
    "subclass": lambda: defaultdict(int, a=1),
    "tool-error": lambda: _raise(ToolError("there is none", ToolErrorKind.NOT_FOUND)),
    "half-an-error": lambda: _raise(ToolError("\ud800")),
    "long-error": lambda: _raise(ValueError("x" * 9000)),
    "bad-error": lambda: _raise(BadText()),
    "exit": lambda: _raise(SystemExit(3)),
}


def _raise(error: BaseException) -> None:
    raise error


def odd(name: str) -> dict[str, Any]:
    """Return something that may have no JSON."""
    return ODD[name]()  # type: ignore[no-any-return]  # that is the point


# --- tools of every kind -----------------------------------------------------------------------------


class Order(BaseModel):
    name: str
    on: date


class Shop:
    def __init__(self, town: str) -> None:
        self.town = town

    @tool(isolate=True, description="Say where.")
    def where(self, order: Order) -> str:
        return f"{order.name} in {self.town} on {order.on.isoformat()}"


class Sell(TypedTool[Order, Finish[Order]]):
    """Sell."""

    name = "sell"
    isolate = True

    def __init__(self, discount: int = 0) -> None:
        self.discount = discount

    async def run(self, args: Order, ctx: ToolContext) -> Finish[Order]:
        await asyncio.sleep(0)
        return Finish(Order(name=f"{args.name} -{self.discount}% {ctx.idempotency_key}", on=args.on))


def times(factor: int, text: str) -> str:
    return text * factor


def closure(lock: Any = None) -> Any:
    words = {"greeting": ("hello", b"bytes", {1, 2})}

    @tool(isolate=True, description="Say what is closed over.")
    def greet(name: str, on: date | None = None) -> list[Any]:
        return [words["greeting"][0], name, sorted(words["greeting"][2]), on, lock]

    return greet


if os.environ.get("WESICHAIN_TEST_THREADS"):  # a module that starts a thread when it is loaded
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()


@tool(isolate=Isolation(env=("WESICHAIN_TEST_THREADS",)), description="Count threads.")
def threads() -> int:
    return len([*Path("/proc/self/task").iterdir()])
