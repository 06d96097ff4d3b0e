"""Arguments: what a tool takes, checked by pydantic and described by the same adapter.

Strict about kinds (no "5" for 5, no true for 1), lax where JSON cannot say it: dates, enums, decimals,
paths and sets come as strings, numbers and lists; 5.0 is 5. The truth is `validate_json` in strict mode,
on the JSON text of the arguments, which also gives the tool objects of its own. Tools that take only
texts, numbers and booleans get the same answer sooner from `validate_python`.
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
from wesichain.core.internal import Mutable, dump_json, field, is_array, is_object, parse_json
from wesichain.errors import CodecError, ToolDefinitionError
from wesichain.tools.json_schema.compile import Validator, compile_schema
from wesichain.tools.json_schema.issues import Issue, Path, RejectedError, as_text, no_such_field, preview
from wesichain.tools.json_schema.shape import children, rewrite

from .describe import tidy
from .signature import ABSENT, REQUIRED, Parameter, Signature, collected, union_members

_CONFIG = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Arguments(Mutable):
    """The arguments of one tool: `schema` describes them, `check` judges them.

    `extras` is the name of **kwargs: where fields without a parameter go. `known` are the only fields there
    are, where the type itself would ignore others.
    """

    _adapter: TypeAdapter[Any]
    schema: dict[str, Any]
    quick: Callable[[Any], Any] | None = None
    extras: str | None = None
    known: frozenset[str] | None = None
    _kinds: Validator | None = None  # made at the first need
    _has_number_choice: bool = field(init=False)

    def __post_init__(self) -> None:
        # pydantic takes true for Literal[1] and for an IntEnum's 1; the schema does not.
        self._has_number_choice = _has_number_choice(self.schema)

    def check(self, args: JsonValue) -> Any:
        """The arguments as the tool takes them; raises `RejectedError`."""
        text = as_text(args)
        assert is_object(args)
        if self.known is not None:
            strangers = [name for name in args if name not in self.known]
            if strangers:
                known = sorted(self.known)
                raise RejectedError(*(Issue((name,), no_such_field(name, known)) for name in strangers[:11]))
        try:
            return self._parse(text)
        except ValidationError as error:
            plain = parse_json(text)
            details = error.errors(include_url=False, include_context=False, include_input=False)
            faults = [_fault(found, plain) for found in details[:10_000]]  # more are past repair
            repaired = _repaired(text, faults)
            if repaired is not None:
                try:
                    return self._parse(repaired)
                except ValidationError:
                    pass  # what was sent is told below, not what became of it
            issues = self._issues(plain)
            raise RejectedError(*issues, *_others(faults, issues)) from error

    def _parse(self, text: str) -> Any:
        gathered = text if self.extras is None else dump_json(self._gathered(parse_json(text)))
        checked: Any = self._adapter.validate_json(gathered, strict=True)
        issues = self._issues(parse_json(text)) if self._has_number_choice else []
        if issues:
            raise RejectedError(*issues)
        return checked

    def _issues(self, plain: JsonValue) -> list[Issue]:
        """What the schema refuses: in the same words as for a tool that has nothing but a schema."""
        if self._kinds is None:
            try:
                self._kinds = _kinds(self.schema)
            except ToolDefinitionError:  # a type's own schema, which is none: pydantic's words have to do
                self._kinds = compile_schema(True)
        return self._kinds.issues(plain)

    def _gathered(self, plain: dict[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = self.schema["properties"]
        gathered = {name: value for name, value in plain.items() if name in fields}
        return {**gathered, self.extras or "": {n: v for n, v in plain.items() if n not in fields}}


# --- from pydantic's errors to ours --------------------------------------------------------------


class _Fault(NamedTuple):
    """An error of pydantic's: its kind and words, where it is in what was sent, and what is there."""

    kind: str
    words: str
    path: Path
    value: Any


def _fault(found: ErrorDetails, plain: Any) -> _Fault:
    """An error, and where it is; names of a union's members, which nobody wrote, are left out."""
    path: list[str | int] = []
    value = plain
    for step in found["loc"]:
        inner = find(value, (step,))
        if inner is not NOTHING:
            path.append(step)
            value = inner
    if found["type"].startswith("missing"):
        path.append(found["loc"][-1])
    return _Fault(found["type"], found["msg"], tuple(path), value)


def _others(faults: list[_Fault], told: list[Issue]) -> list[Issue]:
    """What validators and constraints refuse elsewhere, in pydantic's words; of one place the first."""
    found: dict[Path, Issue] = {}
    for fault in faults[:100]:  # more than anybody is told of
        if fault.path not in found and not any(_overlaps(fault.path, issue.path) for issue in told):
            words = fault.words.replace("Input should be ", "expected ")
            found[fault.path] = Issue(fault.path, f"{words}, got {preview(fault.value)}")
    return [*found.values()]


def _overlaps(path: Path, other: Path) -> bool:
    """Whether one is the same place as the other, around it or inside it."""
    return path[: len(other)] == other[: len(path)]


def _repaired(text: str, faults: list[_Fault]) -> str | None:
    """The arguments with 5 for 5.0 where an integer is wanted."""
    wholes = [
        fault.path
        for fault in faults
        if fault.kind in ("int_type", "enum", "literal_error")
        and isinstance(fault.value, float)
        and fault.value.is_integer()
    ]
    if not wholes:
        return None
    plain = parse_json(text)
    for *around, last in wholes:
        holder = find(plain, tuple(around))
        holder[last] = int(holder[last])
    return dump_json(plain)


NOTHING: Any = object()


def find(plain: Any, path: Path) -> Any:
    """The value at a path, or `NOTHING`."""
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
    """The arguments of a function. `described`: what its docstring says of the parameters."""
    taken = [*signature.parameters, *([signature.star] if signature.star else [])]
    extras = signature.extras
    hints = {p.name: _hint(p) for p in [*taken, *([extras] if extras else [])]}
    adapter, schema = _build(hints, tool_name)
    fields: dict[str, Any] = schema.setdefault("properties", {})
    if extras is not None:
        schema["additionalProperties"] = fields.pop(extras.name).get("additionalProperties", {})
    for parameter, name in zip(taken, list(fields), strict=True):
        fields[name] = _described(fields[name], parameter, described.get(parameter.name))
    is_flat = extras is None and list(fields) == list(hints) and all(_is_flat(p.annotation) for p in taken)
    texts = [p.name for p in taken if str in union_members(p.annotation)]
    quick = _quick_check(hints, texts=texts) if is_flat else None
    return Arguments(adapter, schema, quick=quick, extras=extras.name if extras else None)


def arguments_from(type_: Any, *, tool_name: str) -> Arguments:
    """The arguments of a tool that takes one object: a model, dataclass or TypedDict."""
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


# Agents as tools share one class, and a tree of agents may be built for each request: 1.1 ms became 0.06.
_of_class = lru_cache(maxsize=256)(_of_type)


def _adapter(hints: dict[str, Any], config: ConfigDict) -> TypeAdapter[Any]:
    # A TypedDict takes any parameter's name, also `schema` and `_x`, which a model would refuse.
    make: Any = TypedDict  # as a plain function: the fields are known at run time only
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
    """The annotation of a field: optional where the parameter is, and never lazily checked."""
    annotation = collected(parameter.annotation)
    if isinstance(parameter.default, FieldInfo):  # pydantic fills its default in
        return Annotated[annotation, parameter.default]
    return annotation if parameter.default is REQUIRED else NotRequired[annotation]


def _described(schema: dict[str, Any], parameter: Parameter, said: str | None) -> dict[str, Any]:
    """A parameter's schema with its default and description."""
    metadata = get_args(parameter.annotation)[1:] if get_origin(parameter.annotation) is Annotated else ()
    default = parameter.default
    fields = [item for item in (default, *metadata) if isinstance(item, FieldInfo)]
    texts = [item if isinstance(item, str) else getattr(item, "documentation", None) for item in metadata]
    description = next(filter(None, [*(field.description for field in fields[:1]), *texts, said]), None)
    described = {**schema, "description": description} if description else schema
    if default is REQUIRED or default is ABSENT or isinstance(default, FieldInfo):
        return described
    try:
        return {**described, "default": parse_json(dump_json(to_jsonable_python(default)))}
    except (CodecError, ValueError):  # a default that JSON cannot say is simply not told
        return described


# --- which tools may take the quick way ----------------------------------------------------------

_FLAT_TYPES = (str, int, float, bool, type(None))


def _is_flat(annotation: Any) -> bool:
    return all(
        member in _FLAT_TYPES
        or (get_origin(member) is Literal and all(isinstance(value, str) for value in get_args(member)))
        for member in union_members(annotation)
    )


def _quick_check(hints: dict[str, Any], *, texts: list[str]) -> Callable[[Any], Any]:
    """The short way for plain arguments; a ValueError or TypeError for all that needs a second look."""
    validate = _adapter(
        hints, ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)
    ).validator.validate_python

    def check(args: Any) -> Any:
        checked = validate(args)
        if len(checked) != len(args):  # a field too many; to count is quicker than to have pydantic look
            raise ValueError
        for name in texts:
            text = checked.get(name)
            if type(text) is str and not text.isascii():
                text.encode()  # fails on a lone surrogate
        return checked

    return check


# --- what the schema says by itself --------------------------------------------------------------

_STRUCTURE = {
    *("$defs", "$ref", "additionalProperties", "allOf", "anyOf", "const", "enum", "items", "oneOf"),
    *("prefixItems", "properties", "required", "type"),
}


def _kinds(schema: dict[str, Any]) -> Validator:
    """A validator of nothing but fields, kinds and choices: the rest is pydantic's to judge."""
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
    """A NamedTuple is taken as an object with its names, and as a list: the names help a model more."""

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
