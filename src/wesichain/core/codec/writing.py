"""Writing: values as JSON text. A value is an object of its fields, a member of a union also has its `kind`.

Dataclasses are written by serialisers of pydantic-core, each made of the fields of its class at the first
value: it knows which fields are left out while they are empty (`omit_empty`) and which hold JSON data. Plain
data is written by the standard library. pydantic-core takes 20 ms to load: it is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from math import isfinite
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from wesichain.core.content import MEDIA, BlobWriter
from wesichain.core.log import LogView
from wesichain.errors import CodecError

from .json import JsonValue, dump_json, json_writer, parse_json
from .reading import dataclass_schema

if TYPE_CHECKING:
    from pydantic_core import SchemaSerializer


def to_json(value: object, *, blobs: BlobWriter | None = None) -> str:
    """The JSON text of a value of this project, or of plain JSON data.

    The bytes of parts are written as base64, or, with `blobs`, kept there once and named by their hash.
    """
    write = _strict[value.__class__]
    if write is _write_plain:
        return _plain_text(value, blobs)
    try:
        text = write(value, exclude_defaults=True, warnings=False, context=blobs, fallback=plain_of).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise CodecError(_reason(error)) from None
    if "NaN" in text or "Infinity" in text:
        parse_json(text)  # refuses a number that JSON lacks, and knows it from a text that has the word
    return text


def to_plain(value: object) -> Any:
    """The same as data: dicts, lists, strings, numbers, booleans and None."""
    return parse_json(to_json(value))


def to_lines(values: Iterable[object], *, blobs: BlobWriter | None = None) -> list[bytes]:
    """What `to_json` gives of each value, as the bytes of a line: for logs, written by the thousand.

    Nothing looks into JSON data here: what JSON lacks (a set, a date, NaN) is written as what comes nearest.
    """
    writers, fallback = _lenient, plain_of
    try:
        return [
            writers[value.__class__](
                value, exclude_defaults=True, warnings=False, context=blobs, fallback=fallback
            )
            for value in values
        ]
    except (TypeError, ValueError, RecursionError) as error:
        raise CodecError(_reason(error)) from None


def _reason(error: Exception) -> str:
    """Why pydantic-core could not write a value, without the trail of its own functions."""
    said = str(error)
    if "surrogate" in said:
        return "the text holds a lone surrogate, which is not a character"
    _, found, ours = said.rpartition("CodecError: ")
    return ours if found else f"the value has no JSON: {said.removeprefix('Error serializing to JSON: ')}"


class _Writers(dict[type, Callable[..., bytes]]):
    """The function that writes values of a class, made at the first of them."""

    def __init__(self, *, is_strict: bool) -> None:
        super().__init__()
        self._is_strict = is_strict

    def __missing__(self, cls: type) -> Callable[..., bytes]:
        is_compiled = is_dataclass(cls) and not hasattr(cls, "to_plain")
        write = serializer(cls, is_strict=self._is_strict).to_json if is_compiled else _write_plain
        self[cls] = write
        return write


_strict, _lenient = _Writers(is_strict=True), _Writers(is_strict=False)

# --- plain data ----------------------------------------------------------------------------------


def plain_of(value: Any, blobs: BlobWriter | None = None) -> object:
    """An object that JSON does not know, as one that it does."""
    cls = value.__class__
    if isinstance(value, LogView):
        return list(value)
    if blobs is not None and isinstance(value, MEDIA):
        return value.kept_plain(blobs)
    if hasattr(cls, "to_plain"):
        return value.to_plain()
    if is_dataclass(cls):
        how: Any = {"mode": "json", "exclude_defaults": True, "warnings": False, "fallback": plain_of}
        return serializer(cls).to_python(value, context=blobs, **how)
    if isinstance(value, Mapping):
        return dict(value)
    raise CodecError(f"{cls.__name__} is not a value of this project and has no JSON")


_plain_writer = json_writer(plain_of)


def _plain_text(value: object, blobs: BlobWriter | None) -> str:
    return _plain_writer(value) if blobs is None else dump_json(value, partial(plain_of, blobs=blobs))


def _write_plain(value: object, *, context: BlobWriter | None, **_: object) -> bytes:
    return _plain_text(value, context).encode()


def _write_json(value: Any, info: Any) -> Any:
    """JSON data as it is; with anything else in it, as the standard library writes that, or refuses it."""
    return value if _is_json(value) else parse_json(_plain_text(value, info.context))


def _write_portable(value: Any, info: Any) -> Any:
    return _write_json(plain_of(value, info.context), info)


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


_LEAST, _MOST = -(10**4000), 10**4000  # whole numbers that Python still reads from text


# --- dataclasses ---------------------------------------------------------------------------------


def serializer(cls: Any, *, is_strict: bool = True) -> SchemaSerializer:
    """What writes values of a dataclass. The strict one looks into JSON data, and refuses what JSON lacks."""
    with _building:
        return _serializer(cls, is_strict=is_strict)


_building = RLock()  # a class is not used before those that its fields name are ready
_begun: set[Any] = set()


@cache
def _serializer(cls: Any, *, is_strict: bool) -> SchemaSerializer:
    from pydantic_core import SchemaSerializer

    if is_strict:
        _begun.add(cls)
    schema = _PORTABLE if hasattr(cls, "to_plain") else _fields(cls, _JSON if is_strict else _ANY)
    made = SchemaSerializer(schema, _SEEN if is_strict else None)
    if is_strict:
        cls.__pydantic_serializer__ = made  # by which pydantic-core writes one inside another value
    return made


def _fields(cls: Any, json: Any, above: tuple[type, ...] = ()) -> Any:
    """`kind`, the fields that are always there, then those that are left out while they are empty."""
    hints = get_type_hints(cls)
    for inner in _classes(*hints.values()):
        if inner not in _begun:
            _serializer(inner, is_strict=True)
    written = {"kind": _SCALARS[str]} if isinstance(getattr(cls, "kind", None), str) else {}
    for field in sorted(fields(cls), key=lambda field: "omit_empty" in field.metadata):
        schema = _field(hints[field.name], json, (*above, cls))
        if field.metadata.get("omit_empty"):
            schema = {"type": "default", "schema": schema, "default": field.default}
        written[field.name] = schema
    schema = dataclass_schema(cls, written)
    return {**schema, "config": _SEEN} if json is _JSON else schema


def _field(hint: Any, json: Any, above: tuple[type, ...]) -> Any:
    if _holds_json(hint):
        return json
    if get_origin(hint) is tuple:
        items = [_field(get_args(hint)[0], json, above)]
        return {"type": "tuple", "items_schema": items, "variadic_item_index": 0}
    if is_dataclass(hint) and hint not in above and not hasattr(hint, "to_plain"):
        return _fields(hint, json, above)
    is_text = isinstance(hint, type) and issubclass(hint, str)
    return _SCALARS[str] if is_text else _SCALARS.get(hint, _ANY)


def _holds_json(hint: Any) -> bool:
    is_json = hint in (Any, object, JsonValue, dict) or isinstance(hint, TypeVar)
    return is_json or get_origin(hint) in (dict, Mapping) or any(map(_holds_json, get_args(hint)))


def _classes(*hints: Any) -> Iterator[Any]:
    """The dataclasses that types name."""
    for hint in hints:
        yield from _classes(*get_args(hint))
        cls = get_origin(hint) or hint
        if isinstance(cls, type) and is_dataclass(cls):
            yield cls


def _by(function: Callable[[Any, Any], Any]) -> Any:
    by_function = {"type": "function-plain", "function": function, "info_arg": True}
    return {"type": "any", "serialization": by_function}


_JSON, _PORTABLE = _by(_write_json), _by(_write_portable)
_SEEN: Any = {"ser_json_inf_nan": "constants"}  # so that `to_json` sees NaN: it would be null
_ANY: Any = {"type": "any"}  # written as what it is
_SCALARS: dict[Any, Any] = {kind: {"type": kind.__name__} for kind in (str, int, float, bool)}
