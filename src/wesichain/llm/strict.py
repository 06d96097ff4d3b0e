"""Strict schemas: whether a provider can hold a model to a schema, as it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from wesichain.core import is_array, is_object

# The keywords that OpenAI's strict mode takes; a schema with another one is sent without the promise.
_KEYWORDS = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref",
        "$defs", "description", "title", "pattern", "format", "minimum", "maximum", "exclusiveMinimum",
        "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
    }
)  # fmt: skip
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Whether each object of the schema is closed and requires all its fields, in keywords that are taken."""
    return schema.get("type") == "object" and _is_strict(schema)


def _is_strict(given: object) -> bool:
    if not isinstance(given, Mapping):
        return False
    schema = cast("Mapping[str, Any]", given)
    if not schema or schema.keys() - _KEYWORDS:
        return False
    kind = schema.get("type")
    properties: Any = schema.get("properties", {})
    if kind == "object":
        required: Any = schema.get("required", [])
        if schema.get("additionalProperties") is not False or set(properties) != set(required):
            return False
    if kind == "array" and "items" not in schema:
        return False
    if "format" in schema and schema["format"] not in _FORMATS:
        return False
    inner: list[object] = [*properties.values(), *_mapped(schema.get("$defs"))]
    inner += [schema["items"]] if "items" in schema else []
    options: Any = schema.get("anyOf", [])
    inner += options if is_array(options) else [None]
    return all(map(_is_strict, inner))


def _mapped(value: object) -> list[object]:
    return [*value.values()] if is_object(value) else []
