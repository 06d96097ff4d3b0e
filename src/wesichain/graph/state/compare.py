"""Comparing values: strictly (1, 1.0 and True differ), and by a fingerprint that grows with a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import is_dataclass
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from .kinds import fields_of, is_dict, is_list, is_model, is_some, is_tuple, kind_of
from .owned import Growing
from .reducers import Unset


def same(old: Any, new: Any) -> bool:
    """Whether two values are equal in all that a node or a checkpoint could tell apart."""
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    if is_list(new) or is_tuple(new):
        return len(old) == len(new) and all(map(same, old, new))
    if is_dict(new):
        return len(old) == len(new) and all(key in old and same(old[key], item) for key, item in new.items())
    if _is_record(new):
        return all(same(a, b) for a, b in zip(_parts(old), _parts(new), strict=True))
    try:
        return bool(old == new)
    except Exception:  # noqa: BLE001  # a foreign __eq__ may raise; then they are not known to be equal
        return False


def common_prefix(old: Sequence[Any], new: Sequence[Any]) -> int:
    """How many items both begin with."""
    for index, (a, b) in enumerate(zip(old, new, strict=False)):
        if not same(a, b):
            return index
    return min(len(old), len(new))


class OpaqueError(TypeError):
    """A value of which nobody can say whether it is still the same: it has no hash but its address."""


def fingerprint(value: Any) -> int:
    """A hash of the value: equal for values that are the same, different but for chance for others.

    That of a list is folded from the left, so that `grow(fingerprint(a), b) == fingerprint(a + b)`.
    """
    if isinstance(value, str):
        return hash(value)
    if value is None or isinstance(value, bool | int | float):
        return hash((None, repr(value)))  # hash() itself takes -1 for -2, and 1 for True; "1" is not 1
    if isinstance(value, Growing):
        return value.folded(grow, hash(list))
    if is_list(value) or is_tuple(value):
        return grow(hash(type(value)), value)
    if is_dict(value):
        return hash(frozenset((fingerprint(key), fingerprint(item)) for key, item in value.items()))
    if is_some(value):
        return hash((isinstance(value, set), frozenset(map(fingerprint, value))))
    if _is_record(value):
        return hash((kind_of(value), *map(fingerprint, _parts(value))))
    if kind_of(value).__hash__ in (None, object.__hash__) and not isinstance(value, _UNCHANGING):
        raise OpaqueError(f"{kind_of(value).__name__} has no hash of its own")
    try:
        return hash(value)
    except TypeError as error:
        raise OpaqueError(str(error)) from error


_UNCHANGING = (type, FunctionType, BuiltinFunctionType, ModuleType, Enum, Unset)


def grow(mark: int, items: Sequence[Any]) -> int:
    """The fingerprint of a list after these items were added to it."""
    for item in items:
        mark = hash((mark, fingerprint(item)))
    return mark


def _is_record(value: Any) -> bool:
    return (is_dataclass(value) or is_model(kind_of(value))) and not isinstance(value, type | Enum)


def _parts(value: Any) -> Sequence[Any]:
    if is_dataclass(value):
        return [getattr(value, field.name, None) for field in fields_of(value)]
    return [part for pair in value.__dict__.items() for part in pair]
