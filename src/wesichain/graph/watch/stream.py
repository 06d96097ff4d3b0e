"""Streams: the events of a run while it runs, or items of the requested modes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Generic, Literal, Self, TypeAlias, TypeVar, get_args

from typing_extensions import override

from wesichain.core import Event, EventSink, TextDelta
from wesichain.core.internal import Value
from wesichain.errors import ConfigError, GraphInterruptedError

Mode: TypeAlias = Literal["events", "values", "updates", "messages", "custom"]
_MODES: tuple[Mode, ...] = get_args(Mode)


class StreamItem(Value):
    """An item of a stream. `subgraph` is the scope of its graph, "" for the outermost one.

    `data` depends on the mode. "events": an event; "values": the state after a super-step; "updates": the
    writes of a node; "messages": a piece of a model's text; "custom": a value passed to `ctx.emit`. In every
    mode, a question is a `GraphInterrupt`.
    """

    mode: Mode
    node: str
    subgraph: str
    data: Any


class Tap(EventSink):
    """Passes items of the requested modes to a stream; without modes, every event itself."""

    __slots__ = ("_put", "modes")

    def __init__(self, modes: Iterable[Mode] | None, put: Callable[[Any], None]) -> None:
        self.modes = None if modes is None else tuple(dict.fromkeys(modes))
        self._put = put

    def wants(self, mode: Mode) -> bool:
        return mode == "events" if self.modes is None else mode in self.modes

    def give(self, mode: Mode, node: str, subgraph: str, data: Any) -> None:
        self._put(StreamItem(mode, node, subgraph, data))

    @override
    def emit(self, event: Event) -> None:
        if self.modes is None:
            self._put(event)
        elif "events" in self.modes:
            self.give("events", getattr(event, "node", ""), event.scope, event)

    def receive(self, event: Event, node: str, subgraph: str) -> None:
        """Stream the text of an agent that runs in a node."""
        if isinstance(event, TextDelta) and self.wants("messages"):
            self.give("messages", node, subgraph, event.text)


def checked_modes(modes: Iterable[Mode] | None) -> tuple[Mode, ...] | None:
    """Check the modes of a stream, and return them as a tuple."""
    if modes is None:
        return None
    given: tuple[Any, ...] = (modes,) if isinstance(modes, str) else tuple(modes)
    unknown = [mode for mode in given if mode not in _MODES]
    if unknown or not given:
        what = f"{unknown[0]!r} is not a mode" if unknown else "it has no modes"
        raise ConfigError(f"stream(modes={given!r}): {what}; use one or more of {', '.join(_MODES)}")
    return given


R = TypeVar("R")
ItemT = TypeVar("ItemT")

_GRACE = 2.0  # seconds for a cancelled run to end after the stream is closed


class GraphStream(Generic[R, ItemT]):
    """A running graph: iterate over it, then read `result`.

    The run starts with the first iteration. Closing or dropping the stream early stops it. A run that fails
    or is interrupted raises after its last item, as `invoke` does.
    """

    def __init__(self, run: Callable[[Tap], Awaitable[R]], modes: Iterable[Mode] | None = None) -> None:
        self._result: list[R] = []
        self._items: AsyncGenerator[ItemT, None] = _items(run, checked_modes(modes), self._result)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ItemT:
        return await anext(self._items)

    async def aclose(self) -> None:
        await self._items.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    @property
    def result(self) -> R:
        """The state at the end."""
        if not self._result:
            raise ConfigError("the run has no result: read the stream to its end first")
        return self._result[0]


class _ItemQueue:
    """A queue to which nodes in other threads may also add items."""

    __slots__ = ("_items", "_loop", "_thread")

    def __init__(self) -> None:
        self._items: asyncio.Queue[Any] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def put(self, item: Any) -> None:
        if threading.get_ident() == self._thread:
            self._items.put_nowait(item)
        else:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._items.put_nowait, item)

    async def get(self) -> Any:
        return await self._items.get()


_END: Final = object()


async def _items(
    run: Callable[[Tap], Awaitable[R]], modes: tuple[Mode, ...] | None, result: list[R]
) -> AsyncGenerator[Any, None]:
    queue = _ItemQueue()
    tap = Tap(modes, queue.put)

    async def run_to_end() -> None:
        try:
            result.append(await run(tap))
        except GraphInterruptedError as stop:
            for mode in tap.modes or ():
                for asked in stop.interrupts:
                    tap.give(mode, asked.node, asked.scope, asked)
            raise
        finally:
            queue.put(_END)

    task = asyncio.ensure_future(run_to_end())
    try:
        while (item := await queue.get()) is not _END:
            yield item
        await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,), timeout=_GRACE)
