"""API keys: which key a client sends, and the one host that it is sent to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from wesichain.core.internal import Value, register_recent
from wesichain.errors import ConfigError

PLACEHOLDER = "no-key"  # the SDKs require a key; a server without keys ignores it

Key: TypeAlias = str | Callable[[], str] | Callable[[], Awaitable[str]]


def key_function(key: Key | None) -> Callable[[], Awaitable[str]] | None:
    """An async function that returns the key for one request; None if the key is a string or None.

    A sync function runs in a thread, because it may wait for a token.
    """
    if key is None or isinstance(key, str):
        return None
    if not callable(key):
        raise ConfigError(f"api_key is {type(key).__name__}; pass a string, or a function that returns one")
    function: Any = key

    async def request_key() -> str:
        if iscoroutinefunction(function):
            given = await function()
        else:
            given = await asyncio.to_thread(function)
            if isawaitable(given):
                given = await given
        if not isinstance(given, str) or not given.strip():
            raise ConfigError(
                f"the function for the key returned {type(given).__name__}, not a key; return a string"
            )
        register_recent(given)
        return clean_key(given)

    return request_key


class KeyAccount(Value):
    """The default address of a provider, and the environment variables for its address and key."""

    url: str
    url_variable: str
    key_variable: str

    def address(self, base_url: str | None) -> str:
        return base_url or os.environ.get(self.url_variable) or self.url

    def key_for(self, base_url: str | None, api_key: Key | None) -> str | None:
        """The key to send, if any. The environment's key is sent to the environment's own address only.

        Any other address gets the key in `api_key`. A function is called later, for each request.
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
                f"your own server needs only base_url="
            )
        return None


def clean_key(key: str) -> str:
    """The key without surrounding white space. A key that no HTTP header can hold is a `ConfigError`."""
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("the key has characters that an HTTP header cannot hold; copy it again")
    return key


def host_of(url: str) -> str:
    """The host of an address, with the port if it has one."""
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
        raise ConfigError("base_url is not an address such as https://host/v1; check its spelling")
    return parts.scheme, host, port
