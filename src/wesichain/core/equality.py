"""Strict equality of values: 1, 1.0 and True are three, and so are a list and a tuple of the same items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any


def same(old: Any, new: Any) -> bool:
    """Whether two values are equal, of the same types throughout."""
    if old is new:
        return True
    kind: Any = new.__class__
    if type(old) is not kind:
        return False
    if issubclass(kind, list | tuple):
        return len(old) == len(new) and all(map(same, old, new))
    if issubclass(kind, dict):
        return len(old) == len(new) and all(key in old and same(old[key], item) for key, item in new.items())
    if is_record(new):
        return all(same(a, b) for a, b in zip(field_values(old), field_values(new), strict=True))
    try:
        return bool(old == new)
    except Exception:  # noqa: BLE001  # a foreign __eq__ may raise
        return False


def common_prefix(old: Sequence[Any], new: Sequence[Any]) -> int:
    """The number of equal items at the start of both."""
    for index, (a, b) in enumerate(zip(old, new, strict=False)):
        if not same(a, b):
            return index
    return min(len(old), len(new))


def is_record(value: Any) -> bool:
    """Whether it is a dataclass or a pydantic model, without importing pydantic."""
    kind: Any = value.__class__
    is_model = hasattr(kind, "model_fields") and hasattr(kind, "model_validate")
    return (is_dataclass(value) or is_model) and not isinstance(value, type | Enum)


def field_values(value: Any) -> Sequence[Any]:
    """The values of a record's fields."""
    if is_dataclass(value):
        return [getattr(value, field.name, None) for field in fields(value)]
    return [part for pair in value.__dict__.items() for part in pair]
