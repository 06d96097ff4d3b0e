"""Transcripts: the messages of a request as steps of a ReAct run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from wesichain.core import Action, FinalAnswer, JsonValue, Message, Observation, ReActStep, Role, Thought
from wesichain.core.internal import Value, content_as_text

# `Message.opaque` of replies that may be rejected; the runtime sends them back with the message.
UNREADABLE: JsonValue = {"react_text": "unreadable"}
ANSWER: JsonValue = {"react_text": "answer"}


class TextQuestion(Value):
    """A question of the user."""

    text: str


TranscriptStep: TypeAlias = TextQuestion | ReActStep


class TextTranscript(Value):
    """The parts of a request: `question` is the current question, `steps` are the steps since then."""

    instructions: str
    history: tuple[Message, ...]
    question: str
    steps: tuple[TranscriptStep, ...]


def read_messages(messages: Sequence[Message]) -> TextTranscript:
    """Split the messages of a request into its parts.

    The last question is the current one. A user message after a tool result or a rejected reply is not a
    question, but a message of the runtime.
    """
    instructions = "\n\n".join(message.text for message in messages if message.role is Role.SYSTEM)
    spoken = [message for message in messages if message.role is not Role.SYSTEM]
    asked = max((index for index in range(len(spoken)) if _is_question(spoken, index)), default=-1)
    return TextTranscript(
        instructions,
        history=tuple(spoken[: max(asked, 0)]),
        question=content_as_text(spoken[asked].content) if asked >= 0 else "",
        steps=tuple(steps_of(spoken[asked + 1 :])),
    )


def steps_of(messages: Sequence[Message]) -> Iterator[TranscriptStep]:
    """The steps of the messages."""
    for index, message in enumerate(messages):
        match message.role:
            case Role.USER if _is_question(messages, index):
                yield TextQuestion(content_as_text(message.content))
            case Role.USER | Role.TOOL:
                yield Observation(content_as_text(message.content), message.tool_call_id)
            case Role.ASSISTANT if message.tool_calls or message.opaque == UNREADABLE:
                yield Thought(content_as_text(message.content))
                yield from (Action(call) for call in message.tool_calls if call.name)
            case Role.ASSISTANT:
                yield FinalAnswer(content_as_text(message.content))
            case Role.SYSTEM:
                pass


def _is_question(messages: Sequence[Message], index: int) -> bool:
    if messages[index].role is not Role.USER:
        return False
    if not index:
        return True
    before = messages[index - 1]
    return not (before.role is Role.TOOL or before.tool_calls or before.opaque in (UNREADABLE, ANSWER))
