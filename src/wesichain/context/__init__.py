"""Context: views that shorten the requests of a run. The log keeps everything."""

from typing import TYPE_CHECKING

from wesichain.core.internal import Cut, lazy_getattr

from .tokens import CountTokens, estimate_tokens, tokens_of
from .view import (
    ContextView,
    Question,  # pyright: ignore[reportDeprecated]  # for those who have it from here
    ViewQuestion,
    ViewRequest,
    are_views,
    counter_of,
    inactive_below,
)

if TYPE_CHECKING:
    from .clear import ClearToolResults
    from .summarise import Summarise
    from .trim import TrimResults, fit
    from .visible_log import VisibleLog
    from .window import Window
else:
    __getattr__ = lazy_getattr(
        __name__,
        {
            ".clear": ("ClearToolResults",),
            ".visible_log": ("VisibleLog",),
            ".summarise": ("Summarise",),
            ".trim": ("TrimResults", "fit"),
            ".window": ("Window",),
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
