"""Ranking: which texts are nearest to a question, by their words or by vectors of their meaning."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log, sqrt
from operator import mul
from typing import Any

_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SATURATION = 1.5  # how soon further mentions of a word say nothing new
_LENGTH = 0.75  # how much a long text's words count less
# Of these every question has some, and no tool is found by them.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by can do for from get has have how i in is it me my of on or that the "
        "this to tool use what when which with you your",
    )
)


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case: the parts of snake_case and camelCase, a plural as its singular."""
    found = (word.lower() for word in _WORD.findall(_HUMP.sub(" ", text)))
    return [_stem(word) for word in found if word not in _COMMON]


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


class WordIndex:
    """Texts by their words: the rarer a word, the more it says (BM25)."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._counts = [Counter(words_of(text)) for text in texts]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._mean = sum(self._lengths) / max(1, len(self._lengths)) or 1.0
        self._texts_with = Counter(word for counts in self._counts for word in counts)

    def scores(self, question: str) -> list[float]:
        """For each text how well it fits; 0 where no word does."""
        words = [(word, self._weight(word)) for word in dict.fromkeys(words_of(question))]
        return [
            sum(weight * self._share(counts[word], length) for word, weight in words if word in counts)
            for counts, length in zip(self._counts, self._lengths, strict=True)
        ]

    def _weight(self, word: str) -> float:
        having = self._texts_with[word]
        return log(1 + (len(self._counts) - having + 0.5) / (having + 0.5))

    def _share(self, times: int, length: int) -> float:
        relative = 1 - _LENGTH + _LENGTH * length / self._mean
        return times * (_SATURATION + 1) / (times + _SATURATION * relative)


def unit(row: Iterable[Any]) -> list[float]:
    """A row of numbers, brought to length one."""
    numbers = [float(number) for number in row]
    length = sqrt(sum(map(mul, numbers, numbers)))
    return [number / length for number in numbers] if length else numbers


def similarities(question: Sequence[float], rows: Iterable[Sequence[float]]) -> list[float]:
    """How near each row is to that of the question: 1 is the same direction."""
    return [sum(map(mul, question, row)) for row in rows]


def best(scores: Sequence[float], k: int) -> list[int]:
    """The places of the k highest scores above 0, the highest first, the earlier of two that are equal."""
    return sorted((index for index, score in enumerate(scores) if score > 0), key=lambda i: -scores[i])[:k]
