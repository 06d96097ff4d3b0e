"""The console and the signals on Windows, in an event loop."""

from __future__ import annotations

import asyncio
import msvcrt
import signal
import sys
from collections.abc import Callable

assert sys.platform == "win32"

ENDING_SIGNALS = (signal.SIGINT, signal.SIGBREAK)
_PAUSE = 0.03  # seconds between looking for keys
_ERASE = "\b \b"
_END = "\x1a"  # Ctrl-Z


def handle_signal(number: int, handler: Callable[[], object]) -> Callable[[], None]:
    """Call a function in the running event loop at a signal; return what ends that."""
    loop = asyncio.get_running_loop()

    def handle(number: int, frame: object) -> None:
        if loop.is_closed():
            signal.default_int_handler(number, frame)  # type: ignore[arg-type]  # any frame at all
        loop.call_soon_threadsafe(handler)

    before = signal.signal(number, handle)

    def restore() -> None:
        signal.signal(number, before)

    return restore


def discard_typed() -> None:
    """Discard what was typed before a question."""
    while msvcrt.kbhit():
        msvcrt.getwch()


async def typed_line(stopped: asyncio.Future[None]) -> str | None:
    """Return the next line that is typed; None at the end of the input, or when `stopped` is done.

    The loop looks for keys itself: a thread could not be stopped while it reads.
    """
    typed = ""
    while not stopped.done():
        while msvcrt.kbhit():
            key = msvcrt.getwch()
            if key in "\r\n":
                _show("\r\n")
                return typed
            if key == _END:
                return typed or None
            typed = _edited(typed, key)
        await asyncio.wait((stopped,), timeout=_PAUSE)
    return None


def _edited(typed: str, key: str) -> str:
    """Return the line after a key, and show the change."""
    if key in "\x00\xe0" and msvcrt.kbhit():  # a function key: two characters
        msvcrt.getwch()
        return typed
    if key == "\b":
        _show(_ERASE if typed else "")
        return typed[:-1]
    _show(key)
    return typed + key


def _show(text: str) -> None:
    for letter in text:
        msvcrt.putwch(letter)
