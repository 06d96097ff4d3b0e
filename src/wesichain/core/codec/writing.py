"""Writing: values as JSON text. A value is an object of its fields, a member of a union also has its `kind`.

What stands in the text of a dataclass is said once, by a schema of pydantic-core that is made of its fields:
it knows those that are left out while they are empty (`omit_empty`). What is kept and read again is written
from there by the standard library, which refuses what JSON lacks; the lines of logs by pydantic-core itself,
in a third of the time. It takes 20 ms to load, and is imported when the first value is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast, get_args, get_origin, get_type_hints

from wesichain.core.content import MEDIA, BlobWriter
from wesichain.core.dataclass import Serializer
from wesichain.core.log import LogView
from wesichain.errors import CodecError

from .json import dump_json, json_writer, parse_json
from .reading import dataclass_schema

if TYPE_CHECKING:
    from pydantic_core import SchemaSerializer


def to_plain(value: object) -> Any:
    """The value as data: dicts, lists, strings, numbers, booleans and None."""
    return parse_json(to_json(value))


def to_json(value: object, *, blobs: BlobWriter | None = None) -> str:
    """The JSON text of a value of this project, or of plain JSON data.

    The bytes of parts are written as base64, or, with `blobs`, kept there once and named by their hash.
    """
    return _write(value) if blobs is None else dump_json(value, partial(_known, blobs=blobs))


def to_lines(values: Iterable[object], *, blobs: BlobWriter | None = None) -> list[bytes]:
    """The JSON of each value of this project, as `to_json` gives it, in the bytes of a line."""
    return to_jsonl([*values], blobs=blobs).split(b"\n")[:-1]


def to_jsonl(values: Sequence[object], *, blobs: BlobWriter | None = None) -> bytes:
    """The JSON of each value of this project on a line of its own, with its newline: for logs of thousands.

    Nothing looks into JSON data here: what JSON lacks (a set, a date, NaN) is written as what comes nearest.
    """
    if not values:
        return b""
    # All of them as one array, whose commas become the ends of lines. Where a comma within a value looks
    # like one of them, there are too many lines: then each value is written by itself.
    lines = _array(values, blobs).replace(b'},{"kind":"', b'}\n{"kind":"')
    if lines.count(b"\n") != len(values) - 1:
        return b"".join([_array([value], blobs)[1:-1] + b"\n" for value in values])
    return lines[1:-1] + b"\n"


def _array(values: Sequence[object], blobs: BlobWriter | None) -> bytes:
    try:
        return _serializers[list].to_json(
            values, exclude_defaults=True, warnings=False, context=blobs, fallback=_known
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise CodecError(f"the value has no JSON: {error}") from None


def _known(value: Any, blobs: BlobWriter | None = None) -> object:
    """An object that JSON does not know, as one that it does."""
    return _form(value.__class__)(value, blobs)


@cache
def _form(cls: Any) -> Callable[[Any, Any], object]:
    if issubclass(cls, LogView):
        return lambda value, _: list(value)
    if issubclass(cls, MEDIA):
        return lambda value, blobs: value.to_plain() if blobs is None else value.kept_plain(blobs)
    if hasattr(cls, "to_plain"):
        return lambda value, _: value.to_plain()
    if is_dataclass(cls):
        write: Any = _serializers[cls].to_python
        return lambda value, blobs: write(value, exclude_defaults=True, warnings=False, context=blobs)
    if issubclass(cls, Mapping):
        return lambda value, _: dict(value)
    raise CodecError(f"{cls.__name__} is not a value of this project and has no JSON")


_write = json_writer(_known)


# --- schemas -------------------------------------------------------------------------------------


class _Serializers(dict[Any, "SchemaSerializer"]):
    """The serializers of dataclasses, each made at the first value of its class."""

    def __missing__(self, cls: Any) -> SchemaSerializer:
        from pydantic_core import SchemaSerializer

        schema = _PORTABLE if hasattr(cls, "to_plain") else _fields(cls) if is_dataclass(cls) else _ANY
        self[cls] = made = SchemaSerializer(schema)
        return made


_serializers = _Serializers()
Serializer.compile = _serializers.__getitem__


def _fields(cls: Any, above: tuple[type, ...] = ()) -> Any:
    """`kind`, the fields that are always there, then those that are left out while they are empty."""
    hints = get_type_hints(cls)
    for inner in _classes(*hints.values()):
        if "__pydantic_serializer__" not in inner.__dict__:  # a dataclass of the standard library's
            inner.__pydantic_serializer__ = Serializer()
    written = {"kind": _SCALARS[str]} if isinstance(getattr(cls, "kind", None), str) else {}
    for field in sorted(fields(cls), key=lambda field: "omit_empty" in field.metadata):
        schema = _field(hints[field.name], (*above, cls))
        if field.metadata.get("omit_empty"):
            schema = {"type": "default", "schema": schema, "default": field.default}
        written[field.name] = schema
    return dataclass_schema(cls, written)


def _field(hint: Any, above: tuple[type, ...]) -> Any:
    if get_origin(hint) is tuple:
        items = [_field(get_args(hint)[0], above)]
        return {"type": "tuple", "items_schema": items, "variadic_item_index": 0}
    if is_dataclass(hint) and hint not in above and not hasattr(hint, "to_plain"):
        return _fields(hint, above)
    is_text = isinstance(hint, type) and issubclass(hint, str)
    return _SCALARS.get(str if is_text else hint, _ANY)


def _classes(*hints: Any) -> Iterator[Any]:
    """The dataclasses that types name."""
    for hint in hints:
        yield from _classes(*get_args(hint))
        cls = get_origin(hint) or hint
        if isinstance(cls, type) and is_dataclass(cls):
            yield cls


def _write_portable(value: Any, info: Any) -> object:
    return _known(value, cast("BlobWriter | None", info.context))


_PORTABLE: Any = {
    "type": "any",
    "serialization": {"type": "function-plain", "function": _write_portable, "info_arg": True},
}
_ANY: Any = {"type": "any"}
_SCALARS: dict[Any, Any] = {kind: {"type": kind.__name__} for kind in (str, int, float, bool)}
