"""The codec: the project's values as JSON text, and back, strictly.

A value is an object of its fields. A member of a union (steps, events) also carries its `kind`.
Fields marked `omit_empty` are left out while they are empty. Reading refuses unknown fields,
wrong types and anything `parse_json` refuses, and names the place: `messages[2].role: ...`.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import (
    Any,
    Literal,
    NoReturn,
    Protocol,
    Self,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
    runtime_checkable,
)

from wesichain.errors import CodecError, WesichainError

from .content import MEDIA, BlobReader, BlobWriter
from .json import JsonValue, is_array, is_object, json_writer, parse_json
from .log import LogView

T = TypeVar("T")
Reader = Callable[[Any, str], Any]


@runtime_checkable
class Portable(Protocol):
    """A class outside `core` that says itself how it is written and read."""

    def to_plain(self) -> Mapping[str, Any]: ...

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self: ...


def to_json(value: object, *, blobs: BlobWriter | None = None) -> str:
    """The JSON text of a value of this project, or of plain JSON data.

    The bytes of parts are written as base64, or, with `blobs`, kept there once and named by their hash.
    """
    return _encode(value) if blobs is None else _keeping(blobs)(value)


def to_plain(value: object) -> Any:
    """The same as data: dicts, lists, strings, numbers, booleans and None."""
    return parse_json(to_json(value))


@overload
def from_json(type: type[T], text: str | bytes, *, blobs: BlobReader | None = None) -> T: ...
@overload
def from_json(type: Any, text: str | bytes, *, blobs: BlobReader | None = None) -> Any: ...
def from_json(type: Any, text: str | bytes, *, blobs: BlobReader | None = None) -> Any:
    """Read a value of the given type, which may be a union such as `ReActStep`.

    Bytes of parts that were kept apart come from `blobs`; what is not there stays named by its hash.
    """
    return from_plain(type, parse_json(text), blobs=blobs)


@overload
def from_plain(type: type[T], data: object, *, blobs: BlobReader | None = None) -> T: ...
@overload
def from_plain(type: Any, data: object, *, blobs: BlobReader | None = None) -> Any: ...
def from_plain(type: Any, data: object, *, blobs: BlobReader | None = None) -> Any:
    """Read a value of the given type from parsed JSON."""
    try:
        if blobs is None:
            return _reader(type)(data, "")
        here = _blobs.set(blobs)
        try:
            return _reader(type)(data, "")
        finally:
            _blobs.reset(here)
    except RecursionError:
        raise CodecError("the data nests too deeply to be read") from None


# --- writing -------------------------------------------------------------------------------------


def _plain(value: Any) -> object:
    """What `json` calls for an object that it does not know."""
    return _writer(value.__class__)(value)


@cache
def _writer(cls: Any) -> Callable[[Any], object]:
    """A function that turns an object of this class into what `json` knows; made once a class."""
    if issubclass(cls, LogView):
        return list[Any]
    if hasattr(cls, "to_plain"):
        return lambda value: value.to_plain()
    if is_dataclass(cls):
        return _write_fields(cast("type", cls))
    if issubclass(cls, Mapping):
        return dict[Any, Any]
    raise CodecError(f"{cls.__name__} is not a value of this project and has no JSON")


def _write_fields(cls: type) -> Callable[[Any], dict[str, Any]]:
    kind = _kind_of(cls)
    head: dict[str, Any] = {} if kind is None else {"kind": kind}
    always = [field.name for field in fields(cls) if not field.metadata.get("omit_empty")]
    unless_default = [
        (field.name, field.default) for field in fields(cls) if field.metadata.get("omit_empty")
    ]

    def write(value: Any) -> dict[str, Any]:
        plain = dict(head)
        for name in always:
            plain[name] = getattr(value, name)
        for name, default in unless_default:
            item = getattr(value, name)
            if item != default:
                plain[name] = item
        return plain

    return write


_encode = json_writer(_plain)
_blobs: ContextVar[BlobReader | None] = ContextVar("blobs", default=None)  # of the value that is being read


def _keeping(blobs: BlobWriter) -> Callable[[object], str]:
    """A writer that keeps the bytes of parts apart."""
    return json_writer(lambda value: value.kept_plain(blobs) if isinstance(value, MEDIA) else _plain(value))


def _kind_of(cls: type) -> str | None:
    kind = getattr(cls, "kind", None)
    return kind if isinstance(kind, str) else None


# --- reading -------------------------------------------------------------------------------------


@cache
def _reader(type_: Any) -> Reader:
    """A function that reads data at a path into `type_`; made once a type."""
    origin, args = get_origin(type_), get_args(type_)
    if origin in (Union, types.UnionType):
        return _read_union(args)
    if origin is Literal:
        return _read_one_of(args, {arg: arg for arg in args})
    if origin is tuple or origin in (list, Sequence):
        return _read_items(_reader(args[0]), list if origin is list else tuple)
    if origin in (dict, Mapping):
        return _read_mapping(_reader(args[1]))
    if type_ in _SCALARS:
        return _read_scalar(*_SCALARS[type_])
    if type_ is Any or type_ is JsonValue:
        return lambda data, _: data
    cls = origin or type_
    if isinstance(cls, type):
        return _read_class(cast("type[Any]", cls))
    raise CodecError(f"{type_!r} is not a type that the codec reads")


def _read_class(cls: type[Any]) -> Reader:
    if issubclass(cls, Enum):
        return _read_one_of([member.value for member in cls], {member.value: member for member in cls})
    if hasattr(cls, "from_plain"):
        return _read_portable(cls)
    if is_dataclass(cls):
        return _read_dataclass(cls)
    raise CodecError(f"{cls.__name__} is not a type that the codec reads")


def _fail(path: str, expected: str, data: object) -> NoReturn:
    given = "null" if data is None else f"{type(data).__name__} {str(data)[:60]!r}"
    raise CodecError(f"{path.lstrip('.') or 'the value'}: expected {expected}, got {given}")


def _read_scalar(accepted: tuple[type, ...], convert: Callable[[Any], Any], name: str) -> Reader:
    def read(data: Any, path: str) -> Any:
        if type(data) not in accepted:
            _fail(path, name, data)
        return convert(data)

    return read


_SCALARS: dict[Any, tuple[tuple[type, ...], Callable[[Any], Any], str]] = {
    str: ((str,), str, "text"),
    bool: ((bool,), bool, "true or false"),
    int: ((int,), int, "a whole number"),
    float: ((int, float), float, "a number"),
    type(None): ((type(None),), lambda _: None, "null"),
}


def _read_one_of(allowed: Sequence[Any], values: Mapping[Any, Any]) -> Reader:
    names = "one of " + ", ".join(str(item) for item in allowed)

    def read(data: Any, path: str) -> Any:
        if not isinstance(data, str) or data not in values:
            _fail(path, names, data)
        return values[data]

    return read


def _read_items(read_item: Reader, make: Callable[[list[Any]], Any]) -> Reader:
    def read(data: Any, path: str) -> Any:
        if not is_array(data):
            _fail(path, "a list", data)
        return make([read_item(item, f"{path}[{index}]") for index, item in enumerate(data)])

    return read


def _read_mapping(read_item: Reader) -> Reader:
    def read(data: Any, path: str) -> Any:
        if not is_object(data):
            _fail(path, "an object", data)
        return {key: read_item(item, f"{path}.{key}") for key, item in data.items()}

    return read


def _read_union(members: tuple[Any, ...]) -> Reader:
    kinds = {kind: member for member in members if (kind := _kind_of(member)) is not None}
    if len(kinds) == len(members):
        return _read_tagged({kind: _reader(member) for kind, member in kinds.items()})
    if str in members and len(members) == 2 and type(None) not in members:
        return _read_text_or_items(_reader(next(member for member in members if member is not str)))
    rest = [member for member in members if member is not type(None)]
    if len(rest) == 1:
        read_value = _reader(rest[0])
        return lambda data, path: None if data is None else read_value(data, path)
    raise CodecError(f"{' | '.join(map(str, members))} is not a union that the codec reads")


def _read_text_or_items(read_other: Reader) -> Reader:
    def read(data: Any, path: str) -> Any:
        if isinstance(data, str):
            return data
        if not is_array(data):
            _fail(path, "text, or a list of parts", data)
        return read_other(data, path)

    return read


def _read_tagged(readers: Mapping[str, Reader]) -> Reader:
    names = "an object whose 'kind' is one of " + ", ".join(readers)

    def read(data: Any, path: str) -> Any:
        kind = data.get("kind") if is_object(data) else None
        if not isinstance(kind, str) or kind not in readers:
            _fail(path, names, data)
        return readers[kind](data, path)

    return read


def _read_portable(cls: Any) -> Reader:
    def read(data: Any, path: str) -> Any:
        if not is_object(data):
            _fail(path, f"a {cls.__name__}", data)
        return cls.from_kept(data, _blobs.get()) if has_bytes else cls.from_plain(data)

    has_bytes = issubclass(cls, MEDIA)
    return read


def _read_dataclass(cls: type) -> Reader:
    hints = get_type_hints(cls)
    own = [field for field in fields(cls) if field.init]
    readers = {field.name: _reader(hints[field.name]) for field in own}
    required = [field.name for field in own if field.default is MISSING and field.default_factory is MISSING]
    kind = _kind_of(cls)

    def read(data: Any, path: str) -> Any:
        if not is_object(data):
            _fail(path, f"a {cls.__name__}", data)
        values = dict(data)
        if kind is not None and values.pop("kind", kind) != kind:
            _fail(f"{path}.kind", repr(kind), data["kind"])
        for name in values.keys() - readers.keys():
            _fail(f"{path}.{name}", f"only the fields {', '.join(readers)}", values[name])
        for name in required:
            if name not in values:
                raise CodecError(f"{path.lstrip('.') or cls.__name__}: the field {name!r} is missing")
        try:
            return cls(**{name: readers[name](item, f"{path}.{name}") for name, item in values.items()})
        except WesichainError as error:
            if isinstance(error, CodecError):
                raise
            raise CodecError(f"{path.lstrip('.') or cls.__name__}: {error}") from error

    return read
