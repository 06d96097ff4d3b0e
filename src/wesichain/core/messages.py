"""Messages: what a conversation with a model is made of."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import Any

from wesichain.errors import CodecError

from .dataclass import dataclass
from .json import JsonValue


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


OMIT = {"omit_empty": True}  # field metadata: the codec leaves the field out while it is empty


def keep_tuple(value: object, field: str) -> None:
    """Make a tuple of a list that a frozen value was given: it cannot be changed, and compares by value."""
    given: Any = getattr(value, field)
    if isinstance(given, list):
        object.__setattr__(value, field, tuple(given))  # pyright: ignore[reportUnknownArgumentType]  # Any


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asks for. `args` is any JSON value; text that was not JSON stays a string."""

    id: str
    name: str
    args: JsonValue


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `opaque` is a provider's own data (signed reasoning), handed back to it untouched.

    A role may be given as its text and calls as a list; they are kept as a `Role` and a tuple.
    """

    role: Role
    content: str = ""
    tool_call_id: str | None = field(default=None, metadata=OMIT)
    tool_calls: tuple[ToolCall, ...] = field(default=(), metadata=OMIT)
    reasoning: str = field(default="", metadata=OMIT)
    opaque: JsonValue = field(default=None, metadata=OMIT)

    def __post_init__(self) -> None:
        keep_tuple(self, "tool_calls")
        if type(self.role) is not Role:
            try:
                object.__setattr__(self, "role", Role(self.role))
            except ValueError:
                names = ", ".join(Role)
                raise CodecError(f"a message's role is {self.role!r}; use one of {names}") from None


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
