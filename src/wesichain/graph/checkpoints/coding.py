"""Coding: converts values to JSON data and back, by the types that the state declares.

Stored data never selects a class outside the declared types. Without a declared type, JSON data is stored as
it is, and values that JSON lacks as an object with one of the marks below as its only key; a dict that could
be mistaken for such an object is marked as well. Everything else is a `CodecError`.
"""

from __future__ import annotations

import types
from binascii import a2b_base64, b2a_base64
from collections import deque
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence, Set
from enum import Enum, EnumType, Flag
from functools import cache, partial
from importlib import import_module
from math import isfinite
from operator import attrgetter, methodcaller
from types import NoneType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from wesichain.core import Message, Part, ReActStep, ToolCall, Usage
from wesichain.core.internal import Decision, Mutable, check_depth, dump_json, from_plain, to_plain
from wesichain.errors import CodecError
from wesichain.graph.state.kinds import (
    build_dataclass,
    fields_of,
    is_dataclass_type,
    is_dict,
    is_list,
    is_model,
    is_some,
    is_tuple,
    is_typed_dict,
    kind_of,
)

Code: TypeAlias = Callable[[Any], Any]


class Coder(Mutable):
    """Encodes and decodes values of one type. `item`, `entry`: the coders of the items of a list or dict."""

    encode: Code
    decode: Code
    item: Coder | None = None
    entry: Coder | None = None


def excerpt(value: object) -> str:
    """Return the beginning of a value, for an error message."""
    return str(value)[:60]


def _wrong(value: object, expected: str) -> CodecError:
    return CodecError(f"{type(value).__name__} {excerpt(value)!r} is not {expected}")


def text_of(data: Any) -> str:
    """Return encoded data as JSON text, if it is not nested too deeply to be read as part of an entry."""
    text = dump_json(data)
    if text.count("[") + text.count("{") > 100:
        check_depth([[[[data]]]])
    return text


def _exact(kind: Any, encode: Code, decode: Code, stored: type | None = None) -> Coder:
    """Return the coder of a class that accepts its own instances, but none of a subclass."""

    def write(value: Any) -> Any:
        if type(value) is not kind:
            raise _wrong(value, f"a {kind.__name__}")
        try:
            return encode(value)
        except ValueError as error:
            raise CodecError(f"{kind.__name__} cannot be written as JSON: {error}") from error

    def read(data: Any) -> Any:
        if stored is not None and type(data) is not stored:
            raise _wrong(data, f"a stored {kind.__name__}")
        try:
            return decode(data)
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:
            raise CodecError(f"not a stored {kind.__name__}: {error}") from error

    return Coder(write, read)


def _of_core(type_: Any) -> Coder:
    """Return the coder of a type of `wesichain.core`, or of a union of such types."""
    kinds = get_args(type_) or (type_,)

    def write(value: Any) -> Any:
        if type(value) not in kinds:
            raise _wrong(value, f"a {' or '.join(kind.__name__ for kind in kinds)}")
        return to_plain(value)

    return Coder(write, partial(from_plain, type_))


# --- scalars ---------------------------------------------------------------------------------------


def _as_scalar(value: Any) -> Any:
    """Convert an instance of a subclass of str, int or float (a StrEnum member, a numpy number) to the equal
    plain value; return anything else unchanged.
    """
    value = _of_numpy(value)
    for kind, plain in _PLAIN:
        if isinstance(value, kind):
            return value if kind_of(value) in (kind, bool) else plain(value)
    return value


_PLAIN: tuple[tuple[type, Code], ...] = (
    (str, str.__str__), (int, int.__int__), (float, float.__float__)
)  # fmt: skip


def _of_numpy(value: Any) -> Any:
    """Convert a number of numpy's to Python's, without importing numpy."""
    return value.item() if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0 else value


def _plain_scalar(*taken: type) -> Coder:
    first, is_float = taken[0], taken[0] is float

    def check(value: Any) -> Any:
        if type(value) is first and not is_float:
            return value
        plain = _as_scalar(value)
        if type(plain) not in taken:
            raise _wrong(value, f"a {first.__name__}")
        if is_float and not isfinite(plain):
            raise CodecError(f"{plain} is not a JSON number")
        return plain

    return Coder(check, check)


_NUMBER: Final = _plain_scalar(float, int, bool)
_SCALARS: Final[Mapping[Any, Coder]] = {
    str: _plain_scalar(str),
    int: _plain_scalar(int, bool),
    bool: _plain_scalar(bool),
    float: _NUMBER,
    **dict.fromkeys((None, NoneType), _plain_scalar(NoneType)),
}


# --- anything --------------------------------------------------------------------------------------


def _isoformat(kind: Any) -> Coder:
    return _exact(kind, methodcaller("isoformat"), kind.fromisoformat, str)


def _as_text(kind: Any) -> Coder:
    return _exact(kind, str, kind, str)


def _base64(kind: Any) -> Coder:
    return _exact(
        kind, lambda v: b2a_base64(v, newline=False).decode(), partial(a2b_base64, strict_mode=True), str
    )


def _duration(kind: Any) -> Coder:
    return _exact(kind, lambda v: [v.days, v.seconds, v.microseconds], lambda d: kind(*d), list)


_BY_NAME: Mapping[str, tuple[str, Callable[[Any], Coder]]] = {
    # Types that JSON lacks, with their marks. They are named, since importing some of them takes 3 ms.
    "builtins.bytes": ("$bytes", _base64),
    "datetime.datetime": ("$datetime", _isoformat),
    "datetime.date": ("$date", _isoformat),
    "datetime.time": ("$time", _isoformat),
    "datetime.timedelta": ("$timedelta", _duration),
    "decimal.Decimal": ("$decimal", _as_text),
    "uuid.UUID": ("$uuid", _as_text),
}
_BY_MARK: Mapping[str, str] = {mark: name for name, (mark, _) in _BY_NAME.items()}


@cache
def _by_name(kind: Any) -> tuple[str, Coder] | None:
    mark, make = _BY_NAME.get(f"{kind.__module__}.{kind.__qualname__}", ("", None))
    return None if make is None else (mark, make(kind))


def _encode(value: Any) -> Any:
    kind = kind_of(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return _NUMBER.encode(value)
    if kind is list:
        return [_encode(item) for item in value]
    if is_dict(value):
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: _encode(item) for key, item in value.items()}
        return {"$dict": _UNMARK["$dict"].encode(value)}
    if (marked := _MARKS.get(kind) or _by_name(kind)) is not None:
        mark, coder = marked
        return {mark: coder.encode(value)}
    if (number := _of_numpy(value)) is not value:
        return _encode(number)
    raise CodecError(
        f"{kind.__name__} is not plain data; declare the type of the key in the state "
        f"(a dataclass, a pydantic model, an enum), or mark the key Untracked"
    )


def _decode(data: Any) -> Any:
    if is_list(data):
        return [_decode(item) for item in data]
    if not is_dict(data):
        return data
    if len(data) == 1:
        ((mark, inner),) = data.items()
        if mark.startswith("$"):
            return _unmark(mark).decode(inner)
    return {key: _decode(item) for key, item in data.items()}


def _unmark(mark: str) -> Coder:
    if mark in _BY_MARK:
        module, name = _BY_MARK[mark].split(".")
        return coder_of(getattr(import_module(module), name))
    if mark not in _UNMARK:
        raise CodecError(f"{mark!r} is not a mark of this version")
    return _UNMARK[mark]


ANYTHING: Final = Coder(_encode, _decode)
ANYTHING.item = ANYTHING.entry = ANYTHING


# --- declared types --------------------------------------------------------------------------------


def coder_of(type_: Any) -> Coder:
    """Return the coder of a declared type. Raises `CodecError` for a type that is not data."""
    try:
        return _coder(type_)
    except TypeError:  # an annotation that cannot be hashed, such as one with a list in it
        return _coder.__wrapped__(type_)


def list_of(item: Any) -> Coder:
    """Return the coder of a list whose items have a declared type."""
    return _items(list, coder_of(item))


@cache
def _coder(type_: Any) -> Coder:
    origin, args = get_origin(type_), get_args(type_)
    if origin is Annotated:
        return coder_of(args[0])
    if hasattr(type_, "__value__"):  # a named alias
        return coder_of(type_.__value__)
    if type_ in (Any, object) or isinstance(type_, TypeVar):
        return ANYTHING
    if type_ in _SCALARS:
        return _SCALARS[type_]
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is Literal:
        return _literal(args)
    if (container := _container(origin or type_, args)) is not None:
        return container
    kind = origin or type_
    if isinstance(kind, type):
        return _class(kind)
    raise CodecError(f"{type_!r} is not a type that can be stored in a checkpoint")


# --- choices ---------------------------------------------------------------------------------------


def _finder(pairs: Iterable[tuple[Any, Any]], key: Callable[[Any], str], names: str) -> Code:
    """Return a lookup in these pairs. The `key` distinguishes equal values of other types (1 and True)."""
    known = {key(value): found for value, found in pairs}

    def find(value: Any) -> Any:
        if key(value) not in known:
            raise _wrong(value, f"one of {names}")
        return known[key(value)]

    return find


def _json_text(value: Any) -> str:
    try:
        return dump_json(value)
    except CodecError:  # the value of an enum member is not data
        return repr(value)


def _literal(members: tuple[Any, ...]) -> Coder:
    pairs = [(member, member.value if isinstance(member, Enum) else member) for member in members]
    names = ", ".join(map(repr, members))
    stored = [(data, member) for member, data in pairs]
    return Coder(_finder(pairs, repr, names), _finder(stored, _json_text, names))


def _enum(kind: Any) -> Coder:
    if issubclass(kind, Flag):  # its members can be combined
        return _exact(kind, attrgetter("value"), kind, int)
    stored = [(member.value, member) for member in kind]
    find = _finder(stored, _json_text, f"the values of {kind.__name__}")
    return _exact(kind, attrgetter("value"), find)


# --- containers ------------------------------------------------------------------------------------

_ITEMS: Mapping[Any, Any] = {
    list: list, Sequence: list, MutableSequence: list, deque: deque, set: set, Set: set, frozenset: frozenset,
    tuple: tuple,
}  # fmt: skip


def _container(kind: Any, args: tuple[Any, ...]) -> Coder | None:
    if kind is tuple and args and args[-1] is not Ellipsis:
        return _row([coder_of(arg) for arg in args])
    if kind in _ITEMS:
        return _items(_ITEMS[kind], coder_of(args[0]) if args else ANYTHING)
    if kind in (dict, Mapping, MutableMapping):
        key, item = args or (str, Any)
        return _named(coder_of(item)) if key is str else _items(dict, _row([coder_of(key), coder_of(item)]))
    return None


def _items(kind: Any, item: Coder) -> Coder:
    def write(value: Any) -> list[Any]:
        if not isinstance(value, kind):
            raise _wrong(value, f"a {kind.__name__}")
        parts: Any = value.items() if is_dict(value) else sorted(value, key=repr) if is_some(value) else value
        return [item.encode(part) for part in parts]

    def read(data: Any) -> Any:
        if not is_list(data):
            raise _wrong(data, "a list")
        parts = [item.decode(part) for part in data]
        try:
            return parts if kind is list else kind(parts)
        except TypeError as error:  # a list in a set, or as a key
            raise _wrong(data, f"a stored {kind.__name__}") from error

    return Coder(write, read, item=item if kind in (list, set, frozenset) else None)


def _row(parts: Sequence[Coder]) -> Coder:
    def write(value: Any) -> list[Any]:
        if not is_tuple(value) or len(value) != len(parts):
            raise _wrong(value, f"a tuple of {len(parts)}")
        return [part.encode(item) for part, item in zip(parts, value, strict=True)]

    def read(data: Any) -> Any:
        if not is_list(data) or len(data) != len(parts):
            raise _wrong(data, f"a list of {len(parts)}")
        return tuple(part.decode(item) for part, item in zip(parts, data, strict=True))

    return Coder(write, read)


def _named(entry: Coder) -> Coder:
    def write(value: Any) -> dict[str, Any]:
        if not is_dict(value):
            raise _wrong(value, "a dict")
        if not all(isinstance(key, str) for key in value):
            raise CodecError("a key of the dict is not text; declare the type of its keys")
        return {_as_scalar(key): entry.encode(item) for key, item in value.items()}

    def read(data: Any) -> dict[str, Any]:
        if not is_dict(data):
            raise _wrong(data, "an object")
        return {key: entry.decode(item) for key, item in data.items()}

    return Coder(write, read, entry=entry)


# --- unions ----------------------------------------------------------------------------------------


def _union(members: tuple[Any, ...]) -> Coder:
    """Return the coder of a union. Steps have a `kind`, None needs no mark, and for other types the name is
    stored, which can only select one of the declared types.
    """
    if set(members) >= set(_STEPS):
        rest = [member for member in members if member not in _STEPS]
        return _STEP if not rest else _tagged({"step": _STEP, **_named_members(rest)})
    rest = [member for member in members if member is not NoneType]
    if len(rest) == 1:
        inner = coder_of(rest[0])
        return Coder(
            lambda value: None if value is None else inner.encode(value),
            lambda data: None if data is None else inner.decode(data),
        )
    return _tagged(_named_members(members))


def _named_members(members: Sequence[Any]) -> dict[str, Coder]:
    """Return the coders of a union's members by name, or by full name if two have the same name."""
    names = [str(getattr(member, "__name__", None) or member) for member in members]
    found = {
        _full_name(member) if names.count(name) > 1 else name: coder_of(member)
        for name, member in zip(names, members, strict=True)
    }
    # Format 1 stored the short name, which meant the last member with that name.
    return found | {name: coder_of(member) for name, member in zip(names, members, strict=True)}


def _full_name(type_: Any) -> str:
    return str(type_) if get_args(type_) else f"{type_.__module__}.{type_.__qualname__}"


def _tagged(coders: Mapping[str, Coder]) -> Coder:
    """Write [name, data]; texts, numbers and None as they are, since JSON distinguishes those.

    Data stored when the type was only one of the members is read as well.
    """

    def write(value: Any) -> Any:
        for name, coder in coders.items():
            try:
                data = coder.encode(value)
            except CodecError:
                continue
            return data if data is value and isinstance(data, _JSON_SCALARS) else [name, data]
        raise _wrong(value, f"one of {', '.join(coders)}")

    def read(data: Any) -> Any:
        tries = [(coder, data) for coder in coders.values()]
        if is_list(data) and len(data) == 2 and isinstance(data[0], str) and data[0] in coders:
            # If that fails, it is a list of two texts, the first of which happens to be the name of a type.
            tries.insert(0, (coders[data[0]], data[1]))
        for coder, found in tries:
            try:
                return coder.decode(found)
            except CodecError:
                continue
        raise _wrong(data, f"one of {', '.join(coders)}")

    return Coder(write, read)


_JSON_SCALARS = (str, int, float, NoneType)


# --- classes ---------------------------------------------------------------------------------------


def _class(kind: Any) -> Coder:
    if (found := _by_name(kind)) is not None:
        return found[1]
    if isinstance(kind, EnumType):
        return _enum(kind)
    if kind in _OURS:
        return _of_core(kind)
    if is_model(kind):
        dump = methodcaller("model_dump", mode="json", by_alias=True, round_trip=True)
        return _exact(kind, dump, kind.model_validate)
    if is_typed_dict(kind) or is_dataclass_type(kind):
        return _record(kind)
    raise CodecError(f"{kind.__name__} is not a type that can be stored in a checkpoint")


def _record(kind: Any) -> Coder:
    """Return the coder of a dataclass or TypedDict. Stored fields that it no longer has are ignored."""
    own = fields_of(kind) if is_dataclass_type(kind) else ()
    hints = get_type_hints(kind)

    @cache  # created when needed, so that a class may refer to itself
    def part(name: str) -> Coder:
        return coder_of(hints[name])

    def write(value: Any) -> dict[str, Any]:
        if is_typed_dict(kind):
            found = _entries(value, hints)
        elif type(value) is kind:
            found = {field.name: getattr(value, field.name) for field in own}
        else:
            raise _wrong(value, f"a {kind.__name__}")
        return {name: part(name).encode(item) for name, item in found.items()}

    def read(data: Any) -> Any:
        if not is_dict(data):
            raise _wrong(data, f"a stored {kind.__name__}")
        values = {name: part(name).decode(item) for name, item in data.items() if name in hints}
        try:
            return build_dataclass(kind, values) if own else kind(**values)
        except TypeError as error:
            raise CodecError(f"not a stored {kind.__name__}: {error}") from error

    return Coder(write, read)


def _entries(value: Any, hints: Mapping[str, Any]) -> dict[str, Any]:
    if not is_dict(value):
        raise _wrong(value, "a dict")
    for name in value:
        if name not in hints:
            raise CodecError(f"the type of the dict has no key {name!r}")
    return value


# --- marks -----------------------------------------------------------------------------------------

_STEPS = get_args(ReActStep)
_STEP: Final = _of_core(ReActStep)
_OURS = (Message, ToolCall, Usage, *get_args(Part), *_STEPS)
_CORE: Mapping[str, Any] = {
    "$message": Message, "$decision": Decision, "$call": ToolCall, "$usage": Usage, "$part": Part,
    "$step": ReActStep,
}  # fmt: skip
_MARKS: Mapping[type, tuple[str, Coder]] = {
    **{kind: (f"${kind.__name__}", _items(kind, ANYTHING)) for kind in (tuple, set, frozenset)},
    **{
        kind: (mark, _of_core(type_)) for mark, type_ in _CORE.items() for kind in get_args(type_) or (type_,)
    },
}
_UNMARK: Mapping[str, Coder] = {
    "$dict": _items(dict, _row([ANYTHING, ANYTHING])), **dict(_MARKS.values())
}  # fmt: skip
