"""Registry: the tools of an agent: their descriptions for models, their calls, and statistics."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from wesichain.core import ToolCall, ToolSpec
from wesichain.core.internal import replace
from wesichain.errors import (
    ConfigError,
    DuplicateToolError,
    InvalidArgsError,
    ToolDefinitionError,
    UnknownToolError,
)

from .context import ToolContext
from .definition import Tool, ToolWarning, TypedTool
from .function import tool as function_tool
from .json_schema.issues import Issue, closest, one_of, preview
from .results import Counter, PreparedCall, ToolResult, ToolStats
from .tool_sources import ToolSource

if TYPE_CHECKING:
    from .calls import Perform

DepsT = TypeVar("DepsT")


class PlainFunction(Protocol):
    """A function or a method. A tool is also callable, but has no `__code__`."""

    @property
    def __code__(self) -> CodeType: ...


ToolLike: TypeAlias = Tool | ToolSource | type[TypedTool[Any, Any]] | Callable[..., Any]
# For type checkers: what an agent with these deps accepts. A tool that needs other deps is an error, and a
# callable object has to be passed as `tool(...)`.
Offered: TypeAlias = (
    Tool[DepsT] | ToolSource | type[TypedTool[Any, Any, DepsT]] | PlainFunction | partial[Any]
)


class ToolSet:
    """Collects tools for a registry."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._sources: list[ToolSource] = []

    @classmethod
    def of(cls, tools: Iterable[ToolLike]) -> ToolSet:
        """Return a set of these tools and functions."""
        if not hasattr(tools, "__iter__"):
            raise ToolDefinitionError(f"tools are given as a list: [...], not {preview(tools)}")
        made = cls()
        for item in tools:
            made.register(item)
        return made

    def register(self, item: ToolLike) -> ToolSet:
        """Add a tool, a function, a `TypedTool` class or a source such as `DynamicTools`; returns the set."""
        if isinstance(item, ToolSource):
            return self._add_source(item)
        tool = _as_tool(item)
        self._check_free(tool.spec.name)  # an invalid tool is refused here
        self._tools[tool.name] = tool
        return self

    def _add_source(self, source: ToolSource) -> ToolSet:
        for tool in source.always:
            self.register(tool)
        for name in source.names:
            self._check_free(name)
        self._sources.append(source)
        return self

    def _check_free(self, name: str) -> None:
        if name in self._tools or any(name in source.names for source in self._sources):
            raise DuplicateToolError(name)

    def build(self) -> ToolRegistry:
        return ToolRegistry(self._tools.values(), self._sources)


def _as_tool(item: Any) -> Tool:
    if isinstance(item, Tool):
        found: Tool = item  # pyright: ignore[reportUnknownVariableType]  # with any deps
        return found
    if _is_typed_class(item):
        try:
            made: Tool = item()
        except TypeError as error:
            raise ToolDefinitionError(
                f"{item.__name__} cannot be created without arguments: {error}"
            ) from error
        return made
    if callable(item):
        return function_tool(item)
    expected = "its as_tool()" if hasattr(item, "as_tool") else "a function, a TypedTool or a JsonTool"
    raise ToolDefinitionError(f"{preview(item)} is not a tool; pass {expected}")


def _is_typed_class(item: object) -> bool:
    return isinstance(item, type) and issubclass(item, TypedTool)


class ToolRegistry:
    """Tools by name; created by `ToolSet.build()`. It stores no state of runs except statistics.

    The tools of `sources` are determined in each step of a run, and are not in the registry.
    """

    def __init__(self, tools: Iterable[Tool], sources: Iterable[ToolSource] = ()) -> None:
        from .calls import compile_call  # imported with the first registry

        self.sources = tuple(sources)
        self._tools = {tool.name: tool for tool in tools}
        self._counters = {name: Counter() for name in self._tools}
        self._performs: dict[str, Perform] = {
            name: compile_call(tool, self._counters[name], self._check) for name, tool in self._tools.items()
        }
        self._quick = {name: (tool, tool.parts().check) for name, tool in self._tools.items()}
        self._deprecated: set[str] = set()
        self._offers: dict[tuple[bool, frozenset[str]], tuple[ToolSpec, ...]] = {}
        self._is_strict = False  # the strict form was offered, in which null can mean "left out"

    def with_tools(self, others: Mapping[str, ToolRegistry]) -> ToolRegistry:
        """Return a registry that also has these tools of other registries, without compiling them again."""
        made = copy(self)
        made._tools, made._counters = {**self._tools}, {**self._counters}
        made._performs, made._quick = {**self._performs}, {**self._quick}
        made._deprecated, made._offers = {*self._deprecated}, {}
        for name, other in others.items():
            if name in self._tools:
                raise DuplicateToolError(name)
            made._tools[name], made._counters[name] = other._tools[name], other._counters[name]
            made._performs[name], made._quick[name] = other._performs[name], other._quick[name]
        return made

    # --- reading ---------------------------------------------------------------------------------

    @property
    def has_rules(self) -> bool:
        """Whether a function decides which calls of one of the tools need approval."""
        return any(callable(tool.approval) for tool in self._tools.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def specs(self, *, strict: bool = False, exclude: frozenset[str] = frozenset()) -> tuple[ToolSpec, ...]:
        """The tools offered to a model, with `strict` in their strict form; the tuple is cached."""
        self._is_strict = self._is_strict or strict
        key = (strict, exclude)
        offered = self._offers.get(key)
        if offered is None:
            if len(self._offers) >= 64:
                self._offers.clear()
            offered = tuple(
                _spec_of(tool, strict=strict)
                for name, tool in self._tools.items()
                if name not in exclude and name not in self._deprecated
            )
            self._offers[key] = offered
        return offered

    def catalog(self) -> tuple[dict[str, Any], ...]:
        """Every tool as plain data: name, description, parameters, returns, and whether it is deprecated."""
        return tuple(
            {
                "name": name,
                "description": tool.description,
                "parameters": tool.spec.parameters,
                "returns": tool.returns,
                "deprecated": name in self._deprecated,
            }
            for name, tool in self._tools.items()
        )

    def stats(self, name: str) -> ToolStats:
        """The statistics of the calls of a tool."""
        return self._counters[self._check_exists(name)].stats()

    def deprecate(self, name: str) -> None:
        """Stop offering a tool to models. It can still be called, with a warning."""
        if self._check_exists(name) not in self._deprecated:
            self._deprecated.add(name)
            self._offers.clear()
            self._performs[name] = _with_warning(self._tools[name], self._performs[name])

    def _check_exists(self, name: str) -> str:
        if name not in self._tools:
            raise ConfigError(f"there is no tool {name!r}; the tools are {one_of(self.names) or 'none'}")
        return name

    # --- calling ---------------------------------------------------------------------------------

    def prepare(self, call: ToolCall) -> PreparedCall | UnknownToolError | InvalidArgsError:
        """Find the tool and check the arguments. Has no side effects and never raises."""
        found = self._quick.get(call.name)
        if found is None:
            return self._unknown(call)
        tool, check = found
        try:
            args = check(call.args)
        except Exception:  # noqa: BLE001  # `_check` decides
            args = self._check(call)
            if isinstance(args, InvalidArgsError):
                return args
        return PreparedCall(call, tool, args)

    def run(self, prepared: PreparedCall, ctx: ToolContext | None = None) -> Coroutine[Any, Any, ToolResult]:
        """Run a prepared call. Errors are in the result; only a cancellation of the caller is raised."""
        return self._performs[prepared.tool.name](prepared.call, ctx, prepared)

    def provide(self, prepared: PreparedCall, value: Any = None, *, error: str | None = None) -> ToolResult:
        """Return the result of an external call from the provided value, which is checked and rendered."""
        from .calls import provided_result

        return provided_result(prepared, value, error=error)

    def dispatch(self, call: ToolCall, ctx: ToolContext | None = None) -> Coroutine[Any, Any, ToolResult]:
        """Prepare and run a call."""
        try:
            perform = self._performs.get(call.name)
        except TypeError:  # a name that is not hashable
            perform = None
        return perform(call, ctx) if perform else self._refuse(call)

    async def _refuse(self, call: ToolCall) -> ToolResult:
        return ToolResult(call.id, call.name, error=self._unknown(call))

    def _check(self, call: ToolCall) -> Any:
        """Return the arguments as the tool takes them, or the error."""
        tool = self._tools[call.name]
        try:
            return tool.check(call.args)
        except InvalidArgsError as error:
            rejected = error
            if self._is_strict:
                from wesichain.core.internal import without_nulls  # loaded with the first strict form

                with suppress(InvalidArgsError):
                    return tool.check(without_nulls(tool.spec.parameters, call.args))
        except Exception as error:  # noqa: BLE001  # validators of users may raise anything
            rejected = tool.rejected([Issue((), f"cannot be checked: {type(error).__name__}: {error}")])
            rejected.__cause__ = error
        rejected.call_id = call.id
        return rejected

    def _unknown(self, call: ToolCall) -> UnknownToolError:
        offered = tuple(name for name in self._tools if name not in self._deprecated)
        suggestion = closest(str(call.name), offered)
        hint = f"; did you mean {suggestion!r}?" if suggestion else ";"
        return UnknownToolError(
            f"there is no tool {preview(call.name)}{hint} the tools are {one_of(offered) or 'none'}",
            tool_name=call.name,
            call_id=call.id,
            available=offered,
        )


def _spec_of(tool: Tool, *, strict: bool) -> ToolSpec:
    spec = tool.spec
    if strict:
        from wesichain.core.internal import narrowed_schema  # loaded with the first strict form

        spec = replace(spec, parameters=narrowed_schema(spec.parameters))
    return replace(spec, pure=True) if tool.effect == "pure" else spec


def _with_warning(tool: Tool, perform: Perform) -> Perform:
    from .calls import failure

    async def warn_and_perform(call: ToolCall, *rest: Any) -> ToolResult:
        try:
            warnings.warn(f"tool {tool.name!r} is deprecated", ToolWarning, stacklevel=2)
        except ToolWarning as error:  # the program treats warnings as errors
            return ToolResult(call.id, call.name, error=failure(tool, call.id, error))
        return await perform(call, *rest)

    return warn_and_perform
