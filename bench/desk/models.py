"""The models of an experiment: any by name, on this machine or at endpoints elsewhere, asked in turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import cycle

from wesichain.agent import resolve_model
from wesichain.core import ToolCallingLlm, traits_of
from wesichain.llm.local import LocalLlm

from .examples import EXAMPLES

CONTEXT = 4096


class Models:
    """Copies of one model behind several endpoints, and how many runs may be under way at once."""

    def __init__(self, copies: Sequence[ToolCallingLlm], *, at_once: int = 1) -> None:
        """Half of the room (all of it, where there is room for one) is kept for training, which has to wait
        for its own runs; the rest can be made in any order."""
        self.name = str(getattr(copies[0], "model", "model"))
        self.traits = traits_of(copies[0])
        self._turn = cycle(copies)
        self._free = asyncio.Semaphore(max(at_once // 2, 1))
        self._training = asyncio.Semaphore(at_once - at_once // 2) if at_once > 1 else self._free

    @classmethod
    def named(cls, name: str, endpoints: Sequence[str] = (), *, at_once: int = 1) -> Models:
        """A model of this machine, or its copies at these endpoints."""
        return cls([_model(name, endpoint) for endpoint in endpoints or (None,)], at_once=at_once)

    @asynccontextmanager
    async def one(self, *, training: bool = False) -> AsyncGenerator[ToolCallingLlm]:
        """A model for one run, once there is room for it."""
        async with self._training if training else self._free:
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
