"""Messages, requests to models, and their replies: whole, or in the chunks of a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Literal, TypeAlias

from wesichain.errors import CodecError, ToolDefinitionError

from .codec import JsonValue
from .content import Content, Part, parts_of, text_of_parts
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
    """Replace a list that a value was given by a tuple, which cannot change and compares by value."""
    given: Any = getattr(value, field)
    if isinstance(given, list):
        force_setattr(value, field, tuple(given))  # pyright: ignore[reportUnknownArgumentType]  # Any


class ToolCall(Value):
    """A tool call in a model's reply. `args` is any JSON value; text that is not JSON stays a string."""

    id: str
    name: str
    args: JsonValue


class Citation(Value, omit_defaults=True):
    """A source that a model cites for a part of its answer; fields that the provider does not give are None.

    `text` is the passage, `source` the provider's name for the source if it is not an address. `start` and
    `end` are character offsets in the answer (OpenAI, Gemini) or in the cited document (Anthropic, Bedrock).
    """

    text: str | None = None
    url: str | None = None
    title: str | None = None
    source: str | None = None
    start: int | None = None
    end: int | None = None


class Message(Value, omit_defaults=True):
    """One message. `opaque` is data of the provider (signed reasoning) that is sent back unchanged.

    Content is a string, or a tuple of parts: texts, images, documents, audio. A role may be given as a
    string, calls and parts as lists, and a text part as a string; they are stored as `Role`, tuples and
    `Text`. `is_error` marks the result of a failed call, for providers that take such a mark. `citations` are
    the sources that the model cited.
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
        """The texts of the content, one per line; other parts are left out."""
        content = self.content
        return content if isinstance(content, str) else text_of_parts(content)


FinishReason: TypeAlias = Literal[
    "stop", "tool_calls", "length", "content_filter", "refusal", "pause", "error"
]


class ToolSpec(Value):
    """The description of a tool for a model. The root of `parameters` is always an object schema.

    `pure` says that a call has no side effect, so that a text model may add a remark to it. It is neither
    sent nor recorded.
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
    """A request to a model. `output_schema` is the JSON schema of the answer.

    `stop` are stop sequences, for models that support them (`LlmTraits.takes_stop`); those of `settings` are
    added to them. `settings` are the temperature, the length and so on.
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
    """A model's reply, as the provider sent it: the runtime validates it, not the adapter.

    `parts` are the images and audio of the reply. `omitted` has a line for each part of the request that was
    not sent, as the model received it instead. `citations` are the sources that the model cited. `model` is
    the model that answered if it is not the requested one; its price applies.
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
    """A piece of the text of a streamed reply."""

    text: str


class ToolCallChunk(Value):
    """A piece of call number `index` of a streamed reply: id and name come once, the arguments in pieces."""

    index: int
    id: str = ""
    name: str = ""
    args: str = ""


StreamItem: TypeAlias = TextChunk | ToolCallChunk | LlmResponse
