"""Updates: reads the value that a node returns into writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any, TypeAlias, TypeGuard

from wesichain.core.internal import Value, same

from .kinds import is_dict, is_items, is_list, is_mapping, is_tuple
from .owned import AppendOnlyList, StateView, clone, is_copied, plain_list
from .reducers import UNSET, Append, Overwrite, Reducer, ReplacedValue
from .schema import Key, Schema, StateValues


class Send(Value):
    """Runs a node in the next super-step on its own payload instead of the shared state."""

    node: str
    payload: Any


class StateUpdate(Value):
    """An update of the state, with the nodes to run next.

    `values` is a partial mapping or a whole state. `goto` has names of nodes, or `Send`s, that run next in
    addition to those of the edges. `up=1` applies the update to the outer graph, of which this graph is a
    node, and ends the inner run; `up=2` goes one graph further out. With `whole`, the values are part of the
    new state rather than writes: only differences are written, and keys that the state lacks are ignored.
    """

    values: Any = None
    goto: str | Send | Sequence[str | Send] = ()
    up: int = 0
    whole: bool = False


Write: TypeAlias = tuple[str, Any]


class NodeResult(Value):
    """The result of a node: its writes in order, with copied values, and its targets."""

    writes: tuple[Write, ...] = ()
    goto: tuple[str | Send, ...] = ()


NOTHING = NodeResult()


class NotAnUpdateError(ValueError):
    """A node returned a value that is not an update."""


def is_overwrite(value: object) -> TypeGuard[Overwrite[Any]]:
    # `isinstance` of a struct takes ten times as long where it is none; those have a metaclass of their own.
    return type(type(value)) is not type and isinstance(value, Overwrite)


def read_result(
    schema: Schema, returned: Any, *, view: Any, values: StateValues, before: Mapping[str, Any] | None = None
) -> NodeResult:
    """Read the value that a node returned. `view` is the state that it received, made from `values`, or None.

    `before`: the values to compare a whole state with, if they are not `values` but the payload of a Send.
    """
    if returned is None:
        return NOTHING
    if returned.__class__ is not dict and isinstance(returned, StateUpdate):
        update = returned.values
        if returned.whole:
            if is_mapping(update):
                update = {name: item for name, item in update.items() if schema.key(name) is not None}
            view = update
        inner = read_result(schema, update, view=view, values=values, before=before)
        more = (returned.goto,) if isinstance(returned.goto, str | Send) else returned.goto
        return NodeResult(inner.writes, (*inner.goto, *map(_own_target, more)))
    if schema.holds(returned) or returned is view:
        return NodeResult(tuple(_differences(schema, returned, values, values if before is None else before)))
    if is_mapping(returned):
        return NodeResult(tuple(_writes(schema, returned, view, values)))
    if is_items(returned):
        many = [read_result(schema, item, view=view, values=values, before=before) for item in returned]
        writes = [write for one in many for write in one.writes]
        return NodeResult(tuple(writes), tuple(target for one in many for target in one.goto))
    if isinstance(returned, Send):
        raise NotAnUpdateError("it returned a Send, which is a target: return StateUpdate(goto=Send(...))")
    raise NotAnUpdateError(
        f"it returned {type(returned).__name__}, which is not an update; return a mapping of keys, "
        f"a StateUpdate, a whole state, or None"
    )


def _own_target(target: str | Send) -> str | Send:
    return Send(target.node, clone(target.payload)) if isinstance(target, Send) else target


def known_key(schema: Schema, name: Any) -> Key:
    key = schema.key(name)
    if key is None:
        known = ", ".join(schema.keys) or "any text"
        raise NotAnUpdateError(
            f"it wrote the key {name!r}, which {schema.type.__name__} does not have; its keys: {known}"
        )
    return key


def _writes(schema: Schema, update: Mapping[Any, Any], view: Any, values: StateValues) -> list[Write]:
    state_view = view if isinstance(view, StateView) else None
    writes: list[Write] = []
    for name, value in update.items():
        key = known_key(schema, name)
        if state_view is not None and value is state_view.copy_of(name) and is_copied(values.get(name)):
            # The node returned a container that it read from the state: only its changes are the update.
            writes += difference(key, values[name], value)
        else:
            writes.append((name, _owned(schema, key, value, values)))
    return writes


def _owned(schema: Schema, key: Key, value: Any, values: StateValues) -> Any:
    """Validate and copy a value."""
    try:
        if is_overwrite(value):
            return type(value)(clone(schema.checked(values, key.name, value.value)))
        if key.reducer is None or key.reducer is Append:
            value = schema.checked(values, key.name, value)
        return clone(value)  # other reducers may accept writes of a type other than their value
    except RecursionError:
        raise NotAnUpdateError(f"its value for the key {key.name!r} is nested too deeply") from None
    except Exception as error:
        raise NotAnUpdateError(f"it wrote a wrong value to the key {key.name!r}: {error}") from error


def _differences(schema: Schema, state: Any, values: StateValues, before: Mapping[str, Any]) -> list[Write]:
    """Return the differences between a whole state and the previous one as writes."""
    writes: list[Write] = []
    for name, value in schema.contents(state).items():
        key = known_key(schema, name)
        if name not in before:
            writes.append((name, _owned(schema, key, value, values)))
        elif value is not before[name]:
            changes = difference(key, before[name], value)
            writes += [(name, _owned(schema, key, change, values)) for _, change in changes]
    return writes


def difference(key: Key, old: Any, new: Any) -> list[Write]:
    """Return the write that turns the old value into the new one, and can be folded together with others.

    Returns no write if the values are equal, and a `ReplacedValue` if the reducer has no such write.
    """
    old = plain_list(old)
    if same(old, new):
        return []
    if key.reducer is None:
        return [(key.name, clone(new))]
    if key.per_step:  # each super-step folds writes into the initial value
        old = plain_list(key.start()) if key.start is not None else None
    for part in (_added(old, new), new):
        if _folds_to(key.reducer, old, part, new):
            return [(key.name, clone(part))]
    return [(key.name, ReplacedValue(clone(new)))]


def _added(old: Any, new: Any) -> Any:
    """Return the part of a value that was added to the old one; UNSET if its type is not supported."""
    try:
        if is_dict(new):
            return {name: item for name, item in new.items() if name not in old or not same(old[name], item)}
        return new[len(old) :] if isinstance(new, str) or is_list(new) or is_tuple(new) else new - old
    except Exception:  # noqa: BLE001  # the types may be any
        return UNSET


def _folds_to(reducer: Reducer, old: Any, part: Any, new: Any) -> bool:
    """Whether folding the part into the old value gives the new one."""
    try:
        folded = reducer.fold(AppendOnlyList(old) if reducer is Append else clone(old), clone(part))
        if isinstance(folded, float) and isinstance(new, float | int):
            return isclose(folded, new, rel_tol=1e-12)
        return same(plain_list(folded), new) or bool(folded == new)
    except Exception:  # noqa: BLE001  # the reducer does not accept it as a write
        return False
