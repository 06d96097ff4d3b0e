"""Tokens: estimates of how much of a model's context a message takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from wesichain.core import Message, Text
from wesichain.errors import ConfigError

CountTokens: TypeAlias = Callable[[str], int]

_PART = 1_000  # tokens of an image, a document or audio


def estimate_tokens(text: str) -> int:
    """An estimate without a tokenizer: four characters per token, and four tokens for each message."""
    return len(text) // 4 + 4


def tokens_of(message: Message, count: CountTokens = estimate_tokens) -> int:
    """The tokens of a message: its text, reasoning and calls, and a thousand for each other part."""
    return count_each((message,), count, [])


def count_each(messages: Iterable[Message], count: CountTokens, sizes: list[int]) -> int:
    """The total tokens of several messages; the tokens of each are added to `sizes`."""
    total = 0
    for message in messages:
        content = message.content
        if count is estimate_tokens and content.__class__ is str:  # the usual case, without the cost of calls
            tokens = len(content) // 4 + 4
            if message.tool_calls:  # checking is faster than iterating over none
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
    """Raise `ConfigError` with its name for a setting that is not a number of tokens."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name}={value!r}: use a whole number of tokens, {least} or more")


def check_counter(count: Any) -> None:
    if not callable(count):
        raise ConfigError(f"count_tokens={count!r}: use a function that takes a string and returns a number")
