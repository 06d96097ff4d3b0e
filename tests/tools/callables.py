"""Callables of every kind that people write, with what their schema says and which calls fit."""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import pathlib
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, TypeVar, Union

from pydantic import AnyUrl, BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, StringConstraints
from typing_extensions import Doc, TypedDict, Unpack

from wesichain.tools import FunctionTool, JsonTool, Tool, ToolContext, TypedTool, tool

Case = tuple[Any, dict[str, Any], list[tuple[dict[str, Any], Any]], list[Any]]


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Unit(enum.StrEnum):
    C = "celsius"
    F = "fahrenheit"


class Address(BaseModel):
    """Where somebody lives."""

    street: str = Field(description="street and number")
    zip: int = 0


class Person(BaseModel):
    name: str
    home: Address
    tags: list[str] = []


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    x: int


class Tree(BaseModel):
    value: int
    kids: list["Tree"] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool = True


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass(frozen=True)
class Line:
    start: Point
    end: Point | None = None


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Options(TypedDict, total=False):
    depth: int
    name: str


T = TypeVar("T", bound=Callable[..., Any])


def logged(function: T) -> T:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper  # type: ignore[return-value]  # it stands for the function


def nothing() -> str:
    """Take nothing."""
    return "done"


def text(a: str) -> str:
    """Take text."""
    return a


def integer(a: int) -> int:
    """Take an integer."""
    return a


def number(a: float) -> float:
    """Take a number."""
    return a


def flag(a: bool) -> bool:
    """Take a flag."""
    return a


def null(a: None) -> None:
    """Take null."""


def several(a: int, b: str, c: float = 1.5, d: bool = False) -> str:
    """Take several."""
    return f"{a} {b} {c} {d}"


def optional(a: int | None = None) -> int | None:
    """Take an optional integer."""
    return a


def old_optional(a: Optional[str] = None) -> Optional[str]:  # noqa: UP045
    """Take an optional text."""
    return a


def nullable(a: int | None) -> int | None:
    """Take an integer or null, but take it."""
    return a


def union(a: int | str) -> str:
    """Take an integer or text."""
    return type(a).__name__


def old_union(a: Union[int, list[str]]) -> str:  # noqa: UP007
    """Take an integer or texts."""
    return type(a).__name__


def literal(a: Literal["x", "y"]) -> str:
    """Take a choice."""
    return a


def literal_numbers(a: Literal[1, 2] = 1) -> int:
    """Take a number of two."""
    return a


def literal_mixed(a: Literal["auto", 0, None]) -> Any:
    """Take one of three kinds."""
    return a


def colour(a: Color) -> str:
    """Take a colour."""
    return a.name


def level(a: Level = Level.LOW) -> str:
    """Take a level."""
    return a.name


def unit(a: Unit = Unit.C) -> str:
    """Take a unit."""
    return a.name


def words(a: list[str]) -> int:
    """Take texts."""
    return len(a)


def bare_list(a: list) -> int:  # type: ignore[type-arg]  # people write it
    """Take any list."""
    return len(a)


def counts(a: dict[str, int]) -> int:
    """Take counts."""
    return sum(a.values())


def bare_dict(a: dict) -> list[str]:  # type: ignore[type-arg]  # people write it
    """Take any object."""
    return sorted(a)


def int_keys(a: dict[int, str]) -> list[int]:
    """Take an object with numbers for keys."""
    return sorted(a)


def pair(a: tuple[int, str]) -> str:
    """Take a pair."""
    return f"{a[0]}{a[1]}"


def many(a: tuple[int, ...]) -> int:
    """Take a tuple of any length."""
    return sum(a)


def unique(a: set[int]) -> int:
    """Take a set."""
    return len(a)


def frozen(a: frozenset[str]) -> list[str]:
    """Take a frozen set."""
    return sorted(a)


def sequence(a: Sequence[int]) -> int:
    """Take a sequence."""
    return sum(a)


def iterable(a: Iterable[int]) -> int:
    """Take an iterable."""
    return sum(a)


def mapping(a: Mapping[str, float]) -> float:
    """Take a mapping."""
    return sum(a.values())


def nested_lists(a: list[list[int]]) -> int:
    """Take lists in a list."""
    return sum(map(sum, a))


def queue(a: collections.deque[int]) -> int:
    """Take a deque."""
    return a[0]


def anything(a: Any) -> Any:
    """Take anything."""
    return a


def whatever(a: object) -> str:
    """Take any object."""
    return type(a).__name__


def day(a: dt.date) -> str:
    """Take a day."""
    return a.strftime("%d.%m.%Y")


def moment(a: dt.datetime) -> int:
    """Take a moment."""
    return a.year


def clock(a: dt.time) -> int:
    """Take a time of day."""
    return a.hour


def duration(a: dt.timedelta) -> float:
    """Take a duration."""
    return a.total_seconds()


def money(a: decimal.Decimal) -> str:
    """Take an amount."""
    return str(a * 2)


def identity(a: uuid.UUID) -> int:
    """Take a UUID."""
    return a.int


def path(a: pathlib.Path) -> str:
    """Take a path."""
    return a.name


def url(a: AnyUrl) -> str | None:
    """Take a URL."""
    return a.host


def data(a: bytes) -> int:
    """Take bytes."""
    return len(a)


def address(a: Address) -> str:
    """Take a model."""
    return a.street


def person(a: Person, b: Person | None = None) -> Person:
    """Take nested models."""
    return b or a


def closed(a: Closed) -> int:
    """Take a model without further fields."""
    return a.x


def tree(a: Tree) -> int:
    """Take a recursive model."""
    return a.value + sum(tree(kid) for kid in a.kids)


def people(a: list[Person]) -> list[str]:
    """Take a list of models."""
    return [one.name for one in a]


def by_name(a: dict[str, Point]) -> int:
    """Take an object of dataclasses."""
    return sum(point.x for point in a.values())


def pet(a: Annotated[Cat | Dog, Field(discriminator="kind")]) -> str:
    """Take a tagged union."""
    return a.kind


def point(a: Point) -> int:
    """Take a dataclass."""
    return a.x + a.y


def line(a: Line) -> bool:
    """Take a nested dataclass."""
    return a.end is None


def movie(a: Movie) -> str:
    """Take a TypedDict."""
    return a["title"]


def named_pair(a: Pair) -> str:
    """Take a NamedTuple."""
    return f"{a.left}{a.right}"


def bounded(a: Annotated[int, Field(ge=1, le=9, description="one digit")]) -> int:
    """Take a digit."""
    return a


def positive(a: PositiveInt) -> int:
    """Take a positive integer."""
    return a


def pattern(a: Annotated[str, StringConstraints(pattern="^[a-z]+$", max_length=5)]) -> str:
    """Take lower case."""
    return a


def short_list(a: Annotated[list[int], Field(min_length=1, max_length=3)]) -> int:
    """Take a short list."""
    return len(a)


def field_default(a: int = Field(default=3, gt=0, description="how many")) -> int:
    """Take a field for a default."""
    return a


def field_required(a: int = Field(description="how many")) -> int:
    """Take a field that has no default."""
    return a


def field_factory(a: list[int] = Field(default_factory=lambda: [7])) -> list[int]:  # noqa: B008
    """Take a field with a factory."""
    return a


def aliased(a: Annotated[int, Field(alias="theA")]) -> int:
    """Take a field by another name."""
    return a


def said(a: Annotated[str, "the text to say"], b: Annotated[int, Doc("how often")] = 1) -> str:
    """Take annotations that are words."""
    return a * b


def trimmed(a: Annotated[str, BeforeValidator(str.strip)]) -> str:
    """Take text through a validator."""
    return a


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

INT = {"type": "integer"}
A_DAY = "2026-02-03"
AN_ID = "00000000-0000-0000-0000-000000000005"
NOT_INT = [{"a": "1"}, {"a": True}, {"a": 1.5}, {"a": None}, {"a": [1]}, {}, {"a": 1, "z": 1}]

CASES: list[Case] = [
    (nothing, {"properties": {}, "required": None}, [({}, "done")], [{"a": 1}, [], None, "", "{}", 1]),
    (text, {"a": {"type": "string"}}, [({"a": "ü"}, "ü"), ({"a": ""}, "")], [{"a": 1}, {"a": None}, {}]),
    (integer, {"a": INT}, [({"a": 5}, 5), ({"a": 5.0}, 5), ({"a": 2**70}, 2**70)], NOT_INT),
    (number, {"a": {"type": "number"}}, [({"a": 5}, 5.0), ({"a": 0.5}, 0.5)], [{"a": "1"}, {"a": True}]),
    (flag, {"a": {"type": "boolean"}}, [({"a": True}, True)], [{"a": 1}, {"a": "true"}, {"a": None}]),
    (null, {"a": {"type": "null"}}, [({"a": None}, None)], [{"a": 0}, {}]),
    (
        several,
        {"c": {"type": "number", "default": 1.5}, "required": ["a", "b"]},
        [({"a": 1, "b": "x"}, "1 x 1.5 False"), ({"b": "x", "a": 1, "d": True}, "1 x 1.5 True")],
        [{"a": 1}, {"b": "x"}, {"a": 1, "b": "x", "e": 1}, {"a": 1, "b": "x", "c": None}],
    ),
    (
        optional,
        {"a": {"anyOf": [INT, {"type": "null"}], "default": None}, "required": None},
        [({}, None), ({"a": None}, None), ({"a": 3}, 3), ({"a": 3.0}, 3)],
        [{"a": "3"}],
    ),
    (old_optional, {"required": None}, [({}, None), ({"a": "x"}, "x")], [{"a": 3}]),
    (nullable, {"required": ["a"]}, [({"a": None}, None), ({"a": 3}, 3)], [{}, {"a": "x"}]),
    (
        union,
        {"a": {"anyOf": [INT, {"type": "string"}]}},
        [({"a": 1}, "int"), ({"a": "1"}, "str")],
        [{"a": []}],
    ),
    (old_union, {}, [({"a": 1}, "int"), ({"a": ["x"]}, "list")], [{"a": "x"}, {"a": [1]}]),
    (literal, {"a": {"enum": ["x", "y"], "type": "string"}}, [({"a": "y"}, "y")], [{"a": "z"}, {"a": "X"}]),
    (
        literal_numbers,
        {"a": {"enum": [1, 2], "type": "integer", "default": 1}},
        [({}, 1), ({"a": 2}, 2), ({"a": 2.0}, 2)],
        [{"a": 3}, {"a": True}, {"a": "1"}],
    ),
    (
        literal_mixed,
        {},
        [({"a": "auto"}, "auto"), ({"a": 0}, 0), ({"a": None}, None)],
        [{"a": 1}, {"a": False}],
    ),
    (
        colour,
        {"a": {"enum": ["red", "blue"], "type": "string"}},
        [({"a": "red"}, "RED")],
        [{"a": "RED"}, {"a": 1}],
    ),
    (
        level,
        {"a": {"enum": [1, 2], "type": "integer", "default": 1}},
        [({}, "LOW"), ({"a": 2}, "HIGH"), ({"a": 2.0}, "HIGH")],
        [{"a": 3}, {"a": "LOW"}, {"a": True}],
    ),
    (
        unit,
        {"a": {"enum": ["celsius", "fahrenheit"], "type": "string", "default": "celsius"}},
        [({}, "C")],
        [{"a": "C"}],
    ),
    (
        words,
        {"a": {"type": "array", "items": {"type": "string"}}},
        [({"a": []}, 0)],
        [{"a": [1]}, {"a": "x"}],
    ),
    (bare_list, {"a": {"type": "array", "items": {}}}, [({"a": [1, "x"]}, 2)], [{"a": {}}, {"a": "x"}]),
    (
        counts,
        {"a": {"type": "object", "additionalProperties": INT}},
        [({"a": {"x": 1, "y": 2}}, 3)],
        [{"a": {"x": "1"}}, {"a": []}],
    ),
    (bare_dict, {}, [({"a": {"x": [1]}}, ["x"])], [{"a": []}]),
    (int_keys, {}, [({"a": {"1": "x"}}, [1])], [{"a": {"x": "x"}}]),
    (pair, {}, [({"a": [1, "x"]}, "1x")], [{"a": [1]}, {"a": ["x", 1]}, {"a": [1, "x", 2]}]),
    (many, {}, [({"a": [1, 2]}, 3), ({"a": []}, 0)], [{"a": ["x"]}, {"a": 1}]),
    (
        unique,
        {"a": {"type": "array", "items": INT, "uniqueItems": True}},
        [({"a": [1, 2]}, 2)],
        [{"a": ["x"]}],
    ),
    (frozen, {}, [({"a": ["y", "x"]}, ["x", "y"])], [{"a": [1]}]),
    (sequence, {"a": {"type": "array", "items": INT}}, [({"a": [1, 2]}, 3)], [{"a": ["x"]}, {"a": "12"}]),
    (iterable, {"a": {"type": "array", "items": INT}}, [({"a": [1, 2]}, 3)], [{"a": ["x"]}, {"a": 1}]),
    (mapping, {}, [({"a": {"x": 1}}, 1.0)], [{"a": {"x": "y"}}, {"a": [1]}]),
    (nested_lists, {}, [({"a": [[1], [2, 3]]}, 6)], [{"a": [1]}, {"a": [["x"]]}]),
    (queue, {}, [({"a": [4, 5]}, 4)], [{"a": ["x"]}]),
    (anything, {"a": {}}, [({"a": {"x": [None]}}, {"x": [None]}), ({"a": 1}, 1)], [{}, {"a": 1, "b": 1}]),
    (whatever, {"required": ["a"]}, [({"a": 1}, "int"), ({"a": [1]}, "list")], [{}]),
    (
        day,
        {"a": {"type": "string", "format": "date"}},
        [({"a": A_DAY}, "03.02.2026")],
        [{"a": "3.2.2026"}, {"a": 5}],
    ),
    (
        moment,
        {"a": {"type": "string", "format": "date-time"}},
        [({"a": f"{A_DAY}T04:05:06Z"}, 2026), ({"a": f"{A_DAY}T04:05:06+02:00"}, 2026)],
        [{"a": "now"}, {"a": 1}],
    ),
    (clock, {"a": {"type": "string", "format": "time"}}, [({"a": "04:05:06"}, 4)], [{"a": "25:00"}]),
    (duration, {"a": {"type": "string", "format": "duration"}}, [({"a": "PT90S"}, 90.0)], [{"a": "long"}]),
    (
        money,
        {},
        [({"a": "1.10"}, "2.20"), ({"a": 1.1}, "2.2"), ({"a": 1}, "2")],
        [{"a": "x"}, {"a": True}, {"a": []}],
    ),
    (identity, {"a": {"type": "string", "format": "uuid"}}, [({"a": AN_ID}, 5)], [{"a": "5"}, {"a": 5}]),
    (path, {"a": {"type": "string", "format": "path"}}, [({"a": "/x/y.txt"}, "y.txt")], [{"a": 5}]),
    (url, {}, [({"a": "https://example.org/x"}, "example.org")], [{"a": "no url"}, {"a": 5}]),
    (data, {}, [({"a": "abc"}, 3)], [{"a": 5}]),
    (
        address,
        {
            "a": {
                "type": "object",
                "description": "Where somebody lives.",
                "properties": {
                    "street": {"type": "string", "description": "street and number"},
                    "zip": {"type": "integer", "default": 0},
                },
                "required": ["street"],
            }
        },
        [({"a": {"street": "High Street 1"}}, "High Street 1")],
        [{"a": {}}, {"a": {"street": 1}}, {"a": {"street": "x", "zip": "1"}}, {"a": "High Street"}],
    ),
    (
        person,
        {"$defs": None},
        [
            (
                {"a": {"name": "Ann", "home": {"street": "x"}}},
                {"name": "Ann", "home": {"street": "x", "zip": 0}, "tags": []},
            )
        ],
        [{"a": {"name": "Ann"}}, {"a": {"name": "Ann", "home": {"street": "x"}, "tags": [1]}}],
    ),
    (closed, {}, [({"a": {"x": 1}}, 1)], [{"a": {"x": 1, "y": 2}}]),
    (
        tree,
        {"a": {"$ref": "#/$defs/Tree"}},
        [({"a": {"value": 1, "kids": [{"value": 2, "kids": [{"value": 3}]}]}}, 6)],
        [{"a": {"value": 1, "kids": [{"value": "x"}]}}, {"a": {"value": 1, "kids": 2}}],
    ),
    (people, {}, [({"a": [{"name": "Ann", "home": {"street": "x"}}]}, ["Ann"])], [{"a": [{"name": "Ann"}]}]),
    (by_name, {}, [({"a": {"p": {"x": 1}, "q": {"x": 2}}}, 3)], [{"a": {"p": {"y": 1}}}]),
    (
        pet,
        {},
        [({"a": {"kind": "dog"}}, "dog"), ({"a": {"kind": "cat", "lives": 3}}, "cat")],
        [{"a": {"kind": "cow"}}, {"a": {}}],
    ),
    (
        point,
        {},
        [({"a": {"x": 1, "y": 2}}, 3), ({"a": {"x": 1}}, 1)],
        [{"a": {"y": 1}}, {"a": {"x": 1, "z": 1}}, {"a": [1, 2]}],
    ),
    (line, {}, [({"a": {"start": {"x": 1}}}, True)], [{"a": {"start": 1}}]),
    (
        movie,
        {},
        [({"a": {"title": "M"}}, "M")],
        [{"a": {"year": 1931}}, {"a": {"title": "M", "year": "1931"}}, {"a": {"title": "M", "by": "Lang"}}],
    ),
    (named_pair, {}, [({"a": [1, "x"]}, "1x"), ({"a": [1]}, "1r")], [{"a": ["x"]}, {"a": []}]),
    (
        bounded,
        {"a": {"type": "integer", "minimum": 1, "maximum": 9, "description": "one digit"}},
        [({"a": 9}, 9)],
        [{"a": 0}, {"a": 10}],
    ),
    (positive, {"a": {"type": "integer", "exclusiveMinimum": 0}}, [({"a": 1}, 1)], [{"a": 0}, {"a": -1}]),
    (
        pattern,
        {"a": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5}},
        [({"a": "abc"}, "abc")],
        [{"a": "ABC"}, {"a": "abcdef"}],
    ),
    (
        short_list,
        {"a": {"type": "array", "items": INT, "minItems": 1, "maxItems": 3}},
        [({"a": [1]}, 1)],
        [{"a": []}, {"a": [1, 2, 3, 4]}],
    ),
    (
        field_default,
        {
            "a": {"type": "integer", "default": 3, "exclusiveMinimum": 0, "description": "how many"},
            "required": None,
        },
        [({}, 3), ({"a": 1}, 1)],
        [{"a": 0}, {"a": "1"}],
    ),
    (field_required, {"required": ["a"]}, [({"a": 1}, 1)], [{}]),
    (field_factory, {"required": None}, [({}, [7]), ({"a": []}, [])], [{"a": ["x"]}]),
    (aliased, {"properties": {"theA": INT}, "required": ["theA"]}, [({"theA": 1}, 1)], [{"a": 1}, {}]),
    (
        said,
        {
            "a": {"type": "string", "description": "the text to say"},
            "b": {"type": "integer", "default": 1, "description": "how often"},
        },
        [({"a": "x", "b": 2}, "xx")],
        [{"a": 1}],
    ),
    (trimmed, {"a": {"type": "string"}}, [({"a": " x "}, "x")], [{}]),
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
    (tool(name="renamed")(integer), {"a": INT}, [({"a": 1}, 1)], NOT_INT),
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


def as_tool(item: Any) -> Tool:
    if isinstance(item, Tool):
        return item
    if isinstance(item, type):
        return item()  # type: ignore[no-any-return]  # a TypedTool
    made: FunctionTool[..., Any] = tool(item)
    return made


def name_of(case: Case) -> str:
    item = case[0]
    inner = getattr(item, "func", item)
    return str(getattr(item, "name", None) or getattr(inner, "__name__", None) or type(item).__name__)
