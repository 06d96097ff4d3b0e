"""Spelling: one value written in two ways, and the rule that leads from the one to the other.

`2027-03-14` and `14.03.2027` are one day, 24 and 2400 one amount, `kx41` and `KX-41` one code. What is told
of a pair is the rule, with an example of our own: neither value is quoted.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time

from wesichain.core import dataclass

from .wording import Lesson

_DAYS = {
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
_DAYS_IN_WORDS = ("%d %B %Y", "%B %d, %Y", "%B %d %Y", "%d %b %Y", "%b %d, %Y")
_TIMES = {"HH:MM": "%H:%M", "HH.MM": "%H.%M", "HHMM": "%H%M", "HH:MM:SS": "%H:%M:%S", "HHhMM": "%Hh%M"}
_TIMES_IN_WORDS = ("%I:%M %p", "%I:%M%p", "%I %p", "%I%p", "%I.%M %p")
_DAY, _TIME = date(1999, 12, 31), time(14, 30)  # of the examples
_STEPS = (10, 100, 1000)
_LETTERS, _DIGITS = "ABCDEFGHIJKL", "123456789012"
_CODE = re.compile(r"(?=.*[A-Za-z])(?=.*\d)[A-Za-z0-9]+(?:[-/.: ][A-Za-z0-9]+)*")
_NAME = re.compile(r"[^\W\d_]+(?: [^\W\d_]+)+")


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


def is_scaled(one: object, other: object) -> bool:
    """Whether two numbers differ by nothing or by a power of ten: one amount in one unit or two."""
    is_numbers = (
        isinstance(one, int | float) and isinstance(other, int | float) and not isinstance(other, bool)
    )
    return is_numbers and bool(one and other) and (one == other or _scaled(one, other) is not None)


def spelled_like(old: str, example: str) -> Respelling | None:
    """How a time or a code is written as an example of another one is; None where it is so already."""
    if _read(old, (*_TIMES.values(), *_TIMES_IN_WORDS)):
        forms = [form for form, code in _TIMES.items() if _read(example, (code,))]
        return _as_time(forms[0]) if len(forms) == 1 and not _read(old, (_TIMES[forms[0]],)) else None
    is_alike = _is_code(old) and _is_code(example) and _shape(_bare(old)) == _shape(_bare(example))
    return _as_code(old, example) if is_alike else None


def spellings_in(text: str, value: object) -> list[object]:
    """What in a text may be another spelling of the value: its words, or as many in a row as a name has."""
    if isinstance(value, int | float):
        return [float(word) for word in re.findall(r"(?<![\w.,:/-])\d+(?:\.\d+)?(?![\w:/-]|[.,]\d)", text)]
    found: list[object] = [word.strip("'\"`,;()") for word in text.split()]
    parts = str(value).split()
    if len(parts) > 1 and _NAME.fullmatch(str(value)):
        rest = re.escape(" ".join(parts[:-1]))
        found += re.findall(rf"\b{re.escape(parts[-1])},? {rest}\b", text)
    return found


def _scaled(old: float, new: float) -> Respelling | None:
    if not (old and new):
        return None
    for step in _STEPS:
        if abs(new / old - step) < 1e-9:
            return Respelling("argument", f"give {{name}} times {step}: for 12 write {12 * step}")
        if abs(old / new - step) < 1e-9:
            return Respelling("argument", f"give {{name}} divided by {step}: for {12 * step} write 12")
    return None


def _day(old: str, new: str) -> Respelling | None:
    meant = {moment.date() for moment in _read(old, (*_DAYS.values(), *_DAYS_IN_WORDS))}
    forms = [form for form, code in _DAYS.items() for moment in _read(new, (code,)) if moment.date() in meant]
    if len(forms) != 1:
        return None
    shown = _DAY.strftime(_DAYS[forms[0]])
    return Respelling("format", f"write {{name}} as {forms[0]}: 31 December 1999 is {shown}")


def _time(old: str, new: str) -> Respelling | None:
    meant = {moment.time() for moment in _read(old, (*_TIMES.values(), *_TIMES_IN_WORDS))}
    forms = [
        form for form, code in _TIMES.items() for moment in _read(new, (code,)) if moment.time() in meant
    ]
    return _as_time(forms[0]) if len(forms) == 1 else None


def _as_time(form: str) -> Respelling:
    return Respelling("format", f"write {{name}} as {form}: 2:30 pm is {_TIME.strftime(_TIMES[form])}")


def _code(old: str, new: str) -> Respelling | None:
    """The same letters and digits with other marks between them, or in other letters."""
    is_one = _is_code(old) and _is_code(new) and _bare(old).casefold() == _bare(new).casefold()
    return _as_code(old, new) if is_one else None


def _as_code(old: str, new: str) -> Respelling | None:
    wanted, given = _example(new), _example(old)
    return Respelling("format", f"write {{name}} like {wanted}, not {given}") if wanted != given else None


def _name(old: str, new: str) -> Respelling | None:
    """The same words, the last of them first."""
    if not _NAME.fullmatch(old):
        return None
    rest, last = old.rsplit(" ", 1)
    for mark in (", ", " "):
        if new == f"{last}{mark}{rest}":
            return Respelling("format", f"write {{name}} as Smith{mark}John for John Smith")
    return None


def _read(text: str, codes: tuple[str, ...]) -> list[datetime]:
    """The moments that a text can mean, written so."""
    found: list[datetime] = []
    for code in codes:
        try:
            moment = datetime.strptime(text, code)  # noqa: DTZ007  # a day or an hour has no zone
        except ValueError:
            continue
        if moment.strftime(code) == text or code in (*_DAYS_IN_WORDS, *_TIMES_IN_WORDS):
            found.append(moment)
    return found


def _is_code(text: str) -> bool:
    return len(text) <= len(_LETTERS) and _CODE.fullmatch(text) is not None


def _bare(code: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", code)


def _shape(code: str) -> str:
    return re.sub(r"[A-Za-z]", "A", re.sub(r"\d", "0", code))


def _example(code: str) -> str:
    """A code of our own that looks like this one: letters in their case, digits, and the marks between."""
    letters, digits = iter(_LETTERS), iter(_DIGITS)
    return "".join(
        next(digits)
        if mark.isdigit()
        else (next(letters).lower() if mark.islower() else next(letters))
        if mark.isalpha()
        else mark
        for mark in code
    )
