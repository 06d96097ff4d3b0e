"""Context: views that shorten the requests of a run. The log keeps all messages."""

from typing import TYPE_CHECKING

from wesichain.core.internal import Cut, lazy_getattr

from .tokens import CountTokens, estimate_tokens, tokens_of
from .view import (
    ContextView,
    Question,  # pyright: ignore[reportDeprecated]  # for those who import it from here
    ViewQuestion,
    ViewRequest,
)

if TYPE_CHECKING:
    from .builtin_views import ClearToolResults, Summarise, TrimResults, Window
    from .visible_log import VisibleLog
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            ".builtin_views": ("ClearToolResults", "Summarise", "TrimResults", "Window"),
            ".visible_log": ("VisibleLog",),
        },
        renamed={"Seen": "VisibleLog", "quiet_of": "inactive_below"},
        moved_to=("wesichain.context.internal",),
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
    "estimate_tokens",
    "tokens_of",
]
