"""Answers: which tool gave what the answer should have named, by what the feedback says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wesichain.learning import Feedback, ToolInvocation
from wesichain.learning.lessons import leaves, saying, unsaid

FOUND = {"code": "BK-8856", "shelf": "U50", "grams": 1200, "state": "open", "size": "a"}
TASK = "On which shelf is BK-8856?"


def look(result: Any, *, tool: str = "look", good: bool = True) -> ToolInvocation:
    return ToolInvocation(tool, {}, result, good, None if good else "none of that here")


def told(why: str) -> Feedback:
    return Feedback(label=False, why=why)


@pytest.mark.parametrize(
    ("feedback", "answer", "tool"),
    [
        pytest.param(told("the answer should have been U50"), "Done.", "look", id="words-about-the-answer"),
        pytest.param(told("The reply lacks it: 1,200 grams"), "Done.", "", id="written-in-another-way"),
        pytest.param(told("The reply lacks it: 1200 grams"), "Done.", "look", id="a-number"),
        pytest.param(told("the records should say U50"), "Done.", "", id="words-about-something-else"),
        pytest.param(told("the answer should have been U51"), "Done.", "", id="no-tool-gave-it"),
        pytest.param(told("the answer should have been U50 alone"), "U50 or V1", "", id="it-was-said"),
        pytest.param(told("the answer is about BK-8856"), "Done.", "", id="the-task-says-it"),
        pytest.param(told("the answer is a bad one"), "Done.", "", id="a-letter-is-no-find"),
        pytest.param(told("the answer says U501"), "Done.", "", id="whole-words"),
        pytest.param(told(""), "Done.", "", id="nothing-is-said"),
        pytest.param(Feedback.expected("u50"), "Done.", "look", id="an-expected-answer"),
        pytest.param(Feedback.expected("1,200 grams"), "Done.", "", id="no-part-in-another-spelling"),
        pytest.param(Feedback.expected("U50, open"), "Done.", "look", id="a-part-of-it"),
        pytest.param(Feedback.expected("U50"), "It is U50.", "", id="an-answer-that-has-it"),
    ],
)
def test_the_tool_that_gave_what_was_not_said(feedback: Feedback, answer: str, tool: str) -> None:
    calls = [look(None, tool="other", good=False), look({"rows": [FOUND]})]
    assert unsaid(calls, task=TASK, answer=answer, feedback=feedback) == tool


def test_a_tool_that_speaks_in_sentences_gave_it_too() -> None:
    calls = [look("It stands on shelf U50.", tool="ask"), look("No more.", tool="check")]
    assert unsaid(calls, task=TASK, answer="Done.", feedback=Feedback.expected("U50")) == "ask"


def test_of_several_tools_the_last_one_gave_it() -> None:
    calls = [look(FOUND, tool="first"), look(FOUND, tool="last"), look(FOUND, tool="failed", good=False)]
    assert unsaid(calls, task=TASK, answer="", feedback=told("the answer should be U50")) == "last"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.text(max_size=40), st.text(max_size=40))
def test_whatever_is_said_the_lesson_is_in_our_words(result: Any, why: str, answer: str) -> None:
    found = unsaid([look(result)], task=TASK, answer=answer, feedback=told(f"the answer should be {why}"))
    assert found in ("", "look")
    if found:
        given_by = [str(value) for value in leaves(result)]
        assert any(value in why or value in "the answer should be" for value in given_by)
    assert saying("look").rule == saying("other").rule
