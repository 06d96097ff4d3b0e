"""Histories: the messages that a caller passes to a run, made valid for a model."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

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
)
from wesichain.core.internal import Advice, replace, text_of
from wesichain.errors import ConfigError


def opening(
    instructions: str | None, advice: Advice | None, form: str, history: Sequence[Message]
) -> list[Message]:
    """The messages before the task: instructions, with advice and the form of the answer, and the history.

    If there are instructions, system messages of the history are dropped.
    """
    text = instructions if advice is None else advice.under(instructions)
    if form:
        text = f"{text}\n\n{form}" if text else form
    messages = [Message(Role.SYSTEM, text)] if text else []
    if history:
        messages += [one for one in clean_history(history) if not text or one.role is not Role.SYSTEM]
    return messages


def clean_history(history: Iterable[Message]) -> list[Message]:
    """The history in a form that providers accept.

    The results of a message's calls come right after it. Calls without a result, and results without a call,
    are dropped.
    """
    messages = deque(_checked(history))
    kept: list[Message] = []
    while messages:
        message = messages.popleft()
        if message.role is Role.TOOL:
            continue  # no call is waiting for it
        asked = {call.id: call for call in reversed(message.tool_calls)}  # the first of two with the same id
        results: dict[str, Message] = {}
        while asked and messages and messages[0].role is Role.TOOL:
            result = messages.popleft()
            if result.tool_call_id in asked and result.tool_call_id not in results:
                results[result.tool_call_id] = result
        if asked:
            ids = dict.fromkeys(call.id for call in message.tool_calls)
            calls = tuple(asked[each] for each in ids if each in results)
            if not calls and not message.content:
                continue
            message = replace(message, tool_calls=calls)
        kept += [message, *results.values()]
    return kept


def _checked(history: Iterable[Any]) -> Iterator[Message]:
    for index, message in enumerate(history):
        if not isinstance(message, Message):
            raise ConfigError(
                f"history[{index}] is of type {type(message).__name__}; a history is made of messages: "
                f"Message(Role.USER, ...)"
            )
        yield message


def is_over(steps: Sequence[ReActStep]) -> bool:
    """Whether the run of a scratchpad has ended, so that the state begins another run."""
    return bool(steps) and isinstance(steps[-1], FinalAnswer | ErrorStep)


def messages_of(steps: Iterable[ReActStep]) -> list[Message]:
    """The messages of an unfinished run, from its scratchpad."""
    messages: list[Message] = []
    thought = ""
    calls: list[ToolCall] = []

    def flush() -> None:
        nonlocal thought
        if thought or calls:
            messages.append(Message(Role.ASSISTANT, thought, tool_calls=tuple(calls)))
        thought = ""
        calls.clear()

    for step in steps:
        match step:
            case Thought(text=text):
                flush()
                thought = text
            case Action(call=call):
                calls.append(call)
            case Observation(value=value, call_id=call_id):
                flush()
                text = text_of(value)
                role = Role.USER if call_id is None else Role.TOOL
                messages.append(Message(role, text, call_id))
            case FinalAnswer(text=text):
                flush()
                messages.append(Message(Role.ASSISTANT, text))
            case ErrorStep():
                flush()
    flush()
    return clean_history(messages)


def question_of(state: object) -> tuple[str, Sequence[ReActStep], int]:
    """The task of a state, its scratchpad, and the number of model calls that it has counted."""
    from wesichain.core.internal import read_state  # loaded with the first state

    read = read_state(state)
    return read.user_input, read.scratchpad, read.iteration_count
