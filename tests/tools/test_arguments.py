"""Arguments: strict about kinds, lax where JSON cannot say it, and told in words that a model can act on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, cast

import pytest
from pydantic import BaseModel, Field, WithJsonSchema

from wesichain.core import ToolCall
from wesichain.errors import InvalidArgsError
from wesichain.tools import JsonTool, Tool, ToolRegistry, ToolResult, ToolSet, tool, validate_json


class Item(BaseModel):
    name: str
    price: float


def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


def flat(a: str, b: float | None = None, c: bool = False) -> str:
    """Take plain things."""
    return a


def order(items: list[Item], note: dict[str, Any] | None = None) -> float:
    """Order items."""
    return sum(item.price for item in items)


def pick(unit: Literal["celsius", "fahrenheit"], level: Literal[1, 2, 3] = 1) -> str:
    """Pick."""
    return unit


def either(value: int | list[int]) -> str:
    """Take one or many."""
    return type(value).__name__


def short(text: Annotated[str, Field(min_length=3, pattern="^[a-z]*$")]) -> str:
    """Take lower case."""
    return text


def search(query: str, max_results: int = 5) -> str:
    """Search."""
    return query


SCHEMA = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "price": {"type": "number"}},
                "required": ["name", "price"],
            },
        },
        "note": {"type": "object"},
    },
    "required": ["items"],
    "additionalProperties": False,
}


def json_order() -> JsonTool:
    return JsonTool("json_order", "Order.", SCHEMA, lambda args: len(args["items"]))


def registry() -> ToolRegistry:
    return ToolSet.of([add, flat, order, pick, either, short, search, json_order()]).build()


def dispatch(name: str, args: Any) -> ToolResult:
    return asyncio.run(registry().dispatch(ToolCall("c7", name, args)))


def refusal(name: str, args: Any) -> InvalidArgsError:
    error = dispatch(name, args).error
    assert isinstance(error, InvalidArgsError), error
    return error


def deep(levels: int, leaf: Any = 1) -> Any:
    value: Any = leaf
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("name", "args", "issue"),
    [
        pytest.param("add", {}, "a: is required and was not given", id="what-is-missing"),
        pytest.param("add", {"a": "five"}, 'a: expected an integer, got "five"', id="text-for-an-integer"),
        pytest.param("add", {"a": True}, "a: expected an integer, got true", id="a-boolean-for-an-integer"),
        pytest.param("add", {"a": 1.5}, "a: expected an integer, got 1.5", id="a-fraction-for-an-integer"),
        pytest.param("add", {"a": None}, "a: expected an integer, got null", id="null-for-an-integer"),
        pytest.param(
            "search",
            {"query": "x", "max_result": 3},
            'max_result: there is no such field; did you mean "max_results"? '
            'the fields are "query" or "max_results"',
            id="a-name-that-is-nearly-right",
        ),
        pytest.param(
            "pick",
            {"unit": "kelvin"},
            'unit: expected "celsius" or "fahrenheit", got "kelvin"',
            id="a-choice-that-is-not-offered",
        ),
        pytest.param(
            "pick",
            {"unit": "celsius", "level": True},
            "level: expected an integer, got true",
            id="true-for-1",
        ),
        pytest.param(
            "order",
            {"items": [{"name": "x", "price": 1}, {"name": "y"}]},
            "items[1].price: is required and was not given",
            id="the-way-to-a-missing-field",
        ),
        pytest.param(
            "order",
            {"items": {"name": "x"}},
            'items: expected a list, got an object with the keys "name"',
            id="one-for-many",
        ),
        pytest.param(
            "either",
            {"value": "x"},
            'value: expected an integer or a list, got "x"',
            id="what-a-union-takes",
        ),
        pytest.param(
            "short", {"text": "ab"}, 'text: String should have at least 3 characters, got "ab"', id="a-limit"
        ),
        pytest.param(
            "add",
            [1, 2],
            "the value: expected an object with the arguments, got a list of 2 items",
            id="a-list",
        ),
        pytest.param("add", None, "the value: expected an object with the arguments, got null", id="null"),
        pytest.param("add", 5, "the value: expected an object with the arguments, got 5", id="a-number"),
        pytest.param(
            "add",
            '{"a": 1',
            'the value: expected a JSON object, got text that is not JSON: "{\\"a\\": 1"',
            id="text",
        ),
        pytest.param(
            "add",
            '{"a": 1}',
            'the value: expected a JSON object, got the text of one; send the object itself: "{\\"a\\": 1}"',
            id="an-object-in-quotes",
        ),
        pytest.param(
            "json_order",
            {"items": [{"name": "x", "price": "1"}]},
            'items[0].price: expected a number, got "1"',
            id="a-json-tool-says-it-alike",
        ),
        pytest.param(
            "json_order",
            {"items": [], "nott": {}},
            'nott: there is no such field; did you mean "note"? the fields are "items" or "note"',
            id="a-json-tool-guesses-as-well",
        ),
    ],
)
def test_an_issue_says_where_what_and_what_instead(name: str, args: Any, issue: str) -> None:
    assert refusal(name, args).issues == (issue,)


def test_the_message_has_every_issue_and_the_signature() -> None:
    error = refusal("add", {"a": "x", "c": 1})
    assert str(error) == (
        "the arguments for 'add' are not valid:\n"
        '- a: expected an integer, got "x"\n'
        '- c: there is no such field; the fields are "a" or "b"\n'
        "Use it as: add(a: int, b: int = 2)"
    )
    assert (error.tool_name, error.call_id, error.kind.value) == ("add", "c7", "invalid_input")


def test_what_the_schema_and_what_a_validator_refuse_is_told_at_once() -> None:
    def book(
        nights: Annotated[int, Field(ge=1)],
        code: Annotated[str, Field(min_length=3)],
        day: Annotated[str, WithJsonSchema({"type": "day"})],
    ) -> None:
        """Book."""

    def stay(nights: Annotated[int, Field(ge=1)], code: Annotated[str, Field(min_length=3)]) -> None:
        """Stay."""

    tools = ToolSet.of([book, stay]).build()
    both = tools.prepare(ToolCall("1", "stay", {"nights": "two", "code": "ab"}))
    assert isinstance(both, InvalidArgsError)
    assert both.issues == (
        'nights: expected an integer, got "two"',
        'code: String should have at least 3 characters, got "ab"',
    )
    # A schema that a type says of itself, and that is none.
    missing = tools.prepare(ToolCall("2", "book", {"nights": 0, "code": "abc"}))
    assert isinstance(missing, InvalidArgsError)
    assert [issue.partition(":")[0] for issue in missing.issues] == ["nights", "day"]


@pytest.mark.parametrize(
    "args",
    [
        pytest.param({"items": [{"name": 1, "price": "x"}] * 500}, id="many-issues"),
        pytest.param({"items": "x" * 1_000_000}, id="a-megabyte-of-text"),
        pytest.param({"k" * 10_000: 1, "items": []}, id="a-name-of-ten-thousand-characters"),
        pytest.param({f"k{n}": n for n in range(1000)}, id="a-thousand-names"),
        pytest.param({"items": deep(50_000)}, id="depth"),
        pytest.param({"items": [1] * 30_000}, id="thirty-thousand-wrong-items"),
    ],
)
@pytest.mark.parametrize("name", ["order", "json_order"])
def test_a_message_is_bounded_whatever_was_sent(name: str, args: Any) -> None:
    error = refusal(name, args)
    assert len(str(error)) <= 2000
    assert 1 <= len(error.issues) <= 10
    assert "Use it as: " in str(error)


HOSTILE: dict[str, Any] = {
    "NaN": {"a": float("nan")},
    "infinity": {"a": float("inf")},
    "a lone surrogate": {"a": "\ud800"},
    "a lone surrogate as a name": {"\udfff": 1},
    "a hundred thousand levels": {"a": deep(100_000)},
    "two hundred and fifty levels": {"a": deep(250)},
    "a hundred thousand levels and no object": deep(100_000),
    "what is no json": {"a": object()},
    "a set": {"a": {1, 2}},
    "more digits than can be written": {"a": 10**5000},
    "a list": [],
    "no text": "",
    "text": "null",
    "null": None,
    "zero": 0,
}


def anything(a: Any) -> Any:
    """Take anything."""
    return a


def text(a: str) -> str:
    """Take text."""
    return a


def number(a: float) -> float:
    """Take a number."""
    return a


def mapping(a: dict[str, Any]) -> Any:
    """Take an object."""
    return a


@pytest.mark.parametrize(
    "item",
    [anything, text, number, mapping, lambda: JsonTool("any", "Any.", {"type": "object"}, lambda args: args)],
    ids=["anything", "text", "number", "mapping", "json-tool"],
)
async def test_hostile_arguments_are_refused_and_nothing_else_is_lost(item: Any) -> None:
    made = item if item.__name__ != "<lambda>" else item()
    registry = ToolSet().register(made).register(add).build()
    for name, args in HOSTILE.items():
        call = ToolCall("1", registry.names[0], args)
        assert isinstance(registry.prepare(call), InvalidArgsError), name
        result = await registry.dispatch(call)
        assert isinstance(result.error, InvalidArgsError), name
        assert (await registry.dispatch(ToolCall("2", "add", {"a": 1}))).value == 3
    assert registry.stats("add").successes == len(HOSTILE)


def test_a_tool_cannot_change_the_call_it_got() -> None:
    def spoil(a: dict[str, Any], b: list[Any]) -> None:
        """Change the arguments."""
        a["x"]["y"] = 2
        b.append(1)

    args: dict[str, Any] = {"a": {"x": {}}, "b": []}
    for item in (tool(spoil), JsonTool("spoil", "Spoil.", {"type": "object"}, lambda args: spoil(**args))):
        result = asyncio.run(ToolSet().register(item).build().dispatch(ToolCall("1", "spoil", args)))
        assert result.ok
    assert args == {"a": {"x": {}}, "b": []}


# --- strict mode's nulls -------------------------------------------------------------------------


class Window(BaseModel):
    start: int
    end: int = 9


def look(a: int, b: int = 2, window: Window | None = None) -> str:
    """Look."""
    return f"{a} {b} {window and window.end}"


NULLS: dict[str, Any] = {"a": 1, "b": None, "window": {"start": 1, "end": None}}


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: tool(look), id="a-function"),
        pytest.param(
            lambda: JsonTool(
                "look",
                "Look.",
                dict(tool(look).spec.parameters),
                lambda args: f"{args['a']} {args.get('b', 2)} {args['window'].get('end', 9)}",
            ),
            id="a-json-tool",
        ),
    ],
)
def test_null_is_absent_once_the_strict_form_was_offered(make: Callable[[], Tool]) -> None:
    registry = ToolSet().register(make()).build()
    call = ToolCall("1", "look", NULLS)
    assert isinstance(registry.prepare(call), InvalidArgsError)
    registry.specs(strict=True)
    assert asyncio.run(registry.dispatch(call)).value == "1 2 9"
    missing = registry.prepare(ToolCall("1", "look", {"a": None}))
    assert isinstance(missing, InvalidArgsError)
    assert missing.issues[0].startswith("a: expected")
    assert NULLS["b"] is None


# --- defaults ------------------------------------------------------------------------------------


class Basket(BaseModel):
    items: list[str] = []


async def _taken(made: Any, **args: Any) -> Any:
    registry = ToolSet.of([made]).build()
    return (await registry.dispatch(ToolCall("c", registry.names[0], args))).value


async def test_a_mutable_default_is_fresh_for_every_call() -> None:
    shared = {"seen": ["mine"]}

    def keep(
        item: str,
        first: list[str] = [],  # noqa: B006  # the point
        /,
        other: dict[str, list[str]] = shared,
        *,
        basket: Basket = Basket(),  # noqa: B008  # the point
        by_field: list[str] = Field(default=[]),  # noqa: B008  # the point
    ) -> list[int]:
        for holder in (first, other["seen"], basket.items, by_field):
            holder.append(item)
        return [len(first), len(other["seen"]), len(basket.items), len(by_field)]

    made = tool(keep, description="d")
    for _ in range(3):
        assert await _taken(made, item="x") == [1, 2, 1, 1]
        assert await _taken(made, item="x", first=["a"], other={"seen": []}) == [2, 1, 1, 1]
    assert shared == {"seen": ["mine"]}


async def test_a_default_that_cannot_be_copied_is_shared_as_in_any_function() -> None:
    class Held(list[int]):
        def __deepcopy__(self, memo: object) -> Held:
            raise TypeError("no copies")

    held = Held()

    def count(at: list[int] = held) -> int:
        at.append(1)
        return len(at)

    made = tool(count, description="d")
    assert [await _taken(made), await _taken(made)] == [1, 2]


class Point(NamedTuple):
    x: int
    y: float = 0.5


@pytest.mark.parametrize("taken", [True, False], ids=["taken", "refused"])
async def test_the_schema_of_a_named_tuple_says_what_is_taken(taken: bool) -> None:
    def move(point: Point) -> float:
        return point.x + point.y

    made = tool(move, description="d")
    good = [[1, 2.0], [1], {"x": 1}, {"x": 1, "y": 2.0}]
    bad = [[], [1, 2.0, 3], {}, {"x": "a"}, {"x": 1, "z": 2}, "1", None]
    assert made.signature == "move(point: {x: int, y?: float} | [int, float])"
    for value in good if taken else bad:
        assert (validate_json(made.spec.parameters, {"point": value}) == []) is taken, value
        result = (
            await ToolSet.of([made]).build().dispatch(ToolCall("c", "move", {"point": cast("Any", value)}))
        )
        assert result.ok is taken, value
