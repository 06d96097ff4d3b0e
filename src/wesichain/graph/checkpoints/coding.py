"""Coding: values as JSON data and back, by the type that the state declares for them.

Nothing that is stored names a class to be made: what is read becomes what the declared type says.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence, Set
from enum import Enum, EnumType
from functools import cache, partial
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from wesichain.core import Message, Part, ReActStep, ToolCall, Usage
from wesichain.core.internal import from_plain, to_plain
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
)

from .plain import ANYTHING, SCALARS, Code, Coder, as_scalar, late_scalar, wrong

_STEPS = get_args(ReActStep)
_CORE = (Message, ToolCall, Usage, *get_args(Part), *_STEPS)


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
    if type_ in SCALARS:
        return SCALARS[type_]
    if (late := late_scalar(type_)) is not None:
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
    """Finds what belongs to a value; equal values of other types (1 and True) are told apart."""

    def find(value: Any) -> Any:
        if repr(value) not in by_repr:
            raise wrong(value, f"one of {names}")
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
            raise wrong(value, f"a {given.__name__}")
        parts: Any = sorted(value, key=repr) if is_some(value) else value
        return [item.encode(part) for part in parts]

    def read(data: Any) -> Any:
        if not is_list(data):
            raise wrong(data, "a list")
        return make([item.decode(part) for part in data])

    return Coder(write, read, item=item if given in (list, set, frozenset) else None)


def _row(parts: Sequence[Coder]) -> Coder:
    def write(value: Any) -> list[Any]:
        if not is_tuple(value) or len(value) != len(parts):
            raise wrong(value, f"a tuple of {len(parts)}")
        return [part.encode(item) for part, item in zip(parts, value, strict=True)]

    def read(data: Any) -> Any:
        if not is_list(data) or len(data) != len(parts):
            raise wrong(data, f"a list of {len(parts)}")
        return tuple(part.decode(item) for part, item in zip(parts, data, strict=True))

    return Coder(write, read)


def _named(entry: Coder) -> Coder:
    def write(value: Any) -> dict[str, Any]:
        if not is_dict(value):
            raise wrong(value, "a dict")
        if not all(isinstance(key, str) for key in value):
            raise CodecError("a key of the dict is not text; declare the type of its keys")
        return {as_scalar(key): entry.encode(item) for key, item in value.items()}

    def read(data: Any) -> dict[str, Any]:
        if not is_dict(data):
            raise wrong(data, "an object")
        return {key: entry.decode(item) for key, item in data.items()}

    return Coder(write, read, entry=entry)


def _pairs(key: Coder, item: Coder) -> Coder:
    both = _items(list, _row([key, item]))

    def write(value: Any) -> list[Any]:
        if not is_dict(value):
            raise wrong(value, "a dict")
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
    """Writes [name, data]; texts, numbers and the like as they are, since JSON tells those apart.

    Reads also what was written when the type was one of its members alone.
    """

    def write(value: Any) -> Any:
        for name, coder in coders.items():
            try:
                data = coder.encode(value)
            except CodecError:
                continue
            return data if data is value and isinstance(data, _JSON_SCALARS) else [name, data]
        raise wrong(value, f"one of {', '.join(coders)}")

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
        raise wrong(data, f"one of {', '.join(coders)}")

    return Coder(write, read)


_JSON_SCALARS = (str, int, float, NoneType)


# --- classes ---------------------------------------------------------------------------------------


def _class(kind: Any) -> Coder:
    if isinstance(kind, EnumType):
        return _enum(kind)
    if kind in _CORE:
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
            raise wrong(value, f"a {kind.__name__}")
        return encode(value)

    return Coder(write, decode)


def _write_step(value: Any) -> Any:
    if not isinstance(value, _STEPS):
        raise wrong(value, "a step")
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
            raise wrong(value, f"a {kind.__name__}")
        return {name: part(name).encode(item) for name, item in found.items()}

    def read(data: Any) -> Any:
        if not is_dict(data):
            raise wrong(data, f"a stored {kind.__name__}")
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
        raise wrong(value, "a dict")
    for name in value:
        if name not in hints:
            raise CodecError(f"the dict has no place for the key {name!r}")
    return value
