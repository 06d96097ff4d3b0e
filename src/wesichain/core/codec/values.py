"""Values as JSON text, and back, strictly.

A value is an object of its fields. A member of a union (steps, events) also carries its `kind`.
Fields marked `omit_empty` are left out while they are empty. Reading refuses unknown fields,
wrong types and anything `parse_json` refuses, and names the place: `messages[2].role: ...`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import Any, Protocol, Self, TypeVar, overload, runtime_checkable

from wesichain.core.content import BlobReader, BlobWriter
from wesichain.errors import CodecError

from .json import dump_json, json_writer, parse_json

T = TypeVar("T")


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
    if (_STRICT.get(value.__class__) or _writer(value.__class__, is_strict=True)) is _write_plain:
        return _plain_text(value, blobs)
    return to_lines((value,), blobs=blobs, is_strict=True)[0].decode()


def to_lines(
    values: Iterable[object], *, blobs: BlobWriter | None = None, is_strict: bool = False
) -> list[bytes]:
    """What `to_json` gives of each value, as the bytes of a line: for logs, written by the thousand.

    Unless it `is_strict`, an object among JSON data that JSON lacks (a set, a date) is written as what
    comes nearest to it.
    """
    find, make = (_STRICT if is_strict else _LENIENT).get, _writer
    try:
        lines = [
            (find(value.__class__) or make(value.__class__, is_strict=is_strict))(
                value, exclude_defaults=True, warnings=False, context=blobs, fallback=_plain
            )
            for value in values
        ]
    except CodecError:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise CodecError(_reason(error)) from None
    written = b"\n".join(lines)
    if b"NaN" in written or b"Infinity" in written:  # a number that JSON lacks, or a text that has the word
        for line in lines:
            parse_json(line)
    return lines


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
    from .reading import read

    return read(type, data, blobs)


def _writer(cls: type, *, is_strict: bool) -> Callable[..., bytes]:
    """A function that writes values of one class; made once, at the first of them."""
    write: Callable[..., bytes] = _write_plain
    if is_dataclass(cls) and not hasattr(cls, "to_plain"):
        from .writing import serializer

        write = serializer(cls, is_strict=is_strict).to_json
    (_STRICT if is_strict else _LENIENT)[cls] = write
    return write


_STRICT: dict[type, Callable[..., bytes]] = {}
_LENIENT: dict[type, Callable[..., bytes]] = {}


def _write_plain(value: object, *, context: BlobWriter | None, **_: object) -> bytes:
    return _plain_text(value, context).encode()


def _plain_text(value: object, blobs: BlobWriter | None) -> str:
    """JSON data, and values that stand in it. The standard library writes it, and refuses the rest."""
    return _write(value) if blobs is None else dump_json(value, default=partial(_plain, blobs=blobs))


def _plain(value: Any, blobs: BlobWriter | None = None) -> object:
    from .writing import plain_of

    return plain_of(value, blobs)


_write = json_writer(_plain)


def _reason(error: Exception) -> str:
    """Why pydantic-core could not write a value, without the trail of its own functions."""
    said = str(error)
    if "surrogate" in said:
        return "the text holds a lone surrogate, which is not a character"
    _, found, ours = said.rpartition("CodecError: ")
    return ours if found else f"the value has no JSON: {said.removeprefix('Error serializing to JSON: ')}"
