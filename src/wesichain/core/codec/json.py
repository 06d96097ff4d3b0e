"""JSON values, and strict JSON text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from math import isinf
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeGuard, cast

from typing_extensions import TypeAliasType

from wesichain.core.equality import same
from wesichain.errors import CodecError

if TYPE_CHECKING:
    JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
else:  # a named alias at run time: annotations that use it are evaluated in other modules
    JsonValue = TypeAliasType("JsonValue", Any)
JsonObject: TypeAlias = dict[str, JsonValue]

MAX_DEPTH = 200


def parse_json(text: str | bytes) -> Any:
    """Read JSON text strictly.

    Refused with `CodecError`: NaN and infinities, duplicate keys, lone surrogates, integers of thousands of
    digits, and nesting deeper than 200 levels.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        elif not text.isascii():
            text.encode("utf-8")  # fails on a lone surrogate
        value = _DECODER.decode(text)
    except RecursionError:
        raise CodecError(_TOO_DEEP) from None
    except CodecError:
        raise
    except ValueError as error:
        raise CodecError(f"not JSON: {error}") from None
    except (TypeError, AttributeError):
        given: Any = text  # callers may ignore the annotation
        raise CodecError(f"not JSON text: {type(given).__name__}; pass str or bytes") from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        check_depth(value)
    if "\\u" in text:
        dump_json(value)  # fails on a lone surrogate that was escaped
    return value


def find_json_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object in a model's reply, ignoring text around it; None if there is none."""
    try:
        found: dict[str, Any] = parse_json(text[text.find("{") : text.rfind("}") + 1])
    except CodecError:
        return None
    return found


def json_writer(default: Callable[[Any], Any] | None = None) -> Callable[[object], str]:
    """Return a function that writes JSON text; `default` converts objects that JSON does not support."""
    convert = json.JSONEncoder(default=default).default
    # `JSONEncoder.encode` creates this for every call, which takes as long as writing a small text.
    encoder: Any = json.encoder
    known = (None, convert, encoder.encode_basestring, None, ":", ",", False, False, False)
    pieces = encoder.c_make_encoder(*known)
    return lambda value: _write(value, pieces)


def dump_json(value: object, default: Callable[[Any], Any] | None = None) -> str:
    """Write JSON text in Unicode. NaN, lone surrogates and unsupported objects raise `CodecError`."""
    return (_PLAIN if default is None else json_writer(default))(value)


def _write(value: object, pieces: Callable[[object, int], Iterable[str]]) -> str:
    try:
        text = "".join(pieces(value, 0))
        if not text.isascii():
            text.encode("utf-8")
    except RecursionError:
        raise CodecError(_TOO_DEEP) from None
    except CodecError:
        raise
    except UnicodeEncodeError:
        raise CodecError("the text holds a lone surrogate, which is not a character") from None
    except (TypeError, ValueError) as error:
        raise CodecError(f"the value has no JSON: {error}") from None
    return text


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def json_changes(one: Any, two: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield each path at which two JSON values differ (`calls[0].name`), and both values; None if missing."""
    if is_object(one) and is_object(two):
        for key in dict.fromkeys((*one, *two)):
            yield from json_changes(one.get(key), two.get(key), f"{path}.{key}" if path else key)
    elif is_array(one) and is_array(two):
        for index, (left, right) in enumerate(zip_longest(one, two)):
            yield from json_changes(left, right, f"{path}[{index}]")
    elif not same(one, two):
        yield path, one, two


def check_depth(value: object) -> None:
    """Raise `CodecError` for a value that nests deeper than 200 levels, without recursion."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for item in level:
            if is_object(item):
                inner.extend(item.values())
            elif isinstance(item, list | tuple):
                inner.extend(cast("Sequence[Any]", item))
        level = [item for item in inner if isinstance(item, dict | list | tuple)]
        if not level:
            return
    raise CodecError(_TOO_DEEP)


_TOO_DEEP = f"the JSON nests deeper than {MAX_DEPTH} levels"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise CodecError(f"not JSON: the key {twice!r} is given twice")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise CodecError(f"not JSON: {name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise CodecError(f"not JSON: the number {text:.24} is too large")
    return value


_PLAIN = json_writer()
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite)
