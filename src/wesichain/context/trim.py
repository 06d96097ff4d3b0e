"""TrimResults: a long result is shown by its beginning and its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wesichain.core import Message
from wesichain.core.internal import Cut, dataclass
from wesichain.errors import AgentError

from .tokens import CountTokens, check_counter, check_tokens, estimate_tokens
from .visible_log import VisibleLog

LEAST = 32  # tokens: less of a result would be the mark alone


@dataclass(frozen=True, slots=True)
class TrimResults:
    """A tool's result of more than `max_tokens` is cut in its middle; the cut is marked, with its size."""

    max_tokens: int
    count_tokens: CountTokens = estimate_tokens

    def __post_init__(self) -> None:
        check_tokens("max_tokens", self.max_tokens, least=LEAST)
        check_counter(self.count_tokens)

    @property
    def inactive_below_tokens(self) -> int:
        return self.max_tokens

    @property
    def name(self) -> str:
        return "TrimResults"

    def reduce(self, seen: VisibleLog) -> Sequence[Cut] | None:
        return [
            _shortened(place, message, self.max_tokens, self.count_tokens)
            for place, message, size in seen.tool_results()
            if size > self.max_tokens
        ]


def trimmed(text: str, max_tokens: int, count: CountTokens = estimate_tokens) -> str:
    """The beginning and the end of a text, with a mark between them, in at most `max_tokens`."""
    kept = len(text)
    shown = text
    while count(shown) > max_tokens and kept:
        kept = min(kept - 1, max(0, kept * max_tokens // max(1, count(shown)) - 1))
        head = kept * 2 // 3
        tail = text[len(text) - (kept - head) :] if kept > head else ""
        shown = f"{text[:head]}\n[... {len(text) - kept} of {len(text)} characters left out ...]\n{tail}"
    return shown


def trimmed_together(texts: Sequence[str], max_tokens: int, count: CountTokens) -> list[str]:
    """Texts of at most `max_tokens` together: the longest are cut first, down to a common length."""
    sizes = [count(text) for text in texts]
    over = sum(sizes) - max_tokens
    if over <= 0:
        return [*texts]
    length = _common_length(sorted(sizes, reverse=True), over)
    return [trimmed(text, LEAST if length is None else length, count) for text in texts]


def fit(seen: VisibleLog, limit: int, view: str, count: CountTokens) -> list[Cut]:
    """The cuts in tools' results that bring a request down to `limit` tokens.

    The longest results are cut first, down to a common length. Where that is not enough, the run fails: it
    cannot be asked within the limit.
    """
    over = seen.tokens - limit
    results = sorted(seen.tool_results(), key=lambda one: one[2], reverse=True)
    length = _common_length([size for _, _, size in results], over)
    if length is None:
        least = seen.tokens - sum(max(0, size - LEAST) for _, _, size in results)
        raise AgentError(
            f"the request needs at least {least} tokens, with every result of a tool cut to {LEAST} tokens, "
            f"and {view} allows {limit}: raise the limit, or shorten instructions, task or replies"
        )
    return [_shortened(place, message, length, count) for place, message, size in results if size > length]


def _common_length(sizes: Sequence[int], over: int) -> int | None:
    """The length to which the longest of these are cut to save `over` tokens; None where none is enough."""
    for number in range(1, len(sizes) + 1):
        following = sizes[number] if number < len(sizes) else 0
        length = (sum(sizes[:number]) - over) // number
        if length >= max(following, LEAST):
            return length
    return None


def _shortened(place: int, message: Message, max_tokens: int, count: CountTokens) -> Cut:
    return Cut(place, place + 1, (replace(message, content=trimmed(message.text, max_tokens, count)),))
