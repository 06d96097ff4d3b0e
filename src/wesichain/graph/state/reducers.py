"""Reducers: how a write is folded into the value of a key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from wesichain.core.internal import Value

from .kinds import is_items, is_mapping, is_some
from .owned import AppendOnlyList

T = TypeVar("T")

Zero: TypeAlias = Callable[[], Any]


class Unset:
    """The value of a key that has not been written and has no initial value."""

    __slots__ = ()


UNSET: Final = Unset()


class Reducer(Value):
    """A named fold. `fold(old, new)` returns the folded value and changes neither argument.

    `zero` makes the value into which the first write is folded; without it, the first write is the value.
    """

    name: str
    fold: Callable[[Any, Any], Any]
    zero: Zero | None = None


class Overwrite(Value, Generic[T]):
    """As an annotation, the default: the last write replaces the value. As a value, it bypasses the reducer:

    `return {"messages": Overwrite([])}` sets the key, whatever its reducer and the writes of other nodes.
    """

    value: T


class ReplacedValue(Overwrite[T]):
    """The value of a key in a whole state that a node returned, if no write leads to it.

    It sets the key, and conflicts with writes of other nodes in the same super-step.
    """


def _append(old: AppendOnlyList, new: Any) -> AppendOnlyList:
    return old.extend(as_items(new))


def _union(old: Any, new: Any) -> set[Any]:
    return set(old) | set(new if is_some(new) or is_items(new) else (new,))


def _merge(old: Any, new: Any) -> dict[Any, Any]:
    if not is_mapping(new):
        raise TypeError(f"Merge takes a mapping, not {type(new).__name__}")
    return {**old, **new}


def _add(old: Any, new: Any) -> Any:
    return old + new


Append: Final = Reducer("Append", _append, AppendOnlyList)
"""A list extends the list; any other value is appended."""

SetUnion: Final = Reducer("SetUnion", _union, set)
"""The items of a set or list are added to the set; any other value is added as one item."""

Merge: Final = Reducer("Merge", _merge, dict)
"""The entries of a mapping are merged into the dict, as `old | new`."""

Add: Final = Reducer("Add", _add)
"""`old + new`: the sum of numbers, the concatenation of texts and lists."""


class Marker(Value):
    """An annotation of a key, in addition to its reducer: `Annotated[list[str], Append, PerStep]`."""

    name: str


Untracked: Final = Marker("Untracked")
"""The value is kept for the run only and never written to a checkpoint."""

PerStep: Final = Marker("PerStep")
"""The value is visible in the super-step after the write only."""


def as_items(value: Any) -> Sequence[Any]:
    """Return the items that a write to an `Append` key adds: those of a sequence, or the value itself."""
    return value if is_items(value) else (value,)


def zero_of(type_: object) -> Zero | None:
    """Return the constructor of a built-in type, as the `zero` of reducers without one."""
    return cast("Zero", type_) if type_ in _WITH_ZERO else None


_WITH_ZERO: Collection[object] = (list, dict, set, frozenset, tuple, str, bytes, int, float, bool)
