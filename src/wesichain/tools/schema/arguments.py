"""Arguments: the validation of a tool's arguments by pydantic, and their schema.

Validation is strict about types (no "5" for 5, no true for 1), except for types that JSON does not have:
dates, enums, decimals, paths and sets are sent as strings, numbers and lists; 5.0 is accepted as 5. The
reference is `validate_json` in strict mode, on the JSON text of the arguments, which also creates new objects
for each call. For tools that take only strings, numbers and booleans, `validate_python` gives the same result
faster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, get_args, get_origin

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, to_jsonable_python
from typing_extensions import TypedDict, override

from wesichain.core import JsonValue
from wesichain.core.internal import (
    Mutable,
    dump_json,
    field,
    is_array,
    is_object,
    parse_json,
    register_fields,
)
from wesichain.errors import CodecError, ToolDefinitionError
from wesichain.tools.json_schema.compile import Validator, compile_schema
from wesichain.tools.json_schema.issues import Issue, Path, RejectedError, as_text, no_such_field, preview
from wesichain.tools.json_schema.shape import children, rewrite

from .describe import tidy
from .signature import ABSENT, REQUIRED, Parameter, Signature, union_members, with_lists

_CONFIG = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Arguments(Mutable):
    """The arguments of one tool, with their schema.

    `extras` is the name of **kwargs, which receives fields without a parameter. `known` are the allowed
    fields of a type that ignores others.
    """

    _adapter: TypeAdapter[Any]
    schema: dict[str, Any]
    quick: Callable[[Any], Any] | None = None
    extras: str | None = None
    known: frozenset[str] | None = None
    _kinds: Validator | None = None  # created at first use
    _has_number_choice: bool = field(init=False)
    _has_secret: bool = field(init=False)

    def __post_init__(self) -> None:
        # pydantic accepts true for Literal[1] and for the 1 of an IntEnum; the schema does not.
        self._has_number_choice = _has_number_choice(self.schema)
        self._has_secret = '"writeOnly"' in dump_json(self.schema)  # of a SecretStr

    def check(self, args: JsonValue) -> Any:
        """Return the arguments as the tool takes them. Raises `RejectedError`."""
        text = as_text(args)
        assert is_object(args)
        if self.known is not None:
            unknown = [name for name in args if name not in self.known]
            if unknown:
                known = sorted(self.known)
                raise RejectedError(*(Issue((name,), no_such_field(name, known)) for name in unknown[:11]))
        try:
            return self._parse(text)
        except ValidationError as error:
            plain = parse_json(text)
            details = error.errors(include_url=False, include_context=False, include_input=False)
            faults = [_fault(found, plain) for found in details[:10_000]]  # of more, the rest is ignored
            corrected = _with_integers(text, faults)
            if corrected is not None:
                try:
                    return self._parse(corrected)
                except ValidationError:
                    pass  # the error is about the original arguments
            issues = self._issues(plain)
            raise RejectedError(*issues, *_other_issues(faults, issues)) from error

    def _parse(self, text: str) -> Any:
        gathered = text if self.extras is None else dump_json(self._gathered(parse_json(text)))
        checked: Any = self._adapter.validate_json(gathered, strict=True)
        issues = self._issues(parse_json(text)) if self._has_number_choice else []
        if issues:
            raise RejectedError(*issues)
        if self._has_secret:
            register_fields(checked)
        return checked

    def _issues(self, plain: JsonValue) -> list[Issue]:
        """Return what the schema refuses, with the same messages as for a `JsonTool`."""
        if self._kinds is None:
            try:
                self._kinds = _kinds(self.schema)
            except ToolDefinitionError:  # the invalid schema of a custom type: use the messages of pydantic
                self._kinds = compile_schema(True)
        return self._kinds.issues(plain)

    def _gathered(self, plain: dict[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = self.schema["properties"]
        gathered = {name: value for name, value in plain.items() if name in fields}
        return {**gathered, self.extras or "": {n: v for n, v in plain.items() if n not in fields}}


# --- errors of pydantic --------------------------------------------------------------


class _Fault(NamedTuple):
    """An error of pydantic: its type, its message, its path in the arguments, and the value there."""

    kind: str
    message: str
    path: Path
    value: Any


def _fault(found: ErrorDetails, plain: Any) -> _Fault:
    """Convert an error. Steps of its path that are not in the arguments, as of unions, are removed."""
    path: list[str | int] = []
    value = plain
    for step in found["loc"]:
        inner = value_at(value, (step,))
        if inner is not NOTHING:
            path.append(step)
            value = inner
    if found["type"].startswith("missing"):
        path.append(found["loc"][-1])
    return _Fault(found["type"], found["msg"], tuple(path), value)


def _other_issues(faults: list[_Fault], known_issues: list[Issue]) -> list[Issue]:
    """Return the errors at other paths with the messages of pydantic, the first of each path."""
    found: dict[Path, Issue] = {}
    for fault in faults[:100]:  # more than a message contains
        if fault.path not in found and not any(_overlaps(fault.path, issue.path) for issue in known_issues):
            message = fault.message.replace("Input should be ", "expected ")
            found[fault.path] = Issue(fault.path, f"{message}, got {preview(fault.value)}")
    return [*found.values()]


def _overlaps(path: Path, other: Path) -> bool:
    """Whether the paths are equal, or one contains the other."""
    return path[: len(other)] == other[: len(path)]


def _with_integers(text: str, faults: list[_Fault]) -> str | None:
    """Replace 5.0 by 5 where an integer is expected; None if there is no such value."""
    paths = [
        fault.path
        for fault in faults
        if fault.kind in ("int_type", "enum", "literal_error")
        and isinstance(fault.value, float)
        and fault.value.is_integer()
    ]
    if not paths:
        return None
    plain = parse_json(text)
    for *around, last in paths:
        holder = value_at(plain, tuple(around))
        holder[last] = int(holder[last])
    return dump_json(plain)


NOTHING: Any = object()


def value_at(plain: Any, path: Path) -> Any:
    """Return the value at a path, or `NOTHING`."""
    for step in path:
        if is_object(plain):
            plain = plain.get(step, NOTHING) if isinstance(step, str) else NOTHING
        elif is_array(plain) and isinstance(step, int) and step < len(plain):
            plain = plain[step]
        else:
            return NOTHING
    return plain


# --- building ------------------------------------------------------------------------------------


def arguments_of(signature: Signature, *, tool_name: str, described: dict[str, str]) -> Arguments:
    """Return the arguments of a function. `described` are the descriptions in its docstring."""
    params = [*signature.parameters, *([signature.star] if signature.star else [])]
    extras = signature.extras
    hints = {p.name: _hint(p) for p in [*params, *([extras] if extras else [])]}
    adapter, schema = _build(hints, tool_name)
    fields: dict[str, Any] = schema.setdefault("properties", {})
    if extras is not None:
        schema["additionalProperties"] = fields.pop(extras.name).get("additionalProperties", {})
    for parameter, name in zip(params, list(fields), strict=True):
        fields[name] = _described(fields[name], parameter, described.get(parameter.name))
    is_flat = extras is None and list(fields) == list(hints) and all(_is_flat(p.annotation) for p in params)
    texts = [p.name for p in params if str in union_members(p.annotation)]
    quick = _quick_check(hints, texts=texts) if is_flat else None
    return Arguments(adapter, schema, quick=quick, extras=extras.name if extras else None)


def arguments_from(type_: Any, *, tool_name: str) -> Arguments:
    """Return the arguments of a tool that takes one object: a model, a dataclass or a TypedDict."""
    try:
        adapter, described = _of_class(type_) if isinstance(type_, type) else _of_type(type_)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        raise ToolDefinitionError(
            f"tool {tool_name!r}: its arguments have no schema: {_first_line(error)}"
        ) from None
    schema = dict(described)
    if schema.get("type") != "object":
        raise ToolDefinitionError(
            f"tool {tool_name!r}: {getattr(type_, '__name__', type_)!s} is not an object with named fields; "
            f"use a model, a dataclass or a TypedDict"
        )
    schema.setdefault("properties", {})
    known: frozenset[str] | None = None
    if "additionalProperties" not in schema:
        schema["additionalProperties"] = False
        known = frozenset(schema["properties"]) | frozenset(getattr(type_, "model_fields", ()))
    return Arguments(adapter, schema, known=known)


def _of_type(type_: Any) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    adapter: TypeAdapter[Any] = TypeAdapter(type_)
    return adapter, tidy(adapter.json_schema(schema_generator=NamedTupleSchema))


# Agents as tools share one class, and may be created for each request: 1.1 ms, and 0.06 ms with the cache.
_of_class = lru_cache(maxsize=256)(_of_type)


def _adapter(hints: dict[str, Any], config: ConfigDict) -> TypeAdapter[Any]:
    # A TypedDict accepts every parameter name; a model would refuse `schema` and `_x`.
    make: Any = TypedDict  # as a function: the fields are known only at run time
    fields = make("Arguments", hints)
    fields.__pydantic_config__ = config
    return TypeAdapter(fields)


def _build(hints: dict[str, Any], tool_name: str) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    try:
        adapter = _adapter(hints, _CONFIG)
        return adapter, tidy(adapter.json_schema(schema_generator=NamedTupleSchema))
    except (PydanticUserError, TypeError) as error:
        culprit = _culprit(hints)
        if getattr(error, "code", None) == "class-not-fully-defined":
            raise NameError(f"the type of {culprit!r} names a class that is not defined") from None
        raise ToolDefinitionError(
            f"tool {tool_name!r}: parameter {culprit!r} has a type without a JSON schema: "
            f"{_first_line(error)}"
        ) from None


def _culprit(hints: dict[str, Any]) -> str:
    for name, hint in hints.items():
        try:
            _adapter({name: hint}, _CONFIG).json_schema()
        except (PydanticUserError, TypeError):
            return name
    return ", ".join(hints)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _hint(parameter: Parameter) -> Any:
    """Return the annotation of a field, which is optional if the parameter is; iterables become lists."""
    annotation = with_lists(parameter.annotation)
    if isinstance(parameter.default, FieldInfo):  # pydantic fills in its default
        return Annotated[annotation, parameter.default]
    return annotation if parameter.default is REQUIRED else NotRequired[annotation]


def _described(schema: dict[str, Any], parameter: Parameter, documented: str | None) -> dict[str, Any]:
    """Return the schema of a parameter with its default and description."""
    metadata = get_args(parameter.annotation)[1:] if get_origin(parameter.annotation) is Annotated else ()
    default = parameter.default
    fields = [item for item in (default, *metadata) if isinstance(item, FieldInfo)]
    texts = [item if isinstance(item, str) else getattr(item, "documentation", None) for item in metadata]
    description = next(filter(None, [*(field.description for field in fields[:1]), *texts, documented]), None)
    described = {**schema, "description": description} if description else schema
    if default is REQUIRED or default is ABSENT or isinstance(default, FieldInfo):
        return described
    try:
        return {**described, "default": parse_json(dump_json(to_jsonable_python(default)))}
    except (CodecError, ValueError):  # a default that is not JSON is left out
        return described


# --- fast validation ----------------------------------------------------------

_FLAT_TYPES = (str, int, float, bool, type(None))


def _is_flat(annotation: Any) -> bool:
    return all(
        member in _FLAT_TYPES
        or (get_origin(member) is Literal and all(isinstance(value, str) for value in get_args(member)))
        for member in union_members(annotation)
    )


def _quick_check(hints: dict[str, Any], *, texts: list[str]) -> Callable[[Any], Any]:
    """Return a fast check, which raises ValueError or TypeError if `Arguments.check` has to decide."""
    validate = _adapter(
        hints, ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)
    ).validator.validate_python

    def check(args: Any) -> Any:
        checked = validate(args)
        if len(checked) != len(args):  # an unknown field; faster than a check by pydantic
            raise ValueError
        for name in texts:
            text = checked.get(name)
            if type(text) is str and not text.isascii():
                text.encode()  # raises for a lone surrogate
        return checked

    return check


# --- validation by the schema alone --------------------------------------------------------------

_STRUCTURE = {
    *("$defs", "$ref", "additionalProperties", "allOf", "anyOf", "const", "enum", "items", "oneOf"),
    *("prefixItems", "properties", "required", "type"),
}


def _kinds(schema: dict[str, Any]) -> Validator:
    """Return a validator of fields, types and choices only; pydantic validates the rest."""
    return compile_schema(
        rewrite(schema, lambda inner: {name: value for name, value in inner.items() if name in _STRUCTURE})
    )


def _has_number_choice(schema: Any) -> bool:
    if not is_object(schema):
        return False
    choices = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])]
    if any(not isinstance(choice, str | None) for choice in choices):
        return True
    return any(_has_number_choice(child) for _, child in children(schema))


class NamedTupleSchema(GenerateJsonSchema):
    """Describes a NamedTuple as an object or a list; models make fewer mistakes with the object."""

    @override
    def named_tuple_schema(self, schema: Any) -> dict[str, Any]:
        listed = super().named_tuple_schema(schema)
        if self.mode != "validation":
            return listed
        fields: list[Any] = schema["fields"]
        named: dict[str, Any] = {
            "type": "object",
            "properties": {field["name"]: self.generate_inner(field["schema"]) for field in fields},
            "required": [field["name"] for field in fields if field["schema"]["type"] != "default"],
            "additionalProperties": False,
        }
        return {"anyOf": [named, listed]}
