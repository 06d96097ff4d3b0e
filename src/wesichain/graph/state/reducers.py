"""Reducers: how a write is folded into the value that a key has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from wesichain.core.internal import Value

from .kinds import is_items, is_mapping, is_some
from .owned import AppendOnlyList

T = TypeVar("T")

Zero: TypeAlias = Callable[[], Any]


class Unset:
    """A key without a value: nothing was written yet, and its type has no zero."""

    __slots__ = ()


UNSET: Final = Unset()


class Reducer(Value):
    """A named fold. `fold(old, new)` is pure: it returns the folded value and changes neither.

    `zero` makes the value that the first write is folded into; without one the first write is the value.
    """

    name: str
    fold: Callable[[Any, Any], Any]
    zero: Zero | None = None


class Overwrite(Value, Generic[T]):
    """As an annotation, the default: a key keeps one value. As a value, it passes the reducer by:

    `return {"messages": Overwrite([])}` sets the key, whatever its reducer and its siblings' writes.
    """

    value: T


class ReplacedValue(Overwrite[T]):
    """A key's value in a whole state that a node returned, where no write says what became of it.

    It sets the key, and cannot stand beside what others wrote in the same super-step.
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
"""A list extends the list; anything else becomes its next item."""

SetUnion: Final = Reducer("SetUnion", _union, set)
"""The items of a set or list join the set; anything else is one item."""

Merge: Final = Reducer("Merge", _merge, dict)
"""A mapping's entries replace those of the same name."""

Add: Final = Reducer("Add", _add)
"""`old + new`: numbers add up, texts and lists join."""


class Marker(Value):
    """A remark on a key, beside its reducer: `Annotated[list[str], Append, PerStep]`."""

    name: str


Untracked: Final = Marker("Untracked")
"""The value lives as long as the run and is never written to a checkpoint."""

PerStep: Final = Marker("PerStep")
"""The value is there for the super-step after it was written, and gone after that."""


def as_items(value: Any) -> Sequence[Any]:
    """The items that an Append write adds: those of a sequence, or the value itself."""
    return value if is_items(value) else (value,)


def zero_of(type_: object) -> Zero | None:
    """The empty value of a built-in type, for a reducer that says nothing of its own."""
    return cast("Zero", type_) if type_ in _WITH_ZERO else None


_WITH_ZERO: Collection[object] = (list, dict, set, frozenset, tuple, str, bytes, int, float, bool)
