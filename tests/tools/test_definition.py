"""Defining tools: names, options, docstrings, annotations; and what cannot be a tool."""

from __future__ import annotations

import asyncio
import functools
import math
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import pytest
from pydantic import BaseModel, Field

from wesichain.core import ToolCall
from wesichain.errors import ConfigError, DuplicateToolError, ToolDefinitionError
from wesichain.tools import ToolContext, ToolSet, ToolWarning, TypedTool, tool

if TYPE_CHECKING:
    from decimal import Decimal

OBJECT = {"type": "object"}


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def result_of(item: Any, args: dict[str, Any]) -> Any:
    registry = ToolSet().register(item).build()
    result = asyncio.run(registry.dispatch(ToolCall("1", registry.names[0], args)))
    if result.error is not None:
        raise result.error
    return result.value


# --- names ---------------------------------------------------------------------------------------


def test_a_name_is_taken_once() -> None:
    with pytest.raises(DuplicateToolError, match="'add' is registered twice") as caught:
        ToolSet().register(add).register(tool(add))
    assert caught.value.tool_name == "add"
    assert isinstance(caught.value, ConfigError)


# --- options -------------------------------------------------------------------------------------


def test_the_defaults() -> None:
    made = tool(add)
    assert (made.timeout, made.effect, made.approval) == (30.0, "idempotent", False)
    assert (made.isolate, made.sequential, made.max_output) == (False, False, 262_144)


def test_options_are_set_and_kept() -> None:
    def rule(args: dict[str, Any]) -> bool:
        return bool(args["a"] > 10)

    made = tool(timeout=1, effect="once", approval=rule, isolate=True, sequential=True, max_output=10)(add)
    assert (made.timeout, made.effect, made.approval) == (1, "once", rule)
    assert (made.isolate, made.sequential, made.max_output) == (True, True, 10)
    assert tool(add, timeout=math.inf).timeout == math.inf


# --- functions -----------------------------------------------------------------------------------


def test_a_tool_can_be_called_as_the_function_it_was() -> None:
    made = tool(add)
    assert made(1) == 3
    assert vars(made)["__name__"] == "add"
    assert made.__doc__ == "Add two numbers."


def test_a_wrapper_that_hides_its_function_is_refused() -> None:
    def careless(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args, **kwargs):  # type: ignore[no-untyped-def]  # that is the point
            """Wrap."""
            return function(*args, **kwargs)

        return wrapper

    with pytest.raises(ToolDefinitionError, match="'args' has no annotation"):
        tool(careless(add))


def test_a_type_without_a_schema_is_refused_by_name() -> None:
    class Odd:
        pass

    def fetch(a: int, odd: Odd) -> None:
        """Fetch."""

    def call(a: int, back: Callable[[int], int]) -> None:
        """Call back."""

    with pytest.raises(ToolDefinitionError, match="tool 'fetch': parameter 'odd'"):
        tool(fetch)
    with pytest.raises(ToolDefinitionError, match="tool 'call': parameter 'back'"):
        tool(call)


def test_a_missing_docstring_is_only_a_warning() -> None:
    def quiet(a: int) -> int:
        return a

    with pytest.warns(ToolWarning, match="'quiet' has no docstring") as caught:
        made = tool(quiet)
    assert caught[0].filename == __file__
    assert made.description == ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tool(quiet, description="Say nothing.").description == "Say nothing."


def test_a_class_that_is_defined_later_is_found_later() -> None:
    @tool
    def use(a: Later) -> int:
        """Use a class from further down."""
        return a.x

    assert result_of(use, {"a": {"x": 3}}) == 3

    @tool
    def never(a: Nowhere) -> int:  # type: ignore[name-defined]  # noqa: F821  # that is the point
        """Use a class that does not exist."""
        return 1

    with pytest.raises(ToolDefinitionError, match="'Nowhere' is not defined"):
        ToolSet().register(never)


class Later(BaseModel):
    x: int


def test_a_return_type_for_type_checkers_only_is_no_hindrance() -> None:
    @tool
    def price(a: int) -> Decimal:
        """Use a name that is imported for type checkers."""
        return a  # type: ignore[return-value]  # unchecked at run time

    assert price.returns is None
    assert result_of(price, {"a": 3}) == 3


class Shelf:
    def __init__(self, size: int) -> None:
        self.size = size

    @tool
    def put(self, a: int) -> int:
        """Put."""
        return a + self.size


def test_a_method_is_a_tool_of_its_instance() -> None:
    one, two = Shelf(1), Shelf(2)
    assert one.put(1) == 2
    assert result_of(one.put, {"a": 1}) == 2
    assert result_of(two.put, {"a": 1}) == 3
    with pytest.raises(ToolDefinitionError, match="'put' is a method; use the tool of an instance"):
        ToolSet().register(Shelf.put)


def test_a_partial_is_named_after_its_function() -> None:
    made = tool(functools.partial(functools.partial(add, 1), b=2))
    assert made.name == "add"
    assert made.description == "Add two numbers."
    assert result_of(made, {}) == 3


class Point(NamedTuple):
    x: int
    y: int = 2


class Order(BaseModel):
    item: Item  # defined further down


def order(what: Order) -> str:
    """Order."""
    return what.item.name


ORDER = tool(order)


class Item(BaseModel):
    name: str


class Unknown(BaseModel):
    what: Nowhere  # type: ignore[name-defined]  # noqa: F821  # that is the point


def test_a_named_tuple_is_taken_by_its_names_or_in_order_and_returned_in_order() -> None:
    def swap(point: Point) -> Point:
        """Swap."""
        return Point(point.y, point.x)

    made = tool(swap)
    items = [{"type": "integer"}, {"default": 2, "type": "integer"}]
    listed = {"type": "array", "prefixItems": items, "minItems": 1, "maxItems": 2}
    named, other = made.spec.parameters["properties"]["point"]["anyOf"]
    assert (named["required"], other, made.returns) == (["x"], listed, listed)


def test_a_model_with_a_name_that_is_nowhere_is_named_when_it_is_needed() -> None:
    def ask(unknown: Unknown) -> None:
        """Ask."""

    words = "'ask': an annotation cannot be resolved: the type of 'unknown' names a class that is not defined"
    with pytest.raises(ToolDefinitionError, match=words):
        _ = tool(ask).spec
    assert ORDER.spec.parameters["properties"]["what"]["properties"]["item"]["required"] == ["name"]


def test_arguments_without_a_schema_are_named() -> None:
    @dataclass
    class Locked:
        lock: threading.Lock

    class Open(TypedTool[Locked, str]):
        """Open."""

        name = "open"

        async def run(self, args: Locked, ctx: ToolContext) -> str:
            return str(args)

    with pytest.raises(ToolDefinitionError, match="tool 'open': its arguments have no schema: "):
        _ = Open().spec


async def test_what_was_sent_is_told_where_mending_it_does_not_help() -> None:
    def wait(minutes: Annotated[int, Field(ge=20)]) -> int:
        """Wait."""
        return minutes

    registry = ToolSet.of([wait]).build()
    assert (await registry.dispatch(ToolCall("c", "wait", {"minutes": 20.0}))).value == 20
    error = (await registry.dispatch(ToolCall("c", "wait", {"minutes": 12.0}))).error
    assert "- minutes: expected a valid integer, got 12.0" in str(error)
