"""Owned values: a run owns its state, so that a node can change it only by returning an update.

A value is copied when it is written, and again when a node reads it. Immutable values (text, numbers, frozen
dataclasses) are shared. Copies are deep for lists, dicts, sets, tuples, dataclasses and pydantic models. Any
other object is shared as it is.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from typing_extensions import override

from .kinds import fields_of, is_dataclass_type, is_dict, is_model

Copier: TypeAlias = Callable[[Any], Any]


class AppendOnlyList:
    """A list that is extended without changing shorter versions of it; costs as much as the new items."""

    __slots__ = ("_is_flat", "_items", "_length", "_marks")

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._items: list[Any] = list(items)
        self._length = len(self._items)
        self._marks: dict[str, tuple[int, int]] = {}
        self._is_flat = _all_shared(self._items)  # stored, since checking all items takes longer than a copy

    def __len__(self) -> int:
        return self._length

    def extend(self, items: Sequence[Any]) -> AppendOnlyList:
        longer = AppendOnlyList.__new__(AppendOnlyList)
        # Another list may already extend this one: then the items are copied.
        is_longest = len(self._items) == self._length
        longer._items = self._items if is_longest else self.items()
        longer._marks = self._marks if is_longest else {}
        longer._items.extend(items)
        longer._length = len(longer._items)
        longer._is_flat = self._is_flat and _all_shared(items)
        return longer

    def items(self, start: int = 0) -> list[Any]:
        return self._items[start : self._length]

    def clones(self) -> list[Any]:
        """Return the items as a new list, with copies of mutable items."""
        return self.items() if self._is_flat else [clone(item) for item in self.items()]

    def folded(self, fold: Callable[[int, Sequence[Any]], int], start: int) -> int:
        """Fold the items from the left into a number. Items that were folded before are not folded again."""
        count, mark = self._marks.get("last", (0, start))
        if count > self._length:  # a longer list was folded before
            count, mark = 0, start
        mark = fold(mark, self.items(count))
        self._marks["last"] = self._length, mark
        return mark

    def shared(self) -> list[Any]:
        """Return the items as a list that must not be changed, without a copy if this is the longest list."""
        return self._items if len(self._items) == self._length else self.items()


def plain_list(value: Any) -> Any:
    """Return an `AppendOnlyList` as a list that must not be changed; other values as they are."""
    return value.shared() if isinstance(value, AppendOnlyList) else value


# --- copying ---------------------------------------------------------------------------------------


def clone(value: Any) -> Any:
    """Return a copy of a value, in which all mutable values are copied."""
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]  # any class
    copy = _copier(kind)
    return value if copy is None else copy(value)


def is_copied(value: Any) -> bool:
    """Whether nodes receive a copy of this value, since it could be changed in place."""
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]  # any class
    copy = _copier(kind)
    return copy is not None and not (copy is _copy_tuple and _all_shared(value))


def _all_shared(items: Iterable[Any]) -> bool:
    return all(_copier(kind) is None for kind in set(map(type, items)))


@cache
def _copier(kind: type[Any]) -> Copier | None:
    """Return the function that copies values of this class; None if they are shared."""
    if kind in _COPIERS:
        return _COPIERS[kind]
    for known in (list, dict, set, deque, bytearray):
        if issubclass(kind, known):
            return _copy_special
    if is_model(kind):
        return None if getattr(kind, "model_config", {}).get("frozen") else _copy_model
    if is_dataclass_type(kind) and not _is_frozen(kind):
        return _copy_dataclass
    return None


def _is_frozen(kind: Any) -> bool:
    return kind.__setattr__ is not object.__setattr__


def _copy_list(value: list[Any]) -> list[Any]:
    return value.copy() if _all_shared(value) else [clone(item) for item in value]


def _copy_dict(value: dict[Any, Any]) -> dict[Any, Any]:
    if _all_shared(value.values()):
        return value.copy()
    return {key: clone(item) for key, item in value.items()}


def _copy_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    return value if _all_shared(value) else tuple([clone(item) for item in value])


def _copy_special(value: Any) -> Any:
    """Copy an instance of a container subclass (a defaultdict, a deque) and its items."""
    if isinstance(value, StateView):
        return {key: clone(item) for key, item in value.items()}
    copied = copy.copy(value)
    if is_dict(value):
        for key, item in value.items():
            copied[key] = clone(item)
    elif not isinstance(value, set | bytearray):
        for index, item in enumerate(value):
            copied[index] = clone(item)
    return copied


def _copy_dataclass(value: Any) -> Any:
    copied = copy.copy(value)
    for field in fields_of(value):
        item = getattr(value, field.name, None)
        copied_item = clone(item)
        if copied_item is not item:
            setattr(copied, field.name, copied_item)
    return copied


def _copy_model(value: Any) -> Any:
    return value.model_copy(update={name: clone(item) for name, item in value.__dict__.items()})


_COPIERS: Mapping[type, Copier | None] = {
    AppendOnlyList: AppendOnlyList.clones,
    list: _copy_list,
    dict: _copy_dict,
    tuple: _copy_tuple,
    set: set[Any].copy,
    str: None,
    int: None,
    float: None,
    bool: None,
    type(None): None,
}


# --- views -----------------------------------------------------------------------------------------


class StateView(dict[str, Any]):
    """The state as a node sees it: mutable values are copied when they are first read.

    The cost of a super-step thus depends on the keys that its nodes use, not on the size of the state.
    """

    __slots__ = ("_unread",)

    def __init__(self, values: Mapping[str, Any], unread: dict[str, Any]) -> None:
        """`unread`: the values to copy when they are read."""
        super().__init__(values)
        # C code bypasses the methods below: it gets a list, though a shared one.
        for key, value in unread.items():
            if type(value) is AppendOnlyList:
                super().__setitem__(key, value.shared())
        self._unread = unread

    def copy_of(self, key: str) -> Any:
        """Return the copy of this key's value, or None if it was not read."""
        return None if key in self._unread else super().get(key)

    def _read_all(self) -> None:
        for key in tuple(self._unread):
            self[key]

    @override
    def __getitem__(self, key: str) -> Any:
        if key in self._unread:
            super().__setitem__(key, clone(self._unread.pop(key)))
        return super().__getitem__(key)

    @override
    def __setitem__(self, key: str, value: Any) -> None:
        self._unread.pop(key, None)
        super().__setitem__(key, value)

    @override
    def __delitem__(self, key: str) -> None:
        self._unread.pop(key, None)
        super().__delitem__(key)

    @override
    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401  # this is get

    @override
    def __iter__(self) -> Any:  # with it, dict(view) and {**view} use __getitem__
        return super().__iter__()

    @override
    def __repr__(self) -> str:
        return repr(dict(self))

    @override
    def __reduce__(self) -> Any:
        return dict, (dict(self),)


def _reads_all(name: str) -> Any:
    plain = getattr(dict, name)

    def method(self: StateView, *args: Any, **kwargs: Any) -> Any:
        self._read_all()  # pyright: ignore[reportPrivateUsage]  # becomes a method of the class below
        return plain(self, *args, **kwargs)

    method.__name__ = name
    return method


for _name in (
    "__eq__", "__ne__", "__or__", "__ror__", "__ior__", "__reversed__",
    "items", "values", "copy", "pop", "popitem", "setdefault", "update", "clear",
):  # fmt: skip
    setattr(StateView, _name, _reads_all(_name))
