"""Encodes the state, tasks and results of a graph as JSON, by the types that its definition declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, get_args

from wesichain.core.internal import Value, dump_json, same
from wesichain.errors import CheckpointError, CodecError
from wesichain.graph.definition import START, Definition, Join, task_id
from wesichain.graph.state.kinds import is_dict, is_mapping
from wesichain.graph.state.owned import AppendOnlyList, clone, plain_list
from wesichain.graph.state.reducers import Append, Overwrite, ReplacedValue, as_items
from wesichain.graph.state.schema import HIDDEN, Key, StateValues, put
from wesichain.graph.state.updates import NodeResult, Send, Write, is_overwrite
from wesichain.graph.superstep import Folded, Frontier, NodeTask

from .coding import ANYTHING, Coder, coder_of, excerpt, list_of, text_of
from .deltas import delta


class StoredPayload(Value):
    """The stored payload of a Send that this program cannot read; `error`: why, if it has the node."""

    how: str
    data: Any
    error: CheckpointError | None = None


class ReadValues(NamedTuple):
    """Values as read by this program. `refusal`: the reason why it cannot resume from them."""

    values: StateValues
    migration: MigratedState | None = None
    refusal: CheckpointError | None = None


class StateCode:
    """Encodes and decodes the contents of a checkpoint. Errors name the node and the key."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._coders: dict[int, Coder] = {}

    # --- values ------------------------------------------------------------------------------------

    def deltas(self, folded: Folded) -> dict[str, str]:
        """Return the changes of a super-step as JSON texts, by key."""
        changed: dict[str, str] = {}
        for name, change in folded.changes.items():
            if (key := self._tracked(name)) is None:
                continue
            with _Naming(change.node, name):
                new = folded.values[name]
                changed[name] = text_of(delta(self._coder(key), change.old, new, kept=change.kept))
        return changed

    def all_values(self, folded: Folded) -> dict[str, str]:
        """Return all values as JSON texts, so that the checkpoint can be read without earlier ones."""
        stored: dict[str, str] = {}
        for name, value in folded.values.items():
            if (key := self._tracked(name)) is not None:
                change = folded.changes.get(name)
                with _Naming(START if change is None else change.node, name):
                    stored[name] = text_of({"=": self._coder(key).encode(plain_list(value))})
        return stored

    def values(self, stored: Mapping[str, Any], version: int) -> ReadValues:
        """Decode values; migrate those of an older version. Keys that the state no longer has are ignored;
        new keys, and those that this program cannot read, get their initial values.
        """
        values, now = self._definition.schema.start(), self._definition.version
        if version > now:
            return ReadValues(values, refusal=_newer(version, now))
        try:
            migration = None if version == now else MigratedState(self._definition, stored, version)
        except CheckpointError as error:
            return ReadValues(values, refusal=error)
        refusal: CheckpointError | None = None
        read: list[tuple[str, Any, Callable[[Key, Any], Any]]] = []
        if migration is not None:
            kept = {name: data for name, data in stored.items() if name not in migration.before}
            stored = {_hidden(self._definition, name, version): data for name, data in kept.items()}
            read += [(name, item, self._adopted) for name, item in migration.after.items()]
        read += [(name, data, self._decoded) for name, data in stored.items()]
        for name, data, decode in read:
            if (key := self._tracked(name)) is None:
                continue
            try:
                with _Naming(None, name):
                    put(values, key, decode(key, data))
            except CheckpointError as error:
                refusal = refusal or error
        return ReadValues(values, migration, refusal)

    def _decoded(self, key: Key, data: Any) -> Any:
        return self._coder(key).decode(data)

    def next_values(
        self, values: StateValues, stored: Mapping[str, Any], body: Mapping[str, Any]
    ) -> StateValues:
        """Return the values after one more checkpoint; only its changes are decoded."""
        data, start = dict(values), self._definition.schema.start()
        for name, change in body["values"].items():
            if (key := self._tracked(name)) is None:
                continue
            coder, old = self._coder(key), data.get(name)
            with _Naming(None, name):
                if key.reducer is Append and "+" in change and isinstance(old, AppendOnlyList):
                    kept, items = change["+"]
                    if kept == len(old) and coder.item is not None:
                        data[name] = old.extend([coder.item.decode(item) for item in items])
                        continue
                put(data, key, coder.decode(stored[name]))
        for name in body.get("gone", ()):
            _restart(data, name, start)
        return data

    def kept(self, values: StateValues) -> StateValues:
        """Return the values as another run would read them: untracked keys have their initial values."""
        schema = self._definition.schema
        if all(key.tracked for key in schema.keys.values()):
            return values
        start = schema.start()
        data = dict(values)
        for name, key in schema.keys.items():
            if not key.tracked:
                _restart(data, name, start)
        return data

    def _adopted(self, key: Key, item: Any) -> Any:
        """Return the value of a key that a migration made, as a value of its type or as its data."""
        coder = self._coder(key)
        try:
            coder.encode(item)
        except CodecError:
            return coder.decode(item)
        return clone(item)

    def _key(self, name: str) -> Key | None:
        return self._definition.schema.key(name)

    def _tracked(self, name: str) -> Key | None:
        """Return the key with this name if its values are stored."""
        key = self._key(name)
        return key if key is not None and key.tracked else None

    def _coder(self, key: Key) -> Coder:
        found = self._coders.get(id(key))  # inner graphs may have keys with the same name
        if found is None:
            found = coder_of(key.type) if key.kept is None else self._kept_coder(key.kept)
            if key.reducer is Append and found.item is None:  # declared as a tuple, or without a type
                found = list_of((*get_args(key.type), Any)[0])
            if not self._definition.schema.is_open:
                self._coders[id(key)] = found
        return found

    def _kept_coder(self, inner: Definition) -> Coder:
        """The coder of the kept state of an inner graph, with the kept states of graphs inside it. The state
        of an older version of the inner graph is migrated.
        """
        schema, typed = inner.schema, coder_of(inner.schema.type)

        def write(values: Any) -> dict[str, Any]:
            data: dict[str, Any] = typed.encode(schema.build(values))
            hidden = {name: key for name, key in schema.hidden.items() if name in values}
            data |= {name: self._coder(key).encode(values[name]) for name, key in hidden.items()}
            return data if inner.version == 1 else {**data, HIDDEN: inner.version}

        def read(data: Any) -> dict[str, Any]:
            if not is_dict(data):
                raise CodecError(f"{excerpt(data)} is not a stored state")
            version = data.get(HIDDEN, 1)
            own = {name: item for name, item in data.items() if not name.startswith(HIDDEN)}
            if version < inner.version:
                migrated = MigratedState(inner, own, version).after
                keys = {name: key for name in migrated if (key := schema.key(name)) is not None}
                values = {name: self._adopted(key, migrated[name]) for name, key in keys.items()}
            else:
                values = dict(schema.contents(typed.decode(own)))
            for name in data.keys() - own.keys():
                if (key := schema.hidden.get(_hidden(inner, name, version))) is not None:
                    values[key.name] = self._coder(key).decode(data[name])
            return values

        return Coder(write, read)

    # --- tasks and results -------------------------------------------------------------------------

    def tasks(self, frontier: Frontier) -> list[Any]:
        return [
            self._write_send(Send(task.node, task.payload)) if task.is_sent else task.node
            for task in frontier.tasks
        ]

    def joins(self, frontier: Frontier) -> list[Any]:
        """Encode the joins that some of their sources have reached."""
        return [
            [sorted(join.sources), join.target, sorted(nodes)] for join, nodes in frontier.arrived.items()
        ]

    def frontier(
        self, body: Mapping[str, Any], migration: MigratedState | None, version: int, *, is_old: bool = False
    ) -> tuple[Frontier, dict[str, str]]:
        """Decode the frontier of a checkpoint with the node names of this program; also return the new ids of
        renamed tasks by their stored ids. `is_old`: the checkpoint has format 1.
        """
        tasks: list[NodeTask] = []
        ids: dict[str, str] = {}
        sent = 0
        for item in body["next"]:
            stored = item if isinstance(item, str) else item[0]
            node = self._definition.renamed(stored, version)
            before, now = stored if is_old else task_id(stored), task_id(node)
            if isinstance(item, str):
                tasks.append(NodeTask(now, node))
            else:
                try:
                    payload = self._read_send([node, *item[1:]], migration).payload
                except CheckpointError as error:
                    payload = StoredPayload(item[1], item[2], error)
                before, now = f"{before}#{sent}", f"{now}#{sent}"
                tasks.append(NodeTask(now, node, payload))
                sent += 1
            if before != now:
                ids[before] = now
        names = partial(self._definition.renamed, version=version)
        deferred = frozenset(map(names, body.get("deferred", ())))
        return Frontier(tuple(tasks), self._arrived(body.get("joins", ()), names), deferred), ids

    def _arrived(self, stored: Any, names: Callable[[str], str]) -> dict[Join, frozenset[str]]:
        """Decode the joins that some of their sources have reached."""
        if not is_dict(stored):
            return {
                Join(frozenset(map(names, sources)), names(target)): frozenset(map(names, nodes))
                for sources, target, nodes in stored
            }
        found: dict[Join, frozenset[str]] = {}
        for place, nodes in stored.items():  # format 1: by their position in the program
            here, index, joins = frozenset(nodes), int(place), self._definition.joins
            fits = [join for join in joins if here <= join.sources]
            by_place = [join for join in joins[index : index + 1] if join in fits]
            for join in by_place or fits[:1]:
                found[join] = here
        return found

    def result(self, node: str, result: NodeResult) -> dict[str, Any]:
        body: dict[str, Any] = {}
        if result.writes:
            body["writes"] = [self._write(node, name, value) for name, value in result.writes]
        if result.goto:
            body["goto"] = [self._write_send(to) if isinstance(to, Send) else to for to in result.goto]
        return body

    def read_result(
        self, body: Mapping[str, Any], migration: MigratedState | None, version: int
    ) -> NodeResult:
        stored, names = body.get("writes", []), partial(self._definition.renamed, version=version)
        writes = self.read_writes(stored) if migration is None else self._migrated(stored, migration)
        goto = [
            names(to) if isinstance(to, str) else self._read_send([names(to[0]), *to[1:]], migration)
            for to in body.get("goto", [])
        ]
        return NodeResult(tuple(writes), tuple(goto))

    def writes(self, writes: Sequence[Write]) -> list[Any]:
        """Encode the writes of an inner graph to the outer graph."""
        return [self._write(START, name, value) for name, value in writes if self._tracked(name)]

    def read_writes(self, stored: Sequence[Any]) -> tuple[Write, ...]:
        return tuple([self._read(*write) for write in stored if self._key(write[0]) is not None])

    def _migrated(self, stored: Sequence[Any], migration: MigratedState) -> list[Write]:
        """Migrate the writes of a task of an older version."""
        writes: list[Write] = []
        for name, how, data in stored:
            for new, item in migration.writes({name: data}).items():
                if (key := self._tracked(new)) is None:
                    continue
                with _Naming(None, new):
                    value = item if how == "plain" else self._adopted(key, item)
                writes.append((new, _OVERWRITES[how](value) if how in _OVERWRITES else value))
        return writes

    def _write(self, node: str, name: str, value: Any) -> list[Any]:
        key = self._key(name)
        assert key is not None, "writes are checked when they are read"
        with _Naming(node, name):
            coder, how = self._coder(key), "typed"
            if is_overwrite(value):
                how, value = "whole" if isinstance(value, ReplacedValue) else "set", value.value
            elif key.reducer is Append:
                value = list(as_items(value))
            try:
                data = coder.encode(value)
            except CodecError:
                if key.reducer is None or key.reducer is Append or how in _OVERWRITES:
                    raise
                how, data = "plain", ANYTHING.encode(value)  # a reducer may accept writes of another type
            text_of(data)
        return [name, how, data]

    def _read(self, name: str, how: str, data: Any) -> Write:
        key = self._key(name)
        assert key is not None, "unknown keys are skipped before"
        with _Naming(None, name):
            value = (ANYTHING if how == "plain" else self._coder(key)).decode(data)
        return name, _OVERWRITES[how](value) if how in _OVERWRITES else value

    def _write_send(self, send: Send) -> list[Any]:
        if isinstance(send.payload, StoredPayload):
            return [send.node, send.payload.how, send.payload.data]
        schema = self._definition.nodes[send.node].schema
        typed = schema.holds(send.payload)
        with _Naming(send.node, "payload"):
            data = (coder_of(schema.type) if typed else ANYTHING).encode(send.payload)
            text_of(data)
        return [send.node, "state" if typed else "plain", data]

    def _read_send(self, stored: Sequence[Any], migration: MigratedState | None) -> Send:
        node, how, data = stored
        if node not in self._definition.nodes:
            return Send(node, StoredPayload(how, data))
        with _Naming(None, "payload"):
            if how != "state":
                return Send(node, ANYTHING.decode(data))
            type_ = self._definition.nodes[node].schema.type
            if migration is not None and type_ is self._definition.schema.type and is_dict(data):
                data = migration.run(data)
            return Send(node, coder_of(type_).decode(data))


_OVERWRITES: Final[Mapping[str, type[Overwrite[Any]]]] = {
    "set": Overwrite,
    "whole": ReplacedValue,
}  # writes that replace a value, whatever its reducer


class _Naming:
    """Converts coding errors raised inside it to errors that name the node and the key."""

    __slots__ = ("_key", "_node")

    def __init__(self, node: str | None, key: str) -> None:
        self._node = node
        self._key = key

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and isinstance(error, CodecError | RecursionError):
            raise _refused(self._node, self._key, error) from error


def _restart(data: dict[str, Any], name: str, start: Mapping[str, Any]) -> None:
    """Reset a key to its initial value."""
    data.pop(name, None)
    if name in start:
        data[name] = start[name]


def _hidden(definition: Definition, name: str, version: int) -> str:
    """Return the present name of the key of a kept inner state, which contains the name of the node."""
    return (
        HIDDEN + definition.renamed(name.removeprefix(HIDDEN), version) if name.startswith(HIDDEN) else name
    )


def _newer(version: int, now: int) -> CheckpointError:
    return CheckpointError(
        f"the thread was written by version {version} of the graph, and this is version {now}; run it with "
        f"the newer program, which has the migrations up to {version}, or start over with "
        f"ExecutionOptions(restart=True)"
    )


def _refused(node: str | None, key: str, error: Exception) -> CheckpointError:
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    if node is not None:
        what = f"node {node!r}: the key {key!r} cannot be stored in the checkpoint: {reason}"
    else:
        what = (
            f"the key {key!r} could not be read from the checkpoint: {reason}; if its type has "
            f"changed, convert it with GraphBuilder(..., migrations={{2: function}})"
        )
    return CheckpointError(what, node=node)


def with_values(body: str, values: Mapping[str, str]) -> str:
    """Return the text of a checkpoint: its body with the encoded values inserted."""
    inside = ",".join([f"{_name(name)}:{text}" for name, text in values.items()])
    return f'{body[:-1]},"values":{{{inside}}}}}'


_name = lru_cache(maxsize=4096)(dump_json)  # every checkpoint has the same keys


# --- states of older versions -----------------------------------------------------------------------


class MigratedState:
    """A state of an older version as stored (`before`), and migrated to this version (`after`)."""

    def __init__(self, definition: Definition, stored: Mapping[str, Any], version: int) -> None:
        self._definition = definition
        self._version = version
        self.before = plain_values(stored)
        self.after = self.run(self.before)

    def run(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Run all migrations from the old version to this one, in order."""
        data: dict[str, Any] = clone(dict(state))
        for number in sorted(self._definition.migrations):
            migrate = self._definition.migrations[number].function
            if number <= self._version or migrate is None:
                continue
            try:
                made = migrate(data)
            except Exception as error:
                raise CheckpointError(
                    f"the migration to version {number} raised {type(error).__name__}: {error}; it was given "
                    f"the keys {', '.join(map(repr, data)) or 'none'}"
                ) from error
            if made is not None:
                if not is_mapping(made):
                    raise CheckpointError(
                        f"the migration to version {number} returned {type(made).__name__}; return the whole "
                        f"state as a mapping, or change the one that it is given"
                    )
                data = dict(made)
        return data

    def writes(self, written: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the writes of a task to the old state to writes to the new one."""
        after = self.run({**self.before, **{name: _plain(data) for name, data in written.items()}})
        return {
            name: item
            for name, item in after.items()
            if name in written or name not in self.after or not same(self.after[name], item)
        }


def plain_values(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Decode stored values as plain data, without their declared types."""
    return {name: _plain(data) for name, data in stored.items() if not name.startswith(HIDDEN)}


def _plain(data: Any) -> Any:
    try:
        return ANYTHING.decode(data)
    except CodecError:
        return data
