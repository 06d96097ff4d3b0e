"""A table of JSON Schema's keywords: values that follow each schema, and values that do not.

The form is that of the corpus `json_schema_2020.jsonl`: schema, data, and whether the data is valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]

NODE = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}

# keyword: schema, valid values, invalid values
TABLE: dict[str, list[tuple[Any, list[Any], list[Any]]]] = {
    "type": [
        ({"type": "integer"}, [0, -7, 5.0], ["5", 5.5, True, None, [], {}]),
        ({"type": "number"}, [0, 2.5], ["2.5", False, None]),
        ({"type": "string"}, ["", "a"], [1, None, ["a"]]),
        ({"type": "boolean"}, [True, False], [0, 1, "true", None]),
        ({"type": "null"}, [None], [0, "", False]),
        ({"type": "array"}, [[], [1, "a"]], [{}, "[]"]),
        ({"type": "object"}, [{}, {"a": 1}], [[], "{}"]),
        ({"type": ["string", "null"]}, ["a", None], [1, []]),
    ],
    "boolean schema": [(True, [1, None, {}], []), (False, [], [1, None, {}])],
    "enum": [({"enum": ["red", 3, None, [1]]}, ["red", 3, 3.0, None, [1]], ["blue", 4, [2], False])],
    "const": [
        ({"const": {"a": [1, 2]}}, [{"a": [1, 2]}], [{"a": [2, 1]}, {"a": [1, 2], "b": 0}]),
        ({"const": 0}, [0, 0.0], [False, "0"]),
        ({"const": False}, [False], [0, 0.0]),
    ],
    "minimum": [({"minimum": 2}, [2, 2.5, "not a number"], [1, 1.99])],
    "maximum": [({"maximum": 2}, [2, -1, None], [2.01, 3])],
    "exclusiveMinimum": [({"exclusiveMinimum": 2}, [2.1], [2, 1])],
    "exclusiveMaximum": [({"exclusiveMaximum": 2}, [1.9], [2, 3])],
    "multipleOf": [({"multipleOf": 3}, [0, 9, -3], [10, 1.5]), ({"multipleOf": 0.25}, [0.75, 2], [0.3])],
    "minLength": [({"minLength": 2}, ["ab", "ää", 1], ["a", "🌊"])],
    "maxLength": [({"maxLength": 2}, ["", "🌊🌊"], ["abc"])],
    "pattern": [({"pattern": "^[a-z]+\\d?$"}, ["abc", "a1", 7], ["A", "a12", ""]), ({"pattern": "b"}, ["abc"], ["ac"])],
    "items": [({"items": {"type": "integer"}}, [[], [1, 2], "no array"], [[1, "2"]])],
    "prefixItems": [
        ({"prefixItems": [{"type": "integer"}, {"type": "string"}]}, [[1, "a"], [1], [1, "a", None]], [["a"], [1, 2]]),
        ({"prefixItems": [{"type": "integer"}], "items": False}, [[1], []], [[1, 2]]),
    ],
    "contains": [
        ({"contains": {"const": 5}}, [[1, 5], 5], [[], [1]]),
        ({"contains": {"const": 5}, "minContains": 2, "maxContains": 3}, [[5, 5], [5, 5, 5, 1]], [[5], [5, 5, 5, 5]]),
        ({"contains": {"const": 5}, "minContains": 0}, [[], [1]], []),
    ],
    "minItems": [({"minItems": 1}, [[1], "x"], [[]])],
    "maxItems": [({"maxItems": 1}, [[], [1]], [[1, 2]])],
    "uniqueItems": [({"uniqueItems": True}, [[1, 2], [1, True], [{"a": 1}, {"a": 2}]], [[1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]])],
    "properties": [({"properties": {"a": {"type": "integer"}, "b": False}}, [{}, {"a": 1}, {"c": 1}, []], [{"a": "1"}, {"b": 1}])],
    "required": [({"required": ["a", "b"]}, [{"a": None, "b": 0}, []], [{"a": 1}, {}])],
    "additionalProperties": [
        ({"properties": {"a": {}}, "additionalProperties": False}, [{"a": 1}, {}], [{"a": 1, "b": 1}]),
        ({"patternProperties": {"^x": {}}, "additionalProperties": {"type": "null"}}, [{"xy": 1, "b": None}], [{"b": 1}]),
    ],
    "patternProperties": [({"patternProperties": {"^n_": {"type": "number"}}}, [{"n_a": 1, "b": "x"}], [{"n_a": "1"}])],
    "propertyNames": [({"propertyNames": {"maxLength": 2}}, [{}, {"ab": 1}], [{"abc": 1}])],
    "minProperties": [({"minProperties": 1}, [{"a": 1}, "x"], [{}])],
    "maxProperties": [({"maxProperties": 1}, [{}, {"a": 1}], [{"a": 1, "b": 2}])],
    "dependentRequired": [({"dependentRequired": {"a": ["b"]}}, [{"a": 1, "b": 2}, {"b": 1}], [{"a": 1}])],
    "dependentSchemas": [({"dependentSchemas": {"a": {"required": ["b"]}}}, [{"a": 1, "b": 2}, {}], [{"a": 1}])],
    "allOf": [({"allOf": [{"minimum": 2}, {"maximum": 4}]}, [2, 3], [1, 5])],
    "anyOf": [({"anyOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 2.5, "x"], [1.5])],
    "oneOf": [({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 2.5], [3, 1.5])],
    "not": [({"not": {"type": "string"}}, [1, None], ["a"])],
    "if": [
        ({"if": {"properties": {"k": {"const": "ship"}}, "required": ["k"]}, "then": {"required": ["tons"]}, "else": {"required": ["plate"]}},
         [{"k": "ship", "tons": 1}, {"k": "cart", "plate": "x"}], [{"k": "ship"}, {"k": "cart"}]),
        ({"then": {"const": 1}}, [1, 2], []),
    ],
    "$ref": [
        ({"$ref": "#/$defs/port", "$defs": {"port": {"type": "integer", "maximum": 9}}}, [9], [10, "9"]),
        (NODE, [{}, {"next": {"next": {}}}], [{"next": 1}, {"next": {"last": {}}}]),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, [None], [0]),
        ({"$ref": "#/$defs/t", "minimum": 3, "$defs": {"t": {"type": "integer"}}}, [3], [2, "3"]),
        ({"$ref": "#mark", "$defs": {"x": {"$anchor": "mark", "type": "string"}}}, ["a"], [1]),
    ],
    "unevaluatedProperties": [
        ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, [{"a": 1}], [{"b": 1}]),
    ],
    "unevaluatedItems": [({"prefixItems": [{}], "unevaluatedItems": False}, [[1]], [[1, 2]])],
}  # fmt: skip


def rows() -> Iterator[Row]:
    for keyword, groups in TABLE.items():
        for at, (schema, valid, invalid) in enumerate(groups, 1):
            for data, is_valid in [*((one, True) for one in valid), *((one, False) for one in invalid)]:
                yield {
                    "file": keyword,
                    "group": str(at),
                    "test": repr(data),
                    "schema": schema,
                    "data": data,
                    "valid": is_valid,
                }
