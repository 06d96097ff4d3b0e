"""Functions as tools: the decorator `@tool`."""

from __future__ import annotations

import copy
import functools
import inspect
import types
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from typing_extensions import Unpack, override

from wesichain.core import ToolSpec
from wesichain.errors import ToolDefinitionError

from .context import DepsT_contra, ToolContext
from .definition import Parts, Tool, ToolOptions, ToolWarning

if TYPE_CHECKING:
    from .schema.plan import SchemaPlan

P = ParamSpec("P")
R = TypeVar("R")
DepsT = TypeVar("DepsT")


class FunctionTool(Tool[DepsT_contra], Generic[P, R, DepsT_contra]):
    """A tool that runs a function. It can also be called like the function.

    In a class body it is a method: `instance.method` is the tool, bound to the instance.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        from .schema.signature import (
            calling_frame,
            is_or_calls,
            read_docstring,  # imported with the first function
        )

        given: Any = function
        self.function: Callable[..., Any] = given
        if isinstance(function, classmethod | staticmethod):
            self.function = given.__func__
        self.binds_class = isinstance(given, classmethod)
        self.is_unbound = self.binds_class or _is_method(self.function)
        docstring = read_docstring(_docstring(self.function))
        self.configure(
            _name(self.function) if name is None else name,
            docstring.description if description is None else description,
            **options,
        )
        if description is None and not self.description:
            warnings.warn(
                f"tool {self.name!r} has no docstring; the model sees only its name",
                ToolWarning,
                stacklevel=calling_frame()[1],
            )
        self.collects = is_or_calls(inspect.isasyncgenfunction, self.function)
        self.is_async = self.collects or is_or_calls(inspect.iscoroutinefunction, self.function)
        functools.update_wrapper(self, self.function, updated=())
        self._parameter_texts = docstring.parameters
        self._plan: SchemaPlan | None = None
        with suppress(NameError):  # an annotation may name a class that is defined later
            self._plan = self._read()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]  # it is the R of __init__

    @overload
    def __get__(self, instance: None, owner: type) -> FunctionTool[P, R, DepsT_contra]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool[..., R, DepsT_contra]: ...
    def __get__(
        self, instance: object | None, owner: type | None = None
    ) -> FunctionTool[..., R, DepsT_contra]:
        holder = owner or type(instance) if self.binds_class else instance
        if not self.is_unbound or holder is None:
            return self
        bound = copy.copy(self)
        bound.function = types.MethodType(self.function, holder)
        bound.is_unbound = False
        return bound

    @property
    @override
    def spec(self) -> ToolSpec:
        if self.is_unbound:
            raise ToolDefinitionError(
                f"tool {self.name!r} is a method; use the tool of an instance: Class(...).{self.name}"
            )
        return super().spec

    @override
    def call(self, args: Any, ctx: ToolContext[DepsT_contra] | None) -> Any:
        positional, named = self.plan().signature.bind(args, ctx or ToolContext())
        result = self.function(*positional, **named)
        return _collect(result) if self.collects else result

    @override
    def parts(self) -> Parts:
        parts, signature = super().parts(), self.plan().signature
        if self.collects or not signature.is_simple:
            return parts
        if signature.context is None:
            return parts._replace(call=self.function, by_name=True)
        is_first = signature.is_context_first and inspect.isroutine(self.function)
        if self.is_async and is_first:
            return parts._replace(call=self.function, context_first=True)
        return parts._replace(call=_with_context(self.function, "" if is_first else signature.context))

    @override
    def plan(self) -> SchemaPlan:
        if self._plan is None:
            try:
                self._plan = self._read()
            except NameError as error:
                raise ToolDefinitionError(
                    f"tool {self.name!r}: an annotation cannot be resolved: {error}"
                ) from error
        return self._plan

    def _read(self) -> SchemaPlan:
        from .schema.plan import plan_function  # it loads pydantic

        plan = plan_function(
            self.function,
            name=self.name,
            description=self.description,
            described=self._parameter_texts,
            context=ToolContext,
            skip_first=self.is_unbound,
            max_output=self.max_output,
        )
        self.takes_context = plan.signature.context is not None
        return plan


def _with_context(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Pass the context by name, or first if there is no name. `Signature.bind` takes three times as long."""

    def call_first(args: dict[str, Any], ctx: ToolContext | None) -> Any:
        return function(ctx or ToolContext(), **args)

    def call_by_name(args: dict[str, Any], ctx: ToolContext | None) -> Any:
        return function(**{**args, name: ctx or ToolContext()})

    return call_by_name if name else call_first


async def _collect(items: AsyncGenerator[Any, None]) -> list[Any]:
    return [item async for item in items]


def _is_method(function: Any) -> bool:
    """Whether this is the function of a method, in the body of a class that is being defined."""
    holder, _, _ = getattr(function, "__qualname__", "").rpartition(".")
    if not inspect.isfunction(function) or not holder or holder.endswith("<locals>"):
        return False
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and first.name in ("self", "cls") and first.annotation is inspect.Parameter.empty


def _name(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]  # Any
    return str(getattr(function, "__name__", type(function).__name__))


def _docstring(function: Any) -> str | None:
    while isinstance(function, functools.partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]  # Any
    if inspect.isroutine(function) or isinstance(function, type):
        return function.__doc__
    called = type(function).__call__
    return called.__doc__ or type(function).__doc__


class FunctionOptions(ToolOptions, total=False):
    """The options of `@tool`: the name, the description, and those of every kind of tool."""

    name: str | None
    description: str | None


class MakesTool(Protocol):
    """The decorator that `tool(...)` returns when it is called with options."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[DepsT], P], R], /
    ) -> FunctionTool[Concatenate[ToolContext[DepsT], P], R, DepsT]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> FunctionTool[P, R, object]: ...


# Type checkers know the deps of a tool if its context is the first parameter.
@overload
def tool(
    function: Callable[Concatenate[ToolContext[DepsT], P], R], /, **options: Unpack[FunctionOptions]
) -> FunctionTool[Concatenate[ToolContext[DepsT], P], R, DepsT]: ...
@overload
def tool(function: Callable[P, R], /, **options: Unpack[FunctionOptions]) -> FunctionTool[P, R, object]: ...
@overload
def tool(**options: Unpack[FunctionOptions]) -> MakesTool: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[FunctionOptions]) -> Any:
    """Create a tool from a sync or async function, method, partial or callable object.

    Its schema comes from type hints and docstring (Google, NumPy, Sphinx). A parameter annotated
    `ToolContext` receives the context, and is not in the schema. `*args: T` is a list named `args`;
    `**kwargs: T` takes any other fields of type T; arguments that a partial has bound are not in the schema.
    """

    def make(function: Any) -> FunctionTool[..., Any]:
        inner: Any = getattr(function, "__func__", None)
        if inspect.ismethod(function) and isinstance(inner, FunctionTool):  # @classmethod over @tool
            return cast("FunctionTool[..., Any]", inner).__get__(function.__self__)
        return FunctionTool(function, **options)

    return make if function is None else make(function)


def _signature() -> inspect.Signature:
    """Return the signature of `tool` with every option and its default."""
    own, keyword = inspect.signature(tool), inspect.Parameter.KEYWORD_ONLY
    function = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
    named = [
        inspect.Parameter(name, keyword, default=None, annotation="str | None")
        for name in ("name", "description")
    ]
    options = [
        inspect.Parameter(name, keyword, default=getattr(Tool, name), annotation=hint)
        for name, hint in Tool.__annotations__.items()
        if name in ToolOptions.__annotations__
    ]
    return own.replace(parameters=[*function, *named, *options])


setattr(tool, "__signature__", _signature())  # noqa: B010  # a checker allows no assignment
