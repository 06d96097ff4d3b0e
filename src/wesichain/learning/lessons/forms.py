"""Forms: what a refused or corrected call teaches: a form, a unit or an order, never a value.

A tool that refuses `2027-03-14` may say how it wants it, or take `14.03.2027` later in the run; whoever
judges the run may say that the records should have `14.03.2027`. What is kept of any is `DD.MM.YYYY`: the
words of a lesson are ours and the names of tools and parameters, so that nobody is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wesichain.core import dataclass, is_object
from wesichain.learning.entities import Lesson, ToolInvocation

from .spelling import (
    Respelling,
    as_day,
    as_shape,
    is_scaled,
    respelled,
    spelled_like,
    spellings_in,
    takes,
    times_as,
)

_YEAR_FIRST = re.compile(r"(?:19|20)\d\d([-/.]?)(\d\d)\1(\d\d)")
_YEAR_LAST = re.compile(r"(\d\d?)([-/.])(\d\d?)\2(?:19|20)\d\d")
_WEEK = re.compile(r"(?:19|20)\d\d(-?)W\d\d")
_SPELLED = re.compile(r"(?=.*YYYY)(?:YYYY|MM|DD|Www|[-/.])+")
_SHAPED = re.compile(r"[A0]+(?:[-/.:]?[A0]+)*")
HINT = " (tried "  # where a generator's own words about a failed call begin
_LONGEST = 12  # characters of a code
_PARTS = {"tenths": 10, "hundredths": 100, "cents": 100, "pence": 100, "thousandths": 1000}
_UNITS = r"grams|kilograms|metres|centimetres|millimetres|seconds|minutes|hours|days|weeks"
_UNIT = re.compile(rf"\b(whole\s+)?({'|'.join(_PARTS)}|{_UNITS})\b")
_WORD = re.compile(r"[^\s'\"`,;()]+")


@dataclass(frozen=True, slots=True)
class Mend:
    """A rule about calls: what it is about, the tools that it names, and the sentence."""

    lesson: Lesson
    tools: tuple[str, ...]
    rule: str


def form_of(value: str) -> str:
    """The form of a date or a code: `14.03.2027` is DD.MM.YYYY, `B-07` is A-00; "" for all else."""
    if found := _YEAR_FIRST.fullmatch(value):
        return found[1].join(("YYYY", "MM", "DD")) if int(found[2]) <= 12 else ""  # months
    if found := _YEAR_LAST.fullmatch(value):
        first, second = int(found[1]), int(found[3])
        if (first > 12) == (second > 12):  # either could be the month
            return ""
        return found[2].join(("DD", "MM", "YYYY") if first > second else ("MM", "DD", "YYYY"))
    if found := _WEEK.fullmatch(value):
        return f"YYYY{found[1]}Www"
    shape = re.sub(r"[A-Za-z]", "A", re.sub(r"\d", "0", value))
    is_code = len(value) <= _LONGEST and "0" in shape and not value.isdigit()
    return shape if is_code and not _is_number(value) and _SHAPED.fullmatch(shape) else ""


def mends(
    calls: Sequence[ToolInvocation], specs: Sequence[Mapping[str, Any]], task: str, *, good: bool
) -> Iterator[Mend]:
    """The lessons of a run's refused calls: from what a good run did later, else from the refusal.

    A call that was mended twice is compared with its first form, and a number with the task's.
    """
    known = {str(spec["name"]): spec for spec in specs}
    for place, call in enumerate(calls):
        if call.success or call.tool_name not in known:
            continue
        later = [other for other in calls[place + 1 :] if other.success] if good else []
        tried = [other for other in calls[:place] if other.tool_name == call.tool_name and not other.success]
        found = _mended(call, later, known, [*tried, call], task) or _told(call, known)
        if found is not None:
            yield found


def corrections(
    calls: Sequence[ToolInvocation], specs: Sequence[Mapping[str, Any]], task: str, why: str
) -> Iterator[Mend]:
    """The lessons of what was said about a bad run: an argument that stands there in another spelling.

    A value that several tools were given was wrong at the last of them: the others looked something up by it.
    What is multiplied is the number that the task says: the one that was given may follow from an older rule,
    and is the one that is wrong, wherever it is named.
    """
    known = {str(spec["name"]): spec for spec in specs}
    seen: set[str] = set()
    values: list[object] = []
    for call in reversed(calls):
        tool, arguments = call.tool_name, _arguments(call)
        if not call.success or tool not in known or tool in seen:
            continue
        for name, given in arguments.items():
            if given not in values and not _is_id(known[tool], name):
                wanted = [one for one in spellings_in(why, given) if one != given]
                yield from _respelled(tool, name, _said(task, given, given), wanted)
        seen.add(tool)
        values += arguments.values()


def _said(task: str, given: object, like: object) -> object:
    """What was given, or, where the task does not say it, its number that is `like` this one in some unit."""
    known = spellings_in(task, like)
    return given if given in known else next((one for one in known if is_scaled(one, like)), given)


def _mended(
    call: ToolInvocation,
    later: Sequence[ToolInvocation],
    known: Mapping[str, Mapping[str, Any]],
    tried: Sequence[ToolInvocation],
    task: str,
) -> Mend | None:
    """How a later call of the same tool differs, which was taken, from the first form that was `tried`."""
    before = _arguments(call)
    taken = next((place for place, other in enumerate(later) if other.tool_name == call.tool_name), None)
    if taken is None:
        return None
    after = _arguments(later[taken])
    changed = [name for name in after if before.get(name) != after[name]]
    if not changed and taken > 0:
        return _before(later[taken - 1].tool_name, call.tool_name)
    if len(changed) != 1 or _is_id(known[call.tool_name], changed[0]):
        return None
    new, like = after[changed[0]], {**before, changed[0]: None}
    first = next(one for one in map(_arguments, tried) if {**one, changed[0]: None} == like)
    old = _said(task, first.get(changed[0]), new)
    if found := next(_respelled(call.tool_name, changed[0], old, [new]), None):
        return found
    form = form_of(new) if isinstance(old, str) and isinstance(new, str) else ""
    return _as_form(call.tool_name, changed[0], form) if form and form != form_of(str(old)) else None


def _told(call: ToolInvocation, known: Mapping[str, Mapping[str, Any]]) -> Mend | None:
    """The lesson of a refusal: a form or a unit. Tools in it are no lesson: who words it could choose."""
    said = (call.error_message or "").partition(HINT)[0]
    tool, spec = call.tool_name, known[call.tool_name]
    words = [word.strip(".:!?") for word in _WORD.findall(said)]
    name = _parameter(call, spec, words)
    if name is None:
        return None
    given = _arguments(call).get(name)
    value = str(given)
    others = [word for word in words if word != value]
    likes = (spelled_like(given, word) for word in others) if isinstance(given, str) else ()
    if like := next(filter(None, likes), None):
        return _told_as(tool, name, like)
    forms = (word if _SPELLED.fullmatch(word) else form_of(word) for word in others)
    if form := next((form for form in forms if form and form != form_of(value)), ""):
        return _as_form(tool, name, form)
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return _as_unit(tool, name, said) if is_number else None


def _parameter(call: ToolInvocation, spec: Mapping[str, Any], words: Sequence[str]) -> str | None:
    """The parameter that a refusal is about: its value is named, or there is no other; ids are looked up."""
    given = {name: str(value) for name, value in _arguments(call).items()}
    named = [name for name, value in given.items() if value in words or name in words]
    free = [name for name in given if not _is_id(spec, name)]
    if named:
        return named[0] if named[0] in free else None
    return free[0] if len(free) == 1 else None


def _as_form(tool: str, name: str, form: str) -> Mend:
    written = as_shape(form) if "A" in form else as_day(form)
    return Mend("format", (tool,), f"{tool}: write {name} {written}.")


def _as_unit(tool: str, name: str, said: str) -> Mend | None:
    found = _UNIT.search(said)
    if found is None:
        return None
    whole = " as a whole number" if found[1] else ""
    step = _PARTS.get(found[2])
    times = times_as(step) if step else ""
    return Mend("argument", (tool,), f"{tool}: give {name} in {found[2]}{whole}{times}.")


def _respelled(tool: str, name: str, old: object, others: Sequence[object]) -> Iterator[Mend]:
    """The rule that makes one of the others of the value, where all that are its spellings agree on it."""
    found = {rule for new in others if (rule := respelled(old, new)) is not None}
    if len(found) == 1 and takes(name, old):
        yield _told_as(tool, name, found.pop())


def _told_as(tool: str, name: str, found: Respelling) -> Mend:
    return Mend(found.lesson, (tool,), f"{tool}: {found.rule.format(name=name)}.")


def _before(first: str, second: str) -> Mend:
    return Mend("order", (first, second), f"Call {first} before {second}.")


def _arguments(call: ToolInvocation) -> Mapping[str, Any]:
    return call.arguments if is_object(call.arguments) else {}


def _is_id(spec: Mapping[str, Any], name: str) -> bool:
    """Whether a parameter is an id: those are looked up, not written in a form."""
    schema = spec.get("parameters", {}).get("properties", {}).get(name)
    return is_object(schema) and schema.get("format") == "id"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
