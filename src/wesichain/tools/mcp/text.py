"""Text: removes control characters from the texts of a server, and limits their length."""

from __future__ import annotations

import re
from typing import Any
from unicodedata import category

from wesichain.core.internal import is_array, is_object

# Terminal sequences: CSI, strings (OSC, DCS, SOS, PM, APC), and short ones.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_KEPT = frozenset("\n\t\u200c\u200d")  # the last two join letters, in Persian and in emoji
_ANNOTATIONS = ("title", "description", "$comment")


def clean(text: str) -> str:
    """Remove terminal sequences, control characters and invisible format characters."""
    text = (
        _ESCAPES.sub("", text)
        if "\x1b" in text or any("\x80" <= letter <= "\x9f" for letter in text)
        else text
    )
    if text.isprintable():
        return text
    return "".join(letter for letter in text if letter in _KEPT or category(letter) not in ("Cc", "Cf", "Cs"))


def bounded(text: str, limit: int) -> str:
    """Clean a text, and cut it with a note if it has more than `limit` bytes of UTF-8."""
    size = len(text.encode("utf-8", "replace"))
    data = clean(text[:limit]).encode("utf-8", "replace")
    if size <= limit:
        return data.decode("utf-8")
    note = f" [cut here: the server sent {size:,} bytes]"
    return data[: max(0, limit - len(note))].decode("utf-8", "ignore") + note


def label(text: str) -> str:
    """Return a name or address of a server as one line of at most 200 bytes."""
    return " ".join(bounded(text, 200).split())


def clean_schema(schema: Any, limit: int) -> Any:
    """Return a copy of a JSON schema with `bounded` applied to titles, descriptions and comments."""
    if is_object(schema):
        return {
            key: bounded(value, limit)
            if key in _ANNOTATIONS and isinstance(value, str)
            else clean_schema(value, limit)
            for key, value in schema.items()
        }
    return [clean_schema(value, limit) for value in schema] if is_array(schema) else schema


def has_controls(value: Any) -> bool:
    """Whether a key or a string in a JSON value contains control characters."""
    if isinstance(value, str):
        return any(letter not in _KEPT and category(letter) == "Cc" for letter in value)
    if is_object(value):
        return any(has_controls(key) or has_controls(each) for key, each in value.items())
    return is_array(value) and any(has_controls(each) for each in value)
