"""The stub model's behaviour and the tool, the same for every contestant; standard library only."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

QUESTION = "Count up, one addition at a time, and tell me the sum."


class Call(NamedTuple):
    """A call of `add`, with the arguments as JSON text, as providers send them."""

    id: str
    arguments: str

    @property
    def args(self) -> dict[str, object]:
        """The parsed arguments, for frameworks whose clients parse them."""
        parsed: dict[str, object] = json.loads(self.arguments)
        return parsed


class Answer(NamedTuple):
    """The final answer of the model."""

    text: str


BAD_CALL = Call("call_bad", '{"a": "zero", "b": 1}')


class Script:
    """A stateless model: its reply depends only on the last tool result.

    It therefore costs the same at every step, serves any number of runs at once, and a run only
    gets anywhere if the tool really ran and its result really came back.
    """

    def __init__(
        self,
        hops: int,
        *,
        malformed: bool = False,
        blocking: bool = False,
        quick: bool = False,
        gate: Gate | None = None,
    ) -> None:
        self.hops = hops
        self.malformed = malformed
        self.quick = quick  # the sync tool is declared to return at once, where there is such a setting
        self.tool: Callable[..., Any] = plain_add if blocking else add  # what the agent is given
        self.gate = gate
        self.steps = hops * 2 + 10  # above the need of any scenario
        self.answer = f"the sum is {hops}"

    async def next(self, result: str | None) -> Call | Answer:
        """The reply to the question (None) or to the text of the last tool result."""
        reply = self.decide(result)
        if self.gate is not None and isinstance(reply, Answer):
            await self.gate.wait()
        return reply

    def next_blocking(self, result: str | None) -> Call | Answer:
        reply = self.decide(result)
        if self.gate is not None and isinstance(reply, Answer):
            self.gate.wait_blocking()
        return reply

    def decide(self, result: str | None) -> Call | Answer:
        if result is None:
            if self.malformed:
                return BAD_CALL
            total = 0
        else:
            try:
                total = int(result)
            except ValueError:  # an error message: make a valid call now
                total = 0
        if total == self.hops:
            return Answer(f"the sum is {total}")
        return Call(f"call_{total}", f'{{"a": {total}, "b": 1}}')


class Tally:
    """The number of calls of the tool, and the thread of sync ones."""

    calls = 0
    main = threading.get_ident()
    in_thread = False  # whether the last sync call was off the loop's thread


def _count_sync() -> None:
    Tally.calls += 1
    Tally.in_thread = threading.get_ident() != Tally.main


async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    Tally.calls += 1
    return a + b


def _plain_add() -> Callable[..., Any]:
    def add(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: The first number.
            b: The second number.
        """
        _count_sync()
        return a + b

    return add


plain_add = _plain_add()  # the same as a sync function, under the same name


def threaded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The tool for a loop without threads: a sync one runs in a thread."""
    if inspect.iscoroutinefunction(function):
        return function

    @functools.wraps(function)
    async def run(**args: Any) -> Any:
        return await asyncio.to_thread(function, **args)

    return run


def add_blocking(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    _count_sync()
    return a + b


class Gate:
    """Holds each run at its last model call until all have arrived, and measures their memory."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self.waiting = 0
        self.resident = 0
        self._open = asyncio.Event()
        self._lock = threading.Lock()
        self._open_blocking = threading.Event()

    def _arrive(self) -> bool:
        with self._lock:
            self.waiting += 1
            if self.waiting < self.runs:
                return False
            self.resident = resident()
            return True

    async def wait(self) -> None:
        if self._arrive():
            self._open.set()
        await self._open.wait()

    def wait_blocking(self) -> None:
        if self._arrive():
            self._open_blocking.set()
        self._open_blocking.wait()


def resident() -> int:
    """The memory of this process in bytes (its peak, where the system has no current value)."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return peak_resident()
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_resident() -> int:
    """The peak memory of this process in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
