"""Inputs: parse the name and the input of an action."""

from __future__ import annotations

import html
import re
from typing import Any, NamedTuple

from wesichain.core.internal import is_array, is_object, parse_json
from wesichain.errors import CodecError

from .lenient import load
from .parsed import END_TOKEN

_LEAD = re.compile(r"[\s*`~]*+(?:json\b\s*+)?+", re.IGNORECASE)  # noise before JSON: markdown, a fence
_WRAPPER = re.compile(r"[A-Z]\w*+\(\s*+(?=\{)")  # a constructor call around it; `print({...})` is code
# Beginnings that only JSON, or almost JSON, has; `{a word}` and `[a word]` may be prose.
JSON_START = re.compile(r"""\{\{?+\s*+(?:["'}/\u201c\u2018]|[\w$-]++\s*+:)|\[\s*+[]["'{\u201c\u2018]""")
_OBJECT = re.compile(r"""\{\s*+(?:["']|[\w$-]++\s*+:)""")
BEHIND = " \t\r\n,;)`"  # characters after JSON that do not count
_LONGEST_NAME = 200
_LONGEST_TOKEN = 64
_UNSEEN = (
    "\u00ad\u115f\u1160\u180e\u200b\u200c\u200d\u200e\u200f"
    "\u202a\u202b\u202c\u202d\u202e\u2060\u2800\u3164\ufeff\uffa0"
)
_AROUND_NAME = " \t\r*`\"'\u201c\u201d\u2018\u2019" + _UNSEEN  # markdown, quotes
_AROUND_REMARK = _AROUND_NAME + "\n"
_NOTHING = frozenset({"", "none", "null", "n/a"})


class Input(NamedTuple):
    """The value of an input, the text that it was parsed from, and the text after it.

    `is_bare`: the value is text without delimiters.
    """

    value: Any
    text: str
    remark: str = ""
    is_bare: bool = False


def read_input(text: str, *, truncated: bool = False) -> Input:
    """The value of an action's input: parsed JSON if it looks like JSON, else the text.

    Raises `CodecError` for text that looks like JSON but is invalid, and for JSON that was encoded twice.
    """
    text = tidy(text)
    data = without_lead(text)
    if data.endswith(")") and (wrapper := _WRAPPER.match(data)):
        data = data[wrapper.end() :]
    if data[:1] in ("{", "[") and (found := load_data(data, truncated=truncated)) is not None:
        value, rest = found
        return Input(value, text, rest)
    if truncated:
        raise CodecError("the reply was cut off before the input was complete")
    is_bare = False
    try:
        value = parse_json(text)
    except CodecError:
        value, is_bare = _unquoted(text), not _is_fenced(text)
    check_encoding(value)
    return Input(value, text, is_bare=is_bare)


def _is_fenced(text: str) -> bool:
    """Whether an input is one code block, delimited by its fence."""
    return text.startswith(("```", "~~~")) and text.endswith(text[:3]) and text.count(text[:3]) == 2


def load_data(text: str, *, truncated: bool) -> tuple[Any, str] | None:
    """The JSON that `text` begins with, and the text after it; None for prose that begins with a bracket."""
    is_json = JSON_START.match(text) is not None or ("}" not in text and "]" not in text)
    try:
        value, rest = load(text, closed=truncated)
    except CodecError:
        if is_json:
            raise
        return None
    rest = rest.lstrip(BEHIND)
    if rest and not is_object(value):
        if is_json:
            raise CodecError("there is more than an array")
        return None
    return value, rest


def holds_data(text: str) -> bool:
    """Whether a remark contains an object, or begins with an array."""
    return text.startswith("{") or _OBJECT.search(text) is not None or JSON_START.match(text) is not None


def check_encoding(value: object) -> None:
    """Raise `CodecError` for a string that is itself JSON, with or without escaped quotes."""
    if not isinstance(value, str):
        return
    text = value.strip()
    for decoded in (text, text.replace('\\"', '"'), html.unescape(text) if "&" in text else text):
        if decoded[:1] in ("{", "[") and decoded[-1:] in ("}", "]") and _is_data(decoded):
            raise CodecError("it is JSON that was encoded twice; write the JSON itself, without escapes")


def _is_data(text: str) -> bool:
    try:
        value, rest = load(text, closed=True)
    except CodecError:
        return False
    return not rest.strip() and (is_object(value) or is_array(value))


def is_nothing(given: str) -> bool:
    """Whether an input means "no input": None, null, N/A, empty quotes or brackets."""
    text = given.strip().strip("*_`\"'()[]{}<> \t\r\n").rstrip(".").strip()
    return len(given) <= 24 and text.lower() in _NOTHING


def tidy(text: str) -> str:
    """Text without leftovers of generation: a partial stop sequence, end tokens, an unmatched fence."""
    text = text.strip()
    for _ in range(8):
        at = text.rfind("<", -_LONGEST_TOKEN) if text.endswith(">") else -1
        if at < 0 or not END_TOKEN.fullmatch(text, at):
            break
        text = text[:at].rstrip()
    head, newline, tail = text.rpartition("\n")
    if newline and len(tail) >= 3 and "Observation:".startswith(tail):
        text = head.rstrip()
    if text.endswith("```") and text.count("```") % 2:
        text = text.rstrip("`").rstrip()
    return text


def without_lead(text: str) -> str:
    """Text without the markdown before its JSON."""
    found = _LEAD.match(text)
    return text[found.end() :] if found else text


def after_lead(text: str, at: int) -> int:
    """Where the JSON at this place begins, behind the markdown before it."""
    found = _LEAD.match(text, at)
    return found.end() if found else at


def read_name(text: str) -> tuple[str, str]:
    """The name in an action line, without markdown ("" if there is none), and the text after it."""
    line, _, more = text.strip().partition("\n")
    said, bracket, aside = line.partition("(")
    remark = f"{bracket}{aside}\n{more}".strip(_AROUND_REMARK).removeprefix("()")
    if len(said) > _LONGEST_NAME:
        return "", remark
    name = clean_name(said)
    if name.startswith("[") and name.endswith("]"):
        name = clean_name(name[1:-1])
    is_none = ":" in name or name.startswith("<") or " [" in name
    return "" if is_none else name, remark


def clean_name(text: str) -> str:
    """A tool's name without markdown and quotes; "" if it means "no tool"."""
    name = text.replace("\\_", "_").strip(_AROUND_NAME)
    return "" if name.lower() in _NOTHING else name


def _unquoted(text: str) -> str:
    """A string without a pair of single quotes, or one unmatched double quote, around it."""
    if len(text) > 1 and text[0] == text[-1] == "'" and text.count("'") == 2:
        return text[1:-1]
    return text[1:] if text.startswith('"') and text.count('"') == 1 else text
