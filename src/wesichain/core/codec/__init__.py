"""The codec: the one place where values become JSON and JSON becomes values."""

from .forms import form_of, forms_in
from .json import (
    JsonObject,
    JsonValue,
    check_depth,
    dump_json,
    is_array,
    is_object,
    json_changes,
    parse_json,
)
from .reading import from_json, from_plain
from .writing import forms_to_jsonl, to_json, to_jsonl, to_lines, to_plain

__all__ = [
    "JsonObject",
    "JsonValue",
    "check_depth",
    "dump_json",
    "form_of",
    "forms_in",
    "forms_to_jsonl",
    "from_json",
    "from_plain",
    "is_array",
    "is_object",
    "json_changes",
    "parse_json",
    "to_json",
    "to_jsonl",
    "to_lines",
    "to_plain",
]
