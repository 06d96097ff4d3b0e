"""Typed tools and JSON tools: what they take, what they refuse, what they call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import pytest
from pydantic import BaseModel

from tests.tools.test_definition import OBJECT, result_of
from wesichain.errors import ToolDefinitionError
from wesichain.tools import JsonTool, ToolContext, ToolSet, TypedTool

# --- typed tools ---------------------------------------------------------------------------------


class Args(BaseModel):
    city: str


class Weather(TypedTool[Args, dict[str, float]]):
    name = "weather"
    description = "The weather in a city."
    timeout = 5.0

    async def run(self, args: Args, ctx: ToolContext) -> dict[str, float]:
        return {"wind": len(args.city)}


class Configured(Weather):
    """Said by the docstring."""

    name = "configured"
    description = ""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    async def run(self, args: Args, ctx: ToolContext) -> dict[str, float]:
        return {"wind": self.factor}


class Lying(TypedTool[Args, int]):
    """Lie."""

    def run(self, args: Args, ctx: ToolContext) -> int:
        return "no"  # type: ignore[return-value]  # that is the point


def test_a_typed_tool_may_be_given_as_class_or_instance() -> None:
    assert result_of(Weather, {"city": "Rome"}) == {"wind": 4.0}
    assert result_of(Weather(), {"city": "Rome"}) == {"wind": 4.0}
    assert Weather().spec.description == "The weather in a city."
    assert Weather().timeout == 5.0


def test_a_typed_tool_may_have_a_constructor_of_its_own() -> None:
    made = Configured(7)
    assert result_of(made, {"city": "Rome"}) == {"wind": 7.0}
    assert made.spec.description == "Said by the docstring."
    with pytest.raises(ToolDefinitionError, match="Configured cannot be created without arguments"):
        ToolSet().register(Configured)


def test_a_typed_tool_s_result_is_checked() -> None:
    with pytest.raises(Exception, match="expected int"):
        result_of(Lying, {"city": "Rome"})
    assert Lying().spec.name == "Lying"


def test_a_typed_tool_says_its_types() -> None:
    class Bare(TypedTool):  # type: ignore[type-arg]  # that is the point
        """Say nothing."""

        def run(self, args: Any, ctx: ToolContext) -> Any: ...

    class Wrong(TypedTool[int, int]):
        """Take no fields."""

        def run(self, args: int, ctx: ToolContext) -> int:
            return args

    A = TypeVar("A")

    class Open(TypedTool[A, int], Generic[A]):
        """Be open."""

        def run(self, args: A, ctx: ToolContext) -> int:
            return 1

    with pytest.raises(ToolDefinitionError, match="Bare has no types"):
        ToolSet().register(Bare)
    with pytest.raises(ToolDefinitionError, match="Open has no types"):
        ToolSet().register(Open)
    with pytest.raises(ToolDefinitionError, match="tool 'Wrong': int is not an object"):
        ToolSet().register(Wrong)


# --- json tools ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "string"}, id="a-root-that-is-a-string"),
        pytest.param({"type": "array", "items": {}}, id="a-root-that-is-a-list"),
        pytest.param({}, id="a-root-without-a-type"),
        pytest.param({"$ref": "#/$defs/x", "$defs": {"x": OBJECT}}, id="a-root-that-is-a-reference"),
        pytest.param({"type": ["object", "null"]}, id="a-root-of-two-types"),
        pytest.param(True, id="true"),
        pytest.param([], id="a-list"),
        pytest.param(None, id="nothing"),
        pytest.param({"type": "object", "properties": []}, id="properties-that-are-a-list"),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "int"}}}, id="a-type-that-does-not-exist"
        ),
        pytest.param({"type": "object", "x": object()}, id="what-is-no-json"),
    ],
)
def test_a_json_tool_needs_an_object_schema(schema: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="'x'"):
        JsonTool("x", "X.", schema, print)


@pytest.mark.parametrize(
    ("invoke", "expected"),
    [
        pytest.param(lambda args: args["a"], 1, id="sync"),
        pytest.param(lambda args, ctx: [args["a"], ctx.step_id], [1, 0], id="sync-with-context"),
        pytest.param(lambda args, more=3: [args["a"], more], [1, 3], id="a-second-argument-with-a-default"),
        pytest.param(lambda *args: len(args), 1, id="star-args"),
        pytest.param(dict.__len__, 1, id="a-builtin"),
    ],
)
def test_a_json_tool_calls_what_it_is_given(invoke: Callable[..., Any], expected: Any) -> None:
    assert result_of(JsonTool("x", "X.", OBJECT, invoke), {"a": 1}) == expected


def test_a_json_tool_may_be_async() -> None:
    async def one(args: dict[str, Any]) -> Any:
        return args

    async def two(args: dict[str, Any], ctx: ToolContext) -> Any:
        await asyncio.sleep(0)
        return [args, ctx.step_id]

    class Invoker:
        async def __call__(self, args: dict[str, Any]) -> Any:
            return args

    assert result_of(JsonTool("x", "X.", OBJECT, one), {"a": 1}) == {"a": 1}
    assert result_of(JsonTool("x", "X.", OBJECT, two), {"a": 1}) == [{"a": 1}, 0]
    assert result_of(JsonTool("x", "X.", OBJECT, Invoker()), {"a": 1}) == {"a": 1}
    assert result_of(JsonTool("x", "X.", OBJECT, lambda args: one(args)), {"a": 1}) == {"a": 1}


def test_a_json_tool_checks_its_result_where_it_declares_one() -> None:
    made = JsonTool("x", "X.", OBJECT, lambda args: args, returns={"type": "object", "required": ["a"]})
    assert made.returns == {"type": "object", "required": ["a"]}
    assert result_of(made, {"a": 1}) == {"a": 1}
    with pytest.raises(Exception, match="a: is required"):
        result_of(made, {})


def test_a_result_is_checked_before_it_is_cut() -> None:
    returns = {"type": "object", "required": ["a"]}
    made = JsonTool("x", "X.", OBJECT, lambda args: {**args, "b": "x" * 100}, returns=returns, max_output=50)
    assert result_of(made, {"a": 1}).startswith('{"a":1,"b":"xxx')
    with pytest.raises(Exception, match="a: is required"):
        result_of(made, {})


def test_a_schema_cannot_be_changed_behind_a_tool_s_back() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
    made = JsonTool("x", "X.", schema, lambda args: 1)
    schema["properties"]["a"]["type"] = "string"
    assert made.spec.parameters["properties"]["a"] == {"type": "integer"}
    assert result_of(made, {"a": 1}) == 1
