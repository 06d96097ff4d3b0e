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
from math import isfinite
from typing import Any, Final, TypeAlias, get_args

from wesichain.agent import Decision
from wesichain.core import (
    Message,
    Part,
    ReActStep,
    ToolCall,
    Usage,
    check_depth,
    dump_json,
    from_plain,
    to_plain,
)
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


def _scalar(kind: type, encode: Code | None = None, decode: Code | None = None, stored: type = str) -> Coder:
    def write(value: Any) -> Any:
        if type(value) is not kind:
            raise wrong(value, f"a {kind.__name__}")
        return value if encode is None else encode(value)

    def read(data: Any) -> Any:
        if decode is None:
            return write(data)
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
    if kind_of(value) in (str, bool, int, float):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    return float.__float__(value) if isinstance(value, float) else value


def _of_numpy(value: Any) -> Any:
    """A number of numpy's as Python's own, known without importing numpy."""
    return value.item() if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0 else value


def _plain_scalar(kind: type, taken: tuple[type, ...]) -> Coder:
    def write(value: Any) -> Any:
        if type(value) is kind:
            return value
        plain = as_scalar(value)
        if type(plain) not in taken:
            raise wrong(value, f"a {kind.__name__}")
        return plain

    def read(data: Any) -> Any:
        if type(data) not in taken:
            raise wrong(data, f"a stored {kind.__name__}")
        return data

    return Coder(write, read)


def _number(value: Any) -> Any:
    value = as_scalar(value)
    if type(value) not in (int, float, bool):
        raise wrong(value, "a number")
    if not isfinite(value):
        raise CodecError(f"{value} is a number that JSON lacks")
    return value


_DATA: Mapping[str, tuple[type, Coder]] = {
    "$bytes": (
        bytes,
        _scalar(
            bytes, lambda v: b2a_base64(v, newline=False).decode(), partial(a2b_base64, strict_mode=True)
        ),
    ),
    "$datetime": (datetime, _scalar(datetime, datetime.isoformat, datetime.fromisoformat)),
    "$date": (date, _scalar(date, date.isoformat, date.fromisoformat)),
    "$time": (time, _scalar(time, time.isoformat, time.fromisoformat)),
    "$timedelta": (
        timedelta,
        _scalar(timedelta, lambda v: [v.days, v.seconds, v.microseconds], lambda d: timedelta(*d), list),
    ),
}
SCALARS: Final[Mapping[Any, Coder]] = {
    str: _plain_scalar(str, (str,)),
    int: _plain_scalar(int, (int, bool)),
    bool: _plain_scalar(bool, (bool,)),
    None: _scalar(type(None)),
    type(None): _scalar(type(None)),
    float: Coder(_number, _number),
    **dict(_DATA.values()),
}


def _decimal() -> Coder:
    from decimal import Decimal  # with uuid, 3 ms of every import of the project

    return _scalar(Decimal, str, Decimal)


def _uuid() -> Coder:
    from uuid import UUID  # likewise

    return _scalar(UUID, str, UUID)


_LATE: Mapping[tuple[str, str], tuple[str, Callable[[], Coder]]] = {
    ("decimal", "Decimal"): ("$decimal", _decimal),
    ("uuid", "UUID"): ("$uuid", _uuid),
}


@cache
def late_scalar(kind: Any) -> tuple[str, Coder] | None:
    """The mark and the coder of a class whose module is only imported by those who use it."""
    found = _LATE.get((getattr(kind, "__module__", ""), getattr(kind, "__qualname__", "")))
    return None if found is None else (found[0], found[1]())


# --- values of core --------------------------------------------------------------------------------

_STEPS = get_args(ReActStep)
PARTS: Final = get_args(Part)
_DECISIONS = get_args(Decision)
CORE: Final = (Message, ToolCall, Usage, *PARTS, *_STEPS)


def _write_step(value: Any) -> Any:
    if not isinstance(value, _STEPS):
        raise wrong(value, "a step")
    return to_plain(value)


STEP: Final = Coder(_write_step, lambda data: from_plain(ReActStep, data))


# --- anything --------------------------------------------------------------------------------------


def _encode(value: Any) -> Any:
    kind = kind_of(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return _number(value)
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


_MARKS: Mapping[type, tuple[str, Code]] = {
    tuple: ("$tuple", lambda value: [_encode(item) for item in value]),
    set: ("$set", _sorted),
    frozenset: ("$frozenset", _sorted),
    Message: ("$message", to_plain),
    **dict.fromkeys(_DECISIONS, ("$decision", to_plain)),
    ToolCall: ("$call", to_plain),
    Usage: ("$usage", to_plain),
    **dict.fromkeys(PARTS, ("$part", to_plain)),
    **dict.fromkeys(_STEPS, ("$step", to_plain)),
    **{kind: (mark, coder.encode) for mark, (kind, coder) in _DATA.items()},
}
_UNMARK: Mapping[str, Code] = {
    "$dict": lambda data: {_decode(key): _decode(item) for key, item in data},
    "$tuple": _some(tuple),
    "$set": _some(set),
    "$frozenset": _some(frozenset),
    "$message": lambda data: from_plain(Message, data),
    "$decision": lambda data: from_plain(Decision, data),
    "$call": lambda data: from_plain(ToolCall, data),
    "$usage": lambda data: from_plain(Usage, data),
    "$part": lambda data: from_plain(Part, data),
    "$step": STEP.decode,
    **{mark: coder.decode for mark, (_, coder) in _DATA.items()},
    "$decimal": lambda data: _decimal().decode(data),
    "$uuid": lambda data: _uuid().decode(data),
}

ANYTHING: Final = Coder(_encode, _decode)
ANYTHING.item = ANYTHING.entry = ANYTHING
