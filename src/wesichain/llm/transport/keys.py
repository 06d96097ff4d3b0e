"""Keys: which one a client sends, and to which host alone it is sent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from wesichain.core.internal import Value
from wesichain.errors import ConfigError

PLACEHOLDER = "no-key"  # the SDKs insist on a key; a server that asks for none ignores it

Key: TypeAlias = str | Callable[[], str] | Callable[[], Awaitable[str]]


def asked_key(key: Key | None) -> Callable[[], Awaitable[str]] | None:
    """A function that is asked for the key of every request; None where the key is a text, or none.

    A sync one is run in a thread: it may wait for a token.
    """
    if key is None or isinstance(key, str):
        return None
    if not callable(key):
        raise ConfigError(f"api_key is {type(key).__name__}; give a text, or a function that gives one")
    function: Any = key

    async def ask() -> str:
        if iscoroutinefunction(function):
            given = await function()
        else:
            given = await asyncio.to_thread(function)
            if isawaitable(given):
                given = await given
        if not isinstance(given, str) or not given.strip():
            raise ConfigError(
                f"the function for the key gave {type(given).__name__}, not a key; return a text"
            )
        return clean_key(given)

    return ask


class KeyAccount(Value):
    """Where a provider lives by default, and the environment variables that say otherwise."""

    url: str
    url_variable: str
    key_variable: str

    def address(self, base_url: str | None) -> str:
        return base_url or os.environ.get(self.url_variable) or self.url

    def key_for(self, base_url: str | None, api_key: Key | None) -> str | None:
        """The key to send, if any. The environment's key belongs to the environment's own address.

        Another address gets the key that it was given, never one that is meant for somebody else. A function
        is asked later.
        """
        if api_key:
            return clean_key(api_key) if isinstance(api_key, str) else None
        origin = _origin(self.address(base_url))
        key = os.environ.get(self.key_variable)
        if key and origin == _origin(self.address(None)):
            return clean_key(key)
        if self.url and origin == _origin(self.url):
            raise ConfigError(
                f"no key for {host_of(self.url)}: set {self.key_variable}, or pass api_key=; "
                f"a server of your own needs only base_url="
            )
        return None


def clean_key(key: str) -> str:
    """The key without the line end of the file that it was read from; a header carries plain text alone."""
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("the key holds characters that no header can carry; copy it again")
    return key


def host_of(url: str) -> str:
    """The host, with its port if it names one, and nothing else of the address."""
    parts = _parts(url)
    return f"{parts[1]}:{parts[2]}" if parts[2] else parts[1]


def _origin(url: str) -> tuple[str, str, int]:
    scheme, host, port = _parts(url)
    return scheme, host, port or {"http": 80, "https": 443}[scheme]


def _parts(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or not host.isprintable():
        raise ConfigError("base_url is not an address such as https://host/v1; check how it is written")
    return parts.scheme, host, port
