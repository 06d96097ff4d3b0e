"""Parts: the bytes of images, documents and audio are stored separately from the entries, by their hash.

The text of an entry contains the hash, as recordings do. A thread stores each part once, and deleting the
thread deletes its parts.
"""

from __future__ import annotations

from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from wesichain.core.internal import KEPT, MEDIA, dump_json, is_object, parse_json, replace
from wesichain.graph.state.kinds import is_list
from wesichain.store import ThreadEntry

_KINDS = tuple(kind.kind for kind in MEDIA)
_HAS_BYTES = '"data":"'


def as_kept(store: object, entries: Sequence[ThreadEntry]) -> Sequence[ThreadEntry]:
    """Return entries for a store: with the bytes of parts beside the text, if it supports that."""
    for entry in entries:
        if _HAS_BYTES in entry.body:
            return [*map(apart, entries)] if getattr(store, "keeps_parts", False) else entries
    return entries


def apart(entry: ThreadEntry) -> ThreadEntry:
    """Move the bytes of parts from the text of an entry to its `parts`."""
    if _HAS_BYTES not in entry.body:
        return entry
    found: dict[str, bytes] = {}
    body = dump_json(_changed(parse_json(entry.body), lambda part: _without_bytes(part, found)))
    return replace(entry, body=body, parts={**entry.parts, **found}) if found else entry


def together(entry: ThreadEntry, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of an entry with the bytes of its parts restored, as base64."""
    if not entry.parts:
        return body
    whole: dict[str, Any] = _changed(body, lambda part: _with_bytes(part, entry.parts))
    return whole


def _changed(data: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return JSON data with `change` applied to every object that has the form of a part."""
    if is_list(data):
        return [_changed(item, change) for item in data]
    if not is_object(data):
        return data
    if data.get("kind") in _KINDS and isinstance(data.get("media_type"), str):
        return change(data)
    return {name: _changed(item, change) for name, item in data.items()}


def _without_bytes(part: dict[str, Any], found: dict[str, bytes]) -> dict[str, Any]:
    text = part.get("data")
    if not isinstance(text, str) or "url" in part:
        return part
    try:
        data = a2b_base64(text, strict_mode=True)
    except (Error, ValueError):
        return part
    if b2a_base64(data, newline=False).decode() != text:  # decoding would not restore the same text
        return part
    digest = sha256(data).hexdigest()
    found[digest] = data
    return {("url" if name == "data" else name): item for name, item in part.items()} | {"url": KEPT + digest}


def _with_bytes(part: dict[str, Any], parts: Mapping[str, bytes]) -> dict[str, Any]:
    url = part.get("url")
    data = parts.get(url.removeprefix(KEPT)) if isinstance(url, str) and "data" not in part else None
    if data is None:
        return part
    text = b2a_base64(data, newline=False).decode()
    return {("data" if name == "url" else name): item for name, item in part.items()} | {"data": text}
