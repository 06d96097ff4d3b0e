"""A rule is applied to the values of the task that is told it."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wesichain.learning.lessons import applied
from wesichain.learning.lessons.spelling import respelled
from wesichain.learning.lessons.written import DAYS, TIMES, bare, code_like, day_as, time_as, turned

TASK = "Set all of ME-12 by 23 July 2027 at 4 pm: 24.50 euros, tag kx41, call Ida Kern."
DAY = "plan: write day as DD.MM.YYYY: 31 December 1999 is 31.12.1999."
PAY = "pay: give amount times 100: for 12 write 1200."
CODE = "c: write code like AB/12, not ab12."


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (DAY, 'plan: write day as "23.07.2027" for 23 July 2027 (DD.MM.YYYY).'),
        ("plan: write day as YYYY-Www.", 'plan: write day as "2027-W29" for 23 July 2027 (YYYY-Www).'),
        ("t: write at as HHMM: 2:30 pm is 1430.", 't: write at as "1600" for 4 pm (HHMM).'),
        (PAY, "pay: write amount as 2450 for 24.50 (times 100)."),
        (
            "pay: give amount in cents as a whole number: for 12 write 1200.",
            "pay: write amount as 2450 for 24.50 (in cents as a whole number).",
        ),
        (
            "pay: give amount divided by 10: for 120 write 12.",
            "pay: write amount as 2.45 for 24.50 (divided by 10).",
        ),
        (CODE, 'c: write code as "KX/41" for kx41 (like AB/12, not ab12).'),
        (
            "c: write code as AA-00, with A for a letter and 0 for a digit.",
            'c: write code as "kx-41" for kx41 (AA-00).',
        ),
        (
            "n: write name as Smith, John for John Smith.",
            'n: write name as "Kern, Ida" for Ida Kern (as Smith, John for John Smith).',
        ),
        (
            "n: write name as Smith John for John Smith.",
            'n: write name as "Kern Ida" for Ida Kern (as Smith John for John Smith).',
        ),
        ("Call check before pay.", "Call check before pay."),
        ("pay: give amount in weeks.", "pay: give amount in weeks."),
    ],
)
def test_a_rule_is_told_as_this_task_has_to_follow_it(rule: str, told: str) -> None:
    assert applied(rule, TASK) == told


@pytest.mark.parametrize(
    ("rule", "task"),
    [
        pytest.param(DAY, "On 1 May 2027, 2 May 2027, 3 May 2027 or 4 May 2027", id="too-many"),
        pytest.param(DAY, "Move A-1 to 05.06.2027", id="written-so-already"),
        pytest.param(DAY, "Move A-1 to 03/04/2027", id="which-is-the-month"),
        pytest.param(DAY, "Plan it for tomorrow", id="none"),
        pytest.param(PAY, "x" * 5000 + " 7", id="too-far-away"),
        pytest.param(CODE, "Assign KX/41", id="a-code-as-it-is-wanted"),
        pytest.param(CODE, "Assign kx4", id="a-code-of-another-shape"),
        pytest.param(
            "c: write code as AA-00, with A for a letter and 0 for a digit.", "Assign KX-41", id="a-shape"
        ),
    ],
)
def test_it_stays_as_it_is_where_the_task_has_no_such_value(rule: str, task: str) -> None:
    assert applied(rule, task) == rule


def test_two_values_are_told_each() -> None:
    assert (
        applied(DAY, "Move A-1 from 3 May 2027 to 5 June 2027, not to 5 June 2027")
        == 'plan: write day as "03.05.2027" for 3 May 2027, as "05.06.2027" for 5 June 2027 (DD.MM.YYYY).'
    )
    assert applied(PAY, "Pay 7 of 30") == "pay: write amount as 700 for 7, as 3000 for 30 (times 100)."


DATES = st.dates(date(1900, 1, 1), date(2099, 12, 31))
MOMENTS = st.times().map(lambda moment: moment.replace(second=0, microsecond=0))
CODES = st.from_regex(r"[a-z]{2}[0-9]{2}", fullmatch=True)
NAMES = st.from_regex(r"[A-Z][a-z]{1,8}( [A-Z][a-z]{1,8}){1,2}", fullmatch=True)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[object, object]:
    """One value in two spellings: as a task says it and as a tool wants it."""
    match draw(st.sampled_from(["day", "time", "code", "name", "times", "parts"])):
        case "day":
            day = draw(DATES)
            return f"{day.day} {day:%B} {day.year}", day_as(draw(st.sampled_from(list(DAYS))), day)
        case "time":
            moment = draw(MOMENTS)
            return f"{moment:%I:%M %p}".lower(), time_as(draw(st.sampled_from(list(TIMES))), moment)
        case "code":
            code = draw(CODES)
            return code, code_like(draw(st.sampled_from(["AB12", "ab-12", "AB/12", "Ab.12"])), bare(code))
        case "name":
            name = draw(NAMES)
            return name, turned(name, draw(st.sampled_from([", ", " "])))
        case "times":
            amount = draw(st.integers(1, 10_000))
            return amount, amount * draw(st.sampled_from([10, 100, 1000]))
        case _:
            amount, step = draw(st.integers(1, 10_000)), draw(st.sampled_from([10, 100, 1000]))
            return amount * step, amount


@given(pairs())
def test_a_task_that_says_the_old_spelling_is_told_the_new_one(pair: tuple[object, object]) -> None:
    old, new = pair
    found = respelled(old, new)
    assume(found is not None)
    assert found is not None
    rule = f"plan: {found.rule.format(name='value')}."
    told = applied(rule, f"Set it to {old}, please.")
    shown = str(new) if isinstance(new, int) else f'"{new}"'
    assert told.startswith(f"plan: write value as {shown} for {old} (")


@given(st.text(max_size=80), st.sampled_from([DAY, PAY, CODE]))
def test_a_rule_stays_a_rule_of_one_line_whatever_the_task(task: str, rule: str) -> None:
    told = applied(rule, task)
    assert told.startswith(f"{rule.partition(':')[0]}: ")
    assert told.endswith(".")
    assert told.isprintable()
    assert len(told) < 200


@pytest.mark.parametrize(
    ("rule", "task"),
    [
        ("plan: write hour as HH.MM:SS: 2:30 pm is 14.30:00.", "Set it to 3:45 pm."),
        ("assign: write tag like AB-12, not ABC123.", "Assign XYZ789."),
        ("assign: write tag like AB-1234, not AB12.", "Assign XY78."),
        ("pay: give amount times 0: for 12 write 0.", "Pay 25."),
    ],
)
def test_a_rule_that_nobody_learned_is_told_as_it_stands(rule: str, task: str) -> None:
    assert applied(rule, task) == rule
