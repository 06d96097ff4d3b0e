"""Plain data: the closed set of values that a checkpoint can hold where nothing is declared.

JSON is written as it is. What JSON lacks is an object with one of the marks below as its only key;
a dict that could be taken for one is marked itself. Everything else is refused: nothing that is
stored can name a class.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from functools import cache, partial
from importlib import import_module
from math import isfinite
from typing import Any, Final, TypeAlias, cast, get_args

from wesichain.core import Message, Part, ReActStep, ToolCall, Usage
from wesichain.core.internal import Decision, check_depth, dump_json, from_plain, to_plain
from wesichain.errors import CodecError
from wesichain.graph.state import is_dict, is_list, kind_of

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


def wrong(value: object, expected: str) -> CodecError:
    return CodecError(f"{type(value).__name__} {str(value)[:60]!r} is not {expected}")


def text_of(data: Any) -> str:
    """The JSON text of encoded data: one that can be read again, also as a part of an entry."""
    text = dump_json(data)
    if text.count("[") + text.count("{") > 100:
        check_depth([[[[data]]]])
    return text


# --- scalars ---------------------------------------------------------------------------------------


def _scalar(kind: type, encode: Code = lambda v: v, decode: Code = lambda d: d, stored: type = str) -> Coder:
    def write(value: Any) -> Any:
        if type(value) is not kind:
            raise wrong(value, f"a {kind.__name__}")
        return encode(value)

    def read(data: Any) -> Any:
        if not isinstance(data, stored):
            raise wrong(data, f"a stored {kind.__name__}")
        try:
            return decode(data)
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:
            raise wrong(data, f"a stored {kind.__name__}") from error

    return Coder(write, read)


def as_scalar(value: Any) -> Any:
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
        plain = as_scalar(value)
        if type(plain) not in taken:
            raise wrong(value, f"a {first.__name__}")
        if is_float and not isfinite(plain):
            raise CodecError(f"{plain} is a number that JSON lacks")
        return plain

    return Coder(check, check)


_SOME_DATA: Mapping[str, Coder] = {
    "$bytes": _scalar(
        bytes, lambda v: b2a_base64(v, newline=False).decode(), partial(a2b_base64, strict_mode=True)
    ),
    "$datetime": _scalar(datetime, datetime.isoformat, datetime.fromisoformat),
    "$date": _scalar(date, date.isoformat, date.fromisoformat),
    "$time": _scalar(time, time.isoformat, time.fromisoformat),
    "$timedelta": _scalar(
        timedelta, lambda v: [v.days, v.seconds, v.microseconds], lambda d: timedelta(*d), list
    ),
}
_DATA_KINDS: Mapping[type, str] = {
    bytes: "$bytes", datetime: "$datetime", date: "$date", time: "$time", timedelta: "$timedelta"
}  # fmt: skip
_LATE: Mapping[str, tuple[str, str]] = {"$decimal": ("decimal", "Decimal"), "$uuid": ("uuid", "UUID")}
_NUMBER: Final = _plain_scalar(float, int, bool)
SCALARS: Final[Mapping[Any, Coder]] = {
    str: _plain_scalar(str),
    int: _plain_scalar(int, bool),
    bool: _plain_scalar(bool),
    float: _NUMBER,
    **dict.fromkeys((None, type(None)), _scalar(type(None), stored=type(None))),
    **{kind: _SOME_DATA[mark] for kind, mark in _DATA_KINDS.items()},
}


@cache
def late_scalar(kind: Any) -> tuple[str, Coder] | None:
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
    if kind in _MARKS:
        mark, encode = _MARKS[kind]
        return {mark: encode(value)}
    if (late := late_scalar(kind)) is not None:
        return {late[0]: late[1].encode(value)}
    if (number := _of_numpy(value)) is not value:
        return _encode(number)
    raise CodecError(
        f"{kind.__name__} is not plain data; declare the type of the key in the state "
        f"(a dataclass, a pydantic model, an enum), or mark the key Untracked"
    )


def _encode_dict(value: dict[Any, Any]) -> dict[str, Any]:
    if all(type(key) is str and not key.startswith("$") for key in value):
        return {key: _encode(item) for key, item in value.items()}
    return {"$dict": [[_encode(key), _encode(item)] for key, item in value.items()]}


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
    decode = _UNMARK.get(mark)
    if decode is None and mark in _LATE:
        module, name = _LATE[mark]
        decode = cast("Any", late_scalar(getattr(import_module(module), name)))[1].decode
    if decode is None:
        raise CodecError(f"{mark!r} is not a mark of this version")
    try:
        return decode(inner)
    except (TypeError, ValueError) as error:
        raise CodecError(f"what is marked {mark!r} cannot be read: {error}") from error


def _some(make: Code) -> Code:
    return lambda data: make([_decode(item) for item in data])


def _sorted(value: Any) -> list[Any]:
    return [_encode(item) for item in sorted(value, key=repr)]


_CORE_MARKS: Mapping[str, Any] = {
    "$message": Message, "$decision": Decision, "$call": ToolCall, "$usage": Usage, "$part": Part,
    "$step": ReActStep,
}  # fmt: skip
_MARKS: Mapping[type, tuple[str, Code]] = {
    tuple: ("$tuple", lambda value: [_encode(item) for item in value]),
    set: ("$set", _sorted),
    frozenset: ("$frozenset", _sorted),
    **{kind: (mark, to_plain) for mark, type_ in _CORE_MARKS.items() for kind in get_args(type_) or (type_,)},
    **{kind: (mark, _SOME_DATA[mark].encode) for kind, mark in _DATA_KINDS.items()},
}
_UNMARK: Mapping[str, Code] = {
    "$dict": lambda data: {_decode(key): _decode(item) for key, item in data},
    "$tuple": _some(tuple),
    "$set": _some(set),
    "$frozenset": _some(frozenset),
    **{mark: partial(from_plain, type_) for mark, type_ in _CORE_MARKS.items()},
    **{mark: coder.decode for mark, coder in _SOME_DATA.items()},
}

ANYTHING: Final = Coder(_encode, _decode)
ANYTHING.item = ANYTHING.entry = ANYTHING
