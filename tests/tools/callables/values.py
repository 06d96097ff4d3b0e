"""Values of every type that people write: what the schema says of a parameter, and which calls fit."""

import collections
import datetime as dt
import decimal
import pathlib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter
from typing import Annotated, Any, Literal, Optional, Union

from pydantic import AnyUrl, BeforeValidator, Field, PositiveInt, StringConstraints
from typing_extensions import Doc

from tests.tools.callables.models import (
    Address,
    Cat,
    Closed,
    Color,
    Dog,
    Level,
    Line,
    Movie,
    Pair,
    Person,
    Point,
    Tree,
    Unit,
)

Case = tuple[Any, dict[str, Any], list[tuple[dict[str, Any], Any]], list[Any]]

INT = {"type": "integer"}
A_DAY = "2026-02-03"
AN_ID = "00000000-0000-0000-0000-000000000005"
NOT_INT = [{"a": "1"}, {"a": True}, {"a": 1.5}, {"a": None}, {"a": [1]}, {}, {"a": 1, "z": 1}]


def takes(
    name: str,
    annotation: Any,
    give: Callable[[Any], Any] = lambda a: a,
    *,
    default: Any = Parameter.empty,
) -> Callable[..., Any]:
    """A function of one parameter `a`, annotated so."""

    def function(a: Any) -> Any:
        return give(a)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Take {name}."
    function.__annotations__ = {"a": annotation, "return": Any}
    function.__defaults__ = None if default is Parameter.empty else (default,)
    return function


def nothing() -> str:
    """Take nothing."""
    return "done"


def several(a: int, b: str, c: float = 1.5, d: bool = False) -> str:
    """Take several."""
    return f"{a} {b} {c} {d}"


def said(a: Annotated[str, "the text to say"], b: Annotated[int, Doc("how often")] = 1) -> str:
    """Take annotations that are words."""
    return a * b


def person(a: Person, b: Person | None = None) -> Person:
    """Take nested models."""
    return b or a


def total(tree: Tree) -> int:
    return tree.value + sum(map(total, tree.kids))


VALUES: list[Case] = [
    (nothing, {"properties": {}, "required": None}, [({}, "done")], [{"a": 1}, [], None, "", "{}", 1]),
    (
        takes("text", str),
        {"a": {"type": "string"}},
        [({"a": "ü"}, "ü"), ({"a": ""}, "")],
        [{"a": 1}, {"a": None}, {}],
    ),
    (takes("integer", int), {"a": INT}, [({"a": 5}, 5), ({"a": 5.0}, 5), ({"a": 2**70}, 2**70)], NOT_INT),
    (
        takes("number", float),
        {"a": {"type": "number"}},
        [({"a": 5}, 5.0), ({"a": 0.5}, 0.5)],
        [{"a": "1"}, {"a": True}],
    ),
    (
        takes("flag", bool),
        {"a": {"type": "boolean"}},
        [({"a": True}, True)],
        [{"a": 1}, {"a": "true"}, {"a": None}],
    ),
    (takes("null", None, lambda a: None), {"a": {"type": "null"}}, [({"a": None}, None)], [{"a": 0}, {}]),
    (
        several,
        {"c": {"type": "number", "default": 1.5}, "required": ["a", "b"]},
        [({"a": 1, "b": "x"}, "1 x 1.5 False"), ({"b": "x", "a": 1, "d": True}, "1 x 1.5 True")],
        [{"a": 1}, {"b": "x"}, {"a": 1, "b": "x", "e": 1}, {"a": 1, "b": "x", "c": None}],
    ),
    (
        takes("optional", int | None, default=None),
        {"a": {"anyOf": [INT, {"type": "null"}], "default": None}, "required": None},
        [({}, None), ({"a": None}, None), ({"a": 3}, 3), ({"a": 3.0}, 3)],
        [{"a": "3"}],
    ),
    (
        takes("old_optional", Optional[str], default=None),  # noqa: UP045
        {"required": None},
        [({}, None), ({"a": "x"}, "x")],
        [{"a": 3}],
    ),
    (
        takes("nullable", int | None),
        {"required": ["a"]},
        [({"a": None}, None), ({"a": 3}, 3)],
        [{}, {"a": "x"}],
    ),
    (
        takes("union", int | str, lambda a: type(a).__name__),
        {"a": {"anyOf": [INT, {"type": "string"}]}},
        [({"a": 1}, "int"), ({"a": "1"}, "str")],
        [{"a": []}],
    ),
    (
        takes("old_union", Union[int, list[str]], lambda a: type(a).__name__),  # noqa: UP007
        {},
        [({"a": 1}, "int"), ({"a": ["x"]}, "list")],
        [{"a": "x"}, {"a": [1]}],
    ),
    (
        takes("literal", Literal["x", "y"]),
        {"a": {"enum": ["x", "y"], "type": "string"}},
        [({"a": "y"}, "y")],
        [{"a": "z"}, {"a": "X"}],
    ),
    (
        takes("literal_numbers", Literal[1, 2], default=1),
        {"a": {"enum": [1, 2], "type": "integer", "default": 1}},
        [({}, 1), ({"a": 2}, 2), ({"a": 2.0}, 2)],
        [{"a": 3}, {"a": True}, {"a": "1"}],
    ),
    (
        takes("literal_mixed", Literal["auto", 0, None]),
        {},
        [({"a": "auto"}, "auto"), ({"a": 0}, 0), ({"a": None}, None)],
        [{"a": 1}, {"a": False}],
    ),
    (
        takes("colour", Color, lambda a: a.name),
        {"a": {"enum": ["red", "blue"], "type": "string"}},
        [({"a": "red"}, "RED")],
        [{"a": "RED"}, {"a": 1}],
    ),
    (
        takes("level", Level, lambda a: a.name, default=Level.LOW),
        {"a": {"enum": [1, 2], "type": "integer", "default": 1}},
        [({}, "LOW"), ({"a": 2}, "HIGH"), ({"a": 2.0}, "HIGH")],
        [{"a": 3}, {"a": "LOW"}, {"a": True}],
    ),
    (
        takes("unit", Unit, lambda a: a.name, default=Unit.C),
        {"a": {"enum": ["celsius", "fahrenheit"], "type": "string", "default": "celsius"}},
        [({}, "C")],
        [{"a": "C"}],
    ),
    (
        takes("words", list[str], lambda a: len(a)),
        {"a": {"type": "array", "items": {"type": "string"}}},
        [({"a": []}, 0)],
        [{"a": [1]}, {"a": "x"}],
    ),
    (
        takes("bare_list", list, lambda a: len(a)),
        {"a": {"type": "array", "items": {}}},
        [({"a": [1, "x"]}, 2)],
        [{"a": {}}, {"a": "x"}],
    ),
    (
        takes("counts", dict[str, int], lambda a: sum(a.values())),
        {"a": {"type": "object", "additionalProperties": INT}},
        [({"a": {"x": 1, "y": 2}}, 3)],
        [{"a": {"x": "1"}}, {"a": []}],
    ),
    (takes("bare_dict", dict, lambda a: sorted(a)), {}, [({"a": {"x": [1]}}, ["x"])], [{"a": []}]),
    (
        takes("int_keys", dict[int, str], lambda a: sorted(a)),
        {},
        [({"a": {"1": "x"}}, [1])],
        [{"a": {"x": "x"}}],
    ),
    (
        takes("pair", tuple[int, str], lambda a: f"{a[0]}{a[1]}"),
        {},
        [({"a": [1, "x"]}, "1x")],
        [{"a": [1]}, {"a": ["x", 1]}, {"a": [1, "x", 2]}],
    ),
    (
        takes("many", tuple[int, ...], lambda a: sum(a)),
        {},
        [({"a": [1, 2]}, 3), ({"a": []}, 0)],
        [{"a": ["x"]}, {"a": 1}],
    ),
    (
        takes("unique", set[int], lambda a: len(a)),
        {"a": {"type": "array", "items": INT, "uniqueItems": True}},
        [({"a": [1, 2]}, 2)],
        [{"a": ["x"]}],
    ),
    (
        takes("frozen", frozenset[str], lambda a: sorted(a)),
        {},
        [({"a": ["y", "x"]}, ["x", "y"])],
        [{"a": [1]}],
    ),
    (
        takes("sequence", Sequence[int], lambda a: sum(a)),
        {"a": {"type": "array", "items": INT}},
        [({"a": [1, 2]}, 3)],
        [{"a": ["x"]}, {"a": "12"}],
    ),
    (
        takes("iterable", Iterable[int], lambda a: sum(a)),
        {"a": {"type": "array", "items": INT}},
        [({"a": [1, 2]}, 3)],
        [{"a": ["x"]}, {"a": 1}],
    ),
    (
        takes("mapping", Mapping[str, float], lambda a: sum(a.values())),
        {},
        [({"a": {"x": 1}}, 1.0)],
        [{"a": {"x": "y"}}, {"a": [1]}],
    ),
    (
        takes("nested_lists", list[list[int]], lambda a: sum(map(sum, a))),
        {},
        [({"a": [[1], [2, 3]]}, 6)],
        [{"a": [1]}, {"a": [["x"]]}],
    ),
    (takes("queue", collections.deque[int], lambda a: a[0]), {}, [({"a": [4, 5]}, 4)], [{"a": ["x"]}]),
    (
        takes("anything", Any),
        {"a": {}},
        [({"a": {"x": [None]}}, {"x": [None]}), ({"a": 1}, 1)],
        [{}, {"a": 1, "b": 1}],
    ),
    (
        takes("whatever", object, lambda a: type(a).__name__),
        {"required": ["a"]},
        [({"a": 1}, "int"), ({"a": [1]}, "list")],
        [{}],
    ),
    (
        takes("day", dt.date, lambda a: a.strftime("%d.%m.%Y")),
        {"a": {"type": "string", "format": "date"}},
        [({"a": A_DAY}, "03.02.2026")],
        [{"a": "3.2.2026"}, {"a": 5}],
    ),
    (
        takes("moment", dt.datetime, lambda a: a.year),
        {"a": {"type": "string", "format": "date-time"}},
        [({"a": f"{A_DAY}T04:05:06Z"}, 2026), ({"a": f"{A_DAY}T04:05:06+02:00"}, 2026)],
        [{"a": "now"}, {"a": 1}],
    ),
    (
        takes("clock", dt.time, lambda a: a.hour),
        {"a": {"type": "string", "format": "time"}},
        [({"a": "04:05:06"}, 4)],
        [{"a": "25:00"}],
    ),
    (
        takes("duration", dt.timedelta, lambda a: a.total_seconds()),
        {"a": {"type": "string", "format": "duration"}},
        [({"a": "PT90S"}, 90.0)],
        [{"a": "long"}],
    ),
    (
        takes("money", decimal.Decimal, lambda a: str(a * 2)),
        {},
        [({"a": "1.10"}, "2.20"), ({"a": 1.1}, "2.2"), ({"a": 1}, "2")],
        [{"a": "x"}, {"a": True}, {"a": []}],
    ),
    (
        takes("identity", uuid.UUID, lambda a: a.int),
        {"a": {"type": "string", "format": "uuid"}},
        [({"a": AN_ID}, 5)],
        [{"a": "5"}, {"a": 5}],
    ),
    (
        takes("path", pathlib.Path, lambda a: a.name),
        {"a": {"type": "string", "format": "path"}},
        [({"a": "/x/y.txt"}, "y.txt")],
        [{"a": 5}],
    ),
    (
        takes("url", AnyUrl, lambda a: a.host),
        {},
        [({"a": "https://example.org/x"}, "example.org")],
        [{"a": "no url"}, {"a": 5}],
    ),
    (takes("data", bytes, lambda a: len(a)), {}, [({"a": "abc"}, 3)], [{"a": 5}]),
    (
        takes("address", Address, lambda a: a.street),
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
    (takes("closed", Closed, lambda a: a.x), {}, [({"a": {"x": 1}}, 1)], [{"a": {"x": 1, "y": 2}}]),
    (
        takes("tree", Tree, total),
        {"a": {"$ref": "#/$defs/Tree"}},
        [({"a": {"value": 1, "kids": [{"value": 2, "kids": [{"value": 3}]}]}}, 6)],
        [{"a": {"value": 1, "kids": [{"value": "x"}]}}, {"a": {"value": 1, "kids": 2}}],
    ),
    (
        takes("people", list[Person], lambda a: [one.name for one in a]),
        {},
        [({"a": [{"name": "Ann", "home": {"street": "x"}}]}, ["Ann"])],
        [{"a": [{"name": "Ann"}]}],
    ),
    (
        takes("by_name", dict[str, Point], lambda a: sum(point.x for point in a.values())),
        {},
        [({"a": {"p": {"x": 1}, "q": {"x": 2}}}, 3)],
        [{"a": {"p": {"y": 1}}}],
    ),
    (
        takes("pet", Annotated[Cat | Dog, Field(discriminator="kind")], lambda a: a.kind),
        {},
        [({"a": {"kind": "dog"}}, "dog"), ({"a": {"kind": "cat", "lives": 3}}, "cat")],
        [{"a": {"kind": "cow"}}, {"a": {}}],
    ),
    (
        takes("point", Point, lambda a: a.x + a.y),
        {},
        [({"a": {"x": 1, "y": 2}}, 3), ({"a": {"x": 1}}, 1)],
        [{"a": {"y": 1}}, {"a": {"x": 1, "z": 1}}, {"a": [1, 2]}],
    ),
    (
        takes("line", Line, lambda a: a.end is None),
        {},
        [({"a": {"start": {"x": 1}}}, True)],
        [{"a": {"start": 1}}],
    ),
    (
        takes("movie", Movie, lambda a: a["title"]),
        {},
        [({"a": {"title": "M"}}, "M")],
        [{"a": {"year": 1931}}, {"a": {"title": "M", "year": "1931"}}, {"a": {"title": "M", "by": "Lang"}}],
    ),
    (
        takes("named_pair", Pair, lambda a: f"{a.left}{a.right}"),
        {},
        [({"a": [1, "x"]}, "1x"), ({"a": [1]}, "1r")],
        [{"a": ["x"]}, {"a": []}],
    ),
    (
        takes("bounded", Annotated[int, Field(ge=1, le=9, description="one digit")]),
        {"a": {"type": "integer", "minimum": 1, "maximum": 9, "description": "one digit"}},
        [({"a": 9}, 9)],
        [{"a": 0}, {"a": 10}],
    ),
    (
        takes("positive", PositiveInt),
        {"a": {"type": "integer", "exclusiveMinimum": 0}},
        [({"a": 1}, 1)],
        [{"a": 0}, {"a": -1}],
    ),
    (
        takes("pattern", Annotated[str, StringConstraints(pattern="^[a-z]+$", max_length=5)]),
        {"a": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5}},
        [({"a": "abc"}, "abc")],
        [{"a": "ABC"}, {"a": "abcdef"}],
    ),
    (
        takes("short_list", Annotated[list[int], Field(min_length=1, max_length=3)], lambda a: len(a)),
        {"a": {"type": "array", "items": INT, "minItems": 1, "maxItems": 3}},
        [({"a": [1]}, 1)],
        [{"a": []}, {"a": [1, 2, 3, 4]}],
    ),
    (
        takes("field_default", int, default=Field(default=3, gt=0, description="how many")),
        {
            "a": {"type": "integer", "default": 3, "exclusiveMinimum": 0, "description": "how many"},
            "required": None,
        },
        [({}, 3), ({"a": 1}, 1)],
        [{"a": 0}, {"a": "1"}],
    ),
    (
        takes("field_required", int, default=Field(description="how many")),
        {"required": ["a"]},
        [({"a": 1}, 1)],
        [{}],
    ),
    (
        takes("field_factory", list[int], default=Field(default_factory=lambda: [7])),
        {"required": None},
        [({}, [7]), ({"a": []}, [])],
        [{"a": ["x"]}],
    ),
    (
        takes("aliased", Annotated[int, Field(alias="theA")]),
        {"properties": {"theA": INT}, "required": ["theA"]},
        [({"theA": 1}, 1)],
        [{"a": 1}, {}],
    ),
    (
        said,
        {
            "a": {"type": "string", "description": "the text to say"},
            "b": {"type": "integer", "default": 1, "description": "how often"},
        },
        [({"a": "x", "b": 2}, "xx")],
        [{"a": 1}],
    ),
    (
        takes("trimmed", Annotated[str, BeforeValidator(str.strip)]),
        {"a": {"type": "string"}},
        [({"a": " x "}, "x")],
        [{}, {"a": 5}],
    ),
]
