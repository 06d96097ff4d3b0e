"""Coding: values as JSON data and back, by the type that the state declares for them.

Nothing that is stored names a class to be made: what is read becomes what the declared type says. Where none
is declared, JSON is written as it is; what JSON lacks is an object with one of the marks below as its only
key, and a dict that could be taken for one is marked itself. Everything else is refused.
"""

from __future__ import annotations

import types
from binascii import a2b_base64, b2a_base64
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence, Set
from datetime import date, datetime, time, timedelta
from enum import Enum, EnumType
from functools import cache, partial
from importlib import import_module
from math import isfinite
from types import NoneType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from wesichain.core import Message, Part, ReActStep, ToolCall, Usage
from wesichain.core.internal import Decision, check_depth, dump_json, from_plain, to_plain
from wesichain.errors import CodecError
from wesichain.graph.state import (
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


class Coder:
    """How values of one type are written and read. `item`, `entry`: how the parts of a list or dict are."""

    __slots__ = ("decode", "encode", "entry", "item")

    def __init__(
        self, encode: Code, decode: Code, *, item: Coder | None = None, entry: Coder | None = None
    ) -> None:
        self.encode = encode
        self.decode = decode
        self.item = item
        self.entry = entry


def _wrong(value: object, expected: str) -> CodecError:
    return CodecError(f"{type(value).__name__} {str(value)[:60]!r} is not {expected}")


def text_of(data: Any) -> str:
    """The JSON text of encoded data: one that can be read again, also as a part of an entry."""
    text = dump_json(data)
    if text.count("[") + text.count("{") > 100:
        check_depth([[[[data]]]])
    return text


_STEPS = get_args(ReActStep)
_OURS = (Message, ToolCall, Usage, *get_args(Part), *_STEPS)


# --- scalars ---------------------------------------------------------------------------------------


def _scalar(kind: type, encode: Code = lambda v: v, decode: Code = lambda d: d, stored: type = str) -> Coder:
    def write(value: Any) -> Any:
        if type(value) is not kind:
            raise _wrong(value, f"a {kind.__name__}")
        return encode(value)

    def read(data: Any) -> Any:
        if not isinstance(data, stored):
            raise _wrong(data, f"a stored {kind.__name__}")
        try:
            return decode(data)
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:
            raise _wrong(data, f"a stored {kind.__name__}") from error

    return Coder(write, read)


def _as_scalar(value: Any) -> Any:
    """A text or number that a subclass or another library made (a member of a StrEnum, a numpy number), as
    the plain one that it is equal to; anything else as it is.
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
    """A number of numpy's as Python's own, known without importing numpy."""
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
            raise CodecError(f"{plain} is a number that JSON lacks")
        return plain

    return Coder(check, check)


_DATA: Mapping[type, tuple[str, Coder]] = {  # what JSON lacks, by its mark
    bytes: (
        "$bytes",
        _scalar(
            bytes, lambda v: b2a_base64(v, newline=False).decode(), partial(a2b_base64, strict_mode=True)
        ),
    ),
    datetime: ("$datetime", _scalar(datetime, datetime.isoformat, datetime.fromisoformat)),
    date: ("$date", _scalar(date, date.isoformat, date.fromisoformat)),
    time: ("$time", _scalar(time, time.isoformat, time.fromisoformat)),
    timedelta: (
        "$timedelta",
        _scalar(timedelta, lambda v: [v.days, v.seconds, v.microseconds], lambda d: timedelta(*d), list),
    ),
}
_LATE: Mapping[str, tuple[str, str]] = {"$decimal": ("decimal", "Decimal"), "$uuid": ("uuid", "UUID")}
_NUMBER: Final = _plain_scalar(float, int, bool)
_SCALARS: Final[Mapping[Any, Coder]] = {
    str: _plain_scalar(str),
    int: _plain_scalar(int, bool),
    bool: _plain_scalar(bool),
    float: _NUMBER,
    **dict.fromkeys((None, NoneType), _scalar(NoneType, stored=NoneType)),
    **{kind: coder for kind, (_, coder) in _DATA.items()},
}


@cache
def _late_scalar(kind: Any) -> tuple[str, Coder] | None:
    """The mark and the coder of a class whose module is only imported by those who use it: 3 ms."""
    name = (getattr(kind, "__module__", ""), getattr(kind, "__qualname__", ""))
    return next(((mark, _scalar(kind, str, kind)) for mark, late in _LATE.items() if late == name), None)


# --- anything --------------------------------------------------------------------------------------


def _encode(value: Any) -> Any:
    kind = kind_of(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return _NUMBER.encode(value)
    if kind is list:
        return [_encode(item) for item in value]
    if is_dict(value):
        return _encode_dict(value)
    if (marked := _MARKS.get(kind) or _late_scalar(kind)) is not None:
        mark, coder = marked
        return {mark: coder.encode(value)}
    if (number := _of_numpy(value)) is not value:
        return _encode(number)
    raise CodecError(
        f"{kind.__name__} is not plain data; declare the type of the key in the state "
        f"(a dataclass, a pydantic model, an enum), or mark the key Untracked"
    )


def _encode_dict(value: dict[Any, Any]) -> dict[str, Any]:
    if all(type(key) is str and not key.startswith("$") for key in value):
        return {key: _encode(item) for key, item in value.items()}
    return {"$dict": _UNMARK["$dict"].encode(value)}


def _decode(data: Any) -> Any:
    if is_list(data):
        return [_decode(item) for item in data]
    if not is_dict(data):
        return data
    if len(data) == 1:
        ((mark, inner),) = data.items()
        if mark.startswith("$"):
            return _unmark(mark, inner)
    return {key: _decode(item) for key, item in data.items()}


def _unmark(mark: str, inner: Any) -> Any:
    coder = _UNMARK.get(mark)
    if coder is None and mark in _LATE:
        module, name = _LATE[mark]
        coder = cast("Any", _late_scalar(getattr(import_module(module), name)))[1]
    if coder is None:
        raise CodecError(f"{mark!r} is not a mark of this version")
    try:
        return coder.decode(inner)
    except (TypeError, ValueError) as error:
        raise CodecError(f"what is marked {mark!r} cannot be read: {error}") from error


ANYTHING: Final = Coder(_encode, _decode)
ANYTHING.item = ANYTHING.entry = ANYTHING


# --- declared types --------------------------------------------------------------------------------


def coder_of(type_: Any) -> Coder:
    """The coder of a declared type; `CodecError` for a type that is not data."""
    try:
        return _coder(type_)
    except TypeError:  # an annotation that cannot be hashed, such as one with a list in it
        return _coder.__wrapped__(type_)


def list_of(item: Any) -> Coder:
    """The coder of a list of a declared type."""
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
    if (late := _late_scalar(type_)) is not None:
        return late[1]
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is Literal:
        return _literal(args)
    if (container := _container(origin or type_, args)) is not None:
        return container
    if isinstance(type_, type):
        return _class(type_)
    if isinstance(origin, type):
        return _class(origin)
    raise CodecError(f"{type_!r} is not a type that can be kept in a checkpoint")


# --- choices ---------------------------------------------------------------------------------------


def _choice(by_repr: Mapping[str, Any], names: str) -> Code:
    """Finds what belongs to a value; equal values of other types (1 and True) are kept apart."""

    def find(value: Any) -> Any:
        if repr(value) not in by_repr:
            raise _wrong(value, f"one of {names}")
        return by_repr[repr(value)]

    return find


def _literal(members: tuple[Any, ...]) -> Coder:
    known = {repr(member): member.value if isinstance(member, Enum) else member for member in members}
    names = ", ".join(known)
    stored = {repr(known[repr(member)]): member for member in members}
    return Coder(_choice(known, names), _choice(stored, names))


# --- containers ------------------------------------------------------------------------------------


def _container(kind: Any, args: tuple[Any, ...]) -> Coder | None:
    if kind in (list, Sequence, MutableSequence):
        return _items(list, coder_of(args[0]) if args else ANYTHING)
    if kind is deque:
        return _items(deque, coder_of(args[0]) if args else ANYTHING, given=deque)
    if kind in (set, frozenset, Set):
        made = frozenset if kind is frozenset else set
        return _items(made, coder_of(args[0]) if args else ANYTHING, given=made)
    if kind is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return _items(tuple, coder_of(args[0]), given=tuple)
        return _row([coder_of(arg) for arg in args]) if args else _items(tuple, ANYTHING, given=tuple)
    if kind in (dict, Mapping, MutableMapping):
        key, item = args or (str, Any)
        return _named(coder_of(item)) if key is str else _pairs(coder_of(key), coder_of(item))
    return None


def _items(make: Code, item: Coder, given: type = list) -> Coder:
    def write(value: Any) -> list[Any]:
        if not isinstance(value, given):
            raise _wrong(value, f"a {given.__name__}")
        parts: Any = sorted(value, key=repr) if is_some(value) else value
        return [item.encode(part) for part in parts]

    def read(data: Any) -> Any:
        if not is_list(data):
            raise _wrong(data, "a list")
        return make([item.decode(part) for part in data])

    return Coder(write, read, item=item if given in (list, set, frozenset) else None)


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


def _pairs(key: Coder, item: Coder) -> Coder:
    both = _items(list, _row([key, item]))

    def write(value: Any) -> list[Any]:
        if not is_dict(value):
            raise _wrong(value, "a dict")
        return cast("list[Any]", both.encode(list(value.items())))

    return Coder(write, lambda data: dict(both.decode(data)))


# --- unions ----------------------------------------------------------------------------------------


def _union(members: tuple[Any, ...]) -> Coder:
    """One of several types. Steps go by their `kind`, None needs no mark, and for the others the name of the
    type is stored, which can only choose among those that are declared.
    """
    if set(members) >= set(_STEPS):
        rest = [member for member in members if member not in _STEPS]
        return _STEP if not rest else _tagged({"step": _STEP, **_named_members(tuple(rest))})
    rest = [member for member in members if member is not type(None)]
    if len(rest) == 1:
        inner = coder_of(rest[0])
        return Coder(
            lambda value: None if value is None else inner.encode(value),
            lambda data: None if data is None else inner.decode(data),
        )
    return _tagged(_named_members(members))


def _named_members(members: tuple[Any, ...]) -> dict[str, Coder]:
    """The coders of a union's members, by names that tell them apart."""
    names = [_name(member) for member in members]
    told_apart = [
        _full_name(member) if names.count(name) > 1 else name
        for member, name in zip(members, names, strict=True)
    ]
    found = {name: coder_of(member) for name, member in zip(told_apart, members, strict=True)}
    for name, member in zip(names, members, strict=True):  # in format 1 the last of one name was meant
        found[name] = coder_of(member)
    return found


def _name(type_: Any) -> str:
    return str(getattr(type_, "__name__", None) or type_)


def _full_name(type_: Any) -> str:
    return str(type_) if get_args(type_) else f"{type_.__module__}.{type_.__qualname__}"


def _tagged(coders: Mapping[str, Coder]) -> Coder:
    """Writes [name, data]; texts, numbers and the like as they are, since JSON distinguishes those.

    Reads also what was written when the type was one of its members alone.
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
        if is_list(data) and len(data) == 2 and isinstance(data[0], str) and data[0] in coders:
            try:
                return coders[data[0]].decode(data[1])
            except CodecError:
                pass  # a list of two texts, of which the first is called like a type
        for coder in coders.values():
            try:
                return coder.decode(data)
            except CodecError:
                continue
        raise _wrong(data, f"one of {', '.join(coders)}")

    return Coder(write, read)


_JSON_SCALARS = (str, int, float, NoneType)


# --- classes ---------------------------------------------------------------------------------------


def _class(kind: Any) -> Coder:
    if isinstance(kind, EnumType):
        return _enum(kind)
    if kind in _OURS:
        return _checked(kind, to_plain, partial(from_plain, kind))
    if is_model(kind):
        return _checked(kind, _dumped, partial(_validated, kind))
    if is_typed_dict(kind) or is_dataclass_type(kind):
        return _record(kind)
    raise CodecError(f"{kind.__name__} is not a type that can be kept in a checkpoint")


def _enum(kind: Any) -> Coder:
    members = {repr(member.value): member for member in kind}
    return _checked(kind, lambda value: value.value, _choice(members, f"the values of {kind.__name__}"))


def _checked(kind: Any, encode: Code, decode: Code) -> Coder:
    def write(value: Any) -> Any:
        if type(value) is not kind:
            raise _wrong(value, f"a {kind.__name__}")
        return encode(value)

    return Coder(write, decode)


def _write_step(value: Any) -> Any:
    if not isinstance(value, _STEPS):
        raise _wrong(value, "a step")
    return to_plain(value)


_STEP = Coder(_write_step, partial(from_plain, cast("Any", ReActStep)))


def _dumped(value: Any) -> Any:
    try:
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    except ValueError as error:
        raise CodecError(f"{type(value).__name__} has no JSON: {error}") from error


def _validated(model: Any, data: Any) -> Any:
    try:
        return model.model_validate(data)
    except ValueError as error:
        raise CodecError(f"not a stored {model.__name__}: {error}") from error


def _record(kind: Any) -> Coder:
    """A dataclass or TypedDict, as an object of its fields. Fields that it no longer has are dropped."""
    own = fields_of(kind) if is_dataclass_type(kind) else ()
    late = {field.name for field in own if not field.init}
    hints = get_type_hints(kind)

    @cache  # made when first needed, so that a class may refer to itself
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
            made: Any = kind(**{name: item for name, item in values.items() if name not in late})
        except TypeError as error:
            raise CodecError(f"not a stored {kind.__name__}: {error}") from error
        for name in late & values.keys():
            object.__setattr__(made, name, values[name])
        return made

    return Coder(write, read)


def _entries(value: Any, hints: Mapping[str, Any]) -> dict[str, Any]:
    if not is_dict(value):
        raise _wrong(value, "a dict")
    for name in value:
        if name not in hints:
            raise CodecError(f"the dict has no place for the key {name!r}")
    return value


# --- marks -----------------------------------------------------------------------------------------


def _of_core(type_: Any) -> Coder:
    return Coder(to_plain, partial(from_plain, type_))


_CORE: Mapping[str, Any] = {
    "$message": Message, "$decision": Decision, "$call": ToolCall, "$usage": Usage, "$part": Part,
    "$step": ReActStep,
}  # fmt: skip
_MARKS: Mapping[type, tuple[str, Coder]] = {
    tuple: ("$tuple", _items(tuple, ANYTHING, given=tuple)),
    set: ("$set", _items(set, ANYTHING, given=set)),
    frozenset: ("$frozenset", _items(frozenset, ANYTHING, given=frozenset)),
    **{
        kind: (mark, _of_core(type_)) for mark, type_ in _CORE.items() for kind in get_args(type_) or (type_,)
    },
    **_DATA,
}
_UNMARK: Mapping[str, Coder] = {"$dict": _pairs(ANYTHING, ANYTHING), **dict(_MARKS.values())}
