"""Messages: what a conversation with a model is made of."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import Any

from wesichain.errors import CodecError

from .codec import JsonValue
from .content import Content, parts_of, text_of_content
from .dataclass import dataclass


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

    Content is a text, or parts: texts, images, documents, sounds. A role may be given as its text, calls and
    parts as lists, and a text among parts as a str; they are kept as a `Role`, tuples and `Text`. `is_error`
    says of a tool's message that the call failed, to providers that want to know.
    """

    role: Role
    content: Content = ""
    tool_call_id: str | None = field(default=None, metadata=OMIT)
    tool_calls: tuple[ToolCall, ...] = field(default=(), metadata=OMIT)
    reasoning: str = field(default="", metadata=OMIT)
    opaque: JsonValue = field(default=None, metadata=OMIT)
    is_error: bool = field(default=False, metadata=OMIT)

    def __post_init__(self) -> None:
        if type(self.content) is not str:
            object.__setattr__(self, "content", parts_of(self.content))
        if type(self.tool_calls) is not tuple:
            keep_tuple(self, "tool_calls")
        if type(self.role) is not Role:
            try:
                object.__setattr__(self, "role", Role(self.role))
            except ValueError:
                names = ", ".join(Role)
                raise CodecError(f"a message's role is {self.role!r}; use one of {names}") from None

    @property
    def text(self) -> str:
        """The text alone: the texts among the parts, a line each."""
        content = self.content
        return content if isinstance(content, str) else text_of_content(content)
