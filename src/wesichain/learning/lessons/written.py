"""Written values: days, times, codes and names in the ways that people write them, and how they are found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from itertools import groupby
from typing import TypeVar

DAYS: Mapping[str, str] = {
    "YYYY-MM-DD": "%Y-%m-%d",
    "YYYY/MM/DD": "%Y/%m/%d",
    "YYYY.MM.DD": "%Y.%m.%d",
    "YYYYMMDD": "%Y%m%d",
    "DD.MM.YYYY": "%d.%m.%Y",
    "DD/MM/YYYY": "%d/%m/%Y",
    "DD-MM-YYYY": "%d-%m-%Y",
    "MM/DD/YYYY": "%m/%d/%Y",
    "MM-DD-YYYY": "%m-%d-%Y",
}
TIMES: Mapping[str, str] = {
    "HH:MM": "%H:%M",
    "HH.MM": "%H.%M",
    "HHMM": "%H%M",
    "HH:MM:SS": "%H:%M:%S",
    "HHhMM": "%Hh%M",
}
_DAYS_IN_WORDS = ("%d %B %Y", "%B %d, %Y", "%B %d %Y", "%d %b %Y", "%b %d, %Y")
_TIMES_IN_WORDS = ("%I:%M %p", "%I:%M%p", "%I %p", "%I%p", "%I.%M %p")
_IN_WORDS = frozenset((*_DAYS_IN_WORDS, *_TIMES_IN_WORDS))
_DAY = re.compile(
    r"(?<![\w.-])(?:\d{1,2} [A-Z][a-z]{2,8} \d{4}|[A-Z][a-z]{2,8} \d{1,2},? \d{4}"
    r"|\d{4}([-/.])\d\d\1\d\d|\d\d([-/.])\d\d\2\d{4}|(?:19|20)\d{6})(?![\w-])"
)
_TIME = re.compile(
    r"(?<![\w.:-])(?:\d{1,2}(?:[:.]\d\d)? ?[aApP][mM]|\d\d:\d\d(?::\d\d)?|\d\dh\d\d)(?![\w-]|:\d)"
)
_NUMBER = re.compile(r"(?<![\w.,:/-])\d{1,15}(?:\.\d{1,6})?(?![\w:/-]|[.,]\d)")
_CODE = re.compile(r"(?=.*[A-Za-z])(?=.*\d)[A-Za-z0-9]+(?:[-/.: ][A-Za-z0-9]+)*")
_NAME = re.compile(r"[^\W\d_]{1,30}(?: [^\W\d_]{1,30}){1,3}")
_LETTERS, _DIGITS = "ABCDEFGHIJKL", "123456789012"
T = TypeVar("T")


def read_days(text: str) -> set[date]:
    """The days that a text can mean; empty where it is none."""
    return {moment.date() for moment in _read(text, (*DAYS.values(), *_DAYS_IN_WORDS))}


def read_times(text: str) -> set[time]:
    """The times of a day that a text can mean; empty where it is none."""
    return {moment.time() for moment in _read(text, (*TIMES.values(), *_TIMES_IN_WORDS))}


def forms_of_day(text: str, meant: set[date]) -> list[str]:
    """The forms in which a text is one of the days that are meant."""
    return [form for form, code in DAYS.items() for moment in _read(text, (code,)) if moment.date() in meant]


def forms_of_time(text: str, meant: set[time] | None = None) -> list[str]:
    """The forms in which a text is one of the times that are meant, or any."""
    return [
        form
        for form, code in TIMES.items()
        for moment in _read(text, (code,))
        if meant is None or moment.time() in meant
    ]


def day_as(form: str, day: date) -> str:
    """A day in a form such as DD.MM.YYYY, or YYYY-Www for its week."""
    week = day.isocalendar()
    year = f"{week.year if 'Www' in form else day.year:04}"
    parts = {"YYYY": year, "MM": f"{day:%m}", "DD": f"{day:%d}", "Www": f"W{week.week:02}"}
    return re.sub("|".join(parts), lambda part: parts[part[0]], form)


def time_as(form: str, moment: time) -> str:
    return moment.strftime(TIMES[form])


def is_code(text: str) -> bool:
    """Whether it is short, of letters and digits, with single marks between them."""
    return len(text) <= len(_LETTERS) and _CODE.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Whether it is two to four words in a row."""
    return _NAME.fullmatch(text) is not None


def bare(code: str) -> str:
    """A code without the marks between its letters and digits."""
    return re.sub(r"[^A-Za-z0-9]", "", code)


def shape_of(code: str) -> str:
    """A for each letter and 0 for each digit, marks as they are."""
    return re.sub(r"[A-Za-z]", "A", re.sub(r"\d", "0", code))


def code_like(pattern: str, signs: str) -> str:
    """The letters and digits of a code in the places, the case and between the marks of another one."""
    rest = iter(signs)
    return "".join(_in_case_of(mark, next(rest)) if mark.isalnum() else mark for mark in pattern)


def sample_of(code: str) -> str:
    """A code of our own that looks like this one."""
    letters, digits = iter(_LETTERS), iter(_DIGITS)
    return code_like(code, "".join(next(digits if mark.isdigit() else letters) for mark in bare(code)))


def turned(name: str, mark: str) -> str:
    """A name with its last word first."""
    rest, last = name.rsplit(" ", 1)
    return f"{last}{mark}{rest}"


def days_in(text: str) -> Iterator[tuple[str, date]]:
    """The days that a text names beyond doubt, each as it is written there."""
    return _found(_DAY, text, read_days)


def times_in(text: str) -> Iterator[tuple[str, time]]:
    """The times that a text names beyond doubt, each as it is written there."""
    return _found(_TIME, text, read_times)


def numbers_in(text: str) -> Iterator[str]:
    """The numbers of a text that stand alone, as they are written there."""
    return (found.group() for found in _NUMBER.finditer(text))


def plain_numbers_in(text: str) -> Iterator[str]:
    """The numbers of a text that are no part of a day or a time."""
    return numbers_in(_TIME.sub(" ", _DAY.sub(" ", text)))


def codes_in(text: str) -> Iterator[str]:
    """The words of a text that are codes."""
    return (word for each in text.split() if is_code(word := each.strip("'\"`,;:.!?()")))


def names_in(text: str) -> Iterator[str]:
    """Words in a row with capitals. The first word of a sentence has one anyway, and is left out."""
    for sentence in re.split(r"[.!?]\s+", text):
        for phrase in re.split(r"[^\w\s'-]+", sentence.partition(" ")[2]):
            for has_capitals, words in groupby(phrase.split(), lambda word: word[0].isupper()):
                name = " ".join(words)
                if has_capitals and is_name(name):
                    yield name


def _found(pattern: re.Pattern[str], text: str, read: Callable[[str], set[T]]) -> Iterator[tuple[str, T]]:
    for found in pattern.finditer(text):
        meant = read(found.group())
        if len(meant) == 1:
            yield found.group(), meant.pop()


def _read(text: str, codes: tuple[str, ...]) -> Iterator[datetime]:
    """The moments that a text can mean, written so."""
    for code in codes:
        try:
            moment = datetime.strptime(text, code)  # noqa: DTZ007  # a day or an hour has no zone
        except ValueError:
            continue
        if code in _IN_WORDS or moment.strftime(code) == text:
            yield moment


def _in_case_of(mark: str, sign: str) -> str:
    return sign.lower() if mark.islower() else sign.upper() if mark.isupper() else sign
