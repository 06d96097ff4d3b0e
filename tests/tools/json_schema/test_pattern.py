"""Patterns: ECMAScript's meaning, and no pattern that could hang a run."""

from __future__ import annotations

import time

import pytest

from wesichain.errors import ToolDefinitionError
from wesichain.tools import validate_json


def matches(pattern: str, text: str) -> bool:
    return validate_json({"pattern": pattern}, text) == []


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        pytest.param("a+", "xxaay", "xyz", id="anywhere-in-the-text"),
        pytest.param("^a$", "a", "a\n", id="the-end-is-the-end"),
        pytest.param(r"^\d+$", "123", "\u0661\u0662", id="digits-are-ascii"),
        pytest.param(r"^\D$", "\u0661", "1", id="and-so-is-their-absence"),
        pytest.param(r"^[\d-]+$", "1-2", "\u0661", id="in-a-class-too"),
        pytest.param(r"^\w+$", "a_1", "é", id="words-are-ascii"),
        pytest.param(r"^\W$", "é", "e", id="and-what-is-no-word"),
        pytest.param(r"^\s$", "\ufeff", "x", id="blanks-are-unicode"),
        pytest.param(r"^\p{Letter}+$", "πé", "1", id="unicode-classes"),
        pytest.param(r"^\p{Lu}\p{L}*$", "Éa", "éa", id="unicode-upper-case"),
        pytest.param(r"^[\p{L}\d ]+$", "π 1", "-", id="unicode-classes-in-a-class"),
        pytest.param("^.$", "🎉", "ab", id="a-character-is-a-code-point"),
        pytest.param(r"^\cM$", "\r", "M", id="control-letters"),
        pytest.param(r"^\0$", "\x00", "0", id="nul"),
        pytest.param(r"^\u0041\x42$", "AB", "ab", id="escapes-by-number"),
        pytest.param(r"^[[a]$", "[", "b", id="a-bracket-in-a-class"),
        pytest.param(r"^[a&&b]+$", "a&b", "c", id="an-ampersand-in-a-class"),
        pytest.param(r"^[^]$", "x", "xy", id="anything"),
        pytest.param(r"^a\/b\-c$", "a/b-c", "ab", id="escaped-punctuation"),
        pytest.param(r"^(?<year>\d{4})-\d\d$", "2026-01", "26-01", id="named-groups"),
        pytest.param("^(?!-)[a-z-]+$", "a-b", "-ab", id="look-ahead"),
        pytest.param(r"^(?=.*[A-Z])(?=.*\d).{8,}$", "Passw0rdx", "password", id="several-look-aheads"),
        pytest.param(r"(?<=x)y", "xy", "y", id="look-behind"),
        pytest.param(r"^(a|b)\1$", "aa", "ab", id="backreferences"),
        pytest.param(r"^(?<q>['\"]).\k<q>$", "'x'", "'x\"", id="named-backreferences"),
        pytest.param(
            r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$",
            "12345678901234.5678",
            "-",
            id="what-pydantic-writes-for-decimals",
        ),
        pytest.param(r"(?=a)a$", "ba", "a\n", id="the-end-is-the-end-after-a-look-ahead"),
    ],
)
def test_a_pattern_means_what_ecmascript_says(pattern: str, yes: str, no: str) -> None:
    assert matches(pattern, yes)
    assert not matches(pattern, no)


@pytest.mark.parametrize(
    "pattern",
    [
        "^(a+)+$",
        "^(a|a)*$",
        "^(a|aa)+$",
        r"^(\w+\s?)*$",
        "^(a?){50}a{50}$",
        "(.*a){25}",
        "^((a+)+)+$",
        "(x+x+)+y",
    ],
)
def test_patterns_that_hang_others_are_matched_at_once(pattern: str) -> None:
    for text in ("a" * 50_000 + "!", "x" * 50_000, " " * 50_000):
        start = time.process_time()
        matches(pattern, text)
        assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(?=x)(a+)+$",
        r"^(?=x)(a|a)*$",
        r"^(?=x)(a|aa)+$",
        r"^(a+)+\1$",
        r"(?!x)(\w+\s?)*$",
        r"(?=x)([a-z]{1,3})*",
        r"(?=(a+)+b)",
        r"(?=x)((ab?)+c)*",
        r"^((?=a)a+)*$",
    ],
)
def test_patterns_that_only_backtracking_could_match_are_refused_if_they_could_hang(pattern: str) -> None:
    with pytest.raises(ToolDefinitionError, match="may take exponential time"):
        matches(pattern, "a" * 40)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?=a)a*a*a*a*a*a*b",
        r"(?=.*x)(?=.*y).*.*.*z",
        r"^(?=a).*,.*,.*,.*,.*x",
        r"(?=a)a{1,30}a{1,30}a{1,30}a{1,30}b",
        r"(?=a)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)a*a*a*c",
    ],
)
def test_the_rest_is_quick_because_long_texts_are_not_looked_at(pattern: str) -> None:
    for size in (1, 10, 20, 30, 60, 100, 1000, 100_000):
        for text in ("a" * size, "a," * size, "a" * size + "!"):
            start = time.process_time()
            matches(pattern, text)
            assert time.process_time() - start < 2


@pytest.mark.parametrize("pattern", ["(?!b)" + "a?" * 25 + "a" * 25, "(?=a)" + "a?" * 25 + "c"])
def test_a_pattern_that_could_match_no_text_within_its_limit_is_refused(pattern: str) -> None:
    with pytest.raises(ToolDefinitionError, match="too many optional parts and choices"):
        matches(pattern, "a")


@pytest.mark.parametrize(
    ("pattern", "longest"),
    [
        pytest.param(r"(?=a)b", 5_000_000, id="every-position-is-tried"),
        pytest.param(r"^(?=a)b*", 5_000_000, id="but-not-behind-an-anchor"),
        pytest.param(r"(?=a).*b", 2_236, id="a-repetition-has-a-square"),
        pytest.param(r"(?=a).*b.*c", 170, id="two-have-a-cube"),
        pytest.param(r"(?=a)(b|c)", 2_500_000, id="a-choice-is-twice-the-work"),
        pytest.param(r"(?=a)b?", 2_500_000, id="so-is-what-may-be-missing"),
        pytest.param(r"(?=a)b{2,5}", 1_250_000, id="each-number-of-times-is-once-the-work"),
        pytest.param(r"(?=.*b)(?=.*c)", 2_236, id="the-costliest-look-ahead-counts"),
    ],
)
def test_a_text_too_long_for_its_pattern_is_told_so(pattern: str, longest: int) -> None:
    assert validate_json({"pattern": pattern}, "a" * (longest + 1)) == [
        f"the value: expected at most {longest} characters, got {longest + 1}"
    ]
