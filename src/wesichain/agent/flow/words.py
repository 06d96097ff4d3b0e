"""Words: texts as tokens in a normal form, and an index that finds a phrase of whole tokens in many texts."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from wesichain.core.internal import readings

_THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\d,]|\.\d*,)")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
# Between tokens: blanks, quotes, brackets, and signs that separate or surround.
_SEPARATOR = re.compile(r"[\s\"'`\u00b4\u2018-\u201a“”„«»<>()\[\]{},;|\\]+")
_BEFORE, _BEHIND = ":!?*#@$€£¥=&", ".:!?*%=&/€£$¥…"
_SCHEME = re.compile(r"https?://")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://|www\.|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}[/?]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
# Letters of other alphabets that look like Latin ones.
_LOOKALIKES = str.maketrans(
    "аеорсхуіјѕԁһԛԝӏвкмнтгьαοιρνυκχτεηωγϲϳɑɡıⅼ‐‑‒–—−",  # noqa: RUF001  # that is what it is for
    "aeopcxyijsdhqwlbkmhtrbaoipvukxtenwycjagil------",
)


def strict_tokens(text: str) -> list[str]:
    """The tokens of a text in the form that grants trust: case, blanks and forms of numbers are equal."""
    return _tokens(text if text.isascii() else unicodedata.normalize("NFKC", text))


def loose_tokens(text: str) -> list[str]:
    """The tokens in the form that withdraws trust: look-alikes are equal too, and invisible letters gone."""
    if text.isascii():
        return _tokens(text)
    plain = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    return _tokens(plain.lower().translate(_LOOKALIKES))


def value_tokens(value: Any) -> list[str]:
    """The tokens of a value, to look up in trusted texts; none if a trusted text cannot contain it.

    A letter that only looks like another is not that letter: the value is not made equal to what it imitates.
    """
    text = as_text(value)
    if not text.isascii() and unicodedata.normalize("NFKC", " ".join(text.split())) != " ".join(text.split()):
        return []
    return _tokens(text)


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.15g}" if isinstance(value, float) else str(value)


def _tokens(text: str) -> list[str]:
    text = text.lower()
    if text.isalnum():  # most arguments are one word
        return [text]
    if "," in text:
        text = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), text)
    found: list[str] = []
    for chunk in _SEPARATOR.split(text):
        word = chunk.lstrip(_BEFORE).rstrip(_BEHIND)
        if word.startswith("http"):
            word = _SCHEME.sub("", word, count=1)
        if word and word != "-":
            found.append(_number(word) if word[-1].isdigit() else word)
    return found


def _number(token: str) -> str:
    """A number in one form: 1250.00 and 1250 are equal, an id with leading zeros is not a number."""
    if "." in token and _NUMBER.fullmatch(token):
        return token.rstrip("0").rstrip(".")
    return token


def is_short(tokens: Sequence[str]) -> bool:
    """Whether a value is too short to come from one place only: three letters, or a number."""
    return len(tokens) == 1 and (len(tokens[0]) < 4 or _NUMBER.fullmatch(tokens[0]) is not None)


def urls_in(text: str) -> list[str]:
    """The addresses in a text, each as one token."""
    plain = (
        _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).lower()
        if not text.isascii()
        else text.lower()
    )
    chunks = (chunk.lstrip(_BEFORE) for chunk in _SEPARATOR.split(plain))
    found: list[str] = []
    for chunk in chunks:
        place = _URL.search(chunk) if "." in chunk or ":" in chunk else None
        if place is not None and (place.start() == 0 or "://" in chunk):
            found.append(chunk[place.start() :])
    return found


class Segment(NamedTuple):
    """The texts of one message or result: where they come from, and their place among those of the run."""

    order: int
    source: str
    texts: Sequence[str]


class Words:
    """An index of texts. Adding takes time linear in the text, finding in the places of the rarest token."""

    def __init__(self, tokens_of: Any = strict_tokens) -> None:
        self._tokens_of = tokens_of
        self._tokens: list[str] = []
        self._places: dict[str, list[int]] = {}
        self._segments: list[Segment] = []
        self._ends: list[int] = []

    def add(self, texts: Sequence[str], segment: Segment) -> bool:
        """Add the texts of one segment. Returns whether they have any token."""
        places, found = self._places, False
        for text in texts:
            start = len(self._tokens)
            tokens: list[str] = self._tokens_of(text)
            for place, token in enumerate(tokens, start):
                known = places.get(token)
                if known is None:
                    places[token] = [place]
                else:
                    known.append(place)
            self._tokens += tokens
            self._tokens.append("")  # no phrase goes on in the next text
            found = found or bool(tokens)
        self._segments.append(segment)
        self._ends.append(len(self._tokens))
        return found

    def find(self, phrase: Sequence[str]) -> Iterator[Segment]:
        """The segments that contain the phrase as whole tokens, in order, each once."""
        if not phrase:
            return
        rarest, count = 0, -1
        for index, token in enumerate(phrase):
            found = len(self._places.get(token, ()))
            if count < 0 or found < count:
                rarest, count = index, found
        last = -1
        for place in self._places.get(phrase[rarest], ()):
            start = place - rarest
            if start >= 0 and self._tokens[start : start + len(phrase)] == list(phrase):
                number = bisect_right(self._ends, start)
                if number != last:
                    last = number
                    yield self._segments[number]

    def first(self, phrase: Sequence[str]) -> Segment | None:
        return next(self.find(phrase), None)


def plain_text(text: str) -> str:
    """The text without escapes that a model can read through."""
    *_, last = readings(text)
    return last.text


def excerpt(texts: Sequence[str], value: str, width: int = 60) -> str:
    """The words around a value in the first of the texts that has it, on one line."""
    whole = re.compile(rf"(?<![\w-]){re.escape(value)}(?![\w-])", re.IGNORECASE)
    found = [(text, place) for text in texts if (place := whole.search(text)) is not None]
    text, begin = (found[0][0], found[0][1].start()) if found else (next(iter(texts), ""), 0)
    start, end = max(begin - width, 0), begin + len(value) + width
    cut = " ".join("".join(c if c.isprintable() else " " for c in text[start:end]).split())
    return f"{'…' if start else ''}{cut}{'…' if end < len(text) else ''}"
