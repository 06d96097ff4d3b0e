"""Strict: a schema in the form that OpenAI's strict mode takes.

Every object is closed and all its properties are required; one that was optional becomes nullable,
and a null sent for it counts as absent. Keywords that strict mode refuses are dropped: the tool's own
check still knows them. What strict mode cannot say (free-form objects, any value) loses its freedom.
"""

from __future__ import annotations

from typing import Any

from wesichain.core import is_array, is_object
from wesichain.tools.json_schema import rewrite

_KEPT = {
    *("$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "exclusiveMaximum"),
    *("exclusiveMinimum", "format", "items", "maxItems", "maximum", "minItems", "minimum", "multipleOf"),
    *("pattern", "properties", "required", "type"),
}
_FORMATS = {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
_NULL = {"type": "null"}


def strict_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The strict form of an object schema."""
    strict: dict[str, Any] = rewrite(schema, _strict)
    return strict


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    schema = _merged(schema)
    if "oneOf" in schema:
        schema["anyOf"] = [*schema.get("anyOf", ()), *schema["oneOf"]]
    if "prefixItems" in schema:
        size = len(schema["prefixItems"])
        schema = {"items": {"anyOf": schema["prefixItems"]}, "minItems": size, "maxItems": size, **schema}
        schema["items"] = {"anyOf": schema["prefixItems"]}
    kept = {keyword: value for keyword, value in schema.items() if keyword in _KEPT}
    if "(?" in kept.get("pattern", ""):  # look-around and its kin
        del kept["pattern"]
    if kept.get("format", "date") not in _FORMATS:
        del kept["format"]
    if "$ref" in kept:
        return {"$ref": kept["$ref"], **({"$defs": kept["$defs"]} if "$defs" in kept else {})}
    if kept.get("type") == "object" or "properties" in kept:
        return _closed(kept)
    if not kept.keys() & {"type", "anyOf", "enum", "const"}:
        kept["type"] = ["string", "number", "boolean", "null"]
    return kept


def _merged(schema: dict[str, Any]) -> dict[str, Any]:
    """`allOf` written out: fields and demands of its members together."""
    merged: dict[str, Any] = {keyword: value for keyword, value in schema.items() if keyword != "allOf"}
    for member in schema.get("allOf", ()):
        for keyword, value in member.items() if is_object(member) else ():
            if keyword == "properties":
                merged[keyword] = {**value, **merged.get(keyword, {})}
            elif keyword == "required":
                merged[keyword] = list(dict.fromkeys([*merged.get(keyword, ()), *value]))
            else:
                merged.setdefault(keyword, value)
    return merged


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = schema.get("properties", {})
    required = schema.get("required", ())
    return {
        **schema,
        "properties": {
            name: field if name in required else _nullable(field) for name, field in fields.items()
        },
        "required": list(fields),
        "additionalProperties": False,
    }


def _nullable(schema: Any) -> Any:
    if not is_object(schema) or _takes_null(schema):
        return schema
    kind = schema.get("type")
    if isinstance(kind, str) and not schema.keys() & {"enum", "const", "properties"}:
        return {**schema, "type": [kind, "null"]}
    described = {"description": schema["description"]} if "description" in schema else {}
    bare = {keyword: value for keyword, value in schema.items() if keyword != "description"}
    options = bare["anyOf"] if bare.keys() == {"anyOf"} else [bare]
    return {"anyOf": [*options, _NULL], **described}


def _takes_null(schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    if kind == "null" or (is_array(kind) and "null" in kind):
        return True
    return any(is_object(option) and _takes_null(option) for option in schema.get("anyOf", ()))
