"""File names for any text: valid on every file system, and different also where case is ignored."""

from __future__ import annotations

import re

LONGEST = 80  # characters of a portable name
_PLAIN = re.compile(rf"[a-z0-9_](?:[a-z0-9_.\[\]-]{{0,{LONGEST - 2}}}[a-z0-9_\]-])?")
_OTHER = re.compile(r"[^a-z0-9_-]")  # also a dot: what stands before the first may be a device
_DIGEST = 24  # hexadecimal digits: 96 bits
_READABLE = LONGEST - _DIGEST - 1  # characters before the hash
# Windows opens a device for these names, with any extension.
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)", re.IGNORECASE)
_INVALID = re.compile(r'[<>:"/\\|?*\x00-\x1f]')


def portable_name(text: str) -> str:
    """Return a file name, without an extension, for any text; different texts have different names.

    A text of at most 80 of the characters `a-z 0-9 _ . [ ] -` is its own name, unless it begins or ends with
    one that a system treats in its own way, or is the name of a device. Any other text becomes readable
    characters, `~`, and a part of its hash.
    """
    if _PLAIN.fullmatch(text) and not _DEVICES.fullmatch(text.partition(".")[0]):
        return text
    return f"{_readable(text)}~{_hash(text)[:_DIGEST]}"


def begins_like(name: str, beginning: str) -> bool:
    """Whether a portable name can be that of a text with this beginning."""
    return name.startswith((beginning, _readable(beginning)))


def _readable(text: str) -> str:
    return _OTHER.sub("-", text[:_READABLE].lower())[:_READABLE]


def hashed_name(text: str) -> str:
    """Return a file name for any text that shows nothing of the text."""
    return _hash(text)[:32]


def is_windows_name(name: str) -> bool:
    """Whether Windows stores a file under exactly this name: not a device, a stream, or a changed name."""
    stem = name.partition(".")[0].rstrip(" ")
    return not (_INVALID.search(name) or name[-1:] in (".", " ") or _DEVICES.fullmatch(stem))


def _hash(text: str) -> str:
    from hashlib import sha256  # not needed for the ids of the runtime

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
