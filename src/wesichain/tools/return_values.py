"""Return values that are more than JSON: parts, and `Finish`, whose value is the run's own."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import Any, Generic, TypeVar, Union, cast, get_args, get_origin

from wesichain.core import Part, Text
from wesichain.core.internal import MEDIA, Value, parts_of
from wesichain.errors import CodecError, ToolSerializationError

T = TypeVar("T")


class Finish(Value, Generic[T]):
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


_MOST = 16_777_216  # bytes of all parts of one result


def parts_in(value: Any) -> tuple[Part, ...]:
    """The parts of a result with pictures, documents or sounds; () for any other."""
    if isinstance(value, MEDIA):
        return _checked((value,))
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if any(isinstance(item, MEDIA) for item in items):
            try:
                return _checked(parts_of(cast("Any", items)))
            except CodecError as error:
                raise ToolSerializationError(f"its result mixes parts with what is none: {error}") from error
    return ()


def _checked(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    size = sum(len(part.data or b"") for part in parts if not isinstance(part, Text))
    if size > _MOST:
        raise ToolSerializationError(f"its parts have {size:,} bytes; at most {_MOST:,} are taken")
    return parts


def may_be_media(annotation: Any) -> bool:
    """Whether a result may have parts, by its annotation."""
    if isinstance(annotation, type) and issubclass(annotation, (*MEDIA, Text)):
        return True
    return any(may_be_media(argument) for argument in get_args(annotation))
