"""Failures: messages of bounded length for the exceptions of tools."""

from __future__ import annotations

import asyncio

from wesichain.core.internal import stray_cancel

from .json_schema.issues import shorten

_MAX_MESSAGE = 2_000


class RemoteError(Exception):
    """An exception of an isolated tool, with the message that its process sent."""


def describe(error: BaseException) -> str:
    """Return the class and the message of an exception."""
    if isinstance(error, asyncio.CancelledError):
        return str(stray_cancel(error))
    if isinstance(error, RemoteError):
        return str(error)
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # a broken __str__ must not hide the error
        text = "(its message cannot be read)"
    return clean(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def clean(text: str) -> str:
    """Shorten a message, and replace what JSON cannot contain."""
    return shorten(text, _MAX_MESSAGE).encode("utf-8", "replace").decode("utf-8")
