"""Writing values as JSON: an object with the fields of the value, and its `kind` for a member of a union.

The shape of a class defines the fields. Stored values are written by the standard library, which refuses
what JSON does not support; the lines of logs by msgspec, in a quarter of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

from wesichain.core.content import MEDIA, BlobWriter
from wesichain.core.log import LogView
from wesichain.errors import CodecError

from .forms import WritesItself, form_of, shape_of
from .json import dump_json, json_writer, parse_json

if TYPE_CHECKING:
    from msgspec.json import Encoder


def to_plain(value: object) -> Any:
    """The value as data: dicts, lists, strings, numbers, booleans and None."""
    return parse_json(to_json(value))


def to_json(value: object, *, blobs: BlobWriter | None = None) -> str:
    """The JSON text of a value of this project, or of plain JSON data.

    The bytes of parts are written as base64, or, with `blobs`, stored there once and referred to by hash.
    """
    return _write(value) if blobs is None else dump_json(value, partial(_known, blobs=blobs))


def to_lines(values: Iterable[object], *, blobs: BlobWriter | None = None) -> list[bytes]:
    """The JSON of each value, as `to_json` writes it, as the bytes of a line."""
    return to_jsonl([*values], blobs=blobs).split(b"\n")[:-1]


def to_jsonl(values: Sequence[object], *, blobs: BlobWriter | None = None) -> bytes:
    """The JSON of each value on a line of its own, with its newline. For logs of thousands of events.

    JSON data is not validated here: what JSON does not support (a set, a date, NaN) is written approximately.
    """
    return forms_to_jsonl([*map(form_of, values)], blobs=blobs)


def forms_to_jsonl(forms: Sequence[Any], *, blobs: BlobWriter | None = None) -> bytes:
    """`to_jsonl` for forms (`form_of`, `forms_in`)."""
    try:
        return _encoder()(enc_hook=partial(_known, blobs=blobs)).encode_lines(forms)
    except (TypeError, ValueError, RecursionError) as error:
        raise CodecError(f"the value has no JSON: {error}") from None


def form_to_json(form: Any, *, blobs: BlobWriter | None = None) -> str:
    """The JSON text of a form, or of plain data that contains forms, without validation of its JSON data."""
    try:
        return _encoder()(enc_hook=partial(_known, blobs=blobs)).encode(form).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise CodecError(f"the value has no JSON: {error}") from None


@cache
def _encoder() -> type[Encoder]:
    from msgspec.json import Encoder

    return Encoder


def _known(value: Any, blobs: BlobWriter | None = None) -> object:
    """Convert an object that JSON does not support to one that it does."""
    return _plain(value.__class__)(value, blobs)


@cache
def _plain(cls: Any) -> Callable[[Any, Any], object]:
    if cls in (bool, tuple, type(None)):  # msgspec supports them, but not as keys
        return lambda key, _: dump_json(key)
    if cls is WritesItself:
        return lambda form, blobs: _known(form.value, blobs)
    if issubclass(cls, LogView):
        return lambda value, _: list(value)
    if issubclass(cls, MEDIA):
        return lambda value, blobs: value.to_plain() if blobs is None else value.to_plain_with_blobs(blobs)
    if hasattr(cls, "to_plain"):
        return lambda value, _: value.to_plain()
    if is_dataclass(cls):
        written = shape_of(cast("Any", cls)).written
        return lambda value, _: written(value)
    if issubclass(cls, Mapping):
        return lambda value, _: dict(value)
    raise CodecError(f"{cls.__name__} is not a value of this project and has no JSON")


_write = json_writer(_known)
