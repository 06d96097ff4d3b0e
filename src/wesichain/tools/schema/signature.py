"""Signature: the parameters of a callable with their annotations, and its docstring."""

from __future__ import annotations

import copy
import functools
import inspect
import types
import typing
from collections import abc
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter as Kind
from typing import Annotated, Any, Union, get_args, get_origin

import typing_extensions

from wesichain.core.internal import Value, field
from wesichain.errors import ToolDefinitionError

REQUIRED = Kind.empty


class _Absent:
    """The default of an optional parameter without a default: a class, as `REQUIRED` is."""


ABSENT: Any = _Absent


class Parameter(Value):
    """One parameter that the model fills in."""

    name: str
    annotation: Any
    default: Any = REQUIRED


class Signature(Value):
    """The parameters and return type of a callable. `context` is the parameter for the tool's context."""

    parameters: tuple[Parameter, ...]
    positional: tuple[str, ...] = ()  # those that cannot be passed by name, in order
    star: Parameter | None = None  # *args, as one list
    extras: Parameter | None = None  # **kwargs, as one mapping
    context: str | None = None
    is_context_first: bool = False  # and can be passed by position
    returns: Any = Any
    fresh: tuple[tuple[str, Any], ...] = ()  # mutable defaults, which are copied for each call

    @property
    def is_simple(self) -> bool:
        """Whether the arguments, without the context, can be passed by name and without changes."""
        return not (self.positional or self.star or self.extras or self.fresh)

    def bind(self, args: dict[str, Any], context: Any) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and keyword arguments of a call from checked arguments."""
        named = dict(args)
        for name, default in self.fresh:
            if name not in named:
                named[name] = copy.deepcopy(default)
        if self.extras is not None:
            named |= named.pop(self.extras.name, {})
        if self.context is not None:
            named[self.context] = context
        defaults = {parameter.name: parameter.default for parameter in self.parameters}
        positional = [named.pop(name) if name in named else defaults[name] for name in self.positional]
        if self.star is not None:
            positional += named.pop(self.star.name, ())
        return positional, named


def read_signature(
    function: Callable[..., Any], *, tool_name: str, context: type, skip_first: bool
) -> Signature:
    """Read a signature. A parameter annotated with the class `context` is not one for the model.

    Raises `ToolDefinitionError` if there can be no schema, and `NameError` if an annotation names a class
    that is not defined yet.
    """
    try:
        found = list(inspect.signature(function).parameters.values())[skip_first:]
    except (TypeError, ValueError) as error:
        raise ToolDefinitionError(f"tool {tool_name!r}: its signature cannot be read: {error}") from None
    bound = _bound_names(function)
    scope = _Scope(function, context)
    star: Parameter | None = None
    extras: Parameter | None = None
    injected: str | None = None
    parameters: list[Parameter] = []
    positional: list[str] = []
    has_star = any(parameter.kind is Kind.VAR_POSITIONAL for parameter in found)
    for parameter in found:
        name = parameter.name
        if name in bound:
            continue
        if parameter.annotation is Kind.empty:
            raise ToolDefinitionError(
                f"tool {tool_name!r}: parameter {name!r} has no annotation; "
                f"add one so that a schema can be made"
            )
        annotation = scope.resolve(parameter.annotation)
        if parameter.kind is Kind.POSITIONAL_ONLY or (
            has_star and parameter.kind is Kind.POSITIONAL_OR_KEYWORD
        ):
            positional.append(name)
        if _is_context(annotation, context):
            if injected is not None:
                raise ToolDefinitionError(
                    f"tool {tool_name!r}: {injected!r} and {name!r} are both a {context.__name__}; "
                    f"one is enough"
                )
            injected = name
        elif parameter.kind is Kind.VAR_POSITIONAL:
            star = Parameter(name, list.__class_getitem__(annotation), ABSENT)
        elif parameter.kind is Kind.VAR_KEYWORD:
            if get_origin(annotation) in (typing.Unpack, typing_extensions.Unpack):
                parameters.extend(_unpacked(get_args(annotation)[0]))
            else:
                extras = Parameter(name, dict.__class_getitem__((str, annotation)), ABSENT)
        else:
            parameters.append(Parameter(name, annotation, parameter.default))
    return Signature(
        tuple(parameters),
        tuple(positional),
        star=star,
        extras=extras,
        context=injected,
        is_context_first=bool(found)
        and (found[0].name, found[0].kind) == (injected, Kind.POSITIONAL_OR_KEYWORD),
        returns=scope.returns(),
    )


def is_mutable(default: Any) -> bool:
    """Whether a default is a mutable object that can be copied.

    Objects that `copy.deepcopy` returns unchanged (numbers, strings, classes, functions) are immutable.
    """
    try:
        return copy.deepcopy(default) is not default
    except Exception:  # noqa: BLE001  # shared by all calls, as in any function
        return False


def _bound_names(function: Any) -> frozenset[str]:
    """Return the names of the parameters that partials have bound by keyword."""
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound.update(function.keywords)
        function = function.func  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]  # Any
    return frozenset(bound)


def _is_context(annotation: Any, context: type) -> bool:
    """Whether this is `ToolContext`, `ToolContext[Deps]` or `RunContext`, also in a union or `Annotated`."""
    for member in union_members(annotation):
        cls = get_origin(member) or member
        if isinstance(cls, type) and cls in context.__mro__[:-2]:  # without Generic and object
            return True
    return False


def _unpacked(fields: Any) -> Iterator[Parameter]:
    """Yield the keys of `**options: Unpack[Options]`."""
    for name, annotation in typing_extensions.get_type_hints(fields, include_extras=True).items():
        marker: Any = get_origin(annotation)
        # If annotations are strings, `__required_keys__` ignores the markers.
        is_required = marker is typing.Required or (
            marker is not typing.NotRequired and name in fields.__required_keys__
        )
        inner = get_args(annotation)[0] if marker in (typing.Required, typing.NotRequired) else annotation
        yield Parameter(name, inner, REQUIRED if is_required else ABSENT)


class _Scope:
    """Resolves the names in a function's annotations."""

    def __init__(self, function: Any, context: type) -> None:
        self._origin = written = unwrapped(function)
        # A module may import the context's class only for type checkers.
        self._globals = {context.__name__: context, **getattr(written, "__globals__", {})}

    def resolve(self, annotation: Any) -> Any:
        holder = types.SimpleNamespace(__annotations__={"it": annotation})
        unknown = NameError(str(annotation))
        for local in self._locals():
            try:
                hints = typing_extensions.get_type_hints(
                    holder, self._globals, dict(local), include_extras=True
                )
                return hints["it"]
            except NameError as error:
                unknown = error
        raise unknown

    def returns(self) -> Any:
        """Return the return annotation; Any if there is none, or it cannot be resolved."""
        annotation = getattr(self._origin, "__annotations__", {}).get("return", Any)
        try:
            return self.resolve(annotation)
        except (NameError, SyntaxError, TypeError):
            return Any

    def _locals(self) -> Iterator[Mapping[str, Any]]:
        """Yield no variables, then the closure of the function, then those where the tool is created."""
        yield {}
        code, cells = getattr(self._origin, "__code__", None), getattr(self._origin, "__closure__", None)
        if code is not None and cells:
            yield {name: _contents(cell) for name, cell in zip(code.co_freevars, cells, strict=True)}
        frame, _ = calling_frame()
        if frame is not None:
            yield frame.f_locals


def calling_frame() -> tuple[types.FrameType | None, int]:
    """Return the innermost frame outside this package, and its depth."""
    frame, depth = inspect.currentframe(), 0
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("wesichain."):
        frame, depth = frame.f_back, depth + 1
    return frame, depth


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that is assigned later
        return None


def is_or_calls(test: Callable[[Any], bool], function: object) -> bool:
    """Whether a test is true for a function, or for the `__call__` of a callable object."""
    return test(function) or (not inspect.isroutine(function) and test(type(function).__call__))


def unwrapped(function: Any) -> Any:
    """Return the function inside partials, methods, wrappers and callable objects."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]  # Any
        elif inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif not inspect.isroutine(function) and not isinstance(function, type):
            function = type(function).__call__
        else:
            return function


_ITERABLES = (
    *(abc.Iterable, abc.Iterator, abc.Generator, abc.Collection),
    *(abc.AsyncIterable, abc.AsyncIterator, abc.AsyncGenerator),
)


def with_lists(annotation: Any) -> Any:
    """Replace an iterable by a list: JSON has no iterators, and pydantic would check their items lazily."""
    origin = get_origin(annotation) or annotation
    return (
        list.__class_getitem__(*(get_args(annotation)[:1] or (Any,))) if origin in _ITERABLES else annotation
    )


def union_members(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union without `Annotated`, or the type itself if it is not a union."""
    if get_origin(annotation) is Annotated:
        return union_members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(inner for member in get_args(annotation) for inner in union_members(member))
    return (type(None) if annotation is None else annotation,)


class Docstring(Value):
    """The description without its sections, and a text for each parameter."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read_docstring(text: str | None) -> Docstring:
    """Read a Google, NumPy, Sphinx or Epydoc docstring; any other is a description as a whole."""
    cleaned = inspect.cleandoc(text or "").strip()
    if "\n" not in cleaned:
        return Docstring(cleaned)
    from docstring_parser import parse  # not needed for the many one-liners

    parsed = parse(cleaned)
    if not parsed.meta:
        return Docstring(cleaned)  # as it was written, with its indentation
    described = {param.arg_name.lstrip("*"): _joined(param.description) for param in parsed.params}
    return Docstring(
        (parsed.description or "").strip(), {name: said for name, said in described.items() if said}
    )


def _joined(text: str | None) -> str:
    return " ".join((text or "").split())
