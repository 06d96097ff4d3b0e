"""Steps: the scratchpad of a ReAct run, as a tagged union."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from .codec import JsonValue
from .content import Part
from .messages import ToolCall
from .values import Value


class Thought(Value):
    """The text of a reply that also calls tools."""

    kind: ClassVar[str] = "thought"
    text: str


class Action(Value):
    """A tool call that the model made."""

    kind: ClassVar[str] = "action"
    call: ToolCall


class Observation(Value, omit_defaults=True):
    """A result that is returned to the model, from a tool or from the policy.

    For a result with images, documents or audio, `parts` has all of it, and `value` describes it in text.
    """

    kind: ClassVar[str] = "observation"
    value: JsonValue
    call_id: str | None = None
    parts: tuple[Part, ...] = ()


class FinalAnswer(Value):
    """The answer of the run."""

    kind: ClassVar[str] = "final_answer"
    text: str


class ErrorStep(Value):
    """The error that ended the run."""

    kind: ClassVar[str] = "error"
    message: str


ReActStep: TypeAlias = Thought | Action | Observation | FinalAnswer | ErrorStep
