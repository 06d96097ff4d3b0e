"""Output: what the final answer of a run must be, and how a model is asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from wesichain.core import (
    JsonValue,
    LlmTraits,
    ToolSpec,
    dataclass,
    dump_json,
    is_object,
    parse_json,
    text_of,
)
from wesichain.errors import CodecError, ConfigError

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

OutT = TypeVar("OutT")
OutT_co = TypeVar("OutT_co", covariant=True)

FINAL_TOOL = "final_answer"


class OutputForm(Protocol[OutT_co]):
    """How an answer is asked for, and how it is read."""

    @property
    def schema(self) -> Mapping[str, Any] | None: ...  # for LlmRequest.output_schema, where it is honoured

    @property
    def final_tool(self) -> ToolSpec | None: ...  # the tool whose arguments are the answer, if there is one

    def read(self, answer: JsonValue) -> OutT_co:
        """The typed answer; a `CodecError` says, for the model, what is wrong with it."""
        ...


@dataclass(frozen=True, slots=True)
class TextOutput:
    """Plain text: the content of the last reply."""

    schema: None = None
    final_tool: None = None

    def read(self, answer: JsonValue) -> str:
        return text_of(answer)


@dataclass(frozen=True, slots=True)
class TypedOutput(Generic[OutT]):
    """A value of a declared type, as JSON text or as the arguments of the final tool."""

    adapter: TypeAdapter[OutT]
    wrapped: bool  # the type is no JSON object, so the answer is {"value": ...}
    schema: Mapping[str, Any] | None = None
    final_tool: ToolSpec | None = None

    def read(self, answer: JsonValue) -> OutT:
        from pydantic import ValidationError

        plain: Any = parse_json(_unfenced(answer)) if isinstance(answer, str) else answer
        if self.wrapped and is_object(plain) and plain.keys() == {"value"}:
            plain = plain["value"]
        try:
            return self.adapter.validate_json(dump_json(plain), strict=True)
        except ValidationError as error:
            raise CodecError(_complaint(error)) from error


def output_form(output_type: Any, traits: LlmTraits) -> OutputForm[Any]:
    """The form for a declared type: plain text, the model's own schema mode, or a final tool."""
    if output_type is str:
        return TextOutput()
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(output_type)
        schema = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise ConfigError(f"output_type={output_type!r} has no JSON schema: {error}") from error
    wrapped = schema.get("type") != "object"
    if wrapped:
        defs = schema.pop("$defs", None)
        schema = {"type": "object", "properties": {"value": schema}, "required": ["value"]}
        schema |= {"$defs": defs} if defs else {}
    if traits.native_output:
        return TypedOutput(adapter, wrapped, schema=schema)
    tool = ToolSpec(FINAL_TOOL, "Give the final answer, in this form, and end the task.", schema)
    return TypedOutput(adapter, wrapped, final_tool=tool)


def _unfenced(text: str) -> str:
    """JSON text without the code fence that models like to put around it."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and len(text) >= 6:
        return text[3:-3].removeprefix("json").strip()
    return text


def _complaint(error: ValidationError) -> str:
    issues = error.errors(include_url=False, include_context=False)
    lines = [
        f"{'.'.join(map(str, issue['loc'])) or 'the answer'}: {issue['msg']}, got {str(issue['input'])[:80]}"
        for issue in issues[:10]
    ]
    return "the answer does not have the declared form: " + "; ".join(lines)
