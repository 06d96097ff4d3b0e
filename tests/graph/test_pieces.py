"""The pieces of the graph's state and of its checkpoints, each on its own: differences, deltas, folds, parts, answers."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from datetime import date
from enum import StrEnum
from typing import Any, TypedDict, cast

import pytest
from typing_extensions import TypeAliasType

import wesichain.graph as graph_room
from wesichain.core import ToolCall
from wesichain.core.internal import PendingCall, Question, same
from wesichain.errors import CheckpointError, CodecError, GraphInterruptedError
from wesichain.graph import (
    END,
    Append,
    ExecutionOptions,
    GraphBuilder,
    MemoryCheckpointer,
    Merge,
    SetUnion,
    interrupt,
)
from wesichain.graph.checkpoints.coding import ANYTHING, coder_of
from wesichain.graph.checkpoints.deltas import delta, undelta
from wesichain.graph.checkpoints.fold import CheckpointFold, Pending, chain, once_in, parsed, rebased
from wesichain.graph.checkpoints.parts import apart, together
from wesichain.graph.checkpoints.statecode import StateCode
from wesichain.graph.questions import Paused, paused_in, plain_answer
from wesichain.graph.react.hosting import question as shown_question
from wesichain.graph.state.owned import AppendOnlyList
from wesichain.graph.state.reducers import Add, Reducer, ReplacedValue
from wesichain.graph.state.schema import Key
from wesichain.graph.state.updates import difference
from wesichain.store import Entry

# --- the state ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reducer", "old", "new", "write"),
    [
        pytest.param(None, 1, 1, None, id="the-same"),
        pytest.param(None, 1, 2, 2, id="without-a-reducer"),
        pytest.param(None, 1, True, True, id="equal-and-not-the-same"),
        pytest.param(Append, AppendOnlyList([1]), [1, 2, 3], [2, 3], id="items-added"),
        pytest.param(Append, AppendOnlyList([1, 2]), [2], ReplacedValue([2]), id="items-gone"),
        pytest.param(
            Merge, {"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}, {"b": 3, "c": 4}, id="entries-changed"
        ),
        pytest.param(Merge, {"a": 1, "b": 2}, {"a": 1}, ReplacedValue({"a": 1}), id="entries-gone"),
        pytest.param(SetUnion, {1}, {1, 2}, {2}, id="members-added"),
        pytest.param(Add, 5, 7, 2, id="a-sum"),
        pytest.param(Add, 0.1, 0.3, pytest.approx(0.2), id="a-sum-of-floats"),
        pytest.param(Add, "ab", "abc", "c", id="a-text-that-goes-on"),
        pytest.param(Add, (1,), (1, 2), (2,), id="a-tuple-that-goes-on"),
        pytest.param(Add, "ab", "cd", ReplacedValue("cd"), id="another-text"),
        pytest.param(Reducer("max", max), 5, 7, 7, id="where-what-was-added-is-none"),
        pytest.param(Reducer("max", max), 5, 3, ReplacedValue(3), id="where-no-write-gives-it"),
        pytest.param(Reducer("last", lambda _, new: new), None, object, object, id="of-no-known-type"),
    ],
)
def test_the_write_that_makes_the_new_value_of_the_old_one(
    reducer: Any, old: Any, new: Any, write: Any
) -> None:
    found = difference(Key("k", reducer=reducer), old, new)
    assert found == ([] if write is None else [("k", write)])
    assert all(type(value) is type(write) for _, value in found if not isinstance(value, float))


def test_a_key_that_lasts_for_a_step_is_folded_from_its_beginning() -> None:
    key = Key("k", reducer=Append, start=AppendOnlyList, per_step=True)
    assert difference(key, AppendOnlyList([1]), [1, 2]) == [("k", [1, 2])]
    assert difference(Key("k", reducer=Add, per_step=True), 1, 2) == [("k", ReplacedValue(2))]


def test_a_number_that_is_folded_from_a_list_is_right_of_a_shorter_one_too() -> None:
    def add(start: int, items: Any) -> int:
        folded.append([*items])
        return start + sum(int(item) for item in items)

    folded: list[list[int]] = []
    short = AppendOnlyList([1, 2])
    longer = short.extend([3])
    assert (longer.folded(add, 10), longer.folded(add, 10), short.folded(add, 10)) == (16, 16, 13)
    assert folded == [[1, 2, 3], [], [1, 2]], "no item twice, unless a longer one was asked for before"


# --- deltas ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("a", "b", {"=": "b"}),
        ([1, 2], [1, 2, 3], {"+": [2, [3]]}),
        ([1, 2], [2], {"=": [2]}),
        ({"a": 1, "b": [1]}, {"a": 1, "b": [1, 2]}, {"~": {"b": {"+": [1, [2]]}}}),
        ({"a": 1, "b": 2}, {"b": 2, "c": 3}, {"~": {"c": {"=": 3}}, "-": ["a"]}),
        ({"a": 1}, [1], {"=": [1]}),
    ],
)
def test_a_delta_is_what_has_changed(old: Any, new: Any, change: Any) -> None:
    found = delta(ANYTHING, old, new)
    assert found == change
    assert same(undelta(json.loads(json.dumps(old)), found), new)


def test_what_changes_below_thirty_levels_is_written_as_a_whole() -> None:
    def nested(value: int, levels: int) -> Any:
        return {"x": nested(value, levels - 1), "y": 0} if levels else {"x": value, "y": 0}

    for levels, is_whole in ((29, False), (30, True)):
        found = delta(ANYTHING, nested(1, levels), nested(2, levels))
        for _ in range(30):
            found = found["~"]["x"]
        assert found == ({"=": {"x": 2, "y": 0}} if is_whole else {"=": 2})


@pytest.mark.parametrize(
    "change",
    [5, {}, {"~": 5}, {"+": 5}, {"+": [1]}, {"+": [1, 2]}, {"+": ["1", []]}, {"+": [1, [], 3]}],
)
def test_what_is_no_delta_is_named(change: Any) -> None:
    with pytest.raises(CodecError, match="is not a delta"):
        undelta([1], change)


def test_an_error_shows_the_beginning_of_what_it_is_about() -> None:
    with pytest.raises(CodecError, match=r"^x{60} is not a delta$"):
        undelta([1], "x" * 70)


@pytest.mark.parametrize("kept", [-1, 3])
def test_a_list_keeps_no_more_items_than_it_has(kept: int) -> None:
    with pytest.raises(CodecError, match=f"a list of 2 cannot keep {kept} of its items"):
        undelta([1, 2], {"+": [kept, []]})
    assert undelta([1, 2], {"+": [2, [3]]}) == [1, 2, 3]
    assert undelta(None, {"+": [0, [3]]}) == [3]


# --- the fold of a log -------------------------------------------------------------------------------


def entry(seq: int, body: Any, *, owner: str = "", base: int = 1) -> Entry:
    return Entry(seq, owner, base, float(seq), json.dumps(body))


def checkpoint(seq: int, values: Any, **more: Any) -> Entry:
    body = {"source": "loop", "step": seq, "values": values, **more}
    return entry(seq, body | ({"format": 3} if seq == 1 else {"parent": seq - 1}))


LOG = [
    checkpoint(
        1,
        {"a": {"=": 1}, "gone": {"=": 0}, "d": {"=": {"x": 1, "y": 2}}},
        ran={"n": 1},
        source="input",
        version=2,
    ),
    checkpoint(
        2,
        {"a": {"=": 2}, "d": {"~": {"x": {"=": 5}}, "-": ["y"]}},
        gone=["gone"],
        ran={"n": 2},
        run="r",
        event=7,
    ),
    entry(3, {"task": "t", "did": ["pay", 1], "once": "key"}, owner="2"),
    entry(4, {"task": "t", "error": "ill"}, owner="2"),
    entry(5, {"task": "u", "error": "other"}, owner="1"),
]


def test_checkpoints_fold_into_what_is_stored() -> None:
    fold = CheckpointFold("thread", chain({one.seq: one for one in LOG[:2]}, 2))
    assert (fold.stored, dict(fold.visits), fold.run_id, fold.last_event) == (
        {"a": 2, "d": {"x": 5}},
        {"n": 3},
        "r",
        7,
    )
    assert (fold.entry.seq, fold.base, fold.moment, fold.version, fold.format) == (2, 1, 2, 2, 3)
    assert fold.take_next(replace(checkpoint(4, {}), base=1)) is False, "it was made on another"
    assert fold.take_next(checkpoint(3, {"a": {"=": 3}}, source="input", ran={"n": 1}))
    assert (fold.stored["a"], dict(fold.visits)) == (3, {"n": 1}), "an input begins anew"
    assert not fold.take_next(replace(checkpoint(4, {}), base=4)), "a base is read from its beginning"


def test_a_log_that_begins_at_its_newest_checkpoint_says_the_same() -> None:
    first, *pending = rebased(LOG, at=9.0)
    body = json.loads(first.body)
    assert (first.seq, first.base, first.at, first.owner) == (6, 6, 9.0, "")
    assert body == {
        "source": "loop",
        "step": 2,
        "event": 7,
        "run": "r",
        "format": 3,
        "version": 2,
        "moment": 2,
        "values": {"a": {"=": 2}, "d": {"=": {"x": 5}}},
        "ran": {"n": 3},
        "once": {"key": 1},
    }
    assert [(one.seq, one.owner, json.loads(one.body)["task"]) for one in pending] == [
        (7, "6", "t"),
        (8, "6", "t"),
    ]


def test_the_last_of_what_was_done_once_counts() -> None:
    entries = [
        entry(1, {"once": {"a": 1, "b": 1}}),
        entry(2, {"task": "t", "did": ["x", 2], "once": "a"}, owner="1"),
    ]
    assert once_in(entries) == {"a": 2, "b": 1}
    assert once_in([entry(1, {"once": 5}), entry(2, {"task": "t"})]) == {}


@pytest.mark.parametrize(
    ("version", "writes"),
    [
        (
            1,
            [
                ["list", "typed", [3]],
                ["dict", "typed", {"x": 5}],
                ["set", "set", {"$set": [1]}],
                ["one", "set", 2],
            ],
        ),
        (
            2,
            [
                ["list", "typed", [3]],
                ["dict", "typed", {"x": 5}],
                ["set", "typed", {"$set": [1]}],
                ["one", "typed", 2],
            ],
        ),
        (3, []),
    ],
)
def test_the_writes_of_an_inner_graph_are_made_of_its_changes_in_older_formats(
    version: int, writes: Any
) -> None:
    values = {
        "list": {"+": [1, [3]]},
        "dict": {"~": {"x": {"=": 5}}},
        "set": {"~": {"$set": {"=": [1]}}},
        "one": {"=": 2},
    }
    first = checkpoint(1, {"list": {"=": [0]}, "dict": {"=": {"y": 1}}}, source="input", format=version)
    body = json.loads(first.body) | {"format": version}
    fold = CheckpointFold(
        "t", [(first, body), (checkpoint(2, values), json.loads(checkpoint(2, values).body))]
    )
    assert fold.out == writes
    assert fold.wrote == ({*values} if version < 3 else set())
    kept = {**values, "kept": {"=": 1}}
    more = json.loads(checkpoint(2, kept, out=[["kept", "typed", 1]], wrote=["kept"]).body)
    fold = CheckpointFold("t", [(first, body), (checkpoint(2, kept), more)])
    assert [write for write in fold.out if write[0] == "kept"] == [["kept", "typed", 1]], "once"
    assert fold.wrote == {"kept"}


def test_what_is_damaged_is_named() -> None:
    with pytest.raises(CheckpointError, match="checkpoint 1 of 'thread' is damaged: KeyError"):
        CheckpointFold("thread").take(entry(1, {}), {})
    with pytest.raises(CheckpointError, match="entry 1 of the thread is damaged: it is not an object"):
        parsed(entry(1, []))
    with pytest.raises(CheckpointError, match="entry 1 of the thread is damaged: "):
        parsed(replace(entry(1, []), body="{"))
    with pytest.raises(
        CheckpointError, match=r"checkpoint 3 cannot be read: what it is based on \(1\) is missing"
    ):
        chain({3: checkpoint(3, {}), 2: checkpoint(2, {})}, 3)
    newer = replace(LOG[0], body=LOG[0].body.replace('"format": 3', '"format": 4'))
    with pytest.raises(
        CheckpointError, match="checkpoint 1 was written in the format 4; this version reads up to 3"
    ):
        chain({1: newer}, 1)


def test_notes_fold_into_what_is_pending() -> None:
    asked = {
        "task": "t",
        "node": "n",
        "questions": [["q1", "one", "first?", "memo"], ["q2", "two", "second?", None]],
    }
    pending = Pending(
        "1", [entry(2, asked, owner="1"), entry(3, {"event": 9}), entry(4, {"spent": {"x": 1}})]
    )
    assert ([one.id for one in pending.asked["t"]], {*pending.by_id}) == (["q1", "q2"], {"q1", "q2"})
    assert (pending.last_event, pending.spent) == (9, {"x": 1})
    pending.take(entry(5, {"task": "t", "answer": ["one", 5, "memo"], "by": "ann"}))
    assert ([one.id for one in pending.asked["t"]], {*pending.by_id}) == (["q2"], {"q2"})
    answer = pending.answers["t"]["one"]
    assert (answer.answer, answer.by, answer.at, answer.is_default, answer.question.memo) == (
        5,
        "ann",
        5.0,
        False,
        "memo",
    )
    pending.take(entry(6, {"task": "t", "answer": ["unknown", 7, "its memo"], "default": True}))
    unknown = pending.answers["t"]["unknown"]
    assert (unknown.answer, unknown.is_default, unknown.question.memo) == (7, True, "its memo")
    assert [one.answer for one in pending.answered()] == [5], "what was asked is not known of the other"
    pending.take(entry(7, {"task": "t", "node": "n", "questions": [["q1", "one", "again?", None]]}))
    assert ({*pending.answers["t"]}, {*pending.by_id}) == ({"unknown"}, {"q1"}), "the answer was none"
    pending.take(entry(8, {"task": "t", "error": "ill"}))
    assert (pending.errors, pending.asked, pending.by_id) == ({"t": "ill"}, {}, {})
    pending.take(entry(9, {"task": "t", "writes": []}))
    assert (pending.errors, {*pending.unread}) == ({}, {"t"})
    pending.take(entry(10, {"task": "t", "did": ["pay", 1]}))
    assert pending.done == {"t": {"pay": 1}}


def test_a_note_on_a_task_that_has_another_name_now() -> None:
    pending = Pending("1", [entry(2, {"task": "old", "error": "ill"})], {"old": "new"})
    assert pending.errors == {"new": "ill"}


# --- parts -------------------------------------------------------------------------------------------

DATA = b64encode(b"picture").decode()


@pytest.mark.parametrize(
    ("part", "is_kept_apart"),
    [
        ({"kind": "image", "media_type": "image/png", "data": DATA}, True),
        ({"kind": "image", "media_type": "image/png", "data": DATA, "url": "http://x"}, False),
        ({"kind": "image", "media_type": "image/png", "data": "no base64!"}, False),
        ({"kind": "image", "media_type": "image/png", "data": "cGlj\n"}, False),
        ({"kind": "image", "media_type": "image/png", "data": 5, "other": {"data": "x"}}, False),
        ({"kind": "note", "media_type": "image/png", "data": DATA}, False),
        ({"kind": "image", "media_type": None, "data": DATA}, False),
    ],
)
def test_the_bytes_of_a_part_are_kept_apart_where_they_can_be_given_back(
    part: Any, is_kept_apart: bool
) -> None:
    body = {"values": [{"deep": part}]}
    whole = Entry(1, "", 1, 0.0, json.dumps(body, separators=(",", ":")))
    kept = apart(whole)
    assert [*kept.parts.values()] == ([b"picture"] if is_kept_apart else [])
    assert (DATA in kept.body) == (not is_kept_apart and part.get("data") == DATA)
    assert together(kept, json.loads(kept.body)) == body


# --- questions ---------------------------------------------------------------------------------------


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
    assert shown_question([asked]) == {
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
    assert shown_question([plain])["reason"] == "external"
    assert shown_question([plain, asked])["reason"] == "approval"
    assert shown_question([plain])["calls"][0].keys() == {"token", "id", "tool", "args", "scope", "external"}


# --- types -------------------------------------------------------------------------------------------

Names = TypeAliasType("Names", list[str])


def test_an_alias_is_kept_as_what_it_stands_for() -> None:
    assert coder_of(Names).decode(["a"]) == ["a"]
    with pytest.raises(CodecError):
        coder_of(Names).decode([1])


def test_a_name_that_the_room_never_had() -> None:
    with pytest.raises(AttributeError, match=r"module 'wesichain.graph' has no attribute 'Nothing'"):
        _ = graph_room.Nothing  # type: ignore[attr-defined]


class Plain(TypedDict, total=False):
    value: int


def test_a_router_whose_annotation_cannot_be_read_may_go_anywhere() -> None:
    def router(state: Plain) -> Unknown:  # type: ignore[name-defined]  # noqa: F821
        return "b"

    builder = GraphBuilder(Plain).add_node("a", lambda _: None).add_node("b", lambda _: {"value": 2})
    assert builder.set_entry("a").add_conditional_edges("a", router).build().invoke_sync({}) == {"value": 2}


async def test_a_key_that_loses_an_entry_has_lost_it_when_it_is_read_again() -> None:
    class Desk(TypedDict, total=False):
        papers: dict[str, int]
        asked: str

    def tidy(state: Desk) -> Any:
        return {"papers": {"b": 2}}

    def ask(state: Desk) -> Any:
        return {"asked": interrupt("well?")}

    builder = GraphBuilder(Desk).add_node("tidy", tidy).add_node("ask", ask)
    desk = builder.set_entry("tidy").add_edge("tidy", "ask").add_edge("ask", END).build(MemoryCheckpointer())
    with pytest.raises(GraphInterruptedError, match="waits for an answer"):
        await desk.invoke({"papers": {"a": 1, "b": 2}}, ExecutionOptions(thread_id="t"))
    assert (await desk.get_state("t")).values == {"papers": {"b": 2}}
    assert await desk.resume("t", "yes") == {"papers": {"b": 2}, "asked": "yes"}


def test_the_tasks_of_the_first_format_have_other_ids() -> None:
    built = GraphBuilder(Plain).add_node("a#1", lambda _: None).set_entry("a#1").build()
    code = StateCode(built.definition)
    body = {"next": ["a#1", ["a#1", "plain", {"value": 1}]], "deferred": ["a#1"]}
    for is_old, ids in ((True, {"a#1": "a##1", "a#1#0": "a##1#0"}), (False, {})):
        frontier, found = code.frontier(body, None, 1, is_old=is_old)
        assert [task.id for task in frontier.tasks] == ["a##1", "a##1#0"]
        assert found == ids
        assert frontier.deferred == {"a#1"}


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        (str | date, "x", "x"),
        (str | date, date(2026, 1, 2), ["date", "2026-01-02"]),
        (int | Colour, 5, 5),
        (int | Colour, Colour.RED, ["Colour", "red"]),
        (int | list[int], [5], ["list", [5]]),
        (int | None, None, None),
    ],
)
def test_a_member_of_a_union_is_named_where_json_does_not_tell_it(kind: Any, value: Any, data: Any) -> None:
    assert coder_of(kind).encode(value) == data
    assert coder_of(kind).decode(data) == value


@pytest.mark.parametrize("blocking", [False, True, None])
async def test_a_plain_function_may_ask_wherever_it_is_called(blocking: bool | None) -> None:
    builder = GraphBuilder(Plain).add_node("ask", lambda _: {"value": interrupt("?")}, blocking=blocking)
    asking = builder.set_entry("ask").build(MemoryCheckpointer())
    with pytest.raises(GraphInterruptedError):
        await asking.invoke({}, ExecutionOptions(thread_id="t"))
    assert await asking.resume("t", 5) == {"value": 5}


async def test_a_run_goes_on_at_the_checkpoint_that_is_named() -> None:
    """Though the thread was just left by another run, at its end."""
    count = GraphBuilder(Plain).add_node("a", lambda state: {"value": state["value"] + 1})
    count.add_node("b", lambda state: {"value": state["value"] * 10}).set_entry("a").add_edge("a", "b")
    built = count.build(MemoryCheckpointer())
    assert await built.invoke({"value": 1}, ExecutionOptions(thread_id="t")) == {"value": 20}
    history = [one async for one in built.history("t")]
    (between,) = [one for one in history if one.values == {"value": 2}]
    (given,) = [one for one in history if one.values == {"value": 1}]
    assert await built.resume("t", checkpoint_id=between.checkpoint_id) == {"value": 20}
    await built.update_state("t", {"value": 5}, checkpoint_id=given.checkpoint_id)
    assert await built.resume("t") == {"value": 60}
