"""Messages: what a conversation with a model is made of."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from .dataclass import dataclass
from .json import JsonValue


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


OMIT = {"omit_empty": True}  # field metadata: the codec leaves the field out while it is empty


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asks for. `args` is any JSON value; text that was not JSON stays a string."""

    id: str
    name: str
    args: JsonValue


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `opaque` is a provider's own data (signed reasoning), handed back to it untouched."""

    role: Role
    content: str = ""
    tool_call_id: str | None = field(default=None, metadata=OMIT)
    tool_calls: tuple[ToolCall, ...] = field(default=(), metadata=OMIT)
    reasoning: str = field(default="", metadata=OMIT)
    opaque: JsonValue = field(default=None, metadata=OMIT)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens read and written."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


NO_USAGE = Usage()
