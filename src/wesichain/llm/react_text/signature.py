"""Tool signatures: a short description for the prompt, and the arguments for an input without names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from wesichain.core import JsonValue, ToolSpec
from wesichain.core.internal import dump_json, is_array, is_object, parse_json
from wesichain.errors import CodecError

from .inputs import is_nothing
from .parsed import TextCall

_MAX_DEPTH = 3


def describe(spec: ToolSpec) -> str:
    """`search: Find pages.` and its arguments, such as `{"query": string, "limit"?: integer = 5}`."""
    text = f"{spec.name}: {_one_line(spec.description)}".rstrip(": ")
    return f"{text}\n  arguments: {describe_schema(spec.parameters)}"


def describe_schema(schema: Mapping[str, Any]) -> str:
    """A JSON schema in a short form that small models can read."""
    return _type(schema, schema.get("$defs") or {}, 0)


class WrongInputError(Exception):
    """An input that is not valid for its tool; the message says what to write."""


def fit(spec: ToolSpec, call: TextCall) -> JsonValue:
    """The arguments of a call. An input that is not an object is the value of the tool's only parameter.

    This is its only parameter or, if there are several, the only required one. A text parameter gets the
    input as it was written: `1.10` stays `1.10`. Raises `WrongInputError` for an empty input ("None", "N/A",
    empty quotes) of a required parameter, and for text that names a parameter (`path=/a`, `path: /a`).
    """
    args = call.args
    if call.is_raw and is_object(args):
        return {key: _typed(value, spec, key) for key, value in args.items()}
    if is_object(args) and args:
        return args
    properties: dict[str, Any] = spec.parameters.get("properties") or {}
    required: list[str] = list(spec.parameters.get("required") or ())
    if is_nothing(call.input):
        if not required:
            return {}
        if not is_object(args):
            needed = ", ".join(map(repr, required))
            raise WrongInputError(
                f"the input of {spec.name!r} is empty, and it needs {needed}; {_write(spec)}"
            )
    if call.is_bare and not properties:
        if not spec.pure:
            raise WrongInputError(f"{spec.name!r} takes no input; write Action Input: {{}}")
        return {}
    if is_object(args) or not properties:
        return args
    known = map(str.casefold, properties)
    if isinstance(args, str) and (named := _NAMED.match(args)) and named[1].casefold() in known:
        raise WrongInputError(f"the input of {spec.name!r} names a parameter; {_write(spec)}")
    names = list(properties) if len(properties) == 1 else required
    if len(names) != 1:
        return args
    name = names[0]
    if not takes_text(spec, name):
        return args if isinstance(args, str) else {name: args}
    return {name: args if isinstance(args, str) or is_array(args) else call.input}


_NAMED = re.compile(r"[\s`*\"'(\[{-]*+([A-Za-z_]\w*+)[`*\"']*+\s*+(?:=(?!=)|:(?!//))")


def _write(spec: ToolSpec) -> str:
    return f"write Action Input: {describe_schema(spec.parameters)}"


def _typed(value: JsonValue, spec: ToolSpec, name: str) -> JsonValue:
    """A value that was written as a string, parsed as JSON unless its parameter takes a string."""
    if not isinstance(value, str) or takes_text(spec, name):
        return value
    try:
        parsed: JsonValue = parse_json(value)
    except CodecError:
        return value
    return parsed


def takes_text(spec: ToolSpec, name: str) -> bool:
    """Whether a parameter of the tool may be a string."""
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
    """The schema behind a local reference; `{}` if it is not a schema."""
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
