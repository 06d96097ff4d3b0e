"""Strict schemas: the form of a JSON schema that providers can enforce, and its inverse.

Every object is closed and all its properties are required. An optional property becomes nullable, and a null
in the value means that it was not given. Keywords that providers refuse are dropped if they only narrow the
allowed values, which are validated again afterwards. An open schema (any value, an object with free keys) has
no strict form, unless it is narrowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .codec import is_array, is_object

_KEPT = frozenset(
    {
        "$defs", "$ref", "anyOf", "const", "description", "enum", "exclusiveMaximum", "exclusiveMinimum",
        "format", "items", "maxItems", "maximum", "minItems", "minimum", "multipleOf", "pattern",
        "properties", "type",
    }
)  # fmt: skip
_FORMATS = frozenset({"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"})
_NULL = {"type": "null"}
_DEEPEST = 10  # levels of objects and lists that providers take
_MOST = 5000  # properties of one schema


class _LooseError(Exception):
    """The schema is open: it allows any value, or free keys."""


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The strict form of an object's schema, or None if it has none."""
    try:
        strict = _strict(_at_root(schema), depth=0, narrow=False)
    except _LooseError:
        return None
    is_too_large = sum(1 for _ in _properties(strict)) > _MOST
    return None if strict.get("type") != "object" or is_too_large else strict


def _at_root(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with a reference at its root resolved: the root of a strict schema must be an object."""
    named = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    target = schema.get("$defs", {}).get(named)
    return {"$defs": schema["$defs"], **target} if is_object(target) else dict(schema)


def narrowed_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A strict form of any schema: "any value" becomes "any scalar", and objects lose their free keys."""
    return _strict(dict(schema), depth=0, narrow=True)


def _strict(given: Any, *, depth: int, narrow: bool) -> dict[str, Any]:
    if not narrow and (not is_object(given) or depth > _DEEPEST):
        raise _LooseError
    given = given if is_object(given) else {}
    schema = _written_out(given)
    kept = {keyword: value for keyword, value in schema.items() if keyword in _KEPT}
    if "$defs" in kept:
        kept["$defs"] = {
            name: _strict(inner, depth=depth, narrow=narrow) for name, inner in kept["$defs"].items()
        }
    if "$ref" in kept:
        return {keyword: kept[keyword] for keyword in ("$ref", "$defs") if keyword in kept}
    if "(?" in str(kept.get("pattern", "")):  # look-around and other extensions
        del kept["pattern"]
    if kept.get("format", "date") not in _FORMATS:
        del kept["format"]
    if "anyOf" in kept:
        kept["anyOf"] = [_strict(option, depth=depth, narrow=narrow) for option in kept["anyOf"]]
    kinds = kept.get("type")
    kinds = kinds if is_array(kinds) else [kinds]
    if "object" in kinds or "properties" in kept:
        return _closed(schema, kept, depth=depth, narrow=narrow)
    if "array" in kinds:
        kept["items"] = _strict(kept.get("items"), depth=depth + 1, narrow=narrow)
    if not kept.keys() & {"type", "anyOf", "enum", "const"}:
        if not narrow:
            raise _LooseError
        kept["type"] = ["string", "number", "boolean", "null"]
    return kept


def _written_out(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without `allOf`, `oneOf` and `prefixItems`."""
    merged: dict[str, Any] = {keyword: value for keyword, value in schema.items() if keyword != "allOf"}
    for member in schema.get("allOf", ()):
        for keyword, value in member.items() if is_object(member) else ():
            if keyword == "properties":
                merged[keyword] = {**value, **merged.get(keyword, {})}
            elif keyword == "required":
                merged[keyword] = list(dict.fromkeys([*merged.get(keyword, ()), *value]))
            else:
                merged.setdefault(keyword, value)
    if "oneOf" in merged:
        merged["anyOf"] = [*merged.get("anyOf", ()), *merged["oneOf"]]
    if "prefixItems" in merged:
        size = len(merged["prefixItems"])
        merged = {"minItems": size, "maxItems": size, **merged, "items": {"anyOf": merged["prefixItems"]}}
    return merged


def _closed(schema: Mapping[str, Any], kept: dict[str, Any], *, depth: int, narrow: bool) -> dict[str, Any]:
    is_open = schema.get("additionalProperties", False) is not False or "patternProperties" in schema
    if not narrow and (is_open or not is_object(kept.get("properties"))):
        raise _LooseError
    required = schema.get("required", ())
    given = kept.get("properties", {})
    fields = {name: _strict(inner, depth=depth + 1, narrow=narrow) for name, inner in given.items()}
    return {
        **kept,
        "type": kept.get("type", "object"),
        "properties": {
            name: inner if name in required else _nullable(inner) for name, inner in fields.items()
        },
        "required": list(fields),
        "additionalProperties": False,
    }


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if _takes_null(schema):
        return schema
    kind = schema.get("type")
    if isinstance(kind, str) and not schema.keys() & {"enum", "const", "properties"}:
        return {**schema, "type": [kind, "null"]}
    described = {"description": schema["description"]} if "description" in schema else {}
    bare = {keyword: value for keyword, value in schema.items() if keyword != "description"}
    options = bare["anyOf"] if bare.keys() == {"anyOf"} else [bare]
    return {"anyOf": [*options, _NULL], **described}


def _takes_null(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    if kind == "null" or (is_array(kind) and "null" in kind):
        return True
    return any(is_object(option) and _takes_null(option) for option in schema.get("anyOf", ()))


def _properties(schema: Any) -> Iterator[str]:
    if is_object(schema):
        if is_object(schema.get("properties")):
            yield from schema["properties"]
        for inner in schema.values():
            yield from _properties(inner)
    elif is_array(schema):
        for inner in schema:
            yield from _properties(inner)


# --- the inverse ---------------------------------------------------------------------------------


def without_nulls(schema: Mapping[str, Any], value: Any) -> Any:
    """Convert a value of the strict form of a schema to a value of the schema itself.

    A null for an optional property is left out; everything else is unchanged.
    """
    return _without_nulls(schema, value, schema)


def _without_nulls(given: Any, value: Any, root: Mapping[str, Any]) -> Any:
    if not is_object(value) and not is_array(value):
        return value
    schema = _meant(given, value, root)
    if not is_object(value):
        return [_without_nulls(schema.get("items"), item, root) for item in value]
    fields, required = schema.get("properties"), schema.get("required", ())
    if not is_object(fields):
        return value
    return {
        name: _without_nulls(fields.get(name), inner, root)
        for name, inner in value.items()
        if not (inner is None and name in fields and name not in required)
    }


def _meant(
    given: Any, value: Any, root: Mapping[str, Any], above: frozenset[str] = frozenset()
) -> Mapping[str, Any]:
    """The schema of a list or an object: the one that fits, if there are alternatives.

    `above` are the names of the references that led here. A reference to one of them has no end.
    """
    if not is_object(given):
        return {}
    schema = _written_out(given)
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        if name in above:
            return {}
        named = root if name == "#" else root.get("$defs", {}).get(name)
        return _meant(named, value, root, above | {name})
    options = [_meant(option, value, root, above) for option in schema.get("anyOf", ())]
    fitting = [option for option in options if _fits(option, value)]
    if options:
        return fitting[0] if fitting else {}
    return schema


def _fits(schema: Mapping[str, Any], value: Any) -> bool:
    if is_array(value):
        return "items" in schema
    fields = schema.get("properties")
    if not is_object(fields) or not is_object(value) or value.keys() - fields.keys():
        return False
    named = {name: field["const"] for name, field in fields.items() if is_object(field) and "const" in field}
    return all(name in value for name in schema.get("required", ())) and all(
        value.get(name, const) == const for name, const in named.items()
    )
