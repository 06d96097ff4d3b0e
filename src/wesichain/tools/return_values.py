"""Return values with a meaning of their own: parts, and `Finish`, which completes the run."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import Any, Generic, TypeVar, Union, cast, get_args, get_origin

from wesichain.core import Part, Text
from wesichain.core.internal import MEDIA, Value, parts_of
from wesichain.errors import CodecError, ToolSerializationError

T = TypeVar("T")


class Finish(Value, Generic[T]):
    """The return value of a tool that completes the run with `value`, after the other calls of the reply.

    The value is checked against the tool's return type (`-> Finish[Report]`, `-> str | Finish[str]`), and
    then against the run's output type.
    """

    value: T


def without_finish(annotation: Any) -> Any:
    """Replace `Finish[T]` by `T` in a return annotation: the model only sees the value."""
    if annotation is Finish:
        return Any
    if get_origin(annotation) is Finish:
        return get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        members = [without_finish(member) for member in get_args(annotation)]
        return Any if Any in members else Union[tuple(members)]  # noqa: UP007  # the members are data
    return annotation


_MAX_BYTES = 16_777_216  # bytes of all parts of one result


def parts_in(value: Any) -> tuple[Part, ...]:
    """Return the parts of a result that has images, documents or audio; () for any other."""
    if isinstance(value, MEDIA):
        return _check_size((value,))
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if any(isinstance(item, MEDIA) for item in items):
            try:
                return _check_size(parts_of(cast("Any", items)))
            except CodecError as error:
                raise ToolSerializationError(f"its result mixes parts with other values: {error}") from error
    return ()


def _check_size(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    size = sum(len(part.data or b"") for part in parts if not isinstance(part, Text))
    if size > _MAX_BYTES:
        raise ToolSerializationError(f"its parts have {size:,} bytes; the limit is {_MAX_BYTES:,}")
    return parts


def may_be_media(annotation: Any) -> bool:
    """Whether a return annotation allows parts."""
    if isinstance(annotation, type) and issubclass(annotation, (*MEDIA, Text)):
        return True
    return any(may_be_media(argument) for argument in get_args(annotation))
