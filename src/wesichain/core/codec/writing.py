"""Writing, compiled: a serialiser of pydantic-core for every class, made of its fields at its first value.

A serialiser knows which fields are left out and which hold JSON data; the rest is written as what it is,
and a value inside another by the serialiser of its own class. To load pydantic-core takes 20 ms, which
an import of the project does not spend: this module is imported when the first value is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from math import isfinite
from threading import RLock
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from pydantic_core import CoreSchema, SchemaSerializer, core_schema
from pydantic_core.core_schema import CoreConfig, SerializationInfo

from wesichain.core.content import MEDIA, BlobWriter
from wesichain.core.log import LogView
from wesichain.errors import CodecError

from .json import JsonValue, dump_json, json_writer, parse_json

_LEAST, _MOST = -(10**4000), 10**4000  # whole numbers that Python still reads from text


def serializer(cls: Any, *, is_strict: bool = True) -> SchemaSerializer:
    """What writes values of a dataclass. The strict one looks into JSON data, and refuses what JSON lacks."""
    with _building:
        return _serializer(cls, is_strict=is_strict)


@cache
def _serializer(cls: Any, *, is_strict: bool) -> SchemaSerializer:
    if is_strict:
        _begun.add(cls)
    schema = _PORTABLE if hasattr(cls, "to_plain") else _fields(cls, is_strict=is_strict)
    made = SchemaSerializer(schema, _CONFIG)
    if is_strict:
        cls.__pydantic_serializer__ = made  # by which pydantic-core writes one inside another value
    return made


_CONFIG: CoreConfig = {"ser_json_inf_nan": "constants"}  # where they can be seen: the default is null
_building = RLock()  # a class is not used before those that its fields name are ready
_begun: set[Any] = set()


def plain_of(value: Any, blobs: BlobWriter | None = None) -> object:
    """An object that JSON does not know, as one that it does."""
    cls = value.__class__
    if isinstance(value, LogView):
        return list(cast("LogView[Any]", value))
    if blobs is not None and isinstance(value, MEDIA):
        return value.kept_plain(blobs)
    if hasattr(cls, "to_plain"):
        return value.to_plain()
    if is_dataclass(cls):
        return serializer(cls).to_python(
            value,
            mode="json",
            exclude_defaults=True,
            warnings=False,
            context=cast("Any", blobs),
            fallback=plain_of,
        )
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    raise CodecError(f"{cls.__name__} is not a value of this project and has no JSON")


def _fields(cls: Any, *, is_strict: bool, above: tuple[type, ...] = ()) -> CoreSchema:
    """`kind`, the fields that are always there, then those that are left out while they are empty."""
    hints = get_type_hints(cls)
    parts: list[core_schema.DataclassField] = []
    if isinstance(getattr(cls, "kind", None), str):
        parts.append(core_schema.dataclass_field("kind", _SCALARS[str]))
    for inner in _classes(*hints.values()):
        if inner not in _begun:
            _serializer(inner, is_strict=True)
    for field in sorted(fields(cls), key=lambda field: "omit_empty" in field.metadata):
        schema = _field(hints[field.name], is_strict, (*above, cls))
        if field.metadata.get("omit_empty"):
            schema = core_schema.with_default_schema(schema, default=field.default)
        parts.append(core_schema.dataclass_field(field.name, schema))
    arguments = core_schema.dataclass_args_schema(cls.__name__, parts)
    names = [part["name"] for part in parts]
    return core_schema.dataclass_schema(cls, arguments, names, slots=True, config=_CONFIG)


def _field(hint: Any, is_strict: bool, above: tuple[type, ...]) -> CoreSchema:  # handed on
    origin = get_origin(hint)
    if _holds_json(hint):
        return _JSON if is_strict else _INFERRED
    if origin is tuple:
        return core_schema.tuple_schema([_field(get_args(hint)[0], is_strict, above)], variadic_item_index=0)
    if is_dataclass(hint) and hint not in above and not hasattr(hint, "to_plain"):
        return _fields(hint, is_strict=is_strict, above=above)
    return _SCALARS.get(hint, _INFERRED)


def _holds_json(hint: Any) -> bool:
    return (
        hint in (Any, object, JsonValue, dict)
        or isinstance(hint, TypeVar)
        or get_origin(hint) in (dict, Mapping)
        or any(map(_holds_json, get_args(hint)))
    )


def _classes(*hints: Any) -> Iterator[Any]:
    """The dataclasses that types name."""
    for hint in hints:
        yield from _classes(*get_args(hint))
        cls = get_origin(hint) or hint
        if isinstance(cls, type) and is_dataclass(cls):
            yield cls


def _write_json(value: Any, info: SerializationInfo) -> Any:
    """JSON data as it is; with anything else in it, as the standard library writes that, or refuses it."""
    if _is_json(value):
        return value
    blobs = cast("BlobWriter | None", info.context)
    return parse_json(_write(value) if blobs is None else dump_json(value, partial(plain_of, blobs=blobs)))


_write = json_writer(plain_of)


def _is_json(value: Any) -> bool:
    kind = value.__class__
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return bool(_LEAST < value < _MOST)
    if kind is dict:
        for key, item in value.items():
            kind = item.__class__
            is_leaf = kind is str or (kind is int and _LEAST < item < _MOST)
            if key.__class__ is not str or not (is_leaf or _is_json(item)):
                return False
        return True
    if kind is list or kind is tuple:
        for item in value:  # noqa: SIM110  # the hot path: no generator
            if not (item.__class__ is str or _is_json(item)):
                return False
        return True
    return kind is float and isfinite(value)


def _write_portable(value: Any, info: SerializationInfo) -> Any:
    return _write_json(plain_of(value, cast("Any", info.context)), info)


def _by(function: Any) -> CoreSchema:
    by_function = core_schema.plain_serializer_function_ser_schema(function, info_arg=True)
    return core_schema.any_schema(serialization=by_function)


_JSON, _PORTABLE = _by(_write_json), _by(_write_portable)
_INFERRED = core_schema.any_schema()
_SCALARS: dict[Any, CoreSchema] = {
    str: core_schema.str_schema(),
    int: core_schema.int_schema(),
    float: core_schema.float_schema(),
    bool: core_schema.bool_schema(),
}
