"""A tool's signature: shown to the model in short, and used to name an input that came without names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wesichain.core import JsonValue, ToolSpec, dump_json, is_array, is_object

from .parsed import Parsed

_NOTHING = frozenset(
    {
        *(
            "",
            "none",
            "null",
            "nil",
            "n/a",
            "na",
            "nothing",
            "empty",
            "(none)",
            "(empty)",
            "no input",
            "undefined",
            "-",
        ),
        *(
            '""',
            "''",
            "``",
            "{}",
            "[]",
            "()",
            "<none>",
            "[none]",
            "not applicable",
            "no input needed",
            "no input required",
        ),
    }
)
_MAX_DEPTH = 3


def describe(spec: ToolSpec) -> str:
    """`search: Find pages.` and its arguments, such as `{"query": string, "limit"?: integer = 5}`."""
    text = f"{spec.name}: {_one_line(spec.description)}".rstrip(": ")
    return f"{text}\n  arguments: {describe_schema(spec.parameters)}"


def describe_schema(schema: Mapping[str, Any]) -> str:
    """A JSON schema in a form that is short and can be read by a small model."""
    return _type(schema, schema.get("$defs") or {}, 0)


class NoInputError(Exception):
    """An action without a value for what its tool requires; says what to write."""


def fit(spec: ToolSpec, parsed: Parsed) -> JsonValue:
    """The arguments of an action. An input that is no object goes to the tool's only parameter.

    The only one there is, or else the only one that is required. A text parameter takes the input as
    it was written: `1.10` stays `1.10`. An input that says that there is none ("None", "N/A", empty quotes)
    is no value for what is required: `NoInputError`.
    """
    args = parsed.args
    if is_object(args) and args:
        return args
    properties: dict[str, Any] = spec.parameters.get("properties") or {}
    required: list[str] = list(spec.parameters.get("required") or ())
    if is_nothing(parsed.input):
        if not required:
            return {}
        if not is_object(args):
            raise NoInputError(
                f"the input of {spec.name!r} is empty, and it needs {', '.join(map(repr, required))}; "
                f"write Action Input: {describe_schema(spec.parameters)}"
            )
    if is_object(args) or not properties:
        return args
    names = list(properties) if len(properties) == 1 else required
    if len(names) != 1:
        return args
    name = names[0]
    if not _takes_text(properties.get(name), spec.parameters.get("$defs") or {}):
        return args if isinstance(args, str) else {name: args}
    return {name: args if isinstance(args, str) or is_array(args) else parsed.input}


def is_nothing(given: str) -> bool:
    """Whether an input says that there is none."""
    text = given.strip().strip("*_ ").strip()
    return len(text) <= 24 and text.rstrip(".").strip().lower() in _NOTHING


def takes_text(spec: ToolSpec, name: str) -> bool:
    """Whether a parameter of the tool is a text, or may be one."""
    properties: dict[str, Any] = spec.parameters.get("properties") or {}
    return _takes_text(properties.get(name), spec.parameters.get("$defs") or {})


def takes_nothing(spec: ToolSpec) -> bool:
    return not spec.parameters.get("properties")


def _takes_text(schema: Any, defs: Mapping[str, Any]) -> bool:
    schema = _resolved(schema, defs)
    kinds = schema.get("type")
    return (
        kinds == "string"
        or (is_array(kinds) and "string" in kinds)
        or any(_resolved(option, defs).get("type") == "string" for option in _options(schema))
    )


def _type(schema: Any, defs: Mapping[str, Any], depth: int) -> str:
    schema = _resolved(schema, defs)
    if "enum" in schema:
        return " | ".join(map(dump_json, schema["enum"]))
    if "const" in schema:
        return dump_json(schema["const"])
    if options := _options(schema):
        return " | ".join(dict.fromkeys(_type(option, defs, depth) for option in options))
    kind = schema.get("type", "any")
    if is_array(kind):
        return " | ".join(map(str, kind))
    if kind == "array":
        return f"[{_type(schema.get('items'), defs, depth + 1)}, ...]" if depth < _MAX_DEPTH else "array"
    properties = schema.get("properties")
    if kind == "object" and is_object(properties) and depth < _MAX_DEPTH:
        required = schema.get("required") or ()
        parts = [_member(name, item, defs, depth, name in required) for name, item in properties.items()]
        return "{" + ", ".join(parts) + "}"
    return str(kind)


def _member(name: str, schema: Any, defs: Mapping[str, Any], depth: int, required: bool) -> str:
    text = f"{dump_json(name)}{'' if required else '?'}: {_type(schema, defs, depth + 1)}"
    if not is_object(schema):
        return text
    if schema.get("default") is not None:
        text += f" = {dump_json(schema['default'])}"
    about = _one_line(str(schema.get("description", "")))
    return f"{text} ({about})" if about else text


def _resolved(schema: Any, defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema behind a local reference; an empty one for what is no schema."""
    for _ in range(_MAX_DEPTH):
        if not is_object(schema) or "$ref" not in schema:
            break
        schema = defs.get(str(schema["$ref"]).removeprefix("#/$defs/"))
    return schema if is_object(schema) else {}


def _options(schema: Mapping[str, Any]) -> list[Any]:
    options = schema.get("anyOf") or schema.get("oneOf")
    return options if is_array(options) else []


def _one_line(text: str) -> str:
    return " ".join(text.split())
