"""Questions and answers: the stored record, the types of answers, timeouts and defaults."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, cast

import pytest
from pydantic import BaseModel, field_validator

from tests.graph.kit import Log, T, stopped
from wesichain.core import ToolCall
from wesichain.core.internal import PendingCall, Question
from wesichain.errors import (
    ConfigError,
    GraphError,
    MaxStepsExceededError,
)
from wesichain.graph import (
    Answered,
    Append,
    Checkpointer,
    ExecutionOptions,
    Graph,
    GraphBuilder,
    MemoryCheckpointer,
    Send,
    interrupt,
)
from wesichain.graph.questions import Paused, paused_in, plain_answer
from wesichain.graph.react.agent_run import approval_question
from wesichain.testing import FakeClock


class Approval(BaseModel):
    amount: int
    mode: Literal["full", "part"] = "full"

    @field_validator("amount")
    @classmethod
    def _even(cls, amount: int) -> int:
        if amount % 2:
            raise ValueError("the amount has to be even")
        return amount


def chat(store: Checkpointer, clock: FakeClock | None = None, **defaults: Any) -> Graph[Any]:
    """Asks again and again."""
    builder = GraphBuilder(Log).add_node("ask", lambda s: {"log": [interrupt(f"q{len(s['log'])}")]})
    builder.set_entry("ask").add_edge("ask", "ask")
    return builder.build(store, clock=clock, defaults=ExecutionOptions(**defaults))


def record(answered: tuple[Answered, ...]) -> list[Any]:
    return [(one.question.value, one.answer, one.by, one.at) for one in answered]


class Mode(Enum):
    FULL = "full"


@pytest.mark.parametrize("by_default", [False, True], ids=["answer", "default"])
@pytest.mark.parametrize(
    ("expects", "value"),
    [
        (date, date(2024, 1, 2)),
        (Mode, Mode.FULL),
        (list[Approval], [Approval(amount=2)]),
        (dict[str, Approval | None], {"a": Approval(amount=2), "b": None}),
        (tuple[int, Decimal], (1, Decimal("1.5"))),
        (set[int], {1, 2}),
    ],
    ids=str,
)
async def test_a_value_of_the_expected_type_is_an_answer(expects: Any, value: Any, by_default: bool) -> None:
    store, clock = MemoryCheckpointer(), FakeClock(100.0)
    given: list[Any] = []

    def node(_: Any) -> None:
        given.append(interrupt("q", expects=expects, timeout=5, default=value))

    graph = GraphBuilder(Log).add_node("ask", node).set_entry("ask").build(store, clock=clock)
    await stopped(graph.invoke({}, T))
    if by_default:
        clock.advance(5)
        await graph.resume("t")
    else:
        await graph.resume("t", value)
    assert given == [value]


# --- the record ------------------------------------------------------------------------------------


async def test_many_turns_are_on_record_over_new_bases() -> None:
    store = MemoryCheckpointer()
    graph = chat(store, max_steps=5)
    await stopped(graph.invoke({}, T))
    for turn in range(40):
        await stopped(graph.resume("t", f"{turn} {'x' * 4_000}"))
    found = (await chat(store).get_state("t")).answered
    assert [one.answer.split()[0] for one in found] == [str(turn) for turn in range(40)]


# --- what an answer has to be ----------------------------------------------------------------------


def approving(store: Checkpointer, clock: FakeClock | None = None, **terms: Any) -> Graph[Any]:
    builder = GraphBuilder(Log).add_node("pay", lambda _: {"log": [str(interrupt("pay?", **terms))]})
    return builder.set_entry("pay").build(store, clock=clock)


async def test_what_only_the_type_knows_is_asked_again_and_is_no_answer() -> None:
    store = MemoryCheckpointer()
    graph = approving(store, expects=Approval)
    first = await stopped(graph.invoke({}, T))
    again = await stopped(graph.resume("t", {"amount": 3}, by="ann"))
    assert "has to be even" in str(again)
    assert [one.id for one in again.interrupts] == [one.id for one in first.interrupts]
    assert (await graph.get_state("t")).answered == ()
    await graph.resume("t", {"amount": 2}, by="bob")
    assert record((await graph.get_state("t")).answered)[0][:3] == ("pay?", {"amount": 2}, "bob")


# --- time ------------------------------------------------------------------------------------------


async def test_an_answer_that_comes_late_is_still_one_and_no_timeout_answers_nothing() -> None:
    store, clock = MemoryCheckpointer(), FakeClock()
    graph = approving(store, clock, timeout=60, default="no")
    await stopped(graph.invoke({}, T))
    clock.advance(1000)
    assert (await graph.resume("t", "yes"))["log"] == ["yes"]
    without = approving(MemoryCheckpointer(), clock, default="no")
    await stopped(without.invoke({}, T))
    clock.advance(10**9)
    await stopped(without.resume("t"))
    with pytest.raises(ConfigError, match="timeout=0"):
        await _of(approving(MemoryCheckpointer(), clock, timeout=0).invoke({}))


async def _of(going: Any) -> Any:
    try:
        return await going
    except GraphError as error:
        raise error.__cause__ or error from None


async def test_a_default_need_not_be_what_is_expected() -> None:
    store, clock = MemoryCheckpointer(), FakeClock()
    graph = approving(store, clock, expects=Approval, timeout=1)
    await stopped(graph.invoke({}, T))
    clock.advance(2)
    assert (await graph.resume("t"))["log"] == ["None"]


# --- steps -----------------------------------------------------------------------------------------


async def test_max_steps_counts_from_each_resume_that_brings_an_answer() -> None:
    store = MemoryCheckpointer()
    builder = GraphBuilder(Log).add_node("ask", lambda s: {"log": [interrupt("?")]})
    builder.add_node("work", lambda _: {"log": ["w"]}).add_edge("ask", "work").add_edge("work", "ask")
    graph = builder.set_entry("ask").build(store, defaults=ExecutionOptions(max_steps=3))
    await stopped(graph.invoke({}, T))
    for turn in range(5):
        await stopped(graph.resume("t", turn))
    assert (await graph.get_state("t")).step == 10


async def test_max_steps_still_ends_a_loop_after_an_answer_also_over_a_crash() -> None:
    store = MemoryCheckpointer()
    builder = GraphBuilder(Log).add_node("ask", lambda s: {"log": [interrupt("?")]})
    builder.add_node("spin", lambda s: {"log": [len(s["log"])]}).add_edge("ask", "spin").add_edge(
        "spin", "spin"
    )
    options = ExecutionOptions(max_steps=4)
    builder.set_entry("ask")

    def build() -> Graph[Any]:
        return builder.build(store, defaults=options)

    await stopped(build().invoke({}, T))
    with pytest.raises(MaxStepsExceededError):
        await build().resume("t", "go")
    steps = (await build().get_state("t")).step
    for _ in range(2):
        with pytest.raises(MaxStepsExceededError):
            await build().resume("t")
    assert (await build().get_state("t")).step == steps == 4


# --- graphs that wait inside -----------------------------------------------------------------------


async def test_the_graphs_that_wait_inside_are_seen() -> None:
    class Inner(Log, total=False):
        note: str

    def build() -> Graph[Any]:
        inmost = GraphBuilder(Inner).add_node("q", lambda s: {"log": [interrupt(s["note"])]}).set_entry("q")
        middle = GraphBuilder(Inner).add_node("a", lambda _: {"note": "deep", "log": ["a"]})
        middle.add_node("inmost", inmost.build()).add_edge("a", "inmost").set_entry("a")
        builder = GraphBuilder(Log).add_node("sub", middle.build())
        builder.add_node("end", lambda _: None).add_edge("sub", "end")
        builder.add_conditional_edges("__start__", lambda _: ["sub", Send("sub", {"log": ["sent"]})], ["sub"])
        return builder.build(store)

    store = MemoryCheckpointer()
    graph = build()
    await stopped(graph.invoke({"log": ["in"]}, T))
    assert (await graph.get_state("t")).inner == {}
    state = await build().get_state("t", inner=True)
    assert set(state.inner) == {"sub", "sub#0"}
    sub = state.inner["sub"]
    assert (sub.values, sub.next) == ({"log": ["in", "a"], "note": "deep"}, ("inmost",))
    assert [task.status for task in sub.tasks] == ["interrupted"]
    assert [one.value for one in sub.inner["inmost"].interrupts] == ["deep"]
    assert sub.inner["inmost"].next == ("q",)
    assert state.inner["sub#0"].values["log"] == ["sent", "a"]


@pytest.mark.parametrize(
    ("schema", "answer", "plain"),
    [
        (None, date(2026, 1, 2), date(2026, 1, 2)),
        ({}, date(2026, 1, 2), "2026-01-02"),
        ({}, {"at": [date(2026, 1, 2)]}, {"at": ["2026-01-02"]}),
        ({}, Append, Append),
    ],
    ids=["of-any-type", "a-date", "inside-a-value", "no-data"],
)
def test_an_answer_as_data(schema: Any, answer: Any, plain: Any) -> None:
    assert plain_answer(schema, answer) == plain


def test_questions_in_groups_of_groups_are_found_unless_something_else_went_wrong() -> None:
    one, two = Paused((cast("Any", "q1"),)), Paused((cast("Any", "q2"),), problem="no")
    inner = BaseExceptionGroup("", [two])
    found = paused_in(BaseExceptionGroup("", [one, inner]))
    assert found is not None
    asked: list[Any] = [*found.asked]
    assert asked == ["q1", "q2"]
    assert found.problem == "no"
    assert paused_in(BaseExceptionGroup("", [one, ValueError("x")])) is None
    assert paused_in(BaseExceptionGroup("", [ValueError("x")])) is None


def test_a_question_of_a_call_is_shown_with_its_fields() -> None:
    asked = PendingCall(
        ToolCall("c", "order", {"n": 1}), "t", 5.0, ("inner",), False, Question("Which?", {"type": "object"})
    )
    assert approval_question([asked]) == {
        "reason": "approval",
        "calls": [
            {
                "token": "t",
                "id": "c",
                "tool": "order",
                "args": {"n": 1},
                "scope": ["inner"],
                "external": False,
                "expires_at": 5.0,
                "question": {"message": "Which?", "schema": {"type": "object"}},
            }
        ],
    }
    plain = PendingCall(ToolCall("c", "order", {}), "t", external=True)
    assert approval_question([plain])["reason"] == "external"
    assert approval_question([plain, asked])["reason"] == "approval"
    assert approval_question([plain])["calls"][0].keys() == {
        "token",
        "id",
        "tool",
        "args",
        "scope",
        "external",
    }
