"""Signature: the parameters of whatever can be called, with their annotations, and its docstring."""

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
    """The default of a parameter that may be left out and has no default: a class, as `REQUIRED` is."""


ABSENT: Any = _Absent


class Parameter(Value):
    """One parameter that the model fills in."""

    name: str
    annotation: Any
    default: Any = REQUIRED


class Signature(Value):
    """The parameters and return type of a callable. `context`: the parameter that gets the tool's context."""

    parameters: tuple[Parameter, ...]
    positional: tuple[str, ...] = ()  # those that cannot be passed by name, in order
    star: Parameter | None = None  # *args, as one list
    extras: Parameter | None = None  # **kwargs, as one mapping
    context: str | None = None
    is_context_first: bool = False  # and may be passed by its place
    returns: Any = Any
    fresh: tuple[tuple[str, Any], ...] = ()  # defaults that a call could change: it gets a copy

    @property
    def is_simple(self) -> bool:
        """Whether the arguments, without the context, can be passed by name, as they are."""
        return not (self.positional or self.star or self.extras or self.fresh)

    def bind(self, args: dict[str, Any], context: Any) -> tuple[list[Any], dict[str, Any]]:
        """Checked arguments, as the callable takes them."""
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
    """Read a signature. A parameter annotated with the class `context` is not the model's to fill in.

    Raises `ToolDefinitionError` for what can never be described, `NameError` for an annotation that
    names something not defined yet.
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


def could_change(default: Any) -> bool:
    """Whether a default is an object that two calls would share, and that can be copied.

    What `copy.deepcopy` gives back as it is (numbers, texts, classes, functions) cannot change.
    """
    try:
        return copy.deepcopy(default) is not default
    except Exception:  # noqa: BLE001  # what cannot be copied is shared, as in any function
        return False


def _bound_names(function: Any) -> frozenset[str]:
    """The names of the parameters that partials have already filled in by keyword."""
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound.update(function.keywords)
        function = function.func  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]  # Any
    return frozenset(bound)


def _is_context(annotation: Any, context: type) -> bool:
    """`ToolContext`, `ToolContext[Deps]`, `RunContext`, and these or None, or annotated."""
    for member in union_members(annotation):
        cls = get_origin(member) or member
        if isinstance(cls, type) and cls in context.__mro__[:-2]:  # without Generic and object
            return True
    return False


def _unpacked(fields: Any) -> Iterator[Parameter]:
    """The keys of `**options: Unpack[Options]`."""
    for name, annotation in typing_extensions.get_type_hints(fields, include_extras=True).items():
        marker: Any = get_origin(annotation)
        # Where annotations are strings, the class itself has not seen the markers.
        is_required = marker is typing.Required or (
            marker is not typing.NotRequired and name in fields.__required_keys__
        )
        inner = get_args(annotation)[0] if marker in (typing.Required, typing.NotRequired) else annotation
        yield Parameter(name, inner, REQUIRED if is_required else ABSENT)


class _Scope:
    """Where the names in a function's annotations are looked up."""

    def __init__(self, function: Any, context: type) -> None:
        self._origin = written = as_written(function)
        # A module may import the context's class for its type checker only.
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
        """The return annotation; Any where there is none, or none that can be resolved."""
        annotation = getattr(self._origin, "__annotations__", {}).get("return", Any)
        try:
            return self.resolve(annotation)
        except (NameError, SyntaxError, TypeError):
            return Any

    def _locals(self) -> Iterator[Mapping[str, Any]]:
        """Nothing; what the function closes over; the places from which the tool is being made."""
        yield {}
        code, cells = getattr(self._origin, "__code__", None), getattr(self._origin, "__closure__", None)
        if code is not None and cells:
            yield {name: _contents(cell) for name, cell in zip(code.co_freevars, cells, strict=True)}
        frame, _ = outside()
        if frame is not None:
            yield frame.f_locals


def outside() -> tuple[types.FrameType | None, int]:
    """The innermost frame that is not of this package, and how many are before it."""
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
    """Whether something is true of a function, or of the `__call__` of a callable object."""
    return test(function) or (not inspect.isroutine(function) and test(type(function).__call__))


def as_written(function: Any) -> Any:
    """The function that somebody wrote, inside partials, methods, wrappers and callable objects."""
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


_ONE_BY_ONE = (
    *(abc.Iterable, abc.Iterator, abc.Generator, abc.Collection),
    *(abc.AsyncIterable, abc.AsyncIterator, abc.AsyncGenerator),
)


def collected(annotation: Any) -> Any:
    """A list for what is given one by one: JSON has no iterators, and pydantic would check them late."""
    origin = get_origin(annotation) or annotation
    return (
        list.__class_getitem__(*(get_args(annotation)[:1] or (Any,))) if origin in _ONE_BY_ONE else annotation
    )


def union_members(annotation: Any) -> tuple[Any, ...]:
    """The types that a value of this annotation may have, without `Annotated`; one where it is no union."""
    if get_origin(annotation) is Annotated:
        return union_members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(inner for member in get_args(annotation) for inner in union_members(member))
    return (type(None) if annotation is None else annotation,)


class Docstring(Value):
    """The description, without sections, and one text a parameter."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read_docstring(text: str | None) -> Docstring:
    """Read a Google, NumPy, Sphinx or Epydoc docstring; one in no style is all description."""
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
