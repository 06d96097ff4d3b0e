"""Encryption at rest: bodies are sealed before they are stored; names and times stay readable."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Protocol

from wesichain.core.internal import replace
from wesichain.errors import ConfigError, MissingDependencyError, StoreError
from wesichain.store import Entry

_MARK = "sealed:"
_NONCE = 12  # bytes


class Cipher(Protocol):
    """Seals data. `about` names what the data is, and has to be the same when it is opened."""

    def seal(self, data: bytes, about: str) -> bytes: ...

    def open(self, data: bytes, about: str) -> bytes: ...


class AesCipher:
    """AES-GCM with 128 or 256 bits, over the package `cryptography`.

    `keys` has every key that stored data may need, by its id; new data is sealed with the `current` one. To
    change keys, add a new one, make it the current one, and drop the old one once nothing is sealed with it.
    """

    def __init__(self, keys: Mapping[str, bytes], *, current: str) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise MissingDependencyError("AesCipher", package="cryptography", extra="encryption") from error

        if current not in keys:
            raise ConfigError(f"AesCipher(current={current!r}): there is no key with this id")
        for key_id, key in keys.items():
            if len(key) not in (16, 24, 32) or not key_id or ":" in key_id:
                raise ConfigError(
                    f"AesCipher: the key {key_id!r} has {len(key)} bytes; use 16 or 32, and an id without ':'"
                )
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self._current = current

    def seal(self, data: bytes, about: str) -> bytes:
        nonce = os.urandom(_NONCE)
        sealed = self._ciphers[self._current].encrypt(nonce, data, about.encode())
        return self._current.encode() + b":" + nonce + sealed

    def open(self, data: bytes, about: str) -> bytes:
        from cryptography.exceptions import InvalidTag

        key_id, _, rest = data.partition(b":")
        cipher = self._ciphers.get(key_id.decode("utf-8", "replace"))
        if cipher is None:
            raise StoreError(f"{about}: sealed with the key {key_id!r}, which this cipher does not have")
        try:
            return cipher.decrypt(rest[:_NONCE], rest[_NONCE:], about.encode())
        except InvalidTag as error:
            raise StoreError(f"{about}: cannot be opened; the key or the data is another one") from error


def sealed(entry: Entry, cipher: Cipher, run_id: str) -> Entry:
    """The entry with its body, notes and parts sealed: they can be opened as this entry of this run alone."""
    about = _about(entry, run_id)
    return replace(
        entry,
        body=_seal(entry.body, cipher, about),
        notes=_seal(entry.notes, cipher, f"{about}?notes") if entry.notes else "",
        by="",
        parts={digest: cipher.seal(data, f"{run_id}?{digest}") for digest, data in entry.parts.items()},
    )


def opened(entry: Entry, cipher: Cipher | None, run_id: str) -> Entry:
    """The entry as it was before it was sealed."""
    if not entry.body.startswith(f'"{_MARK}'):
        return entry
    if cipher is None:
        raise StoreError(
            f"the entry {entry.name!r} is encrypted: open the journals with the cipher that wrote it"
        )
    about = _about(entry, run_id)
    return replace(
        entry,
        body=_open(entry.body, cipher, about),
        notes=_open(entry.notes, cipher, f"{about}?notes") if entry.notes else "",
        parts={digest: cipher.open(data, f"{run_id}?{digest}") for digest, data in entry.parts.items()},
    )


def _about(entry: Entry, run_id: str) -> str:
    return f"{run_id}/{entry.name}"


def _seal(text: str, cipher: Cipher, about: str) -> str:
    return f'"{_MARK}{b64encode(cipher.seal(text.encode(), about)).decode()}"'


def _open(text: str, cipher: Cipher, about: str) -> str:
    return cipher.open(b64decode(text[1 + len(_MARK) : -1]), about).decode()
