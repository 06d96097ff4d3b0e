"""Filters: `where={"success_rate": {"$gte": 0.8}}`, checked once and applied to whole columns.

What filters read of the bullets is kept in arrays, so that no bullet is looked at one by one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from wesichain.core.internal import dataclass, is_object
from wesichain.errors import PlaybookError
from wesichain.learning.entities import SECTIONS, STAGES, PlaybookBullet

Mask: TypeAlias = npt.NDArray[np.bool_]

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
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_ORDERED = (int, float)


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of one field."""

    field: str
    operator: str
    value: Any

    def keeps(self, value: Any) -> bool:
        """Whether one value passes."""
        if self.operator == "$in":
            return value in self.value
        return bool(COMPARISONS[self.operator](value, self.value))


def parse_where(where: Mapping[str, Any] | None) -> tuple[Condition, ...]:
    """The conditions of a `where`, all of which must hold; what is unknown is a `PlaybookError`."""
    if where is not None and not isinstance(cast("object", where), Mapping):
        raise PlaybookError(f"where is a mapping of fields to conditions; got {where!r}")
    conditions: list[Condition] = []
    for field, wanted in (where or {}).items():
        if field not in FIELDS:
            raise PlaybookError(f"a bullet cannot be filtered by {field!r}; fields: {', '.join(FIELDS)}")
        for name, value in (wanted if is_object(wanted) else {"$eq": wanted}).items():
            _check(field, name, value)
            conditions.append(Condition(field, name, value))
    return tuple(conditions)


_TYPES = {
    "alive": np.bool_,
    "success_rate": np.float64,
    "tool_count": np.int32,
    "helpful_count": np.int64,
    "harmful_count": np.int64,
    "stage": np.int8,
    "section": np.int8,
}
_MOST = np.iinfo(np.int64).max
_NAMES: dict[str, Sequence[str]] = {"stage": STAGES, "section": SECTIONS}


class Columns:
    """One row a slot; a row that was never set, or was cleared, is chosen by nothing."""

    __slots__ = ("_arrays",)

    def __init__(self) -> None:
        self._arrays: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(64, kind) for name, kind in _TYPES.items()
        }

    def set(self, row: int, bullet: PlaybookBullet) -> None:
        size = len(self._arrays["alive"])
        if row >= size:
            more = max(size, row + 1 - size)
            self._arrays = {
                name: np.concatenate([column, np.zeros(more, column.dtype)])
                for name, column in self._arrays.items()
            }
        columns = self._arrays
        columns["alive"][row] = True
        columns["success_rate"][row] = bullet.success_rate
        columns["tool_count"][row] = bullet.tool_count
        for name in ("helpful_count", "harmful_count"):
            columns[name][row] = min(getattr(bullet, name), _MOST)
        columns["stage"][row] = STAGES.index(bullet.stage)
        columns["section"][row] = SECTIONS.index(bullet.section)

    def clear(self, row: int) -> None:
        self._arrays["alive"][row] = False

    def reordered(self, rows: Sequence[int]) -> Columns:
        """These rows, in this order."""
        other = Columns()
        if rows:
            other._arrays = {name: column[list(rows)] for name, column in self._arrays.items()}
        return other

    def chosen(self, count: int, conditions: Sequence[Condition], *, domain: str) -> Mask:
        """Which of the first `count` rows meet every condition."""
        result: Mask = self._arrays["alive"][:count].copy()
        for condition in conditions:
            if condition.field == "domain":
                result &= condition.keeps(domain)
            elif condition.field == "has_tool_sequence":
                result &= _keep(condition, self._arrays["tool_count"][:count] > 0)
            elif condition.field in _NAMES:
                passing = np.array([condition.keeps(name) for name in _NAMES[condition.field]])
                result &= passing[self._arrays[condition.field][:count]]
            else:
                result &= _keep(condition, self._arrays[condition.field][:count])
        return result


def _keep(condition: Condition, column: npt.NDArray[Any]) -> Mask:
    """The rows of a column that pass."""
    if condition.operator == "$in":
        return np.isin(column, list(condition.value))
    result: Mask = COMPARISONS[condition.operator](column, condition.value)
    return result


def _check(field: str, name: str, value: object) -> None:
    if name not in COMPARISONS and name != "$in":
        known = ", ".join((*COMPARISONS, "$in"))
        raise PlaybookError(f"{name!r} is not an operator; operators: {known}")
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
