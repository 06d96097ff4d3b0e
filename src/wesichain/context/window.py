"""Window: the newest messages that fit."""

from __future__ import annotations

from collections.abc import Sequence

from wesichain.core.internal import Cut, dataclass
from wesichain.errors import ConfigError

from .tokens import CountTokens, check_counter, check_tokens, estimate_tokens
from .visible_log import VisibleLog


@dataclass(frozen=True, slots=True)
class Window:
    """Above `max_tokens`, the oldest replies go, with their results, until `keep_tokens` are left.

    `keep_tokens` are three quarters of the window unless you say: to cut a good deal at a time keeps the
    prompt the same for some steps, and what a provider has cached of it worth something. The instructions,
    the task and the last reply with its results stay; where these alone are more than the window, the results
    are cut in their middle, and where that is not enough the run fails before the model call.
    """

    max_tokens: int
    keep_tokens: int | None = None
    count_tokens: CountTokens = estimate_tokens

    def __post_init__(self) -> None:
        check_tokens("max_tokens", self.max_tokens)
        check_counter(self.count_tokens)
        if self.keep_tokens is not None:
            check_tokens("keep_tokens", self.keep_tokens, least=0)
            if self.keep_tokens > self.max_tokens:
                raise ConfigError(
                    f"keep_tokens={self.keep_tokens} is more than max_tokens={self.max_tokens}; use less"
                )

    @property
    def inactive_below_tokens(self) -> int:
        return self.max_tokens

    @property
    def limit_tokens(self) -> int:
        return self.max_tokens

    @property
    def name(self) -> str:
        return "Window"

    def reduce(self, seen: VisibleLog) -> Sequence[Cut] | None:
        if seen.tokens <= self.max_tokens:
            return None
        keep = self.max_tokens * 3 // 4 if self.keep_tokens is None else self.keep_tokens
        return [Cut(start, end) for start, end in seen.oldest(seen.tokens - keep)]
