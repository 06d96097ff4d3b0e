"""Comparing values by a fingerprint that grows with a list; values of which it is equal are the same."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from wesichain.core.internal import common_prefix, field_values, is_record, same

from .kinds import is_dict, is_list, is_some, is_tuple, kind_of
from .owned import AppendOnlyList
from .reducers import Unset

__all__ = ["OpaqueError", "common_prefix", "fingerprint", "grow", "same"]


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
    if isinstance(value, AppendOnlyList):
        return value.folded(grow, hash(list))
    if is_list(value) or is_tuple(value):
        return grow(hash(type(value)), value)
    if is_dict(value):
        return hash(frozenset((fingerprint(key), fingerprint(item)) for key, item in value.items()))
    if is_some(value):
        return hash((isinstance(value, set), frozenset(map(fingerprint, value))))
    if is_record(value):
        return hash((kind_of(value), *map(fingerprint, field_values(value))))
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
