"""The super-step as pure functions: fold the writes of the finished tasks, then plan the next tasks.

Nothing here does I/O, reads a clock or calls a node. Writes are folded in the order in which tasks were
planned, never in the order in which they finished, so that a run does not depend on timing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from wesichain.core.internal import Value, field, same
from wesichain.errors import ConflictingUpdateError, GraphError, NodeFailedError

from .definition import END, START, Definition, Join
from .state.kinds import is_mapping
from .state.owned import AppendOnlyList, clone, plain_list
from .state.reducers import UNSET, Append, Overwrite, ReplacedValue, Unset, as_items
from .state.schema import Key, Schema, StateValues, put
from .state.updates import NodeResult, NotAnUpdateError, Send, Write, is_overwrite, known_key, read_result


class NodeTask(Value):
    """One run of one node. Equal plans have equal ids (`Definition.task_ids`)."""

    id: str
    node: str
    payload: Any = UNSET

    @property
    def is_sent(self) -> bool:
        return not isinstance(self.payload, Unset)


class Frontier(Value):
    """The tasks to run next, the joins that wait for more sources, and the deferred nodes that wait."""

    __aside__: ClassVar[tuple[str, ...]] = ("_by_id",)

    tasks: tuple[NodeTask, ...] = ()
    arrived: Mapping[Join, frozenset[str]] = field(default_factory=dict[Join, frozenset[str]])
    deferred: frozenset[str] = frozenset()
    _by_id: dict[str, NodeTask] = field(default_factory=dict[str, NodeTask])

    @property
    def by_id(self) -> Mapping[str, NodeTask]:
        """The tasks by their ids, in order; computed on first use."""
        if not self._by_id:
            self._by_id.update((task.id, task) for task in self.tasks)
        return self._by_id


class Position(Value):
    """The position of a run between two super-steps."""

    values: StateValues
    frontier: Frontier
    step: int = 0


Done: TypeAlias = tuple[NodeTask, NodeResult]


# --- folding ---------------------------------------------------------------------------------------


class StateChange(Value):
    """The change of one key: the node that wrote it, and how many items of a list were kept (None: none)."""

    node: str
    old: Any = UNSET
    kept: int | None = None


class Folded(Value):
    """The values after a super-step, and the changes. `dropped`: `PerStep` keys that were reset."""

    values: StateValues
    changes: Mapping[str, StateChange]
    dropped: tuple[str, ...] = ()


def fold(schema: Schema, values: StateValues, done: Sequence[Done]) -> Folded:
    """Fold the writes of the tasks into the values. Raises if writes conflict, or a reducer fails."""
    writers: dict[str, list[tuple[NodeTask, Any]]] = {}
    for task, result in done:
        for name, value in result.writes:
            writers.setdefault(name, []).append((task, value))
    if not writers and not schema.per_step:
        return Folded(values, {}, ())
    after = dict(values)
    dropped = tuple(
        [name for name in schema.per_step if name not in writers and _reset(schema.keys[name], after)]
    )
    changes: dict[str, StateChange] = {}
    for name in sorted(writers):  # the first of several conflicts is always the same
        writes = writers[name]
        key = schema.key(name)
        assert key is not None, "writes are checked when they are read"
        changes[name] = _fold_key(key, after, writes, fresh=key.per_step)
    return Folded(after, changes, dropped)


def _reset(key: Key, data: dict[str, Any]) -> bool:
    """Reset a `PerStep` key to its initial value; return whether that changed it."""
    old = data.pop(key.name, UNSET)
    if key.start is not None:
        put(data, key, clone(key.start()))
    return not same(plain_list(old), plain_list(data.get(key.name, UNSET)))


def _fold_key(
    key: Key, after: dict[str, Any], writes: Sequence[tuple[NodeTask, Any]], *, fresh: bool
) -> StateChange:
    old = after.get(key.name, UNSET)
    last = writes[-1][0].node
    if len(writes) > 1:
        writes = _chosen(key, writes)
    first = writes[0][1]
    if key.reducer is None or is_overwrite(first):
        put(after, key, first.value if is_overwrite(first) else first)
        if len(writes) == 1:
            return StateChange(last, old)
        base, writes = after[key.name], writes[1:]
    else:
        base = (key.start() if key.start is not None else UNSET) if fresh else old
    if key.reducer is Append:
        return _fold_append(key, after, writes, old, base)
    for task, value in writes:
        base = _reduced(key, base, value, task)
    put(after, key, base)
    return StateChange(last, old)


def _chosen(key: Key, writes: Sequence[tuple[NodeTask, Any]]) -> Sequence[tuple[NodeTask, Any]]:
    """Return all writes, or if one sets the key, that one and the later writes of its task."""
    setting = [index for index, (_, value) in enumerate(writes) if is_overwrite(value)]
    if not setting:
        if key.reducer is not None:
            return writes
        setting = list(range(len(writes)))
    last = setting[-1]
    task, value = writes[last]
    others = writes if isinstance(value, ReplacedValue) else [writes[index] for index in setting]
    if any(other is not task for other, _ in others):
        raise ConflictingUpdateError(key.name, tuple(other.node for other, _ in others))
    then = [write for write in writes[last + 1 :] if write[0] is task]
    return then[-1:] or [writes[last]] if key.reducer is None else [writes[last], *then]


def _fold_append(
    key: Key, after: dict[str, Any], writes: Sequence[tuple[NodeTask, Any]], old: Any, base: Any
) -> StateChange:
    """Append items, without copying the list."""
    grown = (
        base if isinstance(base, AppendOnlyList) else AppendOnlyList(() if isinstance(base, Unset) else base)
    )
    kept = len(grown) if base is old else None
    added = [item for _, value in writes for item in as_items(value)]
    after[key.name] = grown.extend(added)
    return StateChange(writes[-1][0].node, old, kept)


def _reduced(key: Key, old: Any, new: Any, task: NodeTask) -> Any:
    assert key.reducer is not None
    if isinstance(old, Unset):
        return new
    try:
        # The user's reducer may change its arguments, so it gets a copy and its result is copied.
        return clone(key.reducer.fold(clone(old), new))
    except Exception as error:
        raise NodeFailedError(
            f"node {task.node!r}: the reducer {key.reducer.name} of the key {key.name!r} raised "
            f"{type(error).__name__}: {error}",
            node=task.node,
        ) from error


# --- planning --------------------------------------------------------------------------------------


def advance(
    definition: Definition, frontier: Frontier, finished: Iterable[str], targets: Sequence[str | Send]
) -> Frontier:
    """Return the frontier after these nodes. `targets` were chosen by routers and by the nodes themselves."""
    named: dict[str, None] = {}
    sends: list[Send] = []
    arrived = frontier.arrived
    for node in finished:
        for target in definition.edges.get(node, ()):
            named[target] = None
        for join in definition.joins_of.get(node, ()):
            arrived, complete = _arrive(arrived, join, node)
            if complete:
                named[join.target] = None
    for chosen in targets:
        if isinstance(chosen, str):
            named[chosen] = None
        else:
            sends.append(chosen)
    named.pop(END, None)
    return _frontier(definition, list(named), sends, arrived, frontier.deferred)


def added(definition: Definition, frontier: Frontier, targets: Iterable[str | Send]) -> Frontier:
    """Return the frontier with additional targets; deferred nodes wait for the others."""
    if not frontier.tasks:
        return advance(definition, frontier, (), tuple(targets))
    named = {task.node: task for task in frontier.tasks if not task.is_sent}
    sent = [task for task in frontier.tasks if task.is_sent]
    deferred = set(frontier.deferred)
    for target in targets:
        if isinstance(target, Send):
            task_id = f"{definition.task_ids[target.node]}#{len(sent)}"
            sent.append(NodeTask(task_id, target.node, target.payload))
        elif target != END and target not in named:
            if definition.nodes[target].defer:
                deferred.add(target)
            elif target not in deferred:
                named[target] = NodeTask(definition.task_ids[target], target)
    # A thread may have tasks of nodes that this program does not have.
    tasks = sorted(named.values(), key=lambda task: definition.order.get(task.node, -1))
    return Frontier((*tasks, *sent), frontier.arrived, frozenset(deferred))


def _arrive(
    arrived: Mapping[Join, frozenset[str]], join: Join, node: str
) -> tuple[Mapping[Join, frozenset[str]], bool]:
    here = arrived.get(join, frozenset()) | {node}
    if here == join.sources:
        return {other: nodes for other, nodes in arrived.items() if other != join}, True
    return {**arrived, join: here}, False


def _frontier(
    definition: Definition,
    named: list[str],
    sends: Sequence[Send],
    arrived: Mapping[Join, frozenset[str]],
    deferred: frozenset[str],
) -> Frontier:
    if len(named) > 1:
        named.sort(key=definition.order.__getitem__)
    if deferred or not definition.may_defer.isdisjoint(named):
        deferred = deferred.union(definition.may_defer.intersection(named))
        named = [name for name in named if name not in deferred]
        if not named and not sends:
            named, deferred = sorted(deferred, key=definition.order.__getitem__), frozenset()
    ids = definition.task_ids
    tasks = [NodeTask(ids[name], name) for name in named]
    tasks += [
        NodeTask(f"{ids[send.node]}#{index}", send.node, send.payload) for index, send in enumerate(sends)
    ]
    return Frontier(tuple(tasks), arrived, deferred, {})


def check_target(definition: Definition, source: str, target: object) -> str | Send:
    """Return the target if it exists; raise an error that names its source if not."""
    if isinstance(target, str):
        if target in definition.nodes or target == END:
            return target
    elif isinstance(target, Send) and target.node in definition.nodes:
        return target
    name = target.node if isinstance(target, Send) else target
    known = ", ".join(map(repr, definition.nodes))
    where = "the entry" if source not in definition.nodes else f"node {source!r}"
    raise GraphError(f"{where} leads to {name!r}, which is not a node; the nodes: {known}", node=source)


# --- inputs, and updates from outside ---------------------------------------------------------------


def take_input(
    definition: Definition, given: Any, values: StateValues | None = None, *, as_it_is: bool = False
) -> Folded:
    """Fold the input of a run into the values of its thread, or into the initial values.

    On a new thread, a whole state becomes the state. On a thread with values, it is merged: keys with a
    reducer are folded unless they have their initial values, the others are set. With `as_it_is`, the input
    has the values of an outer graph's state, which are set without folding.
    """
    schema = definition.schema
    try:
        writes = _read(schema, given, values)
        if as_it_is:
            writes = [(name, value if is_overwrite(value) else Overwrite(value)) for name, value in writes]
    except NotAnUpdateError as error:
        raise GraphError(f"the input: {error}", node=START) from error
    except Exception as error:
        raise GraphError(f"the input is not a {schema.type.__name__}: {error}", node=START) from error
    folded = fold(
        schema,
        schema.start() if values is None else values,
        [(NodeTask(START, START), NodeResult(tuple(writes)))],
    )
    if missing := schema.missing(folded.values):
        raise GraphError(f"the input lacks {', '.join(map(repr, missing))}", node=START)
    return folded


def _read(schema: Schema, given: Any, values: StateValues | None) -> list[Write]:
    if given is None:
        return []
    if schema.holds(given):
        return _as_writes(schema, given, fresh=values is None)
    if not is_mapping(given):
        raise NotAnUpdateError(
            f"{type(given).__name__} is not a state; pass a {schema.type.__name__} or a mapping"
        )
    mapping = given
    for name in mapping:
        known_key(schema, name)
    if values is None:
        mapping = schema.validated(mapping)
    return list(read_result(schema, mapping, view=None, values=values or schema.start()).writes)


def _as_writes(schema: Schema, state: Any, *, fresh: bool) -> list[Write]:
    writes: list[Write] = []
    for name, value in schema.contents(state).items():
        key = schema.keys[name]
        if fresh or key.reducer is None:
            writes.append((name, Overwrite(clone(value))))
        elif key.start is None or not same(plain_list(key.start()), value):
            writes.append((name, clone(value)))
    return writes


def take_update(
    definition: Definition, given: Any, values: StateValues, node: str | None
) -> tuple[Folded, tuple[str | Send, ...]]:
    """Fold an update made between two super-steps; also return its targets."""
    try:
        result = read_result(definition.schema, given, view=None, values=values)
    except NotAnUpdateError as error:
        raise GraphError(f"the update: {error}", node=node) from error
    goto = [check_target(definition, node or START, target) for target in result.goto]
    return fold(definition.schema, values, [(NodeTask(node or START, node or START), result)]), tuple(goto)
