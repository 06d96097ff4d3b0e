"""The fold of a thread's log: checkpoints into stored values, notes into what is pending."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from wesichain.errors import CheckpointError
from wesichain.graph.checkpoints.fold import CheckpointFold, PendingEntries, chain, once_in, parsed, rebased
from wesichain.store import ThreadEntry


def entry(seq: int, body: Any, *, owner: str = "", base: int = 1) -> ThreadEntry:
    return ThreadEntry(seq, owner, base, float(seq), json.dumps(body))


def checkpoint(seq: int, values: Any, **more: Any) -> ThreadEntry:
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
        (1, [["list", "typed", [3]], ["dict", "typed", {"x": 5}], ["set", "set", {"$set": [1]}], ["one", "set", 2]]),
        (2, [["list", "typed", [3]], ["dict", "typed", {"x": 5}], ["set", "typed", {"$set": [1]}], ["one", "typed", 2]]),
        (3, []),
    ],
)  # fmt: skip
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
    with pytest.raises(CheckpointError, match=r"checkpoint 3 cannot be read: its base \(1\) is missing"):
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
    pending = PendingEntries(
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
    pending = PendingEntries("1", [entry(2, {"task": "old", "error": "ill"})], {"old": "new"})
    assert pending.errors == {"new": "ill"}
