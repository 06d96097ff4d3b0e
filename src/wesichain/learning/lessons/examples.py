"""Examples: a rule about how a value is written, applied to the value of the very task that is told it.

A rule is kept with an example of our own: `pay: give amount times 100: for 12 write 1200.` A small model
reads it, and writes what its task says all the same. Told `pay: write amount as 2500 for 25 (times 100).` it
does as it is told; and that is true also where 25 is no amount. Nobody is quoted: the value stands in the
task of that run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from .written import (
    TIMES,
    bare,
    code_like,
    codes_in,
    day_as,
    days_in,
    names_in,
    plain_numbers_in,
    sample_of,
    shape_of,
    time_as,
    times_in,
    turned,
)

_Rule: TypeAlias = re.Match[str]
_Pairs: TypeAlias = Iterable[tuple[str, str]]
_MOST = 3  # values of a task that are told
_LENGTH = 4000  # characters of a task that are looked at


def applied(rule: str, task: str) -> str:
    """The rule as this task has to follow it; as it is, where it is about none of its values, or many."""
    if (known := _read(rule, task)) is None:
        return rule
    found, pairs, is_number = known
    own = {said: wanted for said, wanted in pairs if said != wanted}
    if not 0 < len(own) <= _MOST:
        return rule
    mark = "" if is_number else '"'
    told = ", ".join(f"as {mark}{wanted}{mark} for {said}" for said, wanted in own.items())
    return f"{found['tool']}: write {found['name']} {told} ({found['how']})."


def is_about(rule: str, task: str) -> bool | None:
    """Whether a rule is about a value that the task says; None where it is not about writing a value."""
    known = _read(rule, task)
    return None if known is None else bool(known[1])


def contradicts(rule: str, other: str) -> bool:
    """Whether two rules make different things of one value: `in cents` and `times 100` do not."""
    one, two = _meaning(rule), _meaning(other)
    return one is not None and two is not None and one[0] == two[0] and one[1] != two[1]


def _meaning(rule: str) -> tuple[tuple[str, str, int], Fraction | str] | None:
    """What a rule is about, a tool, a parameter and a kind of value, and what becomes of such a value."""
    for kind, (pattern, pairs) in enumerate(_KINDS):
        if found := pattern.fullmatch(rule):
            parts = found.groupdict()
            wanted = Fraction(int(parts["new"]), int(parts["old"])) if pairs is _numbers else ""
            return (parts["tool"], parts["name"], kind), wanted or parts.get("wanted") or parts["how"]
    return None


def _read(rule: str, task: str) -> tuple[_Rule, list[tuple[str, str]], bool] | None:
    """The parts of a rule, the values of the task that it is about, each as it is wanted, and if numbers."""
    for pattern, pairs in _KINDS:
        if found := pattern.fullmatch(rule):
            return found, list(pairs(found, task[:_LENGTH])), pairs is _numbers
    return None


def _days(rule: _Rule, task: str) -> _Pairs:
    return ((said, day_as(rule["how"], day)) for said, day in days_in(task))


def _times(rule: _Rule, task: str) -> _Pairs:
    return ((said, time_as(rule["how"], moment)) for said, moment in times_in(task))


def _numbers(rule: _Rule, task: str) -> _Pairs:
    times = Fraction(int(rule["new"]), int(rule["old"]))
    return ((said, _decimal(Fraction(said) * times)) for said in plain_numbers_in(task))


def _decimal(value: Fraction) -> str:
    return f"{(Decimal(value.numerator) / value.denominator).normalize():f}"


def _codes(rule: _Rule, task: str) -> _Pairs:
    given, wanted = rule["given"], rule["wanted"]
    if len(bare(given)) != len(bare(wanted)):  # no spelling of one code: not a rule that was learned
        return ()
    alike = (code for code in codes_in(task) if sample_of(code) == given)
    return ((code, code_like(wanted, bare(code))) for code in alike)


def _shapes(rule: _Rule, task: str) -> _Pairs:
    alike = (code for code in codes_in(task) if shape_of(bare(code)) == bare(rule["how"]))
    return ((code, _with_marks(rule["how"], bare(code))) for code in alike)


def _with_marks(form: str, signs: str) -> str:
    rest = iter(signs)
    return "".join(next(rest) if mark.isalnum() else mark for mark in form)


def _names(rule: _Rule, task: str) -> _Pairs:
    return ((name, turned(name, rule["mark"])) for name in names_in(task))


def _about(how: str) -> re.Pattern[str]:
    return re.compile(rf"(?P<tool>\S+): (?:write|give) (?P<name>\S+) {how}\.")


_KINDS: tuple[tuple[re.Pattern[str], Callable[[_Rule, str], _Pairs]], ...] = (
    (_about(r"as (?P<how>(?=[MDw./-]*YYYY)[YMDWw./-]+?)(?:: .+)?"), _days),
    (_about(rf"as (?P<how>{'|'.join(map(re.escape, TIMES))}): .+"), _times),
    (_about(r"(?P<how>.+): for (?P<old>[1-9]\d*) write (?P<new>[1-9]\d*)"), _numbers),
    (_about(r"(?P<how>like (?P<wanted>.+), not (?P<given>.+))"), _codes),
    (_about(r"as (?P<how>[A0][A0./:-]*), with A for a letter.+"), _shapes),
    (_about(r"(?P<how>as Smith(?P<mark>,? )John for John Smith)"), _names),
)
