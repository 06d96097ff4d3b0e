"""Spelling: one value written in two ways, and the rule that leads from the one to the other.

`2027-03-14` and `14.03.2027` are one day, 24 and 2400 one amount, `kx41` and `KX-41` one code. What is kept
of a pair is the rule, with an example of our own: neither value is quoted.
"""

from __future__ import annotations

import re
from datetime import date, time

from wesichain.core import dataclass
from wesichain.learning.entities import Lesson

from .written import (
    bare,
    day_as,
    forms_of_day,
    forms_of_time,
    is_code,
    is_name,
    numbers_in,
    read_days,
    read_times,
    sample_of,
    shape_of,
    time_as,
    turned,
)

_STEPS = (10, 100, 1000)
_DAY, _TIME, _AMOUNT, _NAME = date(1999, 12, 31), time(14, 30), 12, "John Smith"  # of the examples
_SAID_DAY, _SAID_TIME = "31 December 1999", "2:30 pm"
_OF_DAYS, _OF_TIMES = {"day", "date", "birthday"}, {"hour", "time"}  # words of a parameter's name


@dataclass(frozen=True, slots=True)
class Respelling:
    """The rule that makes one spelling of another; `{name}` stands for the parameter."""

    lesson: Lesson
    rule: str


def respelled(old: object, new: object) -> Respelling | None:
    """How the new spelling is made of the old one, None where they are not one value in two spellings."""
    if isinstance(old, bool) or isinstance(new, bool) or old == new:
        return None
    if isinstance(old, int | float) and isinstance(new, int | float):
        return _scaled(old, new)
    if not (isinstance(old, str) and isinstance(new, str)):
        return None
    old, new = old.strip(), new.strip()
    return _day(old, new) or _time(old, new) or _code(old, new) or _name(old, new)


def takes(name: str, value: object) -> bool:
    """Whether a parameter of this name can be meant for the value: an hour given as `day` is a slip."""
    if not isinstance(value, str):
        return True
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)}
    is_day, is_time = not words.isdisjoint(_OF_DAYS), not words.isdisjoint(_OF_TIMES)
    return is_day == is_time or not (read_times(value) if is_day else read_days(value))


def is_scaled(one: object, other: object) -> bool:
    """Whether two numbers differ by nothing or by a power of ten: one amount in one unit or two."""
    if not (isinstance(one, int | float) and isinstance(other, int | float)) or isinstance(other, bool):
        return False
    return bool(one and other) and (one == other or _scaled(one, other) is not None)


def spelled_like(old: str, example: str) -> Respelling | None:
    """How a time or a code is written as an example of another one is; None where it is so already."""
    if read_times(old):
        forms = forms_of_time(example)
        return _as_time(forms[0]) if len(forms) == 1 and forms[0] not in forms_of_time(old) else None
    is_alike = is_code(old) and is_code(example) and shape_of(bare(old)) == shape_of(bare(example))
    return _as_code(old, example) if is_alike else None


def spellings_in(text: str, value: object) -> list[object]:
    """What in a text may be another spelling of the value: its words, or as many in a row as a name has."""
    if isinstance(value, int | float):
        return [float(word) for word in numbers_in(text)]
    found: list[object] = [word.strip("'\"`,;()") for word in text.split()]
    if is_name(name := str(value)):
        rest, last = map(re.escape, name.rsplit(" ", 1))
        found += re.findall(rf"\b{last},? {rest}\b", text)
    return found


def as_day(form: str) -> str:
    """How a day is written in a form; a week has no example of ours."""
    return f"as {form}" + (f": {_SAID_DAY} is {day_as(form, _DAY)}" if "DD" in form else "")


def as_shape(form: str) -> str:
    """How a code is written in a form such as A-00."""
    return f"as {form}, with A for a letter and 0 for a digit"


def times_as(step: int) -> str:
    """An amount that is given times a number, as an example."""
    return f": for {_AMOUNT} write {_AMOUNT * step}"


def _scaled(old: float, new: float) -> Respelling | None:
    if not (old and new):
        return None
    for step in _STEPS:
        if abs(new / old - step) < 1e-9:
            return Respelling("argument", f"give {{name}} times {step}{times_as(step)}")
        if abs(old / new - step) < 1e-9:
            shown = f": for {_AMOUNT * step} write {_AMOUNT}"
            return Respelling("argument", f"give {{name}} divided by {step}{shown}")
    return None


def _day(old: str, new: str) -> Respelling | None:
    forms = forms_of_day(new, read_days(old))
    return Respelling("format", f"write {{name}} {as_day(forms[0])}") if len(forms) == 1 else None


def _time(old: str, new: str) -> Respelling | None:
    forms = forms_of_time(new, read_times(old))
    return _as_time(forms[0]) if len(forms) == 1 else None


def _as_time(form: str) -> Respelling:
    return Respelling("format", f"write {{name}} as {form}: {_SAID_TIME} is {time_as(form, _TIME)}")


def _code(old: str, new: str) -> Respelling | None:
    """The same letters and digits with other marks between them, or in other letters."""
    is_one = is_code(old) and is_code(new) and bare(old).casefold() == bare(new).casefold()
    return _as_code(old, new) if is_one else None


def _as_code(old: str, new: str) -> Respelling | None:
    wanted, given = sample_of(new), sample_of(old)
    return Respelling("format", f"write {{name}} like {wanted}, not {given}") if wanted != given else None


def _name(old: str, new: str) -> Respelling | None:
    """The same words, the last of them first."""
    marks = [mark for mark in (", ", " ") if is_name(old) and new == turned(old, mark)]
    return Respelling("format", f"write {{name}} as {turned(_NAME, marks[0])} for {_NAME}") if marks else None
