"""Conditions: a word of a task that decides whether a strategy fits, known by its hash alone.

A strategy that works for some of its tasks and fails in others is split once one word tells them apart. What
is kept of the tasks for this is a hash of each word: it can be found again in another task, and not be read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from hashlib import sha256

from .evidence import chance_above
from .masking import mask

MOST = 32  # cases that are kept
_WORDS = 24  # of a case
_EACH = 4  # cases with a word, and without it, before it can decide
_SURE = 0.999  # many words are looked at, and again after every run
_WORD = re.compile(r"[^\W\d_]{3,}")


def marks_of(text: str) -> tuple[str, ...]:
    """The words of a text, masked, each as a hash of six characters; in no order that says anything."""
    words = {word.casefold() for word in _WORD.findall(mask(text))}
    return tuple(sorted(sha256(word.encode()).hexdigest()[:6] for word in words))[:_WORDS]


def fits(condition: str, marks: Collection[str]) -> bool:
    """Whether a task with these words is one for a bullet: `+HASH` has the word, `-HASH` does not."""
    return not condition or (condition[1:] in marks) == condition.startswith("+")


def case_of(marks: Sequence[str], *, helped: bool) -> str:
    """A run as it is kept: whether it went well, and the words of its task."""
    return f"{int(helped)}{','.join(marks)}"


def deciding(cases: Sequence[str]) -> str | None:
    """The hash of the word that surely tells the cases that went well from the others, or None."""
    known = [(case[0] == "1", frozenset(case[1:].split(","))) for case in cases]
    good = sum(went_well for went_well, _ in known)
    if min(good, len(known) - good) < _EACH:
        return None
    best, found = _SURE, None
    for mark in sorted({mark for _, marks in known for mark in marks}):
        sides = {has: [well for well, marks in known if (mark in marks) == has] for has in (True, False)}
        if min(len(side) for side in sides.values()) < _EACH or not mark:
            continue
        with_it, without = ((1.0 + sum(side), 1.0 + len(side) - sum(side)) for side in sides.values())
        chance = chance_above(with_it, without)
        if max(chance, 1 - chance) > best:
            best, found = max(chance, 1 - chance), mark
    return found


def on_side(condition: str, cases: Sequence[str]) -> tuple[str, ...]:
    """The cases that a condition holds for."""
    return tuple(case for case in cases if fits(condition, case[1:].split(",")))
