"""Steps: the scratchpad of a ReAct run, as a tagged union."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, TypeAlias

from .codec import JsonValue
from .content import Part
from .dataclass import OMIT, dataclass
from .messages import ToolCall


@dataclass(frozen=True, slots=True)
class Thought:
    """The model's words before it acted."""

    kind: ClassVar[str] = "thought"
    text: str


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call that the model made."""

    kind: ClassVar[str] = "action"
    call: ToolCall


@dataclass(frozen=True, slots=True)
class Observation:
    """An answer to the model, from a tool or from the policy.

    Of a result with pictures, documents or sounds, `parts` has all of it, and `value` tells it in words.
    """

    kind: ClassVar[str] = "observation"
    value: JsonValue
    call_id: str | None = field(default=None, metadata=OMIT)
    parts: tuple[Part, ...] = field(default=(), metadata=OMIT)


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """The answer of the run."""

    kind: ClassVar[str] = "final_answer"
    text: str


@dataclass(frozen=True, slots=True)
class ErrorStep:
    """The error that ended the run."""

    kind: ClassVar[str] = "error"
    message: str


ReActStep: TypeAlias = Thought | Action | Observation | FinalAnswer | ErrorStep
