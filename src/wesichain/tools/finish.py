"""Finish: what a tool returns when its result is the run's own."""

from __future__ import annotations

from types import UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin

from wesichain.core.internal import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finish(Generic[T]):
    """Return this, and the run completes with `value` once the other calls of the same reply are done.

    The value is checked against the tool's declared type first (`-> Finish[Report]`, `-> str | Finish[str]`),
    and against the run's output type in the end.
    """

    value: T


def unfinished(annotation: Any) -> Any:
    """A return annotation with `T` for `Finish[T]`: what is told to a model is the value alone."""
    if annotation is Finish:
        return Any
    if get_origin(annotation) is Finish:
        return get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        members = [unfinished(member) for member in get_args(annotation)]
        return Any if Any in members else Union[tuple(members)]  # noqa: UP007  # the members are data
    return annotation
