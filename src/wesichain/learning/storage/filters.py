"""Filters: `where={"success_rate": {"$gte": 0.8}}`, checked once and applied to each bullet."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias, cast

from wesichain.core.internal import is_object
from wesichain.errors import PlaybookError
from wesichain.learning.entities.bullets import PlaybookBullet

FIELDS: dict[str, type] = {
    "domain": str,
    "harmful_count": int,
    "has_tool_sequence": bool,
    "helpful_count": int,
    "section": str,
    "stage": str,
    "success_rate": float,
    "tool_count": int,
}
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
    "$in": lambda value, allowed: value in allowed,
}
_ORDERED = (int, float)

Filter: TypeAlias = Callable[[PlaybookBullet, str], bool]  # takes a bullet and its domain


def parse_where(where: Mapping[str, Any] | None) -> Filter:
    """Return the filter for `where`; all its conditions must hold. Unknown names raise a `PlaybookError`."""
    if where is not None and not isinstance(cast("object", where), Mapping):
        raise PlaybookError(f"where is a mapping of fields to conditions; got {where!r}")
    conditions: list[tuple[str, Callable[[Any, Any], Any], Any]] = []
    for field, wanted in (where or {}).items():
        if field not in FIELDS:
            raise PlaybookError(f"a bullet cannot be filtered by {field!r}; fields: {', '.join(FIELDS)}")
        for name, value in (wanted if is_object(wanted) else {"$eq": wanted}).items():
            _check(field, name, value)
            conditions.append((field, OPERATORS[name], value))

    if not conditions:
        return lambda _bullet, _domain: True

    def passes(bullet: PlaybookBullet, domain: str) -> bool:
        return all(
            compare(domain if field == "domain" else getattr(bullet, field), value)
            for field, compare, value in conditions
        )

    return passes


def _check(field: str, name: str, value: object) -> None:
    if name not in OPERATORS:
        raise PlaybookError(f"{name!r} is not an operator; operators: {', '.join(OPERATORS)}")
    kind = FIELDS[field]
    if name == "$in":
        if not isinstance(value, list | tuple | set | frozenset):
            raise PlaybookError(f"{field}: $in takes a list of values; got {value!r}")
        for item in cast("Collection[object]", value):
            _check(field, "$eq", item)
        return
    if name not in ("$eq", "$ne") and kind not in _ORDERED:
        raise PlaybookError(f"{field}: {name} needs a number; {field} is compared with $eq, $ne or $in")
    fits = (
        isinstance(value, _ORDERED) and not isinstance(value, bool)
        if kind in _ORDERED
        else type(value) is kind
    )
    if not fits:
        raise PlaybookError(f"{field} is compared with a {kind.__name__}; got {value!r}")
