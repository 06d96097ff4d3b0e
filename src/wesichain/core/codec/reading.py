"""Reading values from JSON, strictly, with validators of pydantic-core that are cached by type.

Unknown fields, wrong types and anything that `parse_json` refuses raise `CodecError` with the path:
`messages[2].role: expected one of system, user, assistant, tool, got str 'boss'`.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import EnumType
from functools import cache, partial
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from wesichain.core.content import MEDIA, BlobReader
from wesichain.errors import CodecError, WesichainError

from .json import JsonValue, is_array, is_object, parse_json

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator, ValidationError

T = TypeVar("T")
Schema = dict[str, Any]  # as pydantic_core.core_schema describes it


@overload
def from_json(type: type[T], text: str | bytes, *, blobs: BlobReader | None = None) -> T: ...
@overload
def from_json(type: Any, text: str | bytes, *, blobs: BlobReader | None = None) -> Any: ...
def from_json(type: Any, text: str | bytes, *, blobs: BlobReader | None = None) -> Any:
    """Read a value of the given type, which may be a union such as `ReActStep`.

    Bytes of parts that are stored separately come from `blobs`; if they are missing, the hash stays.
    """
    return from_plain(type, parse_json(text), blobs=blobs)


@overload
def from_plain(type: type[T], data: object, *, blobs: BlobReader | None = None) -> T: ...
@overload
def from_plain(type: Any, data: object, *, blobs: BlobReader | None = None) -> Any: ...
def from_plain(type: Any, data: object, *, blobs: BlobReader | None = None) -> Any:
    """Read a value of the given type from parsed JSON."""
    from pydantic_core import ValidationError

    try:
        return _validator(type).validate_python(data, context=blobs)
    except ValidationError as error:
        raise CodecError(_complaint(error, type, data)) from error
    except CodecError:
        raise
    except WesichainError as error:  # raised by `__post_init__` of a value
        raise CodecError(str(error)) from error
    except RecursionError:
        raise CodecError("the data nests too deeply to be read") from None


@cache
def _validator(type_: Any) -> SchemaValidator:
    from pydantic_core import SchemaValidator

    schema: Any = _schema(type_)
    return SchemaValidator(schema)


# --- types ---------------------------------------------------------------------------------------

_SCALARS: dict[Any, Schema] = {
    **{kind: {"type": kind.__name__, "strict": True} for kind in (str, bool, int, float)},
    type(None): {"type": "none"},
    Any: {"type": "any"},
    JsonValue: {"type": "any"},
}


def _schema(type_: Any) -> Schema:
    origin, args = get_origin(type_), get_args(type_)
    if type_ in _SCALARS:
        return _SCALARS[type_]
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is Literal:
        return {"type": "literal", "expected": list(args)}
    if origin is list:
        return {"type": "list", "items_schema": _schema(args[0])}
    if origin in (tuple, Sequence):
        return {"type": "tuple", "items_schema": [_schema(args[0])], "variadic_item_index": 0}
    if origin in (dict, Mapping):
        return {"type": "dict", "keys_schema": _SCALARS[str], "values_schema": _schema(args[1])}
    cls: Any = origin or type_
    if isinstance(cls, EnumType):
        return {"type": "enum", "cls": cls, "members": list(cls)}
    if hasattr(cls, "from_plain"):
        return _portable(cls)
    if is_dataclass(cls):
        return _record(cls)
    raise CodecError(f"{type_!r} is not a type that the codec reads")


def _union(members: tuple[Any, ...]) -> Schema:
    kinds = {kind: member for member in members if (kind := _kind_of(member)) is not None}
    if len(kinds) == len(members):
        choices = {kind: _schema(member) for kind, member in kinds.items()}
        return {"type": "tagged-union", "choices": choices, "discriminator": "kind"}
    rest = [member for member in members if member is not type(None)]
    if len(rest) < len(members) and len(rest) == len(kinds):
        return {"type": "nullable", "schema": _union(tuple(rest))}
    if len(rest) == 1:
        return {"type": "nullable", "schema": _schema(rest[0])}
    if all(member in _SCALARS or get_origin(member) is Literal for member in rest):
        scalars = [_schema(member) for member in rest]
        one: Schema = {"type": "union", "choices": scalars, "mode": "left_to_right"}
        return {"type": "nullable", "schema": one} if len(rest) < len(members) else one
    if len(members) == 2 and str in members:  # message content: a string, or parts
        other = _schema(next(member for member in members if member is not str))
        return {
            "type": "tagged-union",
            "choices": {"text": _SCALARS[str], "parts": other},
            "discriminator": _form,
        }
    raise CodecError(f"{' | '.join(map(str, members))} is not a union that the codec reads")


def _form(data: object) -> str:
    return "parts" if is_array(data) else "text"


def _kind_of(cls: Any) -> str | None:
    kind = getattr(cls, "kind", None)
    return kind if isinstance(kind, str) else None


def _portable(cls: Any) -> Schema:
    def read(data: Any, info: Any) -> Any:
        if not is_object(data):
            raise CodecError(f"expected a {cls.__name__}, got {preview(data)}")
        return (
            cls.from_plain_with_blobs(data, info.context) if issubclass(cls, MEDIA) else cls.from_plain(data)
        )

    return {"type": "function-plain", "function": {"type": "with-info", "function": read}}


def _record(cls: Any) -> Schema:
    hints, kind = get_type_hints(cls), _kind_of(cls)
    parts: list[Schema] = []
    for field in fields(cls):
        schema = _schema(hints[field.name])
        for default in ("default", "default_factory"):
            if (given := getattr(field, default)) is not MISSING:
                schema = {"type": "default", "schema": schema, default: given}
        parts.append({"type": "dataclass-field", "name": field.name, "schema": schema})
    if kind is not None:  # checked, but not a field of the value
        is_kind = {"type": "default", "schema": {"type": "literal", "expected": [kind]}, "default": kind}
        parts.append({"type": "dataclass-field", "name": "kind", "schema": is_kind, "init_only": True})
    arguments: Schema = {"type": "dataclass-args", "dataclass_name": cls.__name__, "fields": parts}
    arguments |= {"extra_behavior": "forbid", "collect_init_only": True}
    made: Schema = {"type": "no-info", "function": partial(_from_fields, cls)}
    return {"type": "function-after", "function": made, "schema": arguments}


def _from_fields(cls: Any, read: tuple[dict[str, Any], object]) -> Any:
    """Create the value; `read` has its fields, and the kind, which was only checked."""
    return cls(**read[0])


# --- errors --------------------------------------------------------------------------------------

_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "none_required": "null",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "dataclass_type": "a {class_name}",
    "enum": "one of {expected}",
    "literal_error": "one of {expected}",
    "union_tag_invalid": "an object whose 'kind' is one of {expected_tags}",
    "union_tag_not_found": "an object with its 'kind'",
    "unexpected_keyword_argument": "only the fields of its kind",
}


def _complaint(error: ValidationError, type_: Any, data: Any) -> str:
    """The message for the first error."""
    first = error.errors()[0]
    kind, context, path = first["type"], first.get("ctx", {}), ""
    for step in first["loc"]:  # it also has the members of unions that were tried
        if isinstance(step, int) and is_array(data):
            path, data = f"{path}[{step}]", data[step]
        elif is_object(data) and step in data:
            path, data = f"{path}.{step}", data[step]
    place = path.lstrip(".")
    if kind in ("missing", "value_error"):
        problem = f"the field {first['loc'][-1]!r} is missing" if kind == "missing" else context["error"]
        return f"{place or getattr(type_, '__name__', 'the value')}: {problem}"
    names = {name: str(item).replace("'", "").replace(" or ", ", ") for name, item in context.items()}
    expected = _EXPECTED[kind].format_map(names) if kind in _EXPECTED else first["msg"]
    return f"{place or 'the value'}: expected {expected}, got {preview(data)}"


def preview(data: object) -> str:
    """The type and the first characters of some data."""
    return "null" if data is None else f"{type(data).__name__} {str(data)[:60]!r}"
