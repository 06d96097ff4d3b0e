"""Values: the base classes of all records. They are msgspec structs.

A `Value` is immutable and compares by its fields; a `Mutable` can be changed, and equals nothing but itself.
`dataclasses.fields`, `replace`, `asdict` and `is_dataclass` accept both.

The JSON of a value has every field, or, for `class Usage(Value, omit_defaults=True)`, those that differ from
their defaults. Fields named in `__always__` are written in any case, those in `__unwritten__` never. Fields
named in `__aside__` are neither compared nor part of the repr.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from inspect import get_annotations
from typing import Any, ClassVar, TypeVar, get_origin, get_type_hints, overload

from msgspec import NODEFAULT, UNSET, Struct
from msgspec import field as struct_field
from msgspec.structs import force_setattr as struct_setattr
from msgspec.structs import replace
from typing_extensions import dataclass_transform, override

T = TypeVar("T")

__all__ = ["Mutable", "Value", "field", "force_setattr", "replace"]


@overload
def field(*, default: T, init: bool = True, kw_only: bool = False) -> T: ...
@overload
def field(*, default_factory: Callable[[], T], init: bool = True, kw_only: bool = False) -> T: ...
@overload
def field(*, init: bool = True, kw_only: bool = False) -> Any: ...
def field(
    *, default: Any = NODEFAULT, default_factory: Any = NODEFAULT, init: bool = True, kw_only: bool = False
) -> Any:
    """Describe a field for which a default value is not enough.

    `init=False` and `kw_only=True` are for type checkers, which refuse the field as an argument, or as a
    positional one. At run time a class with `kw_only=True` refuses its fields as positional arguments.
    """
    del kw_only
    if not init and default is NODEFAULT and default_factory is NODEFAULT:
        default = UNSET  # until the object sets it
    if default_factory is NODEFAULT:
        return struct_field(default=default)
    return struct_field(default_factory=default_factory)


def force_setattr(value: Any, name: str, to: object) -> None:
    """Set a field of a value that is being made, in its `__post_init__`."""
    struct_setattr(value, name, to)


class _DataclassFields:
    """The fields of a struct as `dataclasses` describes them, made when somebody asks."""

    def __get__(self, _: object, owner: Any) -> dict[str, dataclasses.Field[Any]]:
        made: dict[str, dataclasses.Field[Any]] = owner.__dict__.get("__made_fields__", {})
        if not made:
            bases = [
                base for base in reversed(owner.__mro__) if issubclass(base, Struct) and base is not Struct
            ]
            types = {name: kind for base in bases for name, kind in get_annotations(base).items()}
            # In the order of the declarations, as `dataclasses` has them. A struct has `kw_only` fields last;
            # those of a base with no others come behind the fields of the next class.
            named = [*(base for base in bases if base.__match_args__), owner]
            declared = [name for base in named for name in base.__struct_fields__]
            made = {name: _dataclass_field(owner, name, types[name]) for name in dict.fromkeys(declared)}
            owner.__made_fields__ = made
        return made


def _dataclass_field(cls: Any, name: str, annotation: Any) -> dataclasses.Field[Any]:
    known = dict(zip(reversed(cls.__struct_fields__), reversed(cls.__struct_defaults__), strict=False))
    default = known.get(name, NODEFAULT)
    about: dict[str, Any] = {"kw_only": name not in cls.__match_args__}
    if name in cls.__aside__:
        about |= {"compare": False, "repr": False}
    if isinstance(default, _Factory):
        about["default_factory"] = default.factory
    elif default is not NODEFAULT:
        about["default"] = default
    made: Any = dataclasses.field(**about)
    made.name, made.type, made._field_type = name, annotation, _FIELD  # as `dataclass` does
    return made  # type: ignore[no-any-return]  # a field, to which checkers allow no such assignment


class _Sample(Struct):
    items: list[Any] = struct_field(default_factory=list)


_factory: Any = _Sample.__struct_defaults__[0]
_Factory: Any = _factory.__class__
_FIELD: Any = vars(dataclasses)["_FIELD"]  # marks a field; to make a sample of one takes as long as a module


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value(Struct, frozen=True):
    """The base of immutable records. `replace(value, field=...)` makes a changed one."""

    __always__: ClassVar[tuple[str, ...]] = ()
    __unwritten__: ClassVar[tuple[str, ...]] = ()
    __aside__: ClassVar[tuple[str, ...]] = ()
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]] = _DataclassFields()  # type: ignore[assignment]  # gives one

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Read, describe and write it, for pydantic, as a dataclass with the same fields."""
        if (get_origin(source) or source) is not cls:
            return handler(source)  # a value in the metadata of `Annotated`, such as a reducer
        fields = dataclasses.fields(cls)
        types = get_type_hints(cls, include_extras=True)
        parts = [(one.name, types[one.name], _dataclass_field(cls, one.name, one.type)) for one in fields]
        plain: Any = dataclasses.make_dataclass(cls.__name__, parts, namespace={"__doc__": cls.__doc__})

        def converted(source: Any, target: Any) -> Any:
            return target(**{one.name: getattr(source, one.name) for one in fields})

        def read(given: Any, read_plain: Any) -> Any:
            return given if isinstance(given, cls) else converted(read_plain(given), cls)

        def written(value: Any) -> Any:
            return converted(value, plain)

        schema: Any = handler.generate_schema(plain)
        made: dict[str, Any] = {"type": "function-wrap", "schema": schema}
        made["function"] = {"type": "no-info", "function": read}
        made["serialization"] = {"type": "function-plain", "function": written, "return_schema": schema}
        return made

    @override
    def __init_subclass__(cls, **config: Any) -> None:
        super().__init_subclass__(**config)
        if "__aside__" in cls.__dict__:
            for name, method in (("__eq__", _equals), ("__hash__", _hash), ("__repr__", _repr)):
                setattr(cls, name, method)


def _compared(value: Value) -> tuple[Any, ...]:
    aside = value.__aside__
    return tuple(getattr(value, name) for name in value.__struct_fields__ if name not in aside)


def _equals(self: Any, other: Any) -> bool:
    return _compared(self) == _compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _repr(self: Any) -> str:
    aside = self.__aside__
    shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in aside)
    return f"{type(self).__qualname__}({', '.join(shown)})"


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class Mutable(Struct, eq=False, weakref=True):
    """The base of objects that change while they work."""

    __always__: ClassVar[tuple[str, ...]] = ()
    __unwritten__: ClassVar[tuple[str, ...]] = ()
    __aside__: ClassVar[tuple[str, ...]] = ()
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]] = _DataclassFields()  # type: ignore[assignment]  # gives one
