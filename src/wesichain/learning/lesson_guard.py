"""The lesson guard: refuses lessons that repeat words or values of a task, a result or another party.

A model words a lesson after it has read a run, and the texts of a run may contain prompt injections. A lesson
is refused if it repeats three consecutive words, a name, an id or a quoted value of those texts, contains an
address, markup or invisible characters, names a tool or parameter that does not exist, or repeats an example
of the prompt. It may repeat the descriptions of the tools.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from wesichain.core.internal import is_array, is_object

from .entities.wording import QUOTED
from .reflector import parameters_of

_LONGEST = 240  # characters
_FEWEST = 3  # words
_ROW = 3  # consecutive words
_EXAMPLE = 6  # consecutive words of the prompt: small models repeat its examples
_WORD = re.compile(r"[^\W_]+")
_TOKENS = (re.compile(r"\S+"), re.compile(r"[^\s{}\[\]\",;]+"))  # between blanks, or in JSON without blanks
_NAME = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?")
_IDENTIFIER = re.compile(r"\w*[^\W_]_\w+")
_ADDRESS = re.compile(r"://|@|\bwww\.|\b[\w-]+\.[a-z]{2,}\b")
_MARKUP = re.compile(r"[<>{}\[\]|`\\$#*]")


class LessonGuard:
    """The words of one run. `specs` are its tools as JSON data, `foreign` the texts and values of others."""

    def __init__(
        self, specs: Sequence[Mapping[str, Any]], foreign: Iterable[object], *, ours: str = ""
    ) -> None:
        """`ours` is the text of the prompt, whose words do not count as names."""
        own = [plain(text) for text in texts_of(list(specs))]
        texts = [plain(text) for text in texts_of(list(foreign))]
        self._names = {name for spec in specs for name in (str(spec["name"]), *parameters_of(spec))}
        self._own_words = {word for text in own for word in _words(text)}
        known = self._own_words | {*_words(plain(ours))}
        self._examples = {*_rows(plain(ours), _EXAMPLE)}
        names = {word for name in self._names for word in _words(name)}
        self._rows = {
            row
            for text in texts
            for row in _rows(text)
            if not names.issuperset(row)  # only names of tools and parameters, such as `send_sms: to`
        } - {row for text in own for row in _rows(text)}
        self._ids = {mark for text in texts for mark in _ids(text)} - {
            mark for text in own for mark in _ids(text)
        }
        lower = {word for text in texts for word in _NAME.findall(text) if word.islower()}
        self._people = {name for text in texts for name in _capitals(text)} - lower - known
        self._started = {
            word.casefold() for text in texts for word in _NAME.findall(text) if word[0].isupper()
        } - known
        self._values = {value for value in _values(texts) if not known.issuperset(value)}

    def refusal(self, lesson: str) -> str:
        """The reason to refuse a lesson; empty if it is accepted."""
        text = plain(lesson)
        words = _words(text)
        bare = _without(text, self._names)
        if not (len(text) <= _LONGEST and len(words) >= _FEWEST):
            return f"it is not a sentence of at least {_FEWEST} words and at most {_LONGEST} characters"
        if _MARKUP.search(bare) or _ADDRESS.search(bare):
            return "it contains an address or markup"
        if unknown := [name for name in _IDENTIFIER.findall(text) if name not in self._names]:
            return f"it names {unknown[0]!r}, which is neither a tool nor a parameter"
        if any(row in self._rows for row in _rows(text)):
            return "it repeats three words in a row of the run"
        if any(row in self._examples for row in _rows(text, _EXAMPLE)):
            return "it repeats the prompt"
        if any(mark in self._ids for mark in _ids(text)):
            return "it repeats an id or a number of the run"
        in_lesson = {word.casefold() for word in _NAME.findall(text)}
        if self._people & in_lesson or self._started & _capitals(text):
            return "it repeats a name of the run"
        # A value of three words or more has been refused as consecutive words.
        if any(row in self._values for size in range(1, _ROW) for row in _rows(text, size)):
            return "it repeats a value of the run"
        if not lesson.isprintable() or any(
            "VARIATION SELECTOR" in unicodedata.name(char, "") for char in lesson
        ):
            return "it has invisible characters"
        return ""


def plain(text: str) -> str:
    """One line in Unicode normalization form KC, without combining marks and invisible characters."""
    folded = unicodedata.normalize("NFKC", text)
    visible = (char for char in folded if unicodedata.category(char) not in _INVISIBLE)
    return " ".join("".join(char if char.isprintable() else " " for char in visible).split())


_INVISIBLE = ("Cf", "Mn", "Me")  # categories: format characters and combining marks


def texts_of(value: object) -> Iterator[str]:
    """Yield every text in a value, including the keys of objects; numbers as text."""
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for key, item in value.items():
            yield key
            yield from texts_of(item)
    elif is_array(value) or isinstance(value, tuple):
        for item in cast("Sequence[object]", value):
            yield from texts_of(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _rows(text: str, size: int = _ROW) -> Iterator[tuple[str, ...]]:
    words = _words(text)
    return (tuple(words[at : at + size]) for at in range(len(words) - size + 1))


def _ids(text: str) -> Iterator[str]:
    """Words with a digit, without punctuation; a single digit identifies nobody."""
    for token in (found for form in _TOKENS for found in form.findall(text)):
        mark = "".join(_WORD.findall(token)).casefold()
        if len(mark) > 1 and any(map(str.isdigit, mark)):
            yield mark


def _capitals(text: str) -> set[str]:
    """Capitalized words that do not start a sentence, or have more capitals."""
    found: set[str] = set()
    for match in _NAME.finditer(text):
        word, before = match.group(), text[: match.start()].rstrip(" \"'“«(`")
        begins = not before or before[-1] in ".!?:;-\u2013\u2022"
        if word[0].isupper() and (not begins or not word[1:].islower()) and len(word) > 1:
            found.add(word.casefold())
    return found


def _values(texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Quoted texts and whole texts, as words; a single letter identifies nobody."""
    for text in texts:
        quoted = (found[1:-1] for found in QUOTED.findall(text))
        for value in (text, *quoted):
            words = tuple(_words(value))
            if len("".join(words)) > 1:
                yield words


def _without(text: str, names: Iterable[str]) -> str:
    """The text without the names of tools and parameters, in backquotes or not."""
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(f"`{name}`", "").replace(name, "")
    return text
