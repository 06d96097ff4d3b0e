"""Feedback: the surest signal decides, and words in an answer never do."""

from __future__ import annotations

from typing import Any, cast

import pytest

from wesichain.learning import Feedback, TaskOutput

DONE = TaskOutput("t", "an error occurred, sorry: failed")
LIMIT = TaskOutput("t", "half", iteration_limit_reached=True)
DEAD = TaskOutput("t", "half", metadata={"error": "ModelTransportError: gone"})

SIGNALS = [
    pytest.param(Feedback(), DONE, ("unknown", "none"), id="a-completed-run-without-a-signal-is-unknown"),
    pytest.param(Feedback(), LIMIT, ("failure", "run"), id="a-run-at-its-limit-is-a-failure"),
    pytest.param(Feedback(), DEAD, ("failure", "run"), id="a-failed-run-is-a-failure"),
    pytest.param(Feedback(label=True, tests=False), DONE, ("success", "label"), id="a-label-outranks-tests"),
    pytest.param(Feedback(label=False, self_check=True), DONE, ("failure", "label"), id="a-label-can-be-bad"),
    pytest.param(
        Feedback(tests=True, execution=False), DONE, ("success", "tests"), id="tests-outrank-status"
    ),
    pytest.param(
        Feedback(execution=False, self_check=True), DONE, ("failure", "execution"), id="status-before-self"
    ),
    pytest.param(Feedback(self_check=True), DONE, ("success", "self_check"), id="a-self-check-is-the-last"),
    pytest.param(Feedback(label=True), LIMIT, ("success", "label"), id="a-label-outranks-the-limit"),
]


@pytest.mark.parametrize(("feedback", "output", "judged"), SIGNALS)
def test_the_first_signal_decides(feedback: Feedback, output: TaskOutput, judged: tuple[str, str]) -> None:
    assert feedback.judge(output) == judged


ANSWERS = [
    pytest.param("42", "42", True, id="the-answer-itself"),
    pytest.param("42", "The answer is 42.", True, id="in-a-sentence"),
    pytest.param("42", "142", False, id="not-inside-a-longer-number"),
    pytest.param("42", "42.5", False, id="not-the-start-of-a-longer-number"),
    pytest.param("1200.5", "It is 1,200.50 EUR", True, id="a-number-written-otherwise"),
    pytest.param("-5", "minus: 5", False, id="the-sign-counts"),
    pytest.param("New York", "it is in new york!", True, id="case-and-punctuation-do-not-count"),
    pytest.param("New York", "York, New", False, id="the-order-counts"),
]


@pytest.mark.parametrize(("expected", "answer", "right"), ANSWERS)
def test_an_expected_answer_is_compared(expected: str, answer: str, right: bool) -> None:
    outcome = Feedback.expected(expected).judge(TaskOutput("t", answer))
    assert outcome == ("success" if right else "failure", "label")


def test_no_answer_is_a_wrong_one() -> None:
    assert Feedback(answer="?!").judge(DONE) == ("failure", "label"), "it has no word to compare"
    nothing = TaskOutput("t", "", iteration_limit_reached=True)
    assert Feedback.expected("42").judge(nothing) == ("failure", "label")


def test_an_expected_answer_without_a_letter_or_digit_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Feedback.expected("?!")


@pytest.mark.parametrize("signal", ["label", "tests", "execution", "self_check"])
@pytest.mark.parametrize("value", ["no", 2, []])
def test_a_signal_is_true_false_or_nothing(signal: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{signal} is True, False or None"):
        Feedback(**{signal: value})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"why": 3}, "why says in words", id="a-reason-that-is-no-text"),
        pytest.param({"by": True}, "by names who", id="somebody-who-is-no-name"),
    ],
)
def test_words_are_texts(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Feedback(**fields)


def test_nothing_is_no_expected_answer() -> None:
    with pytest.raises(ValueError, match="got None"):
        Feedback.expected(cast("Any", None))
