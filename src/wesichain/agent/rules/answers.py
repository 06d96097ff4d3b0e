"""Typed answers: how a model is asked for the final answer of a run, and how the answer is parsed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from inspect import isroutine
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from wesichain.core import JsonValue, ToolSpec
from wesichain.core.internal import LlmTraits, Value, dump_json, is_array, is_object, parse_json, text_of
from wesichain.errors import CodecError, ConfigError

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

OutT = TypeVar("OutT")

OutputMode: TypeAlias = Literal["auto", "tool", "native", "prompted"]
FINAL_TOOL = "final_answer"
_TAGGED = {"kind", "value"}


class Member(Value, Generic[OutT]):
    """A type that an answer may have: the declared type, or one of a union."""

    name: str
    tool: ToolSpec
    adapter: TypeAdapter[OutT]
    is_wrapped: bool  # whether its tool takes {"value": ...}, since the type is not a JSON object
    fields: Mapping[str, Any] | None  # the properties of an object; None for other types, and for a mapping

    def read(self, plain: Any) -> OutT:
        from pydantic import ValidationError

        if self.is_wrapped and is_object(plain) and plain.keys() == {"value"}:
            plain = plain["value"]
        try:
            return self.adapter.validate_json(dump_json(plain), strict=True)
        except ValidationError as error:
            raise CodecError(_complaint(error)) from error

    def matches(self, plain: Any) -> bool:
        """Whether a value without the name of its type can be meant as this type, valid or not.

        An object is recognised by its keys and constants, any other value by being valid.
        """
        if self.fields is not None and is_object(plain):
            return all(
                key in self.fields and self.fields[key].get("const", value) == value
                for key, value in plain.items()
            )
        try:
            self.read(plain)
        except CodecError:
            return False
        return True


class OutputForm(Value, Generic[OutT]):
    """How an answer is requested and parsed; an invalid answer is a `CodecError`.

    The answer is a value of the declared type, or of one of several (`members`): as JSON text, or as the
    arguments of one of the `final_tools`. Without members it is plain text, the content of the last reply.
    `schema` is for `LlmRequest.output_schema`, if the model supports it. `prompt` is added below the
    instructions, if neither tools nor a schema request the form.
    """

    members: tuple[Member[OutT], ...] = ()
    schema: Mapping[str, Any] | None = None
    final_tools: tuple[ToolSpec, ...] = ()
    prompt: str = ""

    def read(self, answer: JsonValue) -> OutT:
        """Parse text or a JSON value as the typed answer."""
        if not self.members:
            text: Any = answer if isinstance(answer, str) else text_of(answer)
            return text  # type: ignore[no-any-return]  # the type of plain text is str
        if not isinstance(answer, str):
            return self._read_plain(answer)
        takes_text = next((member for member in self.members if member.name == "str"), None)
        try:
            plain = parse_json(unfenced(answer))
        except CodecError:
            if takes_text is None:
                raise
            return takes_text.read(answer)
        if takes_text is not None and not is_object(plain) and not is_array(plain):
            known = any(member.matches(plain) for member in self.members)
            return self._read_plain(plain if known else answer)
        return self._read_plain(plain)

    def _read_plain(self, plain: Any) -> OutT:
        if len(self.members) == 1:
            return self.members[0].read(plain)
        names = ", ".join(repr(member.name) for member in self.members)
        if is_object(plain) and plain.keys() == _TAGGED:
            for member in self.members:
                if member.name == plain["kind"]:
                    return member.read(plain["value"])
        meant = [member for member in self.members if member.matches(plain)]
        if len(meant) == 1:
            return meant[0].read(plain)
        raise CodecError(
            f"the answer does not say which of {names} it is; {self._how}, got {dump_json(plain):.80}"
        )

    @property
    def _how(self) -> str:
        if self.final_tools:
            return "call the tool of its own: " + ", ".join(spec.name for spec in self.final_tools)
        return 'give {"kind": one of these, "value": the answer}'

    def read_call(self, tool_name: str, args: JsonValue) -> OutT:
        """Parse the arguments of a final tool as the typed answer."""
        plain: Any = parse_json(unfenced(args)) if isinstance(args, str) else args
        return self._member(tool_name).read(plain)

    def text_of_call(self, tool_name: str, args: JsonValue) -> str:
        """The arguments of a final tool as text, which `read()` parses to the same answer."""
        return text_of(args) if len(self.members) == 1 else self._tagged(self._member(tool_name), args)

    def partial(self, plain: Any, tool_name: str | None) -> Any:
        """The readable part of an answer that still streams, from the JSON value so far; None if none."""
        if not is_object(plain):
            return plain
        if tool_name is None and len(self.members) > 1 and plain.keys() <= _TAGGED:
            return plain.get("value")
        known = [one for one in self.members if tool_name in (None, one.tool.name)]
        is_wrapped = len(known) == 1 and known[0].is_wrapped and plain.keys() <= {"value"}
        return plain.get("value") if is_wrapped else plain

    def write(self, output: Any) -> str:
        """Write an answer as text; raises `CodecError` if it does not have the declared type."""
        if not self.members:
            if not isinstance(output, str):
                raise CodecError(f"{output!r} is no text")
            return output
        from pydantic import ValidationError
        from pydantic_core import PydanticSerializationError

        flaw: Exception | None = None
        for member in self.members:
            try:
                valid = member.adapter.validate_python(output, strict=True)
                plain = parse_json(member.adapter.dump_json(valid, by_alias=True))
            except (ValidationError, PydanticSerializationError, CodecError) as error:
                flaw = flaw or error
                continue
            return text_of(plain) if len(self.members) == 1 else self._tagged(member, plain)
        raise CodecError(f"{output!r:.200} does not have the declared type: {flaw}") from flaw

    def _tagged(self, member: Member[OutT], value: JsonValue) -> str:
        """The value as text, with the name of its type if the type cannot be told from the value."""
        if member.is_wrapped and is_object(value) and value.keys() == {"value"}:
            value = value["value"]
        meant = [other for other in self.members if other.matches(value)]
        if meant == [member] and not isinstance(value, str):
            return text_of(value)
        return dump_json({"kind": member.name, "value": value})

    def _member(self, tool_name: str) -> Member[OutT]:
        return next(member for member in self.members if member.tool.name == tool_name)


def output_form(
    output_type: Any, traits: LlmTraits, *, mode: OutputMode = "auto", has_tools: bool = False
) -> OutputForm[Any]:
    """The form for a declared type: plain text, final tools, the provider's schema, or a prompt.

    "auto" uses the provider's schema for a single type if the model supports it, and if no tools are offered
    or the model takes both at once; else final tools.
    """
    if output_type is str:
        return OutputForm()
    types = _members_of(output_type)
    names = _names_of(types)
    tools = [FINAL_TOOL] if len(types) == 1 else [f"final_{name}"[:64] for name in names]
    members = tuple(
        _member(of_type, name, tool) for of_type, name, tool in zip(types, names, tools, strict=True)
    )
    if mode == "native" and not traits.native_output:
        raise ConfigError(
            "output_mode='native': the model takes no schema for its answer; use 'tool' or 'auto'"
        )
    if mode == "auto":
        is_native = traits.native_output and (traits.output_with_tools or not has_tools)
        mode = "native" if is_native and len(members) == 1 else "tool"
    if mode == "tool":
        return OutputForm(members, final_tools=tuple(member.tool for member in members))
    schema = members[0].tool.parameters if len(members) == 1 else _tagged_schema(output_type, names)
    if mode == "native":
        return OutputForm(members, schema=schema)
    return OutputForm(members, prompt=_PROMPT + dump_json(schema))


_PROMPT = "Give the final answer as JSON alone, without any other text, in the form of this JSON schema: "


def _members_of(output_type: Any) -> tuple[Any, ...]:
    """The types of a union, each an output of its own. `X | None` is a single output."""
    inner = output_type
    while hasattr(inner, "__value__"):  # an alias, made by a `type` statement
        inner = inner.__value__
    if get_origin(inner) not in (Union, UnionType):
        return (output_type,)
    types = tuple(part for one in get_args(inner) for part in _flat(one))
    return types if len([one for one in types if one is not type(None)]) > 1 else (output_type,)


def _flat(of_type: Any) -> tuple[Any, ...]:
    """The types of an alias of a union inside a union."""
    return _members_of(of_type) if hasattr(of_type, "__value__") else (of_type,)


def _names_of(types: Sequence[Any]) -> list[str]:
    names: list[str] = []
    for of_type in types:
        name = _name_of(of_type)
        while name in names:
            name += "_"
        names.append(name)
    return names


def _name_of(of_type: Any) -> str:
    if of_type is type(None):
        return "None"
    if get_origin(of_type) is Annotated:
        return _name_of(get_args(of_type)[0])
    args = get_args(of_type)
    name = str(getattr(of_type, "__name__", None) or of_type)
    joined = "_".join([name, *(_name_of(one) if isinstance(one, type) else str(one) for one in args)])
    return re.sub(r"[^A-Za-z0-9_]+", "_", joined).strip("_")[:50] or "Answer"


def _member(of_type: Any, name: str, tool_name: str) -> Member[Any]:
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

    if isinstance(of_type, Mapping):
        raise ConfigError("output_type={...}: a JSON schema is no type; use a TypedDict, dataclass or model")
    if isroutine(of_type):
        raise ConfigError(
            f"output_type={_name_of(of_type)!r} is a function: use the type of its result; a function that "
            f"checks or changes the answer goes into output_checks=[...]"
        )
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(of_type)
        schema = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        if isinstance(of_type, list | tuple):
            names = " | ".join(map(_name_of, cast("Sequence[Any]", of_type)))
            raise ConfigError(f"output_type=[...]: for one of several types use a union, {names}") from None
        raise ConfigError(f"output_type={of_type!r} has no JSON schema: {error}") from error
    is_wrapped = schema.get("type") != "object"
    fields = None if is_wrapped else schema.get("properties", {})
    if schema.get("additionalProperties", False) is not False:
        fields = None  # a mapping, which may have any key
    if is_wrapped:
        defs = schema.pop("$defs", None)
        schema = {"type": "object", "properties": {"value": schema}, "required": ["value"]}
        schema |= {"$defs": defs} if defs else {}
    what = "in this form" if tool_name == FINAL_TOOL else f"as {name}"
    tool = ToolSpec(tool_name, f"Give the final answer, {what}, and end the task.", schema)
    return Member(name, tool, adapter, is_wrapped, fields)


def _tagged_schema(output_type: Any, names: Sequence[str]) -> dict[str, Any]:
    """The schema of a union as one object: the name of the type, and the value."""
    from pydantic import TypeAdapter

    value: dict[str, Any] = TypeAdapter(output_type).json_schema()
    defs = value.pop("$defs", None)
    kind = {"type": "string", "enum": list(names), "description": "Which form the value has."}
    schema = {"type": "object", "properties": {"kind": kind, "value": value}, "required": ["kind", "value"]}
    return schema | ({"$defs": defs} if defs else {})


def unfenced(text: str) -> str:
    """JSON text without the code fence that models like to put around it."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and len(text) >= 6:
        return text[3:-3].removeprefix("json").strip()
    return text


def _complaint(error: ValidationError) -> str:
    issues = error.errors(include_url=False, include_context=False)
    lines = [
        f"{'.'.join(map(str, issue['loc'])) or 'the answer'}: {issue['msg']}, got {_quoted(issue['input'])}"
        for issue in issues[:10]
    ]
    return "the answer does not have the declared form: " + "; ".join(lines)


def _quoted(value: Any) -> str:
    """An invalid value as JSON, so that "5" and 5 differ."""
    try:
        text = dump_json(value)
    except (CodecError, TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
