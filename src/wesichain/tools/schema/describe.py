"""Describe: simplifies JSON schemas for models, and makes signature lines for messages.

Titles are removed, since they repeat the names. References are replaced by their targets, because not every
provider supports them; recursive ones stay in `$defs`, and all of them if the schema would become too large.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wesichain.core.internal import is_array, is_object
from wesichain.tools.json_schema.issues import preview, quote, shorten
from wesichain.tools.json_schema.shape import children, rewrite

MAX_NODES = 2_000
_PREFIX = "#/$defs/"


def tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove the titles of a schema, and replace its references by their targets."""
    bare: dict[str, Any] = rewrite(schema, _without_titles)
    definitions: dict[str, Any] = bare.pop("$defs", {})
    cyclic = {name for name in definitions if name in _reachable(definitions[name], definitions)}
    try:
        inlined = _inline(bare, definitions, cyclic)
    except OverflowError:
        return bare | {"$defs": definitions}
    remaining = sorted(cyclic & _reachable(inlined, definitions))
    if remaining:
        inlined["$defs"] = {name: _inline(definitions[name], definitions, cyclic) for name in remaining}
    return inlined


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    schema.pop("title", None)
    schema.pop("discriminator", None)  # of OpenAPI; its mapping refers to $defs
    return schema


def _target(schema: dict[str, Any]) -> str | None:
    reference = schema.get("$ref")
    return reference.removeprefix(_PREFIX) if isinstance(reference, str) else None


def _reachable(schema: Any, definitions: dict[str, Any]) -> set[str]:
    """Return the names that a schema refers to, directly or indirectly."""
    names: set[str] = set()
    pending = [schema]
    while pending:
        current = pending.pop()
        if not is_object(current):
            continue
        name = _target(current)
        if name in definitions and name not in names:
            names.add(name)
            pending.append(definitions[name])
        pending.extend(child for _, child in children(current))
    return names


def _inline(schema: dict[str, Any], definitions: dict[str, Any], cyclic: set[str]) -> dict[str, Any]:
    nodes = 0

    def expand(current: dict[str, Any]) -> dict[str, Any]:
        nonlocal nodes
        nodes += 1
        if nodes > MAX_NODES:
            raise OverflowError
        name = _target(current)
        if name is None or name not in definitions or name in cyclic:
            return current
        own = {keyword: value for keyword, value in current.items() if keyword != "$ref"}
        return {**rewrite(definitions[name], expand), **own}

    inlined: dict[str, Any] = rewrite(schema, expand)
    return inlined


# --- the signature line --------------------------------------------------------------------------

_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def signature_line(name: str, schema: dict[str, Any]) -> str:
    """Return the signature in one line: `add(a: int, b: int = 2)`."""
    required = schema.get("required", ())
    parts: list[str] = []
    for field, described in schema.get("properties", {}).items():
        part = f"{shorten(field)}: {type_text(described)}"
        if field not in required:
            part += f" = {_default(described)}"
        parts.append(part)
    rest = schema.get("additionalProperties", False)
    if is_object(rest):
        parts.append(f"**: {type_text(rest)}")
    return f"{name}({', '.join(parts)})"


def _default(described: Any) -> str:
    if not is_object(described) or "default" not in described:
        return "..."
    value = described["default"]
    return "None" if value is None else str(value) if isinstance(value, bool) else preview(value)


def type_text(schema: Any, depth: int = 0) -> str:
    """Return a schema as a type hint: `list[str]`, `"celsius" | "fahrenheit"`, `{x: int}`."""
    if not is_object(schema) or depth > 4:
        return "Any"
    inner: Callable[[Any], str] = lambda child: type_text(child, depth + 1)  # noqa: E731  # a short name
    options = schema.get("anyOf") or schema.get("oneOf")
    if "const" in schema or "enum" in schema:
        return _either([_literal(value) for value in schema.get("enum", [schema.get("const")])])
    if is_array(options):
        return _either([inner(option) for option in options])
    kind: Any = schema.get("type")
    if is_array(kind):
        return _either([inner({**schema, "type": one}) for one in kind])
    if kind == "array":
        first: Any = schema.get("prefixItems")
        if is_array(first):
            return f"[{', '.join(map(inner, first))}]"
        return f"list[{inner(schema['items'])}]" if "items" in schema else "list"
    if kind == "object":
        return _object_text(schema, inner)
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2] or "Any"
    return _TYPES.get(kind, "Any") + (f" ({schema['format']})" if "format" in schema else "")


def _object_text(schema: dict[str, Any], inner: Callable[[Any], str]) -> str:
    fields: dict[str, Any] = schema.get("properties", {})
    required = schema.get("required", ())
    if fields:
        parts = [f"{name}{'' if name in required else '?'}: {inner(child)}" for name, child in fields.items()]
        return f"{{{', '.join(parts)}}}"
    values = schema.get("additionalProperties")
    return f"dict[str, {inner(values)}]" if is_object(values) else "dict"


def _either(options: list[str]) -> str:
    unique = list(dict.fromkeys(options))
    return " | ".join(unique if len(unique) <= 12 else [*unique[:12], "..."])


def _literal(value: Any) -> str:
    return quote(shorten(value)) if isinstance(value, str) else "None" if value is None else str(value)
