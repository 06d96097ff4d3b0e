"""Failures: what a tool raised, in words of bounded length."""

from __future__ import annotations

import asyncio

from wesichain.core.internal import stray_cancel

from .json_schema.issues import shorten

_MAX_MESSAGE = 2_000


class RemoteError(Exception):
    """The exception of an isolated tool, as far as it can be told across processes."""


def describe(error: BaseException) -> str:
    """The kind and the message of an exception."""
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
    """A message of bounded length that JSON can hold."""
    return shorten(text, _MAX_MESSAGE).encode("utf-8", "replace").decode("utf-8")
