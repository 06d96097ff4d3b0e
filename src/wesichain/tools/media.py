"""Media: results that are more than text: a part, or a list of texts and parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, get_args

from wesichain.core import Part, Text
from wesichain.core.internal import MEDIA, parts_of
from wesichain.errors import CodecError, ToolSerializationError

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
