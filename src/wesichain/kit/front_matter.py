"""Front matter: the fields at the head of a Markdown file, between two lines of three dashes.

Of YAML it reads what such heads are made of: a key and a text on one line (plain or quoted), texts that go on
over indented lines, and block texts (`>` and `|`). Lists and maps below a key are skipped.
"""

from __future__ import annotations

import re

from wesichain.core import parse_json
from wesichain.errors import CodecError, ConfigError

_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(?:[ \t]+(.*))?$")
_BLOCK = re.compile(r"([>|])[+-]?[0-9]?$")
_FENCE = "---"


def split_front_matter(text: str, where: str) -> tuple[dict[str, str], str]:
    """The fields of a file's head, and the text below it; raises `ConfigError` where there is no head."""
    lines = text.removeprefix("\ufeff").splitlines()
    ends = [number for number, line in enumerate(lines) if line.rstrip() == _FENCE]
    if len(ends) < 2 or ends[0] != 0:
        raise ConfigError(f"{where} does not begin with a front matter between two lines of '---'")
    body = "\n".join(lines[ends[1] + 1 :]).strip("\n")
    return _fields(lines[1 : ends[1]], where), body


def _fields(lines: list[str], where: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    while lines:
        line = lines.pop(0)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _KEY.match(line)
        if found is None:
            raise ConfigError(f"{where}: the front matter has a line that is no 'key: text': {line[:80]!r}")
        below: list[str] = []
        while lines and (not lines[0].strip() or lines[0][0] in " \t" or lines[0].startswith("- ")):
            below.append(lines.pop(0).strip())
        if found[1] in fields:
            raise ConfigError(f"{where}: the front matter has {found[1]!r} twice")
        fields[found[1]] = _text((found[2] or "").strip(), below, where)
    return fields


def _text(first: str, below: list[str], where: str) -> str:
    block = _BLOCK.match(first)
    if block:
        return ("\n" if block[1] == "|" else " ").join(below).strip()
    text = " ".join([first, *filter(None, below)]).strip() if first else ""
    if text[:1] == "'":
        if len(text) < 2 or text[-1] != "'":
            raise ConfigError(
                f"{where}: the front matter has a text whose quotation has no end: {text[:80]!r}"
            )
        return text[1:-1].replace("''", "'")
    if text[:1] == '"':
        try:
            return str(parse_json(text))
        except CodecError as error:
            raise ConfigError(f"{where}: the front matter has a text that cannot be read: {error}") from error
    return text.split(" #", 1)[0].strip()
