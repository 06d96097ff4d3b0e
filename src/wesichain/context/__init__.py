"""Context: views that shorten the requests of a run. The log keeps all messages."""

from typing import TYPE_CHECKING

from wesichain.core.internal import Cut, lazy_getattr

from .tokens import CountTokens, estimate_tokens, tokens_of
from .view import (
    ContextView,
    Question,  # pyright: ignore[reportDeprecated]  # for those who import it from here
    ViewQuestion,
    ViewRequest,
    are_views,
    counter_of,
    inactive_below,
)

if TYPE_CHECKING:
    from .builtin_views import ClearToolResults, Summarise, TrimResults, Window, fit
    from .visible_log import VisibleLog
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            ".builtin_views": ("ClearToolResults", "Summarise", "TrimResults", "Window", "fit"),
            ".visible_log": ("VisibleLog",),
        },
        renamed={"Seen": "VisibleLog", "quiet_of": "inactive_below"},
    )

__all__ = [
    "ClearToolResults",
    "ContextView",
    "CountTokens",
    "Cut",
    "Question",
    "Summarise",
    "TrimResults",
    "ViewQuestion",
    "ViewRequest",
    "VisibleLog",
    "Window",
    "are_views",
    "counter_of",
    "estimate_tokens",
    "fit",
    "inactive_below",
    "tokens_of",
]
