"""A lenient parser for JSON as models write it; ambiguous text is rejected.

Text that is almost JSON is repaired, token by token, and then parsed by the strict parser of the core, so
that its rules (no duplicate keys, no NaN, no lone surrogates, limited depth) apply to repaired text too.
Repaired: Python's quotes and literals, keys without quotes, trailing commas, comments, line breaks in
strings, closing brackets missing at the very end, and the double braces that some templates teach. Not
repaired: anything that would need a guess, such as a missing comma or an unfinished string.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from wesichain.core.internal import parse_json
from wesichain.errors import CodecError

# Possessive quantifiers (`++`, `*+`) everywhere: no backtracking, so that the scan is linear.
_TOKEN = re.compile(
    r"""
    (?:\s++ | /\*(?:[^*]++|\*(?!/))*+\*/ | //[^\n]*+)*+
    (?: (?P<mark>[,:])
      | (?P<open>[{[])
      | (?P<close>[]}])
      | (?P<equals>=)
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
_CLOSER = {"{": "}", "[": "]"}
_ENDS = ("}", "]", '"', "true", "false", "null")  # ends of complete values; a number may be cut off
_MAX_DEPTH = 200
_MAX_TOKENS = 20_000
_TOO_LONG = "not JSON, and too deep or too long to be mended"


def load(text: str, *, closed: bool = False) -> tuple[Any, str]:
    """The object or array at the beginning of `text`, and the text after it.

    `closed`: brackets that are open at the end are an error, because the text may have been cut off.
    """
    whole = text.rstrip(" \t\r\n`")
    if whole.endswith(("}", "]")) and "{'" not in whole:  # not in Python's quotes
        try:  # most texts are valid JSON: repairing takes seven times as long
            return parse_json(whole), text[len(whole) :]
        except CodecError:
            pass
    if not text.startswith("{{"):
        return _load(text, closed=closed)
    try:  # only the outer braces are doubled, or all of them
        value, rest = _load(text[1:], closed=True)
        return value, rest.removeprefix("}")
    except CodecError:
        return _load(text.replace("{{", "{").replace("}}", "}"), closed=True)


def end_of(text: str, at: int) -> int | None:
    """Where the JSON that begins at a place ends; None if it does not end, or is not almost JSON."""
    rest = text[at:]
    try:
        if rest.startswith("{{"):
            return len(text) - len(_load(rest[1:], closed=True)[1].removeprefix("}"))
        return len(text) - len(load(rest, closed=True)[1])
    except CodecError:
        return None


def _load(text: str, *, closed: bool) -> tuple[Any, str]:
    if not text.startswith(tuple(_CLOSER)):
        raise CodecError("not JSON: it begins with neither an object nor an array")
    mended, end = _mend(text, closed=closed)
    return parse_json(mended), text[end:]


def _mend(text: str, *, closed: bool) -> tuple[str, int]:
    out: list[str] = []
    closers: list[str] = []
    for token in islice(_TOKEN.finditer(text), _MAX_TOKENS):
        kind = token.lastgroup or "end"
        piece = token[kind]
        if kind == "mark":
            out.append(piece)
        elif kind == "string":
            out.append(_string(piece))
        elif kind == "open" and len(closers) < _MAX_DEPTH:
            out.append(piece)
            closers.append(_CLOSER[piece])
        elif kind == "close":
            if out[-1] == ",":
                out.pop()
            out.append(piece)
            if piece == closers[-1]:
                closers.pop()
            if not closers:
                return " ".join(out), token.end()
        elif kind == "end":
            break
        else:
            out.append(_word(token, piece))
    else:
        raise CodecError(_TOO_LONG)
    if closed or not out[-1].endswith(_ENDS):
        raise CodecError("not JSON: it ends before it is complete")
    return " ".join([*out, *reversed(closers)]), len(text)


def _string(piece: str) -> str:
    inner = piece[1:-1]
    if piece[0] == '"' and "\\" not in inner and inner.isprintable():
        return piece
    if "\\" in inner or '"' in inner:
        inner = _ESCAPE.sub(_escape, inner)
    return f'"{inner.translate(_CONTROLS)}"'


def _word(token: re.Match[str], piece: str) -> str:
    """A word as JSON: a key, a literal or a number."""
    match token.lastgroup:
        case "open":
            raise CodecError(_TOO_LONG)
        case "equals":  # of keyword arguments, as in `search(query="x")`
            return ":"
        case "other":
            begun = token.string[token.start("other") :][:24]
            raise CodecError(f"not JSON: what begins with {begun!r} does not end")
        case _ if _KEY.match(piece) and _ASSIGNED.match(token.string, token.end()):
            return f'"{piece}"'
        case _ if piece in _LITERALS:
            return _LITERALS[piece]
        case _ if _NUMBER.match(piece):
            return piece
        case _:
            raise CodecError(f"not JSON: {piece[:24]!r} needs double quotes")


def _escape(found: re.Match[str]) -> str:
    """A quote or an escape in JSON; an unknown escape is kept, so that the strict parser rejects it."""
    return {"\\'": "'", '"': '\\"'}.get(found.group(), found.group())
