"""What a model is shown, and what is cut out of it: the laws that hold for any log and any cuts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

import wesichain.context
from tests.draws import draws
from wesichain import Agent, tool
from wesichain.agent import Failed
from wesichain.context import (
    ClearToolResults,
    ContextView,
    Summarise,
    ViewQuestion,
    VisibleLog,
    Window,
    tokens_of,
)
from wesichain.context.internal import are_views
from wesichain.core import Message, Role, StepStarted, ToolCall, from_json, to_json
from wesichain.core.events import ContextReduced
from wesichain.core.internal import Cut, Transcript
from wesichain.testing import FunctionLlm, ScriptedLlm
from wesichain.testing import calls as replying

SYSTEM, TASK = Message(Role.SYSTEM, "be brief"), Message(Role.USER, "the task")


def hop(number: int, *, calls: int = 1, size: int = 400, note: bool = False) -> list[Message]:
    """A reply with calls, their results, and perhaps a note on it."""
    made = tuple(ToolCall(f"{number}-{place}", "look", {"n": number}) for place in range(calls))
    results = [Message(Role.TOOL, f"{one.id} ".ljust(size, "x"), one.id) for one in made]
    notes = [Message(Role.USER, f"note {number}")] if note else []
    return [Message(Role.ASSISTANT, f"hop {number}", None, made), *results, *notes]


def turn(number: int, *, hops: int) -> list[Message]:
    """A question of an earlier run, and what came of it."""
    inside = [message for one in range(hops) for message in hop(1_000 * (number + 1) + one)]
    return [Message(Role.USER, f"q{number}"), *inside, Message(Role.ASSISTANT, f"a{number}")]


hops = st.builds(hop, st.just(0), calls=st.integers(0, 3), size=st.integers(0, 2_000), note=st.booleans())
views: st.SearchStrategy[Any] = st.one_of(
    st.builds(ClearToolResults, st.integers(1, 3_000), st.integers(0, 6)),
    st.builds(Window, st.integers(1, 3_000)),
    st.integers(2, 3_000).flatmap(lambda over: st.builds(Summarise, st.just(over), st.integers(0, over - 1))),
)
logs = st.tuples(
    st.booleans(),
    st.lists(st.integers(0, 3), max_size=3),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2_000), st.booleans()), min_size=1, max_size=14),
)


def log_of(drawn: Any) -> tuple[list[Message], int, list[int]]:
    """A log, the place of its task, and where requests are made."""
    has_system, history, steps = drawn
    log = [SYSTEM] if has_system else []
    for number, count in enumerate(history):
        log += turn(number, hops=count)
    task = len(log)
    log.append(TASK)
    asked = [len(log)]
    for number, (calls, size, note) in enumerate(steps):
        log += hop(number, calls=calls, size=size, note=note)
        asked.append(len(log))
    return log, task, asked


def reduced(view: ContextView, seen: VisibleLog) -> tuple[Cut, ...]:
    found = view.reduce(seen)
    cuts = found.cuts("in short") if isinstance(found, ViewQuestion) else tuple(found or ())
    for cut in cuts:
        seen.check(cut, view.name)
        seen.cut(cut)
    return cuts


def check_pairs(messages: list[Message]) -> None:
    """Each call has its results right behind it, and each result its call."""
    waiting: list[str] = []
    for message in messages:
        if message.role is Role.TOOL:
            assert message.tool_call_id in waiting, "a result without its call"
            waiting.remove(message.tool_call_id)
            continue
        assert not waiting, "a call without its result"
        waiting = [call.id for call in message.tool_calls]
    assert not waiting


@draws(35)
@given(logs, st.lists(views, min_size=1, max_size=3))
def test_whatever_the_views_cut_the_laws_hold(drawn: Any, chosen: list[ContextView]) -> None:
    log, task, asked = log_of(drawn)
    seen, transcript = VisibleLog(task), Transcript()
    requests: list[tuple[Any, list[Message]]] = []
    for step, length in enumerate(asked, 1):
        new = log[seen.length : length]
        seen.take(new)
        for view in chosen:
            cuts = reduced(view, seen)
            if cuts:
                told = ContextReduced("r", step, 1, 0.0, view.name, cuts)
                transcript.take(from_json(ContextReduced, to_json(told)))
        transcript.take(StepStarted("r", step, 1, 0.0, tuple(new)))
        shown = [*seen.messages]
        requests.append((seen.messages, shown))
        # The instructions and the task stay, whole and in their order.
        assert [one for one in shown if one.role is Role.SYSTEM] == [one for one in log if one is SYSTEM]
        assert TASK in shown
        check_pairs(shown)
        # The last reply and what came of it are what the model is asked about.
        assert shown[len(shown) - len(new) :] == new or length == asked[0]
        assert seen.tokens == sum(map(tokens_of, shown))
        assert transcript.messages == shown, "the events tell what the model saw"
        # What is kept for later makes the same of the log again.
        again = VisibleLog(task)
        again.take(log[:length])
        for cut in from_json(tuple[Cut, ...], to_json(seen.cuts())):
            again.cut(cut)
        assert [*again.messages] == shown
        assert again.tokens == seen.tokens
        assert [view.reduce(again) is None for view in chosen] == [
            view.reduce(seen) is None for view in chosen
        ]
        assert again.oldest(500) == seen.oldest(500)
        assert again.results(1) == seen.results(1)
    for view_then, shown_then in requests:
        assert view_then == shown_then, "a request that was made stays as it was"


@draws(50)
@given(logs, st.integers(1, 3_000))
def test_a_window_holds_unless_what_must_stay_is_more(drawn: Any, most: int) -> None:
    log, task, asked = log_of(drawn)
    seen = VisibleLog(task)
    for length in asked:
        new = log[seen.length : length]
        seen.take(new)
        reduced(Window(most), seen)
        must_stay = seen.fixed_tokens + (sum(map(tokens_of, new)) if length != asked[0] else 0)
        assert seen.tokens <= max(most, must_stay)


def started(count: int, **options: Any) -> VisibleLog:
    seen = VisibleLog(1)
    seen.take([SYSTEM, TASK])
    for number in range(count):
        seen.take(hop(number, **options))
    return seen


class TestASummary:
    def test_a_later_one_takes_the_earlier_one_in(self) -> None:
        seen = started(10)
        view = Summarise(800, 300)
        first = view.reduce(seen)
        assert isinstance(first, ViewQuestion)
        for cut in first.cuts("the beginning"):
            seen.cut(cut)
        assert view.reduce(seen) is None
        for number in range(10, 20):
            seen.take(hop(number))
        second = view.reduce(seen)
        assert isinstance(second, ViewQuestion)
        assert "the beginning" in second.messages[1].text
        assert "[call] look" in second.messages[1].text
        for cut in second.cuts("all of it"):
            seen.cut(cut)
        texts = [message.text for message in seen.messages]
        assert [text for text in texts if "Summary" in text] == [texts[2]]
        assert texts[2].endswith("all of it")

    @pytest.mark.parametrize("number", [1, 40])
    def test_its_own_request_is_within_the_limit_too(self, number: int) -> None:
        """As where a run is handed over, with results that no view has cut yet."""
        seen = VisibleLog(0)
        seen.take([Message(Role.USER, "task")])
        for one in range(number):
            call = ToolCall(f"c{one}", "read", {"page": one})
            seen.take([Message(Role.ASSISTANT, "", tool_calls=(call,))])
            seen.take([Message(Role.TOOL, f"page {one} " + "x" * 250_000, tool_call_id=call.id)])
        seen.take(hop(number))
        question = Summarise(8_000, 2_000).reduce(seen)
        assert isinstance(question, ViewQuestion)
        assert sum(map(tokens_of, question.messages)) <= 8_000
        assert "page 0" in question.messages[1].text
        assert f"page {number - 1}" in question.messages[1].text

    def test_no_model_is_asked_at_every_step_where_the_task_alone_is_too_long(self) -> None:
        seen, asked = VisibleLog(0), 0
        seen.take([Message(Role.USER, "x" * 40_000)])
        for number in range(100):
            seen.take(hop(number))
            asked += bool(reduced(Summarise(2_000, 500), seen))
        assert 10 <= asked <= 40


class TestAViewOfOnesOwn:
    def test_it_is_one_by_its_form(self) -> None:
        assert isinstance(Window(1), ContextView)
        assert are_views([Window(1), ClearToolResults(1)])
        assert not are_views(Window(1))
        assert not are_views([Window])
        assert not are_views(["window"])

    def test_the_earlier_name_of_its_question_works_and_warns(self) -> None:
        kind: Any = wesichain.context.Question
        with pytest.warns(DeprecationWarning, match="is called ViewQuestion"):
            question = kind((Message(Role.USER, "sum up"),), lambda text: (Cut(1, 3),))
        assert isinstance(question, ViewQuestion)
        assert question.cuts("x") == (Cut(1, 3),)


class Eager(Window):
    """Cuts sooner than the class that it comes from."""

    @override
    def reduce(self, seen: VisibleLog) -> Any:
        return [Cut(start, end) for start, end in seen.oldest(1)] if len(seen.messages) > 4 else None


@pytest.mark.parametrize(("view", "cuts"), [(Eager(8_000), True), (Window(8_000), False)])
async def test_a_view_that_another_class_was_made_of_is_asked_before_every_step(
    view: Any, cuts: bool
) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    llm = ScriptedLlm([*[replying(("look", {}))] * 3, "done"])
    result = await Agent(llm, tools=[look], context=[view], loop_guard=None).run("go")
    assert any(isinstance(event, ContextReduced) for event in result.events) is cuts


async def test_a_request_that_cannot_fit_says_how_many_tokens_it_needs() -> None:
    @tool
    async def hop(n: int) -> str:
        """Read a page."""
        return "y" * 400

    llm = FunctionLlm(lambda request: replying(("hop", {"n": len(request.messages)})))
    outcome = await Agent(llm, tools=[hop], context=[ClearToolResults(300, keep=4)]).outcome("q")
    assert isinstance(outcome, Failed)
    needed = re.search(r"needs at least (\d+) tokens.*ClearToolResults allows 300", str(outcome.error))
    assert needed is not None
    assert int(needed[1]) > 300
