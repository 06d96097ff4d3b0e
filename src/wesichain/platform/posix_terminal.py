"""The terminal and the signals on POSIX, in an event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Callable

assert sys.platform != "win32"

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def handle_signal(number: int, handler: Callable[[], object]) -> Callable[[], None]:
    """Call a function in the running event loop at a signal; return what ends that."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(number, handler)

    def restore() -> None:
        loop.remove_signal_handler(number)

    return restore


def discard_typed() -> None:
    """Discard what was typed before a question."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def typed_line(stopped: asyncio.Future[None]) -> str | None:
    """Return the next line that is typed; None at the end of the input, or when `stopped` is done.

    The loop reads the terminal itself: a thread could not be stopped while it reads.
    """
    source, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    ended: asyncio.Future[bool] = loop.create_future()
    typed = bytearray()

    def take() -> None:
        data = os.read(source, 65536)
        typed.extend(data)
        if (not data or b"\n" in data) and not ended.done():
            ended.set_result(bool(data))

    loop.add_reader(source, take)
    try:
        await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
        if stopped.done() or not (ended.result() or typed):
            return None
    finally:
        loop.remove_reader(source)
    return typed.decode(sys.stdin.encoding, "replace").splitlines()[0]
