"""Logs: views of an append-only list, and the events of a run, which are created on first use."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar, cast, overload

from typing_extensions import override

T = TypeVar("T")


def events_in(log: list[Any], run_id: str, before: int) -> list[Any]:
    """The log of a run with its events created: until then an entry is a tuple `(constructor, *fields)`.

    Such a tuple takes a fifth of the time of an event, and most logs are never read. It lacks the run's id
    and the event's number, which follow from its place (`before` is the number before the first). A
    constructor always comes with the same fields: all positional fields of its class. The keyword fields are
    those of nested runs and of graphs.
    """
    for index, entry in enumerate(log):
        if entry.__class__ is tuple:
            make, step, *rest = entry
            log[index] = make(run_id, step, before + index + 1, *rest)
    return log


class LogView(Sequence[T], Generic[T]):
    """The first `length` items of an append-only list; equal to any sequence of equal items."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[T], length: int) -> None:
        self._items = items
        self._length = length

    @override
    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    @override
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self._items[i] for i in range(*index.indices(self._length)))
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(f"index {index} is outside a log of {self._length}")
        return self._items[index]

    @override
    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._length)

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogView | list | tuple):
            return NotImplemented
        theirs = cast("Sequence[object]", other)
        return len(self) == len(theirs) and all(map(operator.eq, self, theirs))

    def __add__(self, other: Sequence[T]) -> tuple[T, ...]:
        return (*self, *other)

    def __radd__(self, other: Sequence[T]) -> tuple[T, ...]:
        return (*other, *self)

    __hash__ = None  # type: ignore[assignment]  # compares by value, like the list behind it

    @override
    def __repr__(self) -> str:
        return repr(tuple(self))
