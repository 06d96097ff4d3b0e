"""Turns of blocks, as in Anthropic's messages and Bedrock's Converse, and Claude's reasoning. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from wesichain.core import LlmRequest, Message, ModelSettings, Role, Usage
from wesichain.core.internal import is_array
from wesichain.errors import ConfigError

from .calls import as_object, as_objects, token_count
from .media_blocks import Block, blocks_of
from .supported_settings import ReasoningForm

_ILLEGAL_IN_ID = re.compile(r"[^A-Za-z0-9_-]")


def instructions_of(request: LlmRequest) -> str:
    """The system messages of a request, as one text."""
    return "\n\n".join(filter(None, (one.text for one in request.messages if one.role is Role.SYSTEM)))


def turns_of(messages: Sequence[Message], write: Callable[[Message], list[Block]]) -> list[dict[str, Any]]:
    """Alternating turns of user and assistant; the results of parallel calls are one user turn."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        blocks = [] if message.role is Role.SYSTEM else write(message)
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        if blocks and turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(blocks)
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def assistant_blocks(
    message: Message,
    calls: Sequence[Block],
    *,
    owner: str,
    text: Callable[[str], Block],
    is_call: Callable[[Block], bool],
    omitted: list[str],
) -> list[Block]:
    """The blocks of a reply; those in `Message.opaque` under `owner` are sent as they were received."""
    layout = layout_of(message, owner)
    if layout is None:
        said = blocks_of(message.content, lambda _: "only text can be sent for an assistant", text, omitted)
        return [*(block for block in said if block["text"].strip()), *calls]
    blocks = with_calls(layout, calls, is_call)
    return [block for block in blocks if "text" not in block or str(block["text"]).strip()]


def layout_of(message: Message, owner: str) -> list[Block] | None:
    """The blocks of a reply as its provider sent them, where `Message.opaque` has them under `owner`."""
    layout = as_object(message.opaque).get(owner)
    return as_objects(layout) if is_array(layout) else None


def with_calls(
    layout: Sequence[Block], calls: Iterable[Block], is_call: Callable[[Block], bool]
) -> Iterator[Block]:
    """A layout with the calls in the places where it marks one, and the other calls after it."""
    waiting = iter(calls)
    for block in layout:
        if not is_call(block):
            yield block
        elif (call := next(waiting, None)) is not None:
            yield call
    yield from waiting


def cache_lifetime(request: LlmRequest, *, caching: bool) -> dict[str, str] | None:
    """How long a marked prefix is cached, as a field of its mark; None if nothing is marked."""
    cache = request.settings.cache
    if cache == "off" or (cache == "auto" and not caching):
        return None
    return {} if cache == "auto" else {"ttl": cache}


def marked_turns(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The turns at whose ends a prefix is cached: the last two of the user.

    A request hits the cache at the mark of the previous request, so both are set: the last turn of the
    previous request and of this one. A provider looks back only twenty blocks, which a reply with many calls
    would exceed.
    """
    return [turn for turn in body["messages"] if turn["role"] == "user"][-2:]


def usage_of(*, fresh: object, cached: object, stored: object, written: object, thought: object = 0) -> Usage:
    """The usage of a reply. Both APIs count uncached, cached and newly cached input tokens separately."""
    hits, writes, output = token_count(cached), token_count(stored), token_count(written)
    read = token_count(fresh) + hits + writes
    return Usage(read, output, hits, writes, min(token_count(thought), output))


def legal_id(id: str) -> str:
    """The id with only legal characters; ids from other providers may have others."""
    return _ILLEGAL_IN_ID.sub("_", id)


# --- Claude's reasoning -----------------------------------------------------------------------------

SMALLEST_BUDGET = 1024  # tokens: the minimum of the API
BUDGETS = {"low": 2048, "medium": 8192, "high": 24_576}  # for models that take no effort


def thinking_of(settings: ModelSettings, form: ReasoningForm) -> tuple[dict[str, Any] | None, str | None]:
    """The configuration of Claude's thinking, and its effort, in the form that the model takes."""
    match settings.reasoning:
        case None:
            return None, None
        case "off":
            return {"type": "between_tools" if form == "between_tools" else "disabled"}, None
        case int() as budget:
            return _budget(budget), None
        case effort:
            if form == "budget":
                return _budget(BUDGETS[effort]), None
            return {"type": "adaptive"}, effort


def _budget(tokens: int) -> dict[str, Any]:
    if tokens < SMALLEST_BUDGET:
        raise ConfigError(f"reasoning={tokens}: Claude takes {SMALLEST_BUDGET} tokens or more")
    return {"type": "enabled", "budget_tokens": tokens}


def reply_limit(settings: ModelSettings, thinking: dict[str, Any] | None, *, default: int) -> int | None:
    """The token limit of a reply, which includes the thoughts; None for the default."""
    budget: int = (thinking or {}).get("budget_tokens", 0)
    if settings.max_tokens is None:
        return default + budget if budget else None
    if settings.max_tokens <= budget:
        raise ConfigError(
            f"max_tokens={settings.max_tokens} leaves no room for an answer after {budget} tokens of "
            f"reasoning; raise max_tokens, or lower reasoning"
        )
    return settings.max_tokens
