"""Histories: messages that come in from outside, made fit to be shown to a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wesichain.core import (
    Action,
    ErrorStep,
    FinalAnswer,
    Message,
    Observation,
    ReActStep,
    Role,
    Thought,
    ToolCall,
    text_of,
)


def clean_history(history: Iterable[Message]) -> list[Message]:
    """The history without what would confuse a provider or forge a past.

    Calls without a result and results without a call are dropped.
    """
    messages = list(history)
    answered = {message.tool_call_id for message in messages if message.role is Role.TOOL}
    kept: list[Message] = []
    asked: set[str] = set()
    for message in messages:
        if message.role is Role.TOOL:
            if message.tool_call_id in asked:
                asked.discard(message.tool_call_id)
                kept.append(message)
            continue
        if message.tool_calls:
            calls = tuple(call for call in message.tool_calls if call.id in answered)
            asked.update(call.id for call in calls)
            if not calls and not message.content:
                continue
            kept.append(replace(message, tool_calls=calls))
        else:
            kept.append(message)
    return kept


def is_over(steps: Sequence[ReActStep]) -> bool:
    """Whether a scratchpad is that of a run that has ended: then the next run starts anew."""
    return bool(steps) and isinstance(steps[-1], FinalAnswer | ErrorStep)


def messages_of(steps: Iterable[ReActStep]) -> list[Message]:
    """The messages of an unfinished run, from its scratchpad."""
    messages: list[Message] = []
    thought = ""
    calls: list[ToolCall] = []

    def say() -> None:
        nonlocal thought
        if thought or calls:
            messages.append(Message(Role.ASSISTANT, thought, tool_calls=tuple(calls)))
        thought = ""
        calls.clear()

    for step in steps:
        match step:
            case Thought(text=text):
                say()
                thought = text
            case Action(call=call):
                calls.append(call)
            case Observation(value=value, call_id=call_id):
                say()
                text = text_of(value)
                role = Role.USER if call_id is None else Role.TOOL
                messages.append(Message(role, text, call_id))
            case FinalAnswer(text=text):
                say()
                messages.append(Message(Role.ASSISTANT, text))
            case ErrorStep():
                say()
    say()
    return clean_history(messages)
