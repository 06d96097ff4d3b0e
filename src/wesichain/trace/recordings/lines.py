"""Events as lines of JSON: what `core.to_json` writes, at a tenth of its price.

A recorder writes several events for every step of every run. The serialisers here are compiled once
for each class of event, from the same dataclass fields that the codec reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from pydantic_core import SchemaSerializer, core_schema

from wesichain.core import MEDIA, BlobWriter, Event, to_json
from wesichain.errors import CodecError
from wesichain.trace.redaction import Redactor

from .format import whole_letters

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


def line(value: Any, blobs: BlobWriter | None = None) -> bytes:
    """One value of the project as a line of JSON, without its end. What has no JSON is a `CodecError`.

    The bytes of parts go to `blobs`.
    """
    try:
        return (_WRITERS.get(value.__class__) or _writer(value.__class__))(value, exclude_defaults=True)
    except Exception:  # noqa: BLE001  # a lone surrogate, a foreign object: the codec says what is wrong
        return to_json(value, blobs=blobs).encode()


def lines_of(
    events: Sequence[Event],
    redactor: Redactor,
    unwritable: Callable[[Event, Exception], None],
    blobs: BlobWriter | None = None,
) -> list[bytes]:
    """The events as lines, without secrets. `unwritable` is told of one that has no JSON, and why."""
    find, make = _WRITERS.get, _writer
    try:
        return [
            (find(event.__class__) or make(event.__class__))(event, exclude_defaults=True)
            for event in redactor.events(events)
        ]
    except Exception:  # noqa: BLE001  # as above: one of them is no usual one
        return list(_lines_of_any(events, redactor, unwritable, blobs))


def _lines_of_any(
    events: Sequence[Event],
    redactor: Redactor,
    unwritable: Callable[[Event, Exception], None],
    blobs: BlobWriter | None,
) -> Iterator[bytes]:
    for event in events:
        try:
            yield _whole_line(redactor.event(event), blobs)
        except Exception as error:  # noqa: BLE001  # an event may hold anything that a model's code returned
            unwritable(event, error)


def _whole_line(event: Event, blobs: BlobWriter | None) -> bytes:
    """The line of an event that may hold halves of letters, with whole ones in their place."""
    try:
        return line(event, blobs)
    except CodecError:
        return line(replace(_WHOLE_LETTERS.event(event), run_id=whole_letters(event.run_id)), blobs)


_WHOLE_LETTERS = Redactor(whole_letters, environ={})
_WRITERS: dict[Any, Callable[..., bytes]] = {}


def _writer(cls: Any) -> Callable[..., bytes]:
    write = _WRITERS[cls] = SchemaSerializer(_schema(cls)).to_json
    return write


_SCALARS = {
    str: core_schema.str_schema(),
    int: core_schema.int_schema(),
    float: core_schema.float_schema(),
    bool: core_schema.bool_schema(),
}


def _text_alone(content: object) -> object:
    # `warnings="error"` would refuse the rest as well, but to name it costs 2.2 us an event.
    if isinstance(content, str):
        return content
    raise CodecError("the bytes of parts are kept apart: the codec writes them")


_TEXT_ALONE = core_schema.any_schema(
    serialization=core_schema.plain_serializer_function_ser_schema(
        _text_alone, return_schema=core_schema.str_schema()
    )
)


def _schema(type_: Any) -> CoreSchema:
    origin, args = get_origin(type_), get_args(type_)
    if type_ in _SCALARS:
        return _SCALARS[type_]
    if origin is tuple:
        return core_schema.tuple_schema([_schema(args[0])], variadic_item_index=0)
    if origin in (Union, UnionType) and len(args) == 2 and type(None) in args:
        return core_schema.nullable_schema(_schema(next(arg for arg in args if arg is not type(None))))
    if origin in (Union, UnionType) and (str in args or set(MEDIA) <= set(args)):
        return _TEXT_ALONE  # content; parts are for the codec
    if origin in (Union, UnionType) and all(map(is_dataclass, args)):
        return core_schema.union_schema([_schema(arg) for arg in args])
    if origin is Literal or (isinstance(type_, type) and issubclass(type_, str)):
        return _SCALARS[str]
    return _dataclass_schema(type_) if is_dataclass(cast("object", type_)) else core_schema.any_schema()


def _dataclass_schema(cls: Any) -> CoreSchema:
    hints = get_type_hints(cls)
    parts: list[core_schema.DataclassField] = []
    if isinstance(getattr(cls, "kind", None), str):
        parts.append(core_schema.dataclass_field("kind", _SCALARS[str]))
    for field in fields(cls):
        schema = _schema(hints[field.name])
        if field.metadata.get("omit_empty"):
            schema = core_schema.with_default_schema(schema, default=field.default)
        parts.append(core_schema.dataclass_field(field.name, schema))
    names = [part["name"] for part in parts]
    return core_schema.dataclass_schema(
        cls, core_schema.dataclass_args_schema(cls.__name__, parts), names, slots=True
    )
