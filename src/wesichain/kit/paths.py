"""Paths of a workspace: which texts name a file inside the root, and which are refused."""

from __future__ import annotations

import unicodedata

from wesichain.errors import ToolError

_LONGEST = 1_024  # characters of a path
_DEEPEST = 32  # folders
_NAME_BYTES = 255  # what file systems take


def parts_of(path: str) -> tuple[str, ...]:
    """The folders and the file that a relative path names; raises `ToolError` for every other path.

    The path is checked in its compatibility form too (NFKC), in which a full-width dot is a dot: what could
    lead out of the root in any form is refused in all of them.
    """
    if not path or len(path) > _LONGEST:
        raise ToolError(f"a path has 1 to {_LONGEST} characters, not {len(path)}")
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in path):
        raise ToolError(f"the path {path!r} has control characters; use plain letters")
    normal = unicodedata.normalize("NFKC", path)
    if path.startswith("/") or normal.startswith("/") or "\\" in normal or normal[1:2] == ":":
        raise ToolError(f"the path {path!r} is not relative to the workspace; use one such as 'notes/a.md'")
    if normal.count("/") != path.count("/") or any(part.strip() == ".." for part in normal.split("/")):
        raise ToolError(f"the path {path!r} leads out of its folder; use one such as 'notes/a.md'")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if len(parts) > _DEEPEST or any(len(part.encode()) > _NAME_BYTES for part in parts):
        raise ToolError(f"the path {path!r} is too deep or has a name that is too long")
    return parts


def file_parts(path: str) -> tuple[str, ...]:
    """The folders and the file of a path that has to name a file."""
    parts = parts_of(path)
    if not parts:
        raise ToolError(f"the path {path!r} names no file")
    return parts
