"""Tests of the kind of a value or a class, as type guards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import Field, fields, is_dataclass
from functools import cache
from typing import Any, TypeGuard


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def is_set(value: object) -> TypeGuard[set[Any]]:
    return isinstance(value, set)


def is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return value.__class__ is dict or isinstance(value, Mapping)


def is_items(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a sequence of items, such as a list, but not text."""
    return value.__class__ is list or (isinstance(value, Sequence) and not isinstance(value, str | bytes))


def is_some(value: object) -> TypeGuard[Set[Any]]:
    """Whether a value is a set or frozenset."""
    return isinstance(value, Set)


def kind_of(value: object) -> Any:
    """Return the class of a value."""
    return type(value)


def is_model(kind: object) -> bool:
    """Whether it is a pydantic model class; does not import pydantic."""
    return isinstance(kind, type) and hasattr(kind, "model_fields") and hasattr(kind, "model_validate")


def is_typed_dict(kind: object) -> bool:
    return isinstance(kind, type) and hasattr(kind, "__required_keys__") and dict in kind.__mro__


def is_dataclass_type(kind: object) -> bool:
    return isinstance(kind, type) and is_dataclass(kind)


def fields_of(kind: Any) -> tuple[Field[Any], ...]:
    """Return the fields of a dataclass or of an instance."""
    return fields(kind)


def build_dataclass(kind: Any, values: Mapping[str, Any]) -> Any:
    """Build an instance of a dataclass, including values of fields with `init=False`."""
    late = _fields_without_init(kind) & values.keys()
    instance = kind(**{name: item for name, item in values.items() if name not in late})
    for name in late:
        object.__setattr__(instance, name, values[name])
    return instance


@cache
def _fields_without_init(kind: Any) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind) if not field.init)
