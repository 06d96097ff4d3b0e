"""The models of an experiment: any by name, on this machine or at endpoints elsewhere, asked in turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from heapq import heappop, heappush
from itertools import count, cycle

from wesichain.agent import resolve_model
from wesichain.core import ToolCallingLlm, traits_of
from wesichain.llm.local import LocalLlm

from .examples import EXAMPLES

CONTEXT = 4096


IMPORTANCE: ContextVar[int] = ContextVar("importance", default=0)  # of the work at hand; 0 goes first


class Room:
    """So many at a time; who waits is let in by importance, then training, then the order of arrival."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: list[tuple[int, bool, int, asyncio.Future[None]]] = []
        self._arrivals = count()

    @asynccontextmanager
    async def place(self, *, training: bool) -> AsyncGenerator[None]:
        if self._free == 0:
            turn = asyncio.get_running_loop().create_future()
            heappush(self._waiting, (IMPORTANCE.get(), not training, next(self._arrivals), turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._leave()
                raise
        else:
            self._free -= 1
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        while self._waiting:
            turn = heappop(self._waiting)[-1]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Models:
    """Copies of one model behind several endpoints, and how many runs may be under way at once."""

    def __init__(self, copies: Sequence[ToolCallingLlm], *, at_once: int = 1) -> None:
        self.name = str(getattr(copies[0], "model", "model"))
        self.traits = traits_of(copies[0])
        self._turn = cycle(copies)
        self._room = Room(at_once)

    @classmethod
    def named(cls, name: str, endpoints: Sequence[str] = (), *, at_once: int = 1) -> Models:
        """A model of this machine, or its copies at these endpoints."""
        return cls([_model(name, endpoint) for endpoint in endpoints or (None,)], at_once=at_once)

    @asynccontextmanager
    async def one(self, *, training: bool = False) -> AsyncGenerator[ToolCallingLlm]:
        """A model for one run, once there is room for it; training has to wait for its own runs."""
        async with self._room.place(training=training):
            yield next(self._turn)


def _model(name: str, endpoint: str | None) -> ToolCallingLlm:
    """`PROVIDER:NAME` is the product's own string; a bare name is a local model, here or at its server."""
    if ":" in name and not name.startswith("local:"):
        return resolve_model(name)
    make: Callable[..., ToolCallingLlm] = LocalLlm
    bare = name.removeprefix("local:")
    if endpoint is None:
        return make(bare, context=CONTEXT, grounded=True, examples=EXAMPLES)
    return make(bare, base_url=endpoint, grounded=True, examples=EXAMPLES)
