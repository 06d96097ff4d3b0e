"""Updates: what a node returns, read into writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

from wesichain.core import dataclass, maker

from .compare import common_prefix, same
from .kinds import is_dict, is_items, is_list, is_mapping, is_set
from .owned import Growing, StateView, clone
from .reducers import Append, Merge, Overwrite, SetUnion
from .schema import Key, Schema, Values


@dataclass(frozen=True, slots=True)
class Send:
    """Run a node in the next super-step on a payload of its own, rather than on the shared state."""

    node: str
    payload: Any


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """An update together with where to go next.

    `values` is a partial mapping or a whole state. `goto` names nodes (or holds `Send`s) that run
    next, beside those that the edges lead to. `up` addresses a graph further out: 1 is the graph
    that this one is a node of; the inner run ends there. `whole`: the values are not an update but the
    state as it is now, as far as they go; only what is different counts.
    """

    values: Any = None
    goto: str | Send | Sequence[str | Send] = ()
    up: int = 0
    whole: bool = False


Write: TypeAlias = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """What a node returned: writes in order, each value the run's own, and where to go."""

    writes: tuple[Write, ...] = ()
    goto: tuple[str | Send, ...] = ()


NOTHING = Result()
_result = maker(Result)


class NotAnUpdateError(ValueError):
    """What a node returned cannot be read."""


def is_overwrite(value: object) -> TypeGuard[Overwrite[Any]]:
    return isinstance(value, Overwrite)


def read_result(schema: Schema, returned: Any, *, view: Any, values: Values) -> Result:
    """Read what a node returned. `view` is the state that it was lent, made of `values`, or None."""
    if returned is None:
        return NOTHING
    if isinstance(returned, StateUpdate):
        view = returned.values if returned.whole else view
        inner = read_result(schema, returned.values, view=view, values=values)
        more = (returned.goto,) if isinstance(returned.goto, str | Send) else returned.goto
        return Result(inner.writes, (*inner.goto, *map(_own_target, more)))
    if schema.holds(returned) or returned is view:
        return Result(tuple(_differences(schema, returned, values)))
    if is_mapping(returned):
        return _result(tuple(_writes(schema, returned, view, values)))
    if is_items(returned):
        many = [read_result(schema, item, view=view, values=values) for item in returned]
        writes = [write for one in many for write in one.writes]
        return Result(tuple(writes), tuple(target for one in many for target in one.goto))
    if isinstance(returned, Send):
        raise NotAnUpdateError("it returned a Send, which is where to go: return StateUpdate(goto=Send(...))")
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


def _writes(schema: Schema, update: Mapping[Any, Any], view: Any, values: Values) -> list[Write]:
    lent = view if isinstance(view, StateView) else None
    writes: list[Write] = []
    for name, value in update.items():
        key = known_key(schema, name)
        if lent is not None and name in values.lends and value is lent.lent(name):
            # A container that the node was lent and hands back is not an update of itself:
            # only what was changed in it is.
            writes += difference(key, values.data[name], value)
        else:
            writes.append((name, _owned(schema, key, value, values)))
    return writes


def _owned(schema: Schema, key: Key, value: Any, values: Values) -> Any:
    """The value checked, and copied: the node may keep its own."""
    try:
        if is_overwrite(value):
            return Overwrite(clone(schema.checked(values.data, key.name, value.value)))
        if key.reducer is None or key.reducer is Append:
            value = schema.checked(values.data, key.name, value)
        return clone(value)  # other reducers may take writes of another type than their value
    except RecursionError:
        raise NotAnUpdateError(f"what it wrote to the key {key.name!r} nests too deeply") from None
    except Exception as error:
        raise NotAnUpdateError(f"it wrote a wrong value to the key {key.name!r}: {error}") from error


def _differences(schema: Schema, state: Any, values: Values) -> list[Write]:
    """What a whole state has that the values have not."""
    writes: list[Write] = []
    for name, value in schema.contents(state).items():
        key = known_key(schema, name)
        old = values.data.get(name)
        if name not in values.data or value is not old:
            changes = difference(key, old, value) if name in values.data else [(name, Overwrite(value))]
            writes += [(name, _owned(schema, key, change, values)) for _, change in changes]
    return writes


def difference(key: Key, old: Any, new: Any) -> list[Write]:
    """Nothing, what was added to a list, set or mapping that is folded, or the new value as a whole."""
    if isinstance(old, Growing):
        old = old.shared()
    if same(old, new):
        return []
    if key.reducer is Append and is_list(old) and is_list(new):
        if len(old) == common_prefix(old, new):
            return [(key.name, clone(new[len(old) :]))]
    elif key.reducer is SetUnion and is_set(old) and is_set(new):
        if old <= new:
            return [(key.name, new - old)]
    elif key.reducer is Merge and is_dict(old) and is_dict(new) and old.keys() <= new.keys():
        changed = {name: item for name, item in new.items() if name not in old or not same(old[name], item)}
        return [(key.name, clone(changed))]
    return [(key.name, Overwrite(clone(new)))]
