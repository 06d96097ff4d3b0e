"""Values in the ways that people write them, read and found in texts."""

from __future__ import annotations

from datetime import date, time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wesichain.learning.lessons.written import (
    DAYS,
    TIMES,
    bare,
    code_like,
    codes_in,
    day_as,
    days_in,
    is_code,
    names_in,
    plain_numbers_in,
    read_days,
    read_times,
    sample_of,
    shape_of,
    time_as,
    times_in,
)

CODES = st.from_regex(r"[a-zA-Z]{1,3}[-/.]?[0-9]{1,3}", fullmatch=True)
MARCH = date(2027, 3, 14)


@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)), st.sampled_from(list(DAYS)))
def test_a_day_is_read_as_it_was_written(day: date, form: str) -> None:
    assert day in read_days(day_as(form, day))


@given(st.times().map(lambda moment: moment.replace(second=0, microsecond=0)), st.sampled_from(list(TIMES)))
def test_a_time_is_read_as_it_was_written(moment: time, form: str) -> None:
    assert moment in read_times(time_as(form, moment))


@pytest.mark.parametrize(
    ("day", "week"), [(MARCH, "2027-W10"), (date(2027, 1, 1), "2026-W53"), (date(2024, 12, 30), "2025-W01")]
)
def test_a_week_is_one_of_its_own_year(day: date, week: str) -> None:
    assert day_as("YYYY-Www", day) == week


@given(CODES)
def test_a_sample_looks_like_the_code_and_has_none_of_its_signs_but_by_chance(code: str) -> None:
    sample = sample_of(code)
    assert is_code(code)
    assert shape_of(sample) == shape_of(code)
    assert [mark.islower() for mark in sample] == [mark.islower() for mark in code]
    assert code_like(code, bare(code)) == code
    assert sample_of(sample) == sample


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("on 14 March 2027.", [("14 March 2027", MARCH)]),
        ("March 14, 2027, please", [("March 14, 2027", MARCH)]),
        ("from 2027-03-14 to 14.03.2027", [("2027-03-14", MARCH), ("14.03.2027", MARCH)]),
        ("on 14/03/2027", [("14/03/2027", MARCH)]),
        ("on 03/04/2027", []),  # which is the month?
        ("order 12345678, room 14 March", []),
        ("A-2027-03-14 and 1.2027-03-14", []),
        ("30 February 2027", []),
    ],
)
def test_the_days_of_a_text(text: str, found: list[tuple[str, date]]) -> None:
    assert list(days_in(text)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("at 2:30 pm, please", [("2:30 pm", time(14, 30))]),
        ("at 9 am or 14:30.", [("9 am", time(9)), ("14:30", time(14, 30))]),
        ("at 08h15", [("08h15", time(8, 15))]),
        ("it costs 14.30, in room 1430", []),  # a price, a number
        ("at 14:70 or 25:00", []),
        ("12:30:45:10", []),
    ],
)
def test_the_times_of_a_text(text: str, found: list[tuple[str, time]]) -> None:
    assert list(times_in(text)) == found


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Put 25 euros on LE-6216.", ["25"]),
        ("Pay 24.50 or 7.", ["24.50", "7"]),
        ("On 14 March 2027 at 2 pm pay 12", ["12"]),
        ("A-7, 1,250 euros, 3:30, 4/5", []),
    ],
)
def test_the_plain_numbers_of_a_text(text: str, numbers: list[str]) -> None:
    assert list(plain_numbers_in(text)) == numbers


@pytest.mark.parametrize(
    ("text", "codes"),
    [("Assign tag kx41 to LE-6216.", ["kx41", "LE-6216"]), ("(b-07), 1250 or plain words", ["b-07"])],
)
def test_the_codes_of_a_text(text: str, codes: list[str]) -> None:
    assert list(codes_in(text)) == codes


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Set the contact of LE-6 to Ida Kern.", ["Ida Kern"]),
        ("Call Ida Maria Kern, then Jo Wu: they know.", ["Ida Maria Kern", "Jo Wu"]),
        ("Ida Kern is the contact.", []),  # "Please Ida" would look the same
        ("Book it for Ida.", []),
        ("It is done. Call Ida", []),
        ("", []),
    ],
)
def test_the_names_of_a_text(text: str, names: list[str]) -> None:
    assert list(names_in(text)) == names


@given(st.text(max_size=200))
def test_any_text_can_be_looked_at(text: str) -> None:
    for find in (days_in, times_in, plain_numbers_in, codes_in, names_in):
        for found in find(text):
            said = found if isinstance(found, str) else found[0]
            assert said in text or " ".join(text.split()).find(said) >= 0
