"""Both sides of every limit of the views, with tokens that are letters."""

from __future__ import annotations

from typing import Any, cast

import pytest

from wesichain.context import ClearToolResults, Summarise, TrimResults, VisibleLog, Window, estimate_tokens
from wesichain.context.builtin_views import CLEARED, trimmed, trimmed_together
from wesichain.context.internal import fit
from wesichain.context.tokens import count_each
from wesichain.context.view import counter_of, inactive_below
from wesichain.core import Image, Message, Role, Text, ToolCall
from wesichain.core.internal import Cut
from wesichain.errors import AgentError, ConfigError


def reply(id: str, text: str = "") -> Message:
    return Message(Role.ASSISTANT, text, None, (ToolCall(id, "", ""),))


def log(*results: str, task: str = "task") -> VisibleLog:
    """A run that has these results of tools, each of a call in a reply of its own; its calls count nothing."""
    seen = VisibleLog(0, len)
    turns = [
        one for n, text in enumerate(results) for one in (reply(f"c{n}"), Message(Role.TOOL, text, f"c{n}"))
    ]
    seen.take([Message(Role.USER, task), *turns])
    return seen


@pytest.mark.parametrize(
    "view",
    [
        ClearToolResults(104, keep=0, count_tokens=len),
        Window(104, count_tokens=len),
        Summarise(104, 10, count_tokens=len),
    ],
    ids=lambda view: type(view).__name__,
)
def test_a_view_cuts_above_its_limit_and_not_at_it(view: Any) -> None:
    assert view.reduce(log("x" * 50, "x" * 50)) is None
    assert view.reduce(log("x" * 50, "x" * 51))
    assert (view.limit_tokens, view.inactive_below_tokens, view.name) == (104, 104, type(view).__name__)


def test_a_result_is_cut_above_its_limit_and_not_at_it() -> None:
    view = TrimResults(60, count_tokens=len)
    assert view.reduce(log("x" * 60)) == []
    (cut,) = view.reduce(log("x" * 61, "y")) or ()
    assert (cut.start, cut.end, len(cut.messages)) == (2, 3, 1)
    assert (view.inactive_below_tokens, view.name) == (60, "TrimResults")


@pytest.mark.parametrize(("size", "cleared"), [(40, 0), (41, 1)])
def test_a_short_result_is_not_worth_clearing(size: int, cleared: int) -> None:
    assert len(log("x" * size, "last").results(0)) == cleared


@pytest.mark.parametrize(("keep", "places"), [(0, [2, 4]), (1, [2, 4]), (2, [2]), (3, []), (9, [])])
def test_the_newest_results_stay_and_those_of_the_last_reply(keep: int, places: list[int]) -> None:
    seen = log(*["x" * 50] * 3)
    assert [place for place, _ in seen.results(keep)] == places
    cuts = ClearToolResults(1, keep, count_tokens=len).reduce(seen) or ()
    assert [(cut.start, cut.end, cut.messages[0].text) for cut in cuts] == [
        (place, place + 1, CLEARED) for place in places
    ]


@pytest.mark.parametrize(
    ("keep_tokens", "expected"), [(None, [(1, 3)]), (104, [(1, 3)]), (103, [(1, 5)]), (0, [(1, 5)])]
)
def test_a_window_keeps_so_many_tokens_and_the_last_reply(keep_tokens: Any, expected: Any) -> None:
    cuts = Window(153, keep_tokens, count_tokens=len).reduce(log(*["x" * 50] * 3))
    assert [(cut.start, cut.end) for cut in cuts or ()] == expected


LINE = "\n[... {} of {} characters left out ...]\n"


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("x" * 60, 60, "x" * 60),
        ("a" * 50 + "z" * 50, 60, "a" * 12 + LINE.format(81, 100) + "z" * 7),
        ("a" * 100, 1, LINE.format(100, 100)),
        ("", 0, ""),
    ],
)
def test_a_text_is_cut_in_its_middle(text: str, most: int, expected: str) -> None:
    assert trimmed(text, most, len) == expected


@pytest.mark.parametrize(
    ("sizes", "most", "expected"),
    [
        ((), 0, ()),
        ((50, 50), 100, (50, 50)),
        ((90, 10), 80, (69, 10)),
        ((10, 90), 80, (10, 69)),
        ((90, 90, 10), 130, (60, 60, 10)),
        ((90, 60, 10), 130, (60, 60, 10)),
        ((10, 10), 9, (10, 10)),
        ((100, 100), 60, (42, 42)),  # the mark alone
    ],
)
def test_the_longest_texts_are_cut_first_to_a_common_length(sizes: Any, most: int, expected: Any) -> None:
    found = trimmed_together(["x" * size for size in sizes], most, len)
    assert tuple(map(len, found)) == expected


def test_results_are_cut_to_fit_or_the_error_says_how_many_tokens_are_needed() -> None:
    seen = log("x" * 100, "x" * 20)
    assert [(cut.start, len(cut.messages[0].text) <= 80) for cut in fit(seen, 104, "Window", len)] == [
        (2, True)
    ]
    assert [cut.start for cut in fit(log("x" * 100, "x" * 32), 68, "Window", len)] == [2]
    (longest,) = fit(log("x" * 50, "x" * 100, "x" * 200), 304, "Window", len)
    assert 100 < len(longest.messages[0].text) <= 150
    with pytest.raises(AgentError) as failed:
        fit(log("x" * 100, "x" * 32), 67, "Window", len)
    assert str(failed.value) == (
        "the request needs at least 68 tokens, with every tool result cut to 32 tokens, and Window allows 67: "
        "raise the limit, or shorten instructions, task or replies"
    )


@pytest.mark.parametrize(
    ("keep", "new", "asks"),
    [
        (8, 22, False),
        (8, 23, True),
        (97, 0, False),
        (97, 1, True),
    ],  # a quarter of what lies between the limits
)
def test_a_model_is_asked_for_a_summary_that_is_worth_it(keep: int, new: int, asks: bool) -> None:
    view = Summarise(100, keep, count_tokens=len)
    seen = log("", "x" * 100)
    seen.cut(Cut(1, 3, (Message(Role.USER, "s"),)))
    assert (view.reduce(log("x" * new, "y" * 99)) is not None) is asks
    assert view.reduce(seen) is None, "what was summarised is not new"


@pytest.mark.parametrize(
    ("limits", "words"), [((100, 0), 50), ((200, 0), 50), ((204, 0), 51), ((2400, 0), 600), ((9000, 0), 600)]
)
def test_a_summary_has_so_many_words(limits: tuple[int, int], words: int) -> None:
    question: Any = Summarise(*limits, count_tokens=len).reduce(log("x" * 9000, "y"))
    assert f"in at most {words} words." in question.messages[0].text


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (Message(Role.USER, "x" * 8), 6),
        (Message(Role.USER, "x" * 7), 5),
        (Message(Role.ASSISTANT, "", None, (ToolCall("c", "ab", {"c": 1}),)), 4 + 4 + 2),
        (Message(Role.ASSISTANT, "", reasoning="x" * 8), 4 + 6),
        (Message(Role.USER, (Text("x" * 8), Image(url="https://e.org/a.png"))), 6 + 1000),
    ],
)
def test_tokens_are_guessed(message: Message, tokens: int) -> None:
    sizes: list[int] = []
    assert count_each([message, message], estimate_tokens, sizes) == 2 * tokens
    assert sizes == [tokens, tokens]
    if isinstance(message.content, str):
        assert count_each([message], lambda text: len(text) // 4 + 4, []) == tokens


WRONG: list[tuple[Any, str]] = [
    (lambda: Window(0), "max_tokens=0: use a whole number of tokens, 1 or more"),
    (lambda: Window(True), "max_tokens=True: use a whole number of tokens, 1 or more"),
    (lambda: Window(9, -1), "keep_tokens=-1: use a whole number of tokens, 0 or more"),
    (lambda: Window(9, 10), "keep_tokens=10 is more than max_tokens=9; use less"),
    (lambda: TrimResults(31), "max_tokens=31: use a whole number of tokens, 32 or more"),
    *(
        (lambda kind=kind, limits=limits: kind(*limits, count_tokens=5), "count_tokens=5: use a function that takes a string and returns a number")
        for kind, limits in ((Window, (9,)), (TrimResults, (32,)), (ClearToolResults, (9,)), (Summarise, (9, 8)))
    ),
    (lambda: ClearToolResults(0), "over_tokens=0: use a whole number of tokens, 1 or more"),
    (lambda: Summarise(0, -1), "over_tokens=0: use a whole number of tokens, 1 or more"),
    (lambda: Summarise(9, -1), "keep_tokens=-1: use a whole number of tokens, 0 or more"),
    (lambda: Summarise(9, 8, cast("Any", 5)), "llm=5 is not a model; pass an object with complete(request), or None"),
    (lambda: ClearToolResults(9, -1), "keep=-1: use the number of results to keep, 0 or more"),
    (lambda: ClearToolResults(9, True), "keep=True: use the number of results to keep, 0 or more"),
    (lambda: Summarise(9, 9), "keep_tokens=9 is not below over_tokens=9; use less"),
    (lambda: Summarise(9, 8, cast("Any", str)), f"llm={str} is not a model; pass an object with complete(request), or None"),
    (
        lambda: counter_of([Window(9), Window(9, count_tokens=len)]),
        "the views of context=[...] have different count_tokens; use the same one for all",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "why"), WRONG)
def test_what_cannot_be_meant_is_refused(make: Any, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert str(refused.value) == why


def test_at_their_bounds_views_are_made() -> None:
    Window(1, 0), Window(9, 9), TrimResults(32), ClearToolResults(1, 0), Summarise(9, 8)
    assert inactive_below([Window(9), TrimResults(32)]) == 9
    assert inactive_below([]) == -1
    assert inactive_below([type("Other", (Window,), {})(9)]) == -1
    assert counter_of([]) is estimate_tokens
    assert counter_of([Window(9, count_tokens=len)]) is len


@pytest.mark.parametrize(
    ("cut", "why"),
    [
        (Cut(3, 6), "the log has 5 messages, and one fits in a place; use existing places"),
        (Cut(3, 3), "the log has 5 messages, and one fits in a place; use existing places"),
        (Cut(-1, 3), "the log has 5 messages, and one fits in a place; use existing places"),
        (Cut(3, 5, (Message(Role.USER),) * 3), "the log has 5 messages, and one fits in a place; use existing"),
        (Cut(0, 3), "the instructions and the task cannot be cut; cut around them"),
        (Cut(1, 2), "this separates a call from its result; cut whole units, as VisibleLog.oldest() returns them"),
        (Cut(2, 5), "this separates a call from its result; cut whole units, as VisibleLog.oldest() returns them"),
        (Cut(1, 3, (Message(Role.TOOL, "x", "c0"),)), "calls and results cannot be added; use text instead"),
        (Cut(1, 5), ""),
        (Cut(3, 5), ""),
        (Cut(1, 3, (Message(Role.USER, "s"),)), ""),
        (Cut(2, 3, (Message(Role.TOOL, "other words", "c0"),)), ""),
    ],
)  # fmt: skip
def test_what_may_be_cut(cut: Cut, why: str) -> None:
    seen = log("a", "b")
    if why:
        with pytest.raises(ConfigError) as refused:
            seen.check(cut, "v")
        assert str(refused.value).startswith(
            f"the context view 'v' cuts messages {cut.start} to {cut.end}: {why}"
        )
    else:
        seen.check(cut, "v")


def test_a_history_that_begins_with_a_reply_begins_with_a_unit() -> None:
    seen = VisibleLog(1, len)
    seen.take(
        [
            Message(Role.ASSISTANT, "hello"),
            Message(Role.USER, "task"),
            reply("c0"),
            Message(Role.TOOL, "r", "c0"),
        ]
    )
    assert seen.oldest(1) == [(0, 1)]


SAID = (Message(Role.SYSTEM, "s" * 3), Message(Role.USER, "t" * 4), *(
    message for call in ("c0", "c1", "c2") for message in (reply(call, "a" * 10), Message(Role.TOOL, "r" * 50, call))
))  # fmt: skip


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (lambda seen: seen.tokens, 187),
        (lambda seen: seen.fixed_tokens, 7),
        (lambda seen: seen.oldest(60), [(2, 4)]),
        (lambda seen: seen.oldest(61), [(2, 6)]),
        (lambda seen: seen.oldest(999), [(2, 6)]),
        (lambda seen: seen.oldest(0), []),
        (lambda seen: seen.visible_messages([(2, 3), (5, 7)]), [SAID[2], SAID[5], SAID[6]]),
        (lambda seen: seen.new_tokens([(2, 4), (5, 6)]), 110),
        (lambda seen: [place for place, _ in seen.results(0)], [3, 5]),
        (lambda seen: [(place, size) for place, _, size in seen.tool_results()], [(3, 50), (5, 50), (7, 50)]),
        (lambda seen: seen.check(Cut(2, 4), "v"), None),
        (lambda seen: (seen.cut(Cut(2, 4)), seen.tokens, seen.cuts()), (None, 127, (Cut(2, 4),))),
        (lambda seen: seen.cuts(), ()),
    ],
)
def test_what_was_taken_is_known_at_once(look: Any, expected: Any) -> None:
    seen = VisibleLog(1, len)
    seen.take(SAID)
    assert look(seen) == expected
