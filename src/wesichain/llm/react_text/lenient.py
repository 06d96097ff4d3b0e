"""JSON as models write it: read when it can mean one thing only, refused otherwise.

Text that is nearly JSON is rewritten, token by token, into text that should be JSON; the strict
reader of the core then judges it, so that its rules (no duplicate keys, no NaN, no lone surrogates,
bounded depth) hold for repaired text as well. Mended: Python's quotes and literals, bare keys,
trailing commas, comments, raw line breaks in strings, closing brackets forgotten at the very end, and
the double braces that some templates teach.
Not mended: whatever would need a guess, such as a missing comma or a string cut in two.
"""

from __future__ import annotations

import re
from typing import Any

from wesichain.core.internal import parse_json
from wesichain.errors import CodecError

# Possessive throughout (`++`, `*+`): every character is looked at once, whatever the text.
_TOKEN = re.compile(
    r"""
    (?:\s++ | /\*(?:[^*]++|\*(?!/))*+\*/ | //[^\n]*+)*+
    (?: (?P<mark>[][{},:=])
      | (?P<string>"(?:[^"\\]++|\\[^\x00-\x1f])*+" | '(?:[^'\\]++|\\[^\x00-\x1f])*+')
      | (?P<word>[^][{},:=\s"'/]++)
      | (?P<end>\Z)
      | (?P<other>.))
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\.|\"")
_CONTROLS = {code: f"\\u{code:04x}" for code in range(32)}
_KEY = re.compile(r"[A-Za-z_$][\w$-]*+\Z")
_NUMBER = re.compile(r"-?+\d")
_ASSIGNED = re.compile(r"\s*+[:=]")
_LITERALS = {
    "true": "true",
    "false": "false",
    "null": "null",
    "True": "true",
    "False": "false",
    "None": "null",
}
_MARKS = {"=": ":"}  # keyword arguments, as in `search(query="x")`
_CLOSER = {"{": "}", "[": "]"}
_MAX_DEPTH = 200
_MAX_TOKENS = 20_000


def load(text: str, *, closed: bool = False) -> tuple[Any, str]:
    """The object or array that `text` begins with, and what follows it.

    `closed`: brackets that are still open at the end are an error, because the text may have been cut.
    """
    if not text.startswith("{{"):
        return _load(text, closed=closed)
    try:  # only the outer braces are doubled, or all of them
        value, rest = _load(text[1:], closed=True)
        return value, rest.removeprefix("}")
    except CodecError:
        return _load(text.replace("{{", "{").replace("}}", "}"), closed=True)


def _load(text: str, *, closed: bool) -> tuple[Any, str]:
    mended, end = _mend(text, closed=closed)
    return parse_json(mended), text[end:]


def _mend(text: str, *, closed: bool) -> tuple[str, int]:
    out: list[str] = []
    closers: list[str] = []
    whole = False  # whether the last token ends a value
    for token in _TOKEN.finditer(text):
        kind = str(token.lastgroup)
        if kind == "end":
            break
        piece = token[kind]
        closes = piece in ("}", "]")
        if closes and out[-1] == ",":
            out.pop()
        whole = closes or kind == "string" or piece in _LITERALS
        out.append(_MARKS.get(piece, piece) if kind == "mark" else _value(token, kind))
        if len(closers) > _MAX_DEPTH or len(out) > _MAX_TOKENS:
            raise CodecError("not JSON, and too deep or too long to be mended")
        if piece in _CLOSER:
            closers.append(_CLOSER[piece])
        elif closes and piece == closers[-1]:
            closers.pop()
            if not closers:
                return " ".join(out), token.end()
    if closed or not whole:
        raise CodecError("not JSON: it ends before it is complete")
    return " ".join([*out, *reversed(closers)]), len(text)


def _value(token: re.Match[str], kind: str) -> str:
    piece = token[kind]
    if kind == "string":
        return f'"{_ESCAPE.sub(_escape, piece[1:-1]).translate(_CONTROLS)}"'
    if kind == "other":
        raise CodecError(
            f"not JSON: what begins with {token.string[token.start('other') :][:24]!r} does not end"
        )
    if _KEY.match(piece) and _ASSIGNED.match(token.string, token.end()):
        return f'"{piece}"'
    if piece in _LITERALS or _NUMBER.match(piece):
        return _LITERALS.get(piece, piece)
    raise CodecError(f"not JSON: {piece[:24]!r} needs double quotes")


def _escape(found: re.Match[str]) -> str:
    """A quote or an escape as JSON writes it; an escape unknown to JSON is left for it to refuse."""
    return {"\\'": "'", '"': '\\"'}.get(found.group(), found.group())
