"""Forms: the objects from which values are written as JSON. The shape of a class has their fields, in order.

Strict JSON is written from dicts; the lines of logs are written by msgspec, from structs with the fields of
the values. A function generated for a class creates such a struct in a quarter of a microsecond, from a value
or from the entry that the log of a run has in place of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from wesichain.core.log import LogView
from wesichain.core.values import Mutable, Value


class Shape(NamedTuple):
    """The fields of a class in JSON: its `kind`, those always written, and those left out if empty."""

    kind: str | None
    always: tuple[str, ...]
    sometimes: tuple[tuple[str, Any], ...]  # each with its empty value

    def written(self, value: object) -> dict[str, Any]:
        """The value as a dict; the values of its fields are not converted."""
        kind, always, sometimes = self
        written = {} if kind is None else {"kind": kind}
        for name in always:
            written[name] = getattr(value, name)
        for name, empty in sometimes:
            given = getattr(value, name)
            if given is not empty and given != empty:
                written[name] = given
        return written


@cache
def shape_of(cls: Any) -> Shape:
    kind = getattr(cls, "kind", None)
    written, sometimes = fields(cls), dict[str, Any]()
    if issubclass(cls, Value | Mutable):
        written = tuple(field for field in written if field.name not in cls.__unwritten__)
        if cls.__struct_config__.omit_defaults:
            named = [field for field in written if field.name not in cls.__always__]
            sometimes = {field.name: _default(field) for field in named if _has_default(field)}
    always = tuple(field.name for field in written if field.name not in sometimes)
    return Shape(kind if isinstance(kind, str) else None, always, tuple(sometimes.items()))


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


class WritesItself:
    """The form of a value with its own `to_plain`."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def form_of(value: object) -> Any:
    """The object that msgspec writes for a value; JSON data is its own form.

    For a dataclass it is a struct with the same fields, whose class has the dataclass as `__wrapped__`.
    """
    return _makers[value.__class__](value)


def forms_in(log: Sequence[Any], run_id: str, before: int) -> list[Any]:
    """The forms of the events in the log of a run, without creating the events."""
    of_value, of_entry = _makers, _entry_makers
    return [
        of_entry[entry[0]](run_id, number, entry)
        if entry.__class__ is tuple
        else of_value[entry.__class__](entry)
        for number, entry in enumerate(log, before + 1)
    ]


# --- functions that make forms -------------------------------------------------------------------


class _Makers(dict[Any, Callable[[Any], Any]]):
    """The functions that create forms of values, by class."""

    def __missing__(self, cls: Any) -> Callable[[Any], Any]:
        self[cls] = made = _maker(cls)
        return made


class _EntryMakers(dict[Any, Callable[[str, int, Any], Any]]):
    """The functions that create forms of log entries `(constructor, step_id, at, ...)`, by constructor."""

    def __missing__(self, constructor: Any) -> Callable[[str, int, Any], Any]:
        cls = constructor
        # Keyword fields are those of nested runs and of graphs, which have no such entries.
        elsewhere = {field.name: "''" for field in fields(cls) if field.kw_only}
        known = elsewhere.keys() | {"run_id", "seq"}
        names = [field.name for field in fields(cls) if field.name not in known]
        places = {name: f"entry[{place}]" for place, name in enumerate(names, 1)}
        places |= {"run_id": "run_id", "seq": "number", **elsewhere}
        self[constructor] = made = _function(cls, "run_id, number, entry", places)
        return made


_makers, _entry_makers = _Makers(), _EntryMakers()


def _maker(cls: Any) -> Callable[[Any], Any]:
    if hasattr(cls, "to_plain"):
        return WritesItself
    if is_dataclass(cls):
        return _function(cls, "value", {field.name: f"value.{field.name}" for field in fields(cls)})
    if issubclass(cls, tuple | list | LogView):
        return _items
    return _mapping if issubclass(cls, Mapping) else _itself


def _mapping(values: Mapping[Any, Any]) -> dict[Any, Any]:
    """JSON data unchanged; a mapping of our values (usage by model) as forms."""
    if is_dataclass(next(iter(values.values()), None)):
        return {key: _makers[value.__class__](value) for key, value in values.items()}
    return values if isinstance(values, dict) else dict(values)


def _items(values: Any) -> list[Any]:
    return [_makers[value.__class__](value) for value in values]


def _itself(value: Any) -> Any:
    return value


def _function(cls: Any, taken: str, places: Mapping[str, str]) -> Callable[..., Any]:
    """Generate a function that creates forms of a dataclass from these expressions for its fields."""
    hints, shape = get_type_hints(cls), shape_of(cls)
    scope: dict[str, Any] = {"struct": _struct(cls), "makers": _makers}
    values = {
        name: "{0} and makers[{0}.__class__]({0})".format(places[name])
        if _has_forms(hints[name])
        else places[name]
        for name in (*shape.always, *dict(shape.sometimes))
    }
    for name, empty in shape.sometimes:
        if empty.__class__ not in _SINGLE:
            scope[f"empty_{name}"] = empty
            values[name] = f"empty_{name} if {places[name]} == empty_{name} else {values[name]}"
    source = f"lambda {taken}: struct({', '.join(values.values())})"
    code = compile(source, f"<form of {cls.__name__}>", "eval")
    (body,) = (part for part in code.co_consts if isinstance(part, CodeType))
    return FunctionType(body, scope)


# A struct compares with its default by identity; the empty value of these types is one object.
_SINGLE = (type(None), bool, int, tuple, str)


@cache
def _struct(cls: Any) -> Any:
    import msgspec

    kind, always, sometimes = shape_of(cls)
    named: Any = {} if kind is None else {"tag": kind, "tag_field": "kind"}
    given: list[Any] = [*((name, Any) for name in always), *((name, Any, empty) for name, empty in sometimes)]
    # A form lives too shortly for the garbage collector.
    about = {"__wrapped__": cls}
    return msgspec.defstruct(cls.__name__, given, omit_defaults=True, gc=False, namespace=about, **named)


@cache
def _has_forms(hint: Any) -> bool:
    """Whether a type contains a dataclass that msgspec itself would write in another form."""
    return any(
        hasattr(cls, "to_plain")
        or shape_of(cls).kind is not None
        or len(shape_of(cls).always) < len(fields(cls))
        for cls in _dataclasses(hint, set())
    )


def _dataclasses(hint: Any, seen: set[Any]) -> Iterator[Any]:
    """Yield the dataclasses in a type, and those in the types of their fields."""
    cls, inner = get_origin(hint) or hint, get_args(hint)
    if isinstance(cls, type) and is_dataclass(cls) and cls not in seen:
        seen.add(cls)
        yield cls
        inner = (*inner, *get_type_hints(cls).values())
    for each in inner:
        yield from _dataclasses(each, seen)
