"""A graph as a node of another: keys of the same name flow in, and what was written to them flows out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .graph import Graph
from .state import HIDDEN, Append, Key, Merge, Schema, SetUnion, clone, difference


class Subgraph:
    """Runs a graph inside a task of another. With `keep_state` its own keys live on between visits,
    as part of the outer graph's state: a checkpoint of the one is a checkpoint of the other.
    """

    __slots__ = ("_graph", "_hands", "_kept", "outer", "seen")

    def __init__(self, graph: Graph[Any], name: str, outer: Schema, *, keep_state: bool) -> None:
        inner = graph.definition.schema
        self._graph = graph
        self._kept = Key(f"{HIDDEN}{name}", inner.type) if keep_state else None
        self.outer = outer if self._kept is None else outer.with_hidden(self._kept)
        self._hands = frozenset(
            key.name for key in inner.keys.values() if _is_handed(key, self.outer.key(key.name))
        )
        names = None if inner.is_open else [key for key in inner.keys if outer.key(key) is not None]
        if names is not None and self._kept is not None:
            names.append(self._kept.name)
        self.seen = self.outer.part(names)

    async def __call__(self, state: Mapping[str, Any]) -> list[dict[str, Any]]:
        given = {name: value for name, value in state.items() if not name.startswith(HIDDEN)}
        kept = state.get(self._kept.name) if self._kept is not None else None
        ended, outward = await self._graph.run_inside(given, kept=kept, hands=self._hands)
        hands = self._hands if outward.is_whole else frozenset[str]()
        updates = [{name: value} for name, value in outward.writes if name in hands]
        for name in sorted(outward.keys - hands):
            key = self.outer.key(name)
            if key is not None and name in ended:
                changes = (
                    difference(key, given[name], ended[name]) if name in given else [(name, ended[name])]
                )
                updates += [{name: change} for _, change in changes]
        if self._kept is not None:
            updates.append({self._kept.name: self._graph.definition.schema.build(clone(ended))})
        return updates


def _is_handed(inner: Key, outer: Key | None) -> bool:
    """Whether both fold a key in the same way, and one of their own: then the outer reducer is handed the
    inner writes themselves. What lists, sets and mappings have grown by says as much, and is shorter.
    """
    if outer is None or inner.per_step or outer.per_step:
        return False
    return inner.reducer == outer.reducer and inner.reducer not in (None, Append, SetUnion, Merge)
