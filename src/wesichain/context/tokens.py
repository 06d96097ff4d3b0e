"""Tokens: how much of a model's context a message takes, as well as that can be guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from wesichain.core import Message, Text
from wesichain.errors import ConfigError

CountTokens: TypeAlias = Callable[[str], int]

_PART = 1_000  # a picture, a document, a sound


def estimate_tokens(text: str) -> int:
    """A guess that needs no tokenizer: four characters a token, and a few for the frame."""
    return len(text) // 4 + 4


def tokens_of(message: Message, count: CountTokens = estimate_tokens) -> int:
    """The tokens of a message: its text, reasoning and calls, and a thousand for each picture or the like."""
    return count_each((message,), count, [])


def count_each(messages: Iterable[Message], count: CountTokens, sizes: list[int]) -> int:
    """The same of several messages together; that of each is added to `sizes`."""
    total = 0
    for message in messages:
        content = message.content
        if count is estimate_tokens and content.__class__ is str:  # the usual: it is not worth the calls
            tokens = len(content) // 4 + 4
            if message.tool_calls:  # to go through none of them takes longer than to ask
                for call in message.tool_calls:
                    tokens += (len(call.name) + len(str(call.args))) // 4 + 4
        else:
            tokens = count(message.text)
            if not isinstance(content, str):
                tokens += _PART * sum(not isinstance(part, Text) for part in content)
            for call in message.tool_calls:
                tokens += count(f"{call.name}{call.args}")
        if message.reasoning:
            tokens += count(message.reasoning)
        sizes.append(tokens)
        total += tokens
    return total


def check_tokens(name: str, value: Any, *, least: int = 1) -> None:
    """A number of tokens that somebody has set; what is none is told, with its name."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name}={value!r}: use a whole number of tokens, {least} or more")


def check_counter(count: Any) -> None:
    if not callable(count):
        raise ConfigError(f"count_tokens={count!r}: use a function that takes a text and returns a number")
