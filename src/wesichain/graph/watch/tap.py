"""A tap on a run: what happens in it as items, for whoever streams it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias, get_args

from typing_extensions import override

from wesichain.core import Event, EventSink, TextDelta, dataclass
from wesichain.errors import ConfigError

Mode: TypeAlias = Literal["events", "values", "updates", "messages", "custom"]
_MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class StreamItem:
    """Something that happened in a run. `subgraph` is the scope of the graph that it happened in, "" outside.

    `data` is by mode: an event; the state after a super-step; what a node wrote; a piece of a model's text;
    what a node gave `ctx.emit`. A question is an `Interrupt`, in every mode.
    """

    mode: Mode
    node: str
    subgraph: str
    data: Any


class Tap(EventSink):
    """Hands on what its reader asked for. Without modes that is every event, as it is."""

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

    def hear(self, event: Event, node: str, subgraph: str) -> None:
        """An event of an agent that runs in a node."""
        if isinstance(event, TextDelta) and self.wants("messages"):
            self.give("messages", node, subgraph, event.text)


def checked_modes(modes: Iterable[Mode] | None) -> tuple[Mode, ...] | None:
    """The modes that a stream was asked for, which there are."""
    if modes is None:
        return None
    asked: tuple[Any, ...] = (modes,) if isinstance(modes, str) else tuple(modes)
    unknown = [mode for mode in asked if mode not in _MODES]
    if unknown or not asked:
        what = f"{unknown[0]!r} is not a mode" if unknown else "no mode was named"
        raise ConfigError(f"stream(modes={asked!r}): {what}; there are {', '.join(_MODES)}")
    return asked
