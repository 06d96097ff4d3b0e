"""Shape: the places in a JSON Schema that contain subschemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from wesichain.core.internal import is_array, is_object

Schema: TypeAlias = dict[str, Any] | bool
Location: TypeAlias = tuple[str | int, ...]

SINGLE = {
    *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"),
    *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
}
LISTS = {"allOf", "anyOf", "items", "oneOf", "prefixItems"}  # `items` as a list: drafts before 2020-12
MAPPINGS = {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}


def is_schema(value: object) -> bool:
    return isinstance(value, dict | bool)


def children(schema: dict[str, Any]) -> Iterator[tuple[Location, Any]]:
    """Yield the location and the value of every direct subschema."""
    for keyword, value in schema.items():
        if keyword in LISTS and is_array(value):
            yield from (((keyword, index), item) for index, item in enumerate(value))
        elif keyword in SINGLE:
            yield (keyword,), value
        elif keyword in MAPPINGS and is_object(value):
            # A dependency can also be a list of names.
            yield from (((keyword, name), item) for name, item in value.items() if not is_array(item))


def rewrite(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a copy with `change` applied to every object schema, innermost first."""
    if not is_object(schema):
        return schema
    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in LISTS and is_array(value):
            copy[keyword] = [rewrite(item, change) for item in value]
        elif keyword in MAPPINGS and is_object(value):
            copy[keyword] = {name: rewrite(item, change) for name, item in value.items()}
        elif keyword in SINGLE:
            copy[keyword] = rewrite(value, change)
        else:
            copy[keyword] = value
    return change(copy)
