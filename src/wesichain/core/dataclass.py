"""`@dataclass(frozen=True, slots=True)`, made four times as fast.

Importing the project makes more than a hundred such classes, and the standard decorator compiles six
functions for each: 0.8 ms a class, most of the time that the import may take. This one lets the
standard library read the fields and compiles `__init__` alone, when the first instance is made; what
else a frozen class has is shared.
The values are faster to make, too (0.7 us against 1.2 us for four fields). To a type checker, and to
`dataclasses.fields`, `replace` and `asdict`, they are dataclasses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    import types
    from dataclasses import MISSING, FrozenInstanceError
    from operator import attrgetter

    def dataclass(*, frozen: bool, slots: bool):
        if not (frozen and slots):
            raise TypeError("values are frozen and slotted; use dataclasses.dataclass for anything else")
        return _make

    def _make(cls: type) -> type:
        kept = {name for name in _SHARED if name in cls.__dict__}
        cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
        fields = dataclasses.fields(cls)
        if "__init__" not in cls.__dict__:
            cls.__init__ = _FirstUse(cls)
        compared = [field.name for field in fields if field.compare]
        hashed = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
        cls.__compared__ = staticmethod(attrgetter(*compared) if compared else type)
        cls.__hashed__ = staticmethod(attrgetter(*hashed) if hashed else type)
        for name, method in _SHARED.items():
            if name not in kept:
                setattr(cls, name, method)
        return cls

    class _FirstUse:
        """Stands for `__init__` until somebody looks at it: most classes of an import are never made."""

        __slots__ = ("_cls",)

        def __init__(self, cls: type) -> None:
            self._cls = cls

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            init = _init(self._cls, dataclasses.fields(self._cls))
            self._cls.__init__ = init
            return init if instance is None else init.__get__(instance)

    def _init(cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> types.FunctionType:
        """An `__init__` that puts each argument into its slot."""
        given = [field for field in fields if not field.kw_only]
        named = [field for field in fields if field.kw_only]
        scope: dict[str, Any] = {f"set_{field.name}": getattr(cls, field.name).__set__ for field in fields}
        lines: list[str] = []
        for field in fields:
            value = field.name
            if field.default_factory is not MISSING:
                scope[f"make_{field.name}"] = field.default_factory
                value = f"make_{field.name}() if {field.name} is MISSING else {field.name}"
            lines.append(f" set_{field.name}(self, {value})")
        if hasattr(cls, "__post_init__"):
            lines.append(" self.__post_init__()")
        names = [field.name for field in given] + (["*"] if named else []) + [field.name for field in named]
        source = f"def __init__({', '.join(['self', *names])}):\n" + ("\n".join(lines) or " pass")
        code = compile(source, f"<fields of {cls.__name__}>", "exec").co_consts[0]
        init = types.FunctionType(code, {**scope, "MISSING": MISSING}, "__init__")
        init.__defaults__ = tuple(_default(field) for field in given if _has_default(field))
        init.__kwdefaults__ = {field.name: _default(field) for field in named if _has_default(field)}
        init.__annotations__ = {**{field.name: field.type for field in fields}, "return": None}
        init.__qualname__ = f"{cls.__qualname__}.__init__"
        return init

    def _has_default(field: dataclasses.Field[Any]) -> bool:
        return field.default is not MISSING or field.default_factory is not MISSING

    def _default(field: dataclasses.Field[Any]) -> Any:
        return field.default  # MISSING where a factory makes it, which __init__ then calls

    def _setattr(self, name: str, value: object) -> None:  # noqa: ARG001  # the signature of __setattr__
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _delattr(self, name: str) -> None:  # noqa: ARG001  # likewise
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _eq(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        values = self.__compared__
        return values(self) == values(other)

    def _hash(self) -> int:
        return hash(self.__hashed__(self))

    def _repr(self) -> str:
        shown = ", ".join(
            f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr
        )
        return f"{type(self).__qualname__}({shown})"

    def _getstate(self) -> list[Any]:
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def _setstate(self, state: list[Any]) -> None:
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)

    _SHARED = {
        "__setattr__": _setattr,
        "__delattr__": _delattr,
        "__eq__": _eq,
        "__hash__": _hash,
        "__repr__": _repr,
        "__getstate__": _getstate,
        "__setstate__": _setstate,
    }
