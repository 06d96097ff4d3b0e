"""Callables of every form that people write, with their schemas and the calls that fit."""

import datetime as dt
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from typing_extensions import Unpack

from tests.tools.callables.models import Address, Color, Movie, Options, Person, Point
from tests.tools.callables.values import A_DAY, INT, NOT_INT, Case, several, takes
from wesichain.tools import JsonTool, ToolContext, TypedTool, tool

T = TypeVar("T", bound=Callable[..., Any])


def logged(function: T) -> T:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper  # type: ignore[return-value]  # it stands for the function


def odd_names(schema: int, _x: int, copy: int, model_config: int = 4) -> int:
    """Take parameters with names that models reserve."""
    return schema + _x + copy + model_config


def keyword_only(*, a: int, b: int = 2) -> int:
    """Take keywords."""
    return a + b


def positional_only(a: int, b: int = 2, c: int = 3, /) -> str:
    """Take positions."""
    return f"{a}{b}{c}"


def star(a: int, *rest: int, last: int = 0) -> int:
    """Take any number of integers."""
    return a + sum(rest) + last


def extras(a: int, **more: float) -> float:
    """Take any further numbers."""
    return a + sum(more.values())


def unpacked(**options: Unpack[Options]) -> list[str]:
    """Take options."""
    return sorted(options)


def with_context(a: int, ctx: ToolContext) -> str:
    """Take a context."""
    return f"{a}@{ctx.step_id}"


def context_first(ctx: ToolContext, /, a: int, *rest: int) -> str:
    """Take a context by position."""
    return f"{a + sum(rest)}@{ctx.step_id}"


def context_optional(a: int = 1, ctx: ToolContext | None = None) -> str:
    """Take a context, or not."""
    return f"{a}{ctx is not None}"


def mutable_default(a: list[int] = [1]) -> int:  # noqa: B006
    """Take a list with a default."""
    return len(a)


def odd_default(a: Any = object) -> str:
    """Take a default that JSON cannot say."""
    return type(a).__name__


def big_default(a: Color = Color.RED, b: dt.date = dt.date(2020, 1, 2)) -> str:
    """Take defaults that JSON says otherwise."""
    return f"{a.name} {b.day}"


async def coroutine(a: int) -> int:
    """Await."""
    return a


async def async_items(a: int) -> AsyncIterator[int]:
    """Yield, asynchronously."""
    for item in range(a):
        yield item


def items(a: int) -> Iterator[int]:
    """Yield."""
    yield from range(a)


@logged
def decorated(a: int) -> int:
    """Be wrapped."""
    return a


@logged
async def decorated_async(a: int) -> int:
    """Be wrapped and awaited."""
    return a


class Shelf:
    """A shelf."""

    def __init__(self, size: int) -> None:
        self.size = size

    def method(self, a: int) -> int:
        """Be a method."""
        return a + self.size

    @tool
    def tool_method(self, a: int) -> int:
        """Be a tool in a class."""
        return a + self.size

    @classmethod
    def class_method(cls, a: int) -> str:
        """Be a class method."""
        return f"{cls.__name__}{a}"

    @tool
    @classmethod
    def class_tool(cls, a: int) -> str:
        """Be a class method, and a tool."""
        return f"{cls.__name__}{a}"

    @classmethod
    @tool
    def class_of_tool(cls, a: int) -> str:
        """Be a tool, and a class method."""
        return f"{cls.__name__}{a}"

    @staticmethod
    def static(a: int) -> int:
        """Be static."""
        return a

    @tool
    @staticmethod
    def static_tool(a: int) -> int:
        """Be static, and a tool."""
        return a

    def __call__(self, a: int) -> int:
        """Be called."""
        return a * self.size


class AsyncCallable:
    async def __call__(self, a: int) -> int:
        """Be called and awaited."""
        return a


class Lookup(TypedTool[Address, Person]):
    name = "lookup"
    description = "Who lives there?"

    async def run(self, args: Address, ctx: ToolContext) -> Person:
        return Person(name=f"step {ctx.step_id}", home=args)


class Dated(TypedTool[Movie, int]):
    """How old is a movie?"""

    def run(self, args: Movie, ctx: ToolContext) -> int:
        return 2030 - args.get("year", 2030)


class Crossing(TypedTool[Point, Any]):
    name = "crossing"

    async def run(self, args: Point, ctx: ToolContext) -> Any:
        return [args.x, args.y]


json_tool = JsonTool(
    "search",
    "Search.",
    {"type": "object", "properties": {"q": {"type": "string"}, "k": {"type": "integer"}}, "required": ["q"]},
    lambda args: args["q"] * args.get("k", 1),
)


FORMS: list[Case] = [
    (
        odd_names,
        {"required": ["schema", "_x", "copy"]},
        [({"schema": 1, "_x": 2, "copy": 3}, 10)],
        [{"schema": 1}],
    ),
    (keyword_only, {"required": ["a"]}, [({"a": 1}, 3)], [{}, {"b": 1}]),
    (positional_only, {"required": ["a"]}, [({"a": 1}, "123"), ({"a": 1, "c": 9}, "129")], [{"b": 1}]),
    (
        star,
        {"rest": {"type": "array", "items": INT}, "required": ["a"]},
        [({"a": 1}, 1), ({"a": 1, "rest": [2, 3], "last": 4}, 10)],
        [{"a": 1, "rest": 2}, {"a": 1, "rest": ["x"]}, {"rest": [1]}],
    ),
    (
        extras,
        {"properties": {"a": INT}, "additionalProperties": {"type": "number"}},
        [({"a": 1}, 1), ({"a": 1, "x": 2, "more": 0.5}, 3.5)],
        [{"a": 1, "x": "y"}, {"x": 1}],
    ),
    (unpacked, {"required": None}, [({}, []), ({"depth": 1}, ["depth"])], [{"depth": "x"}, {"other": 1}]),
    (with_context, {"properties": {"a": INT}}, [({"a": 1}, "1@7")], [{"a": 1, "ctx": {}}, {"ctx": {}}]),
    (context_first, {"required": ["a"]}, [({"a": 1, "rest": [2]}, "3@7")], [{"ctx": 1, "a": 1}]),
    (
        context_optional,
        {"properties": {"a": {"type": "integer", "default": 1}}},
        [({}, "1True")],
        [{"ctx": None}],
    ),
    (
        mutable_default,
        {"a": {"type": "array", "items": INT, "default": [1]}},
        [({}, 1), ({"a": []}, 0)],
        [{"a": 1}],
    ),
    (odd_default, {"a": {}}, [({}, "type"), ({"a": 1}, "int")], []),
    (
        big_default,
        {
            "a": {"enum": ["red", "blue"], "type": "string", "default": "red"},
            "b": {"type": "string", "format": "date", "default": "2020-01-02"},
        },
        [({}, "RED 2"), ({"b": A_DAY}, "RED 3")],
        [{"a": "green"}],
    ),
    (coroutine, {"a": INT}, [({"a": 1}, 1)], NOT_INT),
    (async_items, {"a": INT}, [({"a": 3}, [0, 1, 2])], NOT_INT),
    (items, {"a": INT}, [({"a": 3}, [0, 1, 2])], NOT_INT),
    (decorated, {"a": INT}, [({"a": 1}, 1)], NOT_INT),
    (decorated_async, {"a": INT}, [({"a": 1}, 1)], NOT_INT),
    (Shelf(10).method, {"properties": {"a": INT}}, [({"a": 1}, 11)], [*NOT_INT, {"self": 1, "a": 1}]),
    (Shelf(10).tool_method, {"properties": {"a": INT}}, [({"a": 1}, 11)], NOT_INT),
    (Shelf.class_method, {"properties": {"a": INT}}, [({"a": 1}, "Shelf1")], NOT_INT),
    (Shelf.class_tool, {"properties": {"a": INT}}, [({"a": 1}, "Shelf1")], NOT_INT),
    (Shelf(1).class_of_tool, {"properties": {"a": INT}}, [({"a": 1}, "Shelf1")], NOT_INT),
    (Shelf.static, {"a": INT}, [({"a": 1}, 1)], NOT_INT),
    (Shelf.static_tool, {"a": INT}, [({"a": 1}, 1)], NOT_INT),
    (Shelf(3), {"a": INT}, [({"a": 2}, 6)], NOT_INT),
    (AsyncCallable(), {"a": INT}, [({"a": 2}, 2)], NOT_INT),
    (
        functools.partial(several, 1, c=9.5),
        {"properties": ["b", "d"]},
        [({"b": "x"}, "1 x 9.5 False")],
        [{"b": "x", "a": 1}, {"b": "x", "c": 1}],
    ),
    (functools.partial(coroutine), {"a": INT}, [({"a": 1}, 1)], NOT_INT),
    (functools.partial(Shelf(10).method, a=1), {"properties": {}}, [({}, 11)], [{"a": 1}]),
    (tool(name="renamed")(takes("integer", int)), {"a": INT}, [({"a": 1}, 1)], NOT_INT),
    (
        Lookup,
        {"additionalProperties": False, "required": ["street"]},
        [({"street": "x"}, {"name": "step 7", "home": {"street": "x", "zip": 0}, "tags": []})],
        [{}, {"street": "x", "town": "y"}],
    ),
    (
        Dated(),
        {"required": ["title"]},
        [({"title": "M", "year": 2000}, 30)],
        [{"year": 1}, {"title": "M", "x": 1}],
    ),
    (Crossing(), {"required": ["x"]}, [({"x": 1}, [1, 0])], [{"y": 1}, {"x": 1, "z": 1}, {"x": "1"}]),
    (
        json_tool,
        {"required": ["q"]},
        [({"q": "a", "k": 2}, "aa"), ({"q": "a", "z": 1}, "a")],
        [{}, {"q": 1}, {"q": "a", "k": "2"}, {"q": "a", "k": True}],
    ),
]
