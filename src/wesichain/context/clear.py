"""ClearToolResults: old results make room; the calls stay, so that the model knows what it has done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wesichain.core.internal import Cut, dataclass
from wesichain.errors import ConfigError

from .tokens import CountTokens, check_counter, check_tokens, estimate_tokens
from .visible_log import VisibleLog

CLEARED = "(This result was cleared to save room. Call the tool again if you need it.)"


@dataclass(frozen=True, slots=True)
class ClearToolResults:
    """Above `over_tokens`, all but the newest `keep` results of tools are replaced by a line that says so.

    Short results stay, and so do those that the model has not seen yet.
    """

    over_tokens: int
    keep: int = 4
    count_tokens: CountTokens = estimate_tokens

    def __post_init__(self) -> None:
        check_tokens("over_tokens", self.over_tokens)
        check_counter(self.count_tokens)
        keep: Any = self.keep
        if not isinstance(keep, int) or isinstance(keep, bool) or keep < 0:
            raise ConfigError(f"keep={self.keep!r}: use the number of results that stay, 0 or more")

    @property
    def inactive_below_tokens(self) -> int:
        return self.over_tokens

    @property
    def limit_tokens(self) -> int:
        return self.over_tokens

    @property
    def name(self) -> str:
        return "ClearToolResults"

    def reduce(self, seen: VisibleLog) -> Sequence[Cut] | None:
        if seen.tokens <= self.over_tokens:
            return None
        return [
            Cut(place, place + 1, (replace(message, content=CLEARED),))
            for place, message in seen.results(self.keep)
        ]
