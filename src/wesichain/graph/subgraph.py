"""A graph as a node of another: keys of the same name flow in, and what was written to them flows out."""

from __future__ import annotations

from typing import Any

from .checkpoints.journal import OuterWrites
from .graph import Graph
from .nodes.node_run import OuterUpdate
from .questions import CURRENT
from .state.kinds import is_mapping
from .state.schema import HIDDEN, Key, Schema, copies


class Subgraph:
    """Runs a graph inside a task of another.

    Its writes to the keys that both have are writes to the outer graph: where the outer key has a reducer,
    each of them in order, else the value at the end. With `keep_state` its own keys live on between visits,
    as part of the outer graph's state: a checkpoint of the one is a checkpoint of the other.
    """

    def __init__(self, graph: Graph[Any], name: str, outer: Schema, *, keep_state: bool) -> None:
        inner = graph.definition.schema
        self._graph = graph
        self._kept = Key(f"{HIDDEN}{name}", inner.type, kept=graph.definition) if keep_state else None
        self.outer = outer if self._kept is None else outer.with_hidden(self._kept)
        shared = [key for key in outer.keys.values() if inner.key(key.name) is not None]
        self._folded = frozenset(key.name for key in shared if key.reducer is not None)
        names = None if inner.is_open else [key for key in inner.keys if outer.key(key) is not None]
        if names is not None and self._kept is not None:
            names.append(self._kept.name)
        self.seen = self.outer.part(names)

    async def __call__(self, state: Any) -> list[Any]:
        given = state
        kept = None
        if is_mapping(state):
            given = {name: value for name, value in state.items() if not name.startswith(HIDDEN)}
            kept = state.get(self._kept.name) if self._kept is not None else None
        outside = CURRENT.get()
        assert outside is not None, "a node runs in a task"
        try:
            values, written = await self._graph.run_inside(outside, given, kept=kept, folded=self._folded)
        except OuterUpdate as handed:
            if handed.ended is None:
                raise
            return [*self._updates(*handed.ended), handed.update]
        return self._updates(copies(values), written)

    def _updates(self, ended: dict[str, Any], written: OuterWrites) -> list[Any]:
        plain = [name for name in sorted(written.keys - self._folded) if not name.startswith(HIDDEN)]
        updates = [{name: value} for name, value in written.writes]
        updates += [
            {name: ended[name]} for name in plain if name in ended and self.outer.key(name) is not None
        ]
        if self._kept is not None:
            updates.append({self._kept.name: ended})
        return updates
