"""One exchange with a model: the request, the reply, and the chunks of a streamed reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias

from wesichain.errors import ToolDefinitionError

from .codec import JsonValue
from .content import Part
from .dataclass import dataclass
from .messages import OMIT, Message, ToolCall, keep_tuple
from .spending import NO_USAGE, Usage

FinishReason: TypeAlias = Literal[
    "stop", "tool_calls", "length", "content_filter", "refusal", "pause", "error"
]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The description of a tool for a model. The root of `parameters` is always an object schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    def __post_init__(self) -> None:
        kind = self.parameters.get("type") if hasattr(self.parameters, "get") else None
        if kind != "object":
            raise ToolDefinitionError(
                f"tool {self.name!r}: the root of its schema has type {kind!r}; "
                f"arguments are named, so make it an object schema ({{'type': 'object', 'properties': ...}})"
            )


@dataclass(frozen=True, slots=True)
class LlmRequest:
    """A request to a model. `output_schema`: the JSON schema that the answer must have.

    `stop`: texts at which the reply ends, for models that take them (`LlmTraits.takes_stop`).
    """

    model: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = field(default=(), metadata=OMIT)
    output_schema: Mapping[str, Any] | None = field(default=None, metadata=OMIT)
    stop: tuple[str, ...] = field(default=(), metadata=OMIT)

    def __post_init__(self) -> None:
        if type(self.messages) is list:
            keep_tuple(self, "messages")
        if type(self.tools) is not tuple:
            keep_tuple(self, "tools")


@dataclass(frozen=True, slots=True)
class LlmResponse:
    """A model's answer, as it came: the runtime, not the adapter, judges it.

    `parts` are the pictures and sounds that came with the text. `omitted` says what of the request the model
    could not be given: a line each, as the model read it in that place.
    """

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = field(default=(), metadata=OMIT)
    usage: Usage = NO_USAGE
    finish_reason: FinishReason = "stop"
    reasoning: str = field(default="", metadata=OMIT)
    opaque: JsonValue = field(default=None, metadata=OMIT)
    parts: tuple[Part, ...] = field(default=(), metadata=OMIT)
    omitted: tuple[str, ...] = field(default=(), metadata=OMIT)

    def __post_init__(self) -> None:
        if type(self.tool_calls) is not tuple:
            keep_tuple(self, "tool_calls")


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A piece of the reply's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallChunk:
    """A piece of the reply's call number `index`: name and id come once, the arguments in pieces."""

    index: int
    id: str = ""
    name: str = ""
    args: str = ""


StreamItem: TypeAlias = TextChunk | ToolCallChunk | LlmResponse
