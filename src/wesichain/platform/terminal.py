"""The terminal and the signals, in an event loop."""

import sys

if sys.platform == "win32":
    from .windows_terminal import (
        ENDING_SIGNALS,
        discard_typed,
        handle_signal,
        typed_line,
    )
else:
    from .posix_terminal import (
        ENDING_SIGNALS,
        discard_typed,
        handle_signal,
        typed_line,
    )

__all__ = [
    "ENDING_SIGNALS",
    "discard_typed",
    "handle_signal",
    "typed_line",
]
