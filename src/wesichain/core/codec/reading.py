"""Reading, compiled: a validator of pydantic-core for every type, made at its first value."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic_core import CoreSchema, PydanticCustomError, SchemaValidator, ValidationError, core_schema
from pydantic_core.core_schema import ValidationInfo

from wesichain.core.content import MEDIA, BlobReader
from wesichain.errors import CodecError, WesichainError

from .json import JsonValue, is_array, is_object


def read(type_: Any, data: object, blobs: BlobReader | None) -> Any:
    """A value of the type, of parsed JSON; `CodecError` says what is wrong, and where."""
    try:
        return _validator(type_).validate_python(data, context=cast("Any", blobs))
    except ValidationError as error:
        raise CodecError(_complaint(error, type_, data)) from error
    except RecursionError:
        raise CodecError("the data nests too deeply to be read") from None


@cache
def _validator(type_: Any) -> SchemaValidator:
    return SchemaValidator(_schema(type_))


# --- types ---------------------------------------------------------------------------------------

_SCALARS: dict[Any, CoreSchema] = {
    str: core_schema.str_schema(strict=True),
    bool: core_schema.bool_schema(strict=True),
    int: core_schema.int_schema(strict=True),
    float: core_schema.float_schema(strict=True),
    type(None): core_schema.none_schema(),
}


def _schema(type_: Any) -> CoreSchema:
    origin, args = get_origin(type_), get_args(type_)
    if type_ in _SCALARS:
        return _SCALARS[type_]
    if type_ is Any or type_ is JsonValue or isinstance(type_, TypeVar):
        return core_schema.any_schema()
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is Literal:
        return core_schema.literal_schema(list(args))
    if origin is list:
        return core_schema.list_schema(_schema(args[0]))
    if origin in (tuple, Sequence):
        return core_schema.tuple_schema([_schema(args[0])], variadic_item_index=0)
    if origin in (dict, Mapping):
        return core_schema.dict_schema(_SCALARS[str], _schema(args[1]))
    cls = origin or type_
    if isinstance(cls, type):
        if issubclass(cls, Enum):
            return core_schema.enum_schema(cls, list(cls))
        if hasattr(cls, "from_plain"):
            return _portable(cls)
        if is_dataclass(cls):
            return _dataclass(cls)
    raise CodecError(f"{type_!r} is not a type that the codec reads")


def _union(members: tuple[Any, ...]) -> CoreSchema:
    kinds = {kind: member for member in members if (kind := _kind_of(member)) is not None}
    if len(kinds) == len(members):
        schemas = {kind: _schema(member) for kind, member in kinds.items()}
        return core_schema.tagged_union_schema(schemas, "kind")
    rest = [member for member in members if member is not type(None)]
    if len(rest) == 1:
        return core_schema.nullable_schema(_schema(rest[0]))
    if len(rest) == 2 == len(members) and str in members:  # content: a text, or parts
        other = _schema(next(member for member in rest if member is not str))
        return core_schema.tagged_union_schema(
            {"text": _SCALARS[str], "parts": other}, lambda data: "parts" if is_array(data) else "text"
        )
    raise CodecError(f"{' | '.join(map(str, members))} is not a union that the codec reads")


def _kind_of(cls: Any) -> str | None:
    kind = getattr(cls, "kind", None)
    return kind if isinstance(kind, str) else None


def _portable(cls: Any) -> CoreSchema:
    def read(data: Any, info: ValidationInfo) -> Any:
        if not is_object(data):
            raise _unlike(f"a {cls.__name__}")
        return cls.from_kept(data, info.context) if issubclass(cls, MEDIA) else cls.from_plain(data)

    return core_schema.with_info_plain_validator_function(read)


def _dataclass(cls: Any) -> CoreSchema:
    hints, kind = get_type_hints(cls), _kind_of(cls)
    own = {field.name: field for field in fields(cls) if field.init}
    known = own.keys() if kind is None else own.keys() | {"kind"}

    def fitting(data: Any) -> Any:
        """The data, if it has no field that the class lacks; its kind is not one of those."""
        if not is_object(data):
            raise _unlike(f"a {cls.__name__}")
        for name in data.keys() - known:
            raise _unlike(f"only the fields {', '.join(own)}", at=str(name))
        if kind is None or "kind" not in data:
            return data
        if data["kind"] != kind:
            raise _unlike(repr(kind), at="kind")
        return {name: item for name, item in data.items() if name != "kind"}

    arguments = core_schema.dataclass_args_schema(
        cls.__name__, [core_schema.dataclass_field(name, _field(own[name], hints[name])) for name in own]
    )
    schema: CoreSchema = core_schema.dataclass_schema(cls, arguments, list(own), slots=True)
    if hasattr(cls, "__post_init__"):
        schema = core_schema.no_info_after_validator_function(_checked, schema)
    return core_schema.no_info_before_validator_function(fitting, schema)


def _field(field: Field[Any], hint: Any) -> CoreSchema:
    if field.default is not MISSING:
        return core_schema.with_default_schema(_schema(hint), default=field.default)
    if field.default_factory is not MISSING:
        return core_schema.with_default_schema(_schema(hint), default_factory=field.default_factory)
    return _schema(hint)


def _checked(value: Any) -> Any:
    try:
        value.__post_init__()
    except WesichainError as error:
        raise ValueError(str(error)) from error
    return value


# --- errors --------------------------------------------------------------------------------------


def _unlike(expected: str, at: str = "") -> PydanticCustomError:
    return PydanticCustomError("unlike", "{expected}", {"expected": expected, "at": at})


_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "none_required": "null",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
}


def _complaint(error: ValidationError, type_: Any, data: object) -> str:
    """The first error, in our words."""
    first = error.errors(include_url=False)[0]
    kind, context, path, given = first["type"], first.get("ctx", {}), "", data
    for step in first["loc"]:  # which also names the members of unions that were tried
        if isinstance(step, int) and is_array(given):
            path, given = f"{path}[{step}]", given[step]
        elif is_object(given) and step in given:
            path, given = f"{path}.{step}", given[step]
    if kind == "unlike" and (at := context["at"]):
        path, given = f"{path}.{at}", cast("Any", given)[at]
    place = path.lstrip(".")
    if kind in ("missing", "value_error"):
        said = f"the field {first['loc'][-1]!r} is missing" if kind == "missing" else context["error"]
        return f"{place or getattr(type_, '__name__', 'the value')}: {said}"
    found = "null" if given is None else f"{type(given).__name__} {str(given)[:60]!r}"
    return f"{place or 'the value'}: expected {_expected(kind, context) or first['msg']}, got {found}"


def _expected(kind: str, context: Mapping[str, Any]) -> str:
    if kind in ("literal_error", "enum"):
        return "one of " + context["expected"].replace("'", "").replace(" or ", ", ")
    if kind.startswith("union_tag"):
        tags = context.get("expected_tags", "").replace("'", "")
        return f"an object whose 'kind' is one of {tags}" if tags else "an object with its 'kind'"
    return cast("str", context["expected"]) if kind == "unlike" else _EXPECTED.get(kind, "")
