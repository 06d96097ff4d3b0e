"""What the schemas of these functions say, and which calls fit."""

from tests.tools.callables.values import *

Case = tuple[Any, dict[str, Any], list[tuple[dict[str, Any], Any]], list[Any]]

INT = {"type": "integer"}
A_DAY = "2026-02-03"
AN_ID = "00000000-0000-0000-0000-000000000005"
NOT_INT = [{"a": "1"}, {"a": True}, {"a": 1.5}, {"a": None}, {"a": [1]}, {}, {"a": 1, "z": 1}]

VALUES: list[Case] = [
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
]
