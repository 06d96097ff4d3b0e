"""Shape: where a JSON Schema holds further schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from wesichain.core.internal import is_array, is_object

Schema: TypeAlias = dict[str, Any] | bool
Location: TypeAlias = tuple[str | int, ...]

ONE = {
    *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"),
    *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
}
SEVERAL = {"allOf", "anyOf", "items", "oneOf", "prefixItems"}  # `items` as a list: before 2020-12
NAMED = {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}


def is_schema(value: object) -> bool:
    return isinstance(value, dict | bool)


def children(schema: dict[str, Any]) -> Iterator[tuple[Location, Any]]:
    """Every place directly inside where a schema should be, with what is there."""
    for keyword, value in schema.items():
        if keyword in SEVERAL and is_array(value):
            yield from (((keyword, index), item) for index, item in enumerate(value))
        elif keyword in ONE:
            yield (keyword,), value
        elif keyword in NAMED and is_object(value):
            # A dependency may also be a list of names.
            yield from (((keyword, name), item) for name, item in value.items() if not is_array(item))


def rewrite(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A copy in which every object schema, innermost first, is what `change` makes of it."""
    if not is_object(schema):
        return schema
    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in SEVERAL and is_array(value):
            copy[keyword] = [rewrite(item, change) for item in value]
        elif keyword in NAMED and is_object(value):
            copy[keyword] = {name: rewrite(item, change) for name, item in value.items()}
        elif keyword in ONE:
            copy[keyword] = rewrite(value, change)
        else:
            copy[keyword] = value
    return change(copy)
