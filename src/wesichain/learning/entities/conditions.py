"""Conditions: a word of a task, stored as a hash, that decides whether a strategy fits the task.

A strategy that works for some of its tasks and fails for others is split once a word tells them apart. Only
a hash of each word of the tasks is stored, which can be compared with another task and not be read. Advice
takes the word from the task of the advised run, so that no other task is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import Literal, TypeAlias

from .evidence import chance_above
from .wording import mask

MOST = 32  # stored cases
Kind: TypeAlias = Literal["0", "1", "3"]
BAD: Kind = "0"  # the run followed the strategy, and it or the run failed
GOOD: Kind = "1"  # the run followed it, and succeeded
OTHER: Kind = "3"  # the run called other tools
_WORDS = 24  # words of a case
_EACH = 3  # the fewest cases with a word, and without it
_LUCK = 0.05  # the probability of a false split, divided among the words (Bonferroni)
_WORD = re.compile(r"[^\W\d_]{3,}")


def marks_of(text: str) -> tuple[str, ...]:
    """The words of a masked text, each as a hash of six characters, sorted."""
    words = {word.casefold() for word in _WORD.findall(mask(text))}
    return tuple(sorted(map(_mark, words)))[:_WORDS]


def word_in(condition: str, text: str) -> str:
    """The word of a text that meets a condition; "" if there is none."""
    asked = condition[1:] if condition.startswith("+") else ""
    words = (word.casefold() for word in _WORD.findall(mask(text)))
    return next((word for word in words if _mark(word) == asked), "")


def fits(condition: str, marks: Collection[str]) -> bool:
    """Whether a task with these words meets a condition: `+HASH` requires a word, `-HASH` excludes it."""
    return not condition or (condition[1:] in marks) == condition.startswith("+")


def case_of(kind: Kind, marks: Sequence[str]) -> str:
    """A run as it is stored: its kind, and the hashes of the words of its task."""
    return f"{kind}{','.join(marks)}"


def with_case(cases: Sequence[str], case: str) -> tuple[str, ...]:
    """Add a case. If there are too many, drop the oldest of kind `OTHER`, else the oldest."""
    kept = [*cases, case]
    if len(kept) > MOST:
        kept.remove(next((old for old in kept if old.startswith(OTHER)), kept[0]))
    return tuple(kept)


def count_of(kind: Kind, cases: Sequence[str]) -> int:
    return sum(case.startswith(kind) for case in cases)


def deciding(cases: Sequence[str]) -> str | None:
    """The hash of the word that separates the successful cases from the others significantly, or None."""
    known = [(case.startswith(GOOD), frozenset(case[1:].split(","))) for case in cases]
    good = sum(went_well for went_well, _ in known)
    if min(good, len(known) - good) < _EACH:
        return None
    sides: dict[str, tuple[list[bool], list[bool]]] = {}
    for mark in sorted({mark for _, marks in known for mark in marks if mark}):
        with_it = [well for well, marks in known if mark in marks]
        without = [well for well, marks in known if mark not in marks]
        if min(len(with_it), len(without)) >= _EACH:
            sides[mark] = (with_it, without)
    best, found = 1 - _LUCK / max(1, len(sides)), None
    for mark, (with_it, without) in sides.items():
        chance = chance_above(_posterior(with_it), _posterior(without))
        if max(chance, 1 - chance) > best:
            best, found = max(chance, 1 - chance), mark
    return found


def on_side(condition: str, cases: Sequence[str]) -> tuple[str, ...]:
    """The cases that meet a condition."""
    return tuple(case for case in cases if fits(condition, case[1:].split(",")))


def _mark(word: str) -> str:
    return sha256(word.encode()).hexdigest()[:6]


def _posterior(side: Sequence[bool]) -> tuple[float, float]:
    return 1.0 + sum(side), 1.0 + len(side) - sum(side)
