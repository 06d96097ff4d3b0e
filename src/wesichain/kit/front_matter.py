"""Front matter: the fields at the head of a Markdown file, between two lines of three dashes.

The supported subset of YAML: a key and a text on one line (plain or quoted), texts that continue on indented
lines, and block texts (`>` and `|`). Plain texts may contain a colon, which YAML refuses. All fields that are
not `wanted` are skipped, lists and maps among them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection

from wesichain.errors import ConfigError

_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(?:[ \t]+(.*))?$")
_BLOCK = re.compile(r"([>|])[+-]?[0-9]?(?:[ \t]+#.*)?$")
_FENCE = "---"

_QUOTED = {
    '"': re.compile(r'"((?:[^"\\]|\\.)*)"[ \t]*(?:#.*)?', re.DOTALL),
    "'": re.compile(r"'((?:[^']|'')*)'[ \t]*(?:#.*)?", re.DOTALL),
}
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)|\n", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\n": ""}


def split_front_matter(text: str, where: str, wanted: Collection[str] = ()) -> tuple[dict[str, str], str]:
    """Return the wanted fields of a file's front matter, and the text below it.

    Raises `ConfigError` if there is no front matter, or a wanted field cannot be read.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    ends = [number for number, line in enumerate(lines) if line.rstrip() == _FENCE]
    if len(ends) < 2 or ends[0] != 0:
        raise ConfigError(f"{where} does not begin with front matter between two lines of '---'")
    body = "\n".join(lines[ends[1] + 1 :]).strip("\n")
    return _fields(lines[1 : ends[1]], where, wanted), body


def _fields(lines: list[str], where: str, wanted: Collection[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    while lines:
        line = lines.pop(0)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key = _KEY.match(line)
        if key is None:
            raise ConfigError(f"{where}: a line of the front matter is not 'key: text': {line[:80]!r}")
        below: list[str] = []
        while lines and (not lines[0].strip() or lines[0][0] in " \t" or lines[0].startswith("- ")):
            below.append(lines.pop(0).strip())
        if key[1] in fields:
            raise ConfigError(f"{where}: the front matter has {key[1]!r} twice")
        if key[1] in wanted:
            fields[key[1]] = _text((key[2] or "").strip(), below, where)
    return fields


def _text(first: str, below: list[str], where: str) -> str:
    block = _BLOCK.match(first)
    if block:
        return ("\n" if block[1] == "|" else " ").join(below).strip()
    lines = [line for line in (first, *below) if line]
    if not lines or lines[0][0] not in _QUOTED:
        return " ".join(line.split(" #", 1)[0].strip() for line in lines if not line.startswith("#"))
    quoted = _QUOTED[lines[0][0]].fullmatch("\n".join(lines))
    if quoted is None:
        raise ConfigError(f"{where}: the front matter has a quoted text that cannot be read: {first[:80]!r}")
    if lines[0][0] == "'":
        return quoted[1].replace("''", "'").replace("\n", " ")
    text = _ESCAPE.sub(_unescaped, quoted[1])
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # \ud83d\ude00 is one character


def _unescaped(escape: re.Match[str]) -> str:
    """Return the character of an escape. A line break is a space, or nothing if it is escaped."""
    code = escape[1]
    if code is None:
        return " "
    if len(code) > 1:
        return chr(min(int(code[1:], 16), sys.maxunicode))
    return _ESCAPED.get(code, code)
