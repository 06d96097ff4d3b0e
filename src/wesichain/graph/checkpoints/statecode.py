"""A graph's state, tasks and results as JSON, by what its definition declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from wesichain.errors import CheckpointError, CodecError
from wesichain.graph.definition import START, Definition
from wesichain.graph.state import (
    Append,
    Growing,
    Key,
    Overwrite,
    Result,
    Send,
    Values,
    Write,
    as_items,
    is_overwrite,
    put,
)
from wesichain.graph.superstep import Folded, Frontier, Task

from .coding import coder_of, list_of
from .deltas import delta
from .plain import ANYTHING, Coder, text_of


class StateCode:
    """Writes and reads what a checkpoint holds. Every refusal names the node and the key."""

    __slots__ = ("_coders", "_definition")

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._coders: dict[str, Coder] = {}

    # --- values ------------------------------------------------------------------------------------

    def deltas(self, folded: Folded) -> dict[str, str]:
        """What a super-step changed, key by key, as JSON texts."""
        changed: dict[str, str] = {}
        for name, change in folded.changes.items():
            key = self._key(name)
            if key is not None and key.tracked:
                with _Naming(change.node, name):
                    new = folded.values.data[name]
                    changed[name] = text_of(delta(self._coder(key), change.old, new, kept=change.kept))
        return changed

    def whole(self, folded: Folded) -> dict[str, str]:
        """All values, so that nothing before this checkpoint is needed to read it."""
        stored: dict[str, str] = {}
        for name, value in folded.values.data.items():
            key = self._key(name)
            if key is not None and key.tracked:
                change = folded.changes.get(name)
                with _Naming(START if change is None else change.node, name):
                    plain = value.items() if isinstance(value, Growing) else value
                    stored[name] = text_of({"=": self._coder(key).encode(plain)})
        return stored

    def values(self, stored: Mapping[str, Any]) -> Values:
        """Read values. Keys that the state no longer has are left alone, new ones start where they start."""
        values = self._definition.schema.start()
        for name, data in stored.items():
            key = self._key(name)
            if key is not None and key.tracked:
                with _Naming(None, name):
                    put(values.data, values.lends, key, self._coder(key).decode(data))
        return values

    def _key(self, name: str) -> Key | None:
        return self._definition.schema.key(name)

    def _coder(self, key: Key) -> Coder:
        found = self._coders.get(key.name)
        if found is None:
            found = coder_of(key.type)
            if key.reducer is Append and found.item is None:  # declared as a tuple, or not at all
                found = list_of((*get_args(key.type), Any)[0])
            if not self._definition.schema.is_open:
                self._coders[key.name] = found
        return found

    # --- tasks and results -------------------------------------------------------------------------

    def tasks(self, frontier: Frontier) -> list[Any]:
        return [
            self._write_send(Send(task.node, task.payload)) if task.is_sent else task.node
            for task in frontier.tasks
        ]

    def frontier(
        self, stored: Sequence[Any], arrived: Mapping[str, list[str]], deferred: Sequence[str]
    ) -> Frontier:
        tasks: list[Task] = []
        sent = 0
        for item in stored:
            node = item if isinstance(item, str) else item[0]
            if node not in self._definition.nodes:
                raise CheckpointError(
                    f"the thread goes on at the node {node!r}, which this graph does not have; "
                    f"add it, or go on elsewhere with graph.update_state(..., as_node=...)",
                    node=node,
                )
            if isinstance(item, str):
                tasks.append(Task(node, node))
            else:
                tasks.append(Task(f"{node}#{sent}", node, self._read_send(item).payload))
                sent += 1
        joins = {int(index): frozenset(nodes) for index, nodes in arrived.items()}
        joins = {index: nodes for index, nodes in joins.items() if index < len(self._definition.joins)}
        return Frontier(tuple(tasks), joins, frozenset(deferred) & self._definition.nodes.keys())

    def result(self, node: str, result: Result) -> dict[str, Any]:
        body: dict[str, Any] = {}
        if result.writes:
            body["writes"] = [self._write(node, name, value) for name, value in result.writes]
        if result.goto:
            body["goto"] = [self._write_send(to) if isinstance(to, Send) else to for to in result.goto]
        return body

    def read_result(self, body: Mapping[str, Any]) -> Result:
        writes = [self._read(*write) for write in body.get("writes", []) if self._key(write[0]) is not None]
        goto = [to if isinstance(to, str) else self._read_send(to) for to in body.get("goto", [])]
        return Result(tuple(writes), tuple(goto))

    def _write(self, node: str, name: str, value: Any) -> list[Any]:
        key = self._key(name)
        assert key is not None, "writes are checked when they are read"
        with _Naming(node, name):
            coder, how = self._coder(key), "typed"
            if is_overwrite(value):
                how, value = "set", value.value
            elif key.reducer is Append:
                value = list(as_items(value))
            try:
                data = coder.encode(value)
            except CodecError:
                if key.reducer is None or key.reducer is Append or how == "set":
                    raise
                how, data = "plain", ANYTHING.encode(value)  # a reducer may take writes of another type
            text_of(data)
        return [name, how, data]

    def _read(self, name: str, how: str, data: Any) -> Write:
        key = self._key(name)
        assert key is not None, "asked for before"
        with _Naming(None, name):
            value = (ANYTHING if how == "plain" else self._coder(key)).decode(data)
        return name, Overwrite(value) if how == "set" else value

    def _write_send(self, send: Send) -> list[Any]:
        schema = self._definition.nodes[send.node].schema
        typed = schema.holds(send.payload)
        with _Naming(send.node, "payload"):
            data = (coder_of(schema.type) if typed else ANYTHING).encode(send.payload)
            text_of(data)
        return [send.node, "state" if typed else "plain", data]

    def _read_send(self, stored: Sequence[Any]) -> Send:
        node, how, data = stored
        with _Naming(None, "payload"):
            coder = coder_of(self._definition.nodes[node].schema.type) if how == "state" else ANYTHING
            return Send(node, coder.decode(data))


class _Naming:
    """What is refused inside becomes an error that says whose key it was."""

    __slots__ = ("_key", "_node")

    def __init__(self, node: str | None, key: str) -> None:
        self._node = node
        self._key = key

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, CodecError | RecursionError):
            return
        writer = "" if self._node is None else f"node {self._node!r}: "
        what = "could not be read from" if self._node is None else "cannot be kept in"
        reason = "it nests too deeply" if isinstance(error, RecursionError) else str(error)
        raise CheckpointError(
            f"{writer}the key {self._key!r} {what} the checkpoint: {reason}", node=self._node
        ) from error
