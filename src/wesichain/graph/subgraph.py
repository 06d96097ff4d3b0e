"""A graph as a node of another: keys of the same name flow in and out, the others stay inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .graph import Graph
from .state import HIDDEN, Key, Schema, StateUpdate, Write, clone, difference


class Subgraph:
    """Runs a graph inside a task of another. With `keep_state` its own keys live on between visits,
    as part of the outer graph's state: a checkpoint of the one is a checkpoint of the other.
    """

    __slots__ = ("_graph", "_kept", "outer", "seen")

    def __init__(self, graph: Graph[Any], name: str, outer: Schema, *, keep_state: bool) -> None:
        inner = graph.definition.schema
        self._graph = graph
        self._kept = Key(f"{HIDDEN}{name}", inner.type) if keep_state else None
        self.outer = outer if self._kept is None else outer.with_hidden(self._kept)
        names = None if inner.is_open else [key for key in inner.keys if outer.key(key) is not None]
        if names is not None and self._kept is not None:
            names.append(self._kept.name)
        self.seen = self.outer.part(names)

    async def __call__(self, state: Mapping[str, Any]) -> StateUpdate:
        given = {name: value for name, value in state.items() if not name.startswith(HIDDEN)}
        kept = state.get(self._kept.name) if self._kept is not None else None
        ended = await self._graph.run_inside(given, kept=kept)
        update: list[Write] = []
        for name, value in ended.items():
            key = self.outer.key(name)
            if key is not None:
                update += difference(key, given[name], value) if name in given else [(name, value)]
        values: dict[str, Any] = dict(update)
        if self._kept is not None:
            values[self._kept.name] = self._graph.definition.schema.build(clone(ended))
        return StateUpdate(values)
