"""Messages, and an exchange with a model: the request, the reply, and the chunks of a streamed reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Literal, TypeAlias

from wesichain.errors import CodecError, ToolDefinitionError

from .codec import JsonValue
from .content import Content, Part, parts_of, text_of_content
from .settings import NO_SETTINGS, ModelSettings
from .spending import NO_USAGE, Usage
from .values import Value, force_setattr


class Role(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


def as_tuple(value: object, field: str) -> None:
    """Make a tuple of a list that a frozen value was given: it cannot be changed, and compares by value."""
    given: Any = getattr(value, field)
    if isinstance(given, list):
        force_setattr(value, field, tuple(given))  # pyright: ignore[reportUnknownArgumentType]  # Any


class ToolCall(Value):
    """A tool call in a model's reply. `args` is any JSON value; text that is not JSON stays a string."""

    id: str
    name: str
    args: JsonValue


class Citation(Value, omit_defaults=True):
    """A source that a model names for a part of its answer; None of what the provider does not give.

    `text` is the passage, `source` the provider's name for the source where it is no address. `start` and
    `end` count characters: of the answer where the provider marks the answer (OpenAI, Gemini), else of the
    cited document (Anthropic, Bedrock).
    """

    text: str | None = None
    url: str | None = None
    title: str | None = None
    source: str | None = None
    start: int | None = None
    end: int | None = None


class Message(Value, omit_defaults=True):
    """One message. `opaque` is a provider's own data (signed reasoning), sent back to it unchanged.

    Content is a text, or parts: texts, images, documents, sounds. A role may be given as its text, calls and
    parts as lists, and a text among parts as a str; they are kept as a `Role`, tuples and `Text`. `is_error`
    says of a tool's message that the call failed, to providers that want to know. `citations` are the sources
    that the model named.
    """

    __always__: ClassVar[tuple[str, ...]] = ("content",)

    role: Role
    content: Content = ""
    tool_call_id: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    opaque: JsonValue = None
    is_error: bool = False
    citations: tuple[Citation, ...] = ()

    def __post_init__(self) -> None:
        if type(self.content) is not str:
            force_setattr(self, "content", parts_of(self.content))
        if type(self.tool_calls) is not tuple:
            as_tuple(self, "tool_calls")
        if type(self.role) is not Role:
            try:
                force_setattr(self, "role", Role(self.role))
            except ValueError:
                names = ", ".join(Role)
                raise CodecError(f"a message's role is {self.role!r}; use one of {names}") from None

    @property
    def text(self) -> str:
        """The text alone: the texts among the parts, a line each."""
        content = self.content
        return content if isinstance(content, str) else text_of_content(content)


FinishReason: TypeAlias = Literal[
    "stop", "tool_calls", "length", "content_filter", "refusal", "pause", "error"
]


class ToolSpec(Value):
    """The description of a tool for a model. The root of `parameters` is always an object schema.

    `pure` says that a call has no effect, so that a text model may add a remark to it. It is neither sent nor
    recorded.
    """

    __unwritten__: ClassVar[tuple[str, ...]] = ("pure",)
    __aside__: ClassVar[tuple[str, ...]] = ("pure",)

    name: str
    description: str
    parameters: Mapping[str, Any]
    pure: bool = False

    def __post_init__(self) -> None:
        kind = self.parameters.get("type") if hasattr(self.parameters, "get") else None
        if kind != "object":
            raise ToolDefinitionError(
                f"tool {self.name!r}: the root of its schema has type {kind!r}; "
                f"arguments are named, so make it an object schema ({{'type': 'object', 'properties': ...}})"
            )


class LlmRequest(Value, omit_defaults=True):
    """A request to a model. `output_schema`: the JSON schema that the answer must have.

    `stop`: texts at which the reply ends, for models that take them (`LlmTraits.takes_stop`); those of
    `settings` are added to them. `settings`: temperature, length and so on.
    """

    model: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    output_schema: Mapping[str, Any] | None = None
    stop: tuple[str, ...] = ()
    settings: ModelSettings = NO_SETTINGS

    def __post_init__(self) -> None:
        if type(self.messages) is list:
            as_tuple(self, "messages")
        if type(self.tools) is not tuple:
            as_tuple(self, "tools")


class LlmResponse(Value, omit_defaults=True):
    """A model's answer, as it came: the runtime, not the adapter, judges it.

    `parts` are the pictures and sounds that came with the text. `omitted` says what of the request the model
    could not be given: a line each, as the model read it in that place. `citations` are the sources that the
    model named. `model` is the name of the one that answered, where it is not the one that was asked: its
    price holds.
    """

    __always__: ClassVar[tuple[str, ...]] = ("content", "usage", "finish_reason")

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = NO_USAGE
    finish_reason: FinishReason = "stop"
    reasoning: str = ""
    opaque: JsonValue = None
    parts: tuple[Part, ...] = ()
    omitted: tuple[str, ...] = ()
    citations: tuple[Citation, ...] = ()
    model: str = ""

    def __post_init__(self) -> None:
        if type(self.tool_calls) is not tuple:
            as_tuple(self, "tool_calls")


class TextChunk(Value):
    """A piece of the reply's text."""

    text: str


class ToolCallChunk(Value):
    """A piece of the reply's call number `index`: name and id come once, the arguments in pieces."""

    index: int
    id: str = ""
    name: str = ""
    args: str = ""


StreamItem: TypeAlias = TextChunk | ToolCallChunk | LlmResponse
