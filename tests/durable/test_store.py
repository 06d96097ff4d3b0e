"""The store of durable runs, a statement at a time: who lives and serves what, where runs stand, what is taken next."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa

from wesichain.durable.run_records import erase
from wesichain.durable.states import checked_id, checked_name, task_preview
from wesichain.durable.store import leases
from wesichain.durable.store.children import ChildResult, NewChild
from wesichain.durable.store.leases import Lease, is_gone, this_machine
from wesichain.durable.store.ledger import NewRun, Note, RunPage, WorkflowResult
from wesichain.durable.store.queue import Concurrency, Rate, Serving, rates_of
from wesichain.durable.store.step_table import CancelledRunError, LostRunError, StepRow
from wesichain.durable.store.store import Store
from wesichain.durable.versions import checked_version
from wesichain.errors import (
    ConfigError,
    DurableError,
    WesichainError,
)
from wesichain.platform import posix_system

FAR = "another machine"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(Store(url)) as opened:
        yield opened


def begin(store: Store, *run_ids: str, agent: str = "a", version: str = "v", **more: Any) -> None:
    for run_id in run_ids:
        assert store.ledger.begin(NewRun(run_id, agent, version, f"order of {run_id}", "asked", **more))
    for number, run_id in enumerate(run_ids):  # they are served in the order of their milliseconds
        change(
            store,
            "UPDATE {workflows} SET created_at = created_at + :n WHERE workflow_uuid = :id",
            n=number,
            id=run_id,
        )


def change(store: Store, statement: str, **values: Any) -> None:
    with store.database.transaction() as db:
        db.execute(store.database.sql(statement), values)


def claim(store: Store, executor: str = "me", *, free: int = 8, **serving: Any) -> list[str]:
    return [row.id for row in store.queue.claim(executor, Serving("a", "v", **serving), free=free)]


def end(store: Store, run_id: str, outcome: str = "completed", **note: Any) -> None:
    (row,) = store.queue.claim("me", Serving("a", "v"), free=1)
    assert row.id.partition("/")[0] == run_id
    assert store.ledger.end(
        run_id, row.id, WorkflowResult(outcome, f"ending of {row.id}", Note(**note)), owner=row.owner
    )


def beat(store: Store, lease: Lease) -> None:
    with store.database.transaction() as db:
        store.leases.beat(db, lease)


def asked(store: Store, name: str, *values: Any) -> Any:
    with store.database.transaction() as db:
        return getattr(store.leases, name)(db, *values)


# --- leases ------------------------------------------------------------------------------------------


def test_one_is_elected_to_watch_until_it_stands_still(store: Store) -> None:
    one, two = Lease("one", FAR, 1, 0), Lease("two", FAR, 2, 0)
    assert asked(store, "watcher") is None
    assert asked(store, "elect", one, None)
    assert not asked(store, "elect", two, None), "there is one"
    seen = asked(store, "watcher")
    assert seen == one
    assert asked(store, "watch", "one")
    assert not asked(store, "watch", "two")
    assert not asked(store, "elect", two, seen), "it has looked since"
    assert asked(store, "elect", two, asked(store, "watcher"))
    assert asked(store, "watcher") == Lease("two", FAR, 2, 2)
    store.leases.forget("two")
    assert asked(store, "watcher") is None


def test_who_serves_what_is_known_of_those_that_live(store: Store) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    here = this_machine()
    leases = [
        Lease("here", here, os.getpid(), 0, 60.0),
        Lease("gone", here, gone.pid, 0, 60.0),
        Lease("late", FAR, 1, 0, 60.0),
        Lease("old", FAR, 1, 0),  # of an older version: it does not say when it was there
    ]
    for lease in leases:
        beat(store, lease)
        store.leases.serve(lease.executor, Serving("a", "v", max_recoveries=3))
    change(store, "UPDATE wesichain_leases SET beat_at = beat_at - 121000 WHERE executor = 'late'")
    change(store, "UPDATE wesichain_leases SET beat_at = 0 WHERE executor = 'old'")
    assert {(one.executor, one.agent, one.version) for one in store.leases.served()} == {
        ("here", "a", "v"),
        ("old", "a", "v"),
    }
    assert [store.leases.is_living(name) for name in ("here", "gone", "late", "old", "nobody")] == [
        *(True, False, False, True, False)
    ]
    change(store, "UPDATE wesichain_leases SET beat_at = beat_at + 10000 WHERE executor = 'late'")
    assert store.leases.is_living("late")
    store.leases.forget("here")
    assert [one.executor for one in asked(store, "all")] == ["gone", "late", "old"]
    assert {one.executor for one in store.leases.served()} == {"late", "old"}


def test_only_a_process_of_this_machine_is_known_to_be_gone() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert is_gone(this_machine(), gone.pid) is True
    assert is_gone(this_machine(), os.getpid()) is False
    assert is_gone(FAR, gone.pid) is False


def test_a_version_that_was_never_served_before_is_the_newest(store: Store) -> None:
    for executor, version in (("one", "v1"), ("two", "v2"), ("three", "v1")):
        store.leases.serve(executor, Serving("a", version))

    def adopted(version: str) -> list[str]:
        rows = store.queue.claim("x", Serving("a", version, adopts=True), free=8)
        store.leases.put_back("x")
        return [row.id for row in rows]

    begin(store, "first", version="v1")
    begin(store, "second", version="v2")
    begin(store, "third", version="nobody's")
    assert adopted("v1") == ["first", "third"], "of a newer one that is served it takes none"
    change(store, "UPDATE {workflows} SET application_version = 'v1' WHERE workflow_uuid = 'first'")
    change(store, "UPDATE {workflows} SET application_version = 'v2' WHERE workflow_uuid = 'second'")
    assert {*adopted("v2")} == {"first", "second", "third"}


def test_what_a_process_has_in_hand_is_put_back(store: Store) -> None:
    begin(store, "one", "two", "three")
    assert claim(store) == ["one", "two", "three"]
    assert asked(store, "runs_of", "me") == {"one", "two", "three"}
    assert asked(store, "orphaned") == {"me"}
    beat(store, Lease("me", FAR, 1, 0))
    assert asked(store, "orphaned") == set()
    store.leases.put_back("me", ["two"])
    assert asked(store, "runs_of", "me") == {"one", "three"}
    store.leases.put_back("me", [])
    assert asked(store, "runs_of", "me") == {"one", "three"}
    store.leases.put_back("other")
    assert asked(store, "runs_of", "me") == {"one", "three"}
    store.leases.put_back("me")
    assert asked(store, "runs_of", "me") == set()
    assert claim(store, "other") == ["one", "two", "three"]


def test_a_run_that_kills_its_process_too_often_is_given_up(store: Store) -> None:
    begin(store, "r")
    for number in range(3):
        executor = f"worker {number}"
        beat(store, Lease(executor, FAR, 1, 0))
        store.leases.serve(executor, Serving("a", "v", max_recoveries=2))
        assert claim(store, executor) == ["r"]
        assert store.leases.recover(executor) == (["r"] if number == 2 else [])
        assert asked(store, "all") == [], "the dead one is forgotten"
    row = store.ledger.find("r")
    assert row is not None
    assert (row.run.status, row.run.error) == (
        "failed",
        "the process that ran it died 3 times in a row, at the same step: it is not run again",
    )
    store.leases.clear("r")
    store.rewind("r", "a")
    assert claim(store) == ["r"]


# --- the queue ---------------------------------------------------------------------------------------


def test_what_is_taken_next(store: Store) -> None:
    begin(store, "later", priority=2)
    begin(store, "first", "second", priority=1)
    begin(store, "other", version="w")
    with store.database.transaction() as db:
        assert store.queue.has_waiting(db, "a")
        assert not store.queue.has_waiting(db, "b")
    assert claim(store, free=0) == []
    assert claim(store, free=2) == ["first", "second"]
    assert claim(store) == ["later"]


def test_keys_take_turns_and_those_that_are_full_are_passed_over(store: Store) -> None:
    begin(store, "a1", "a2", "a3", key="a")
    begin(store, "b1", "b2", key="b")
    begin(store, "c1")
    limits: dict[str, Any] = {"concurrency": Concurrency(8, queue=4, key=1)}
    assert {*claim(store, free=2, **limits)} <= {"a1", "b1", "c1"}
    assert len(claim(store, **limits)) == 1, "one of each key, and one without"
    running = {
        row.id
        for row in store.database.read("SELECT workflow_uuid AS id FROM {workflows} WHERE status = 'PENDING'")
    }
    assert running == {"a1", "b1", "c1"}
    begin(store, "d1", "d2", "d3")
    assert claim(store, **limits) == ["d1"], "four of the queue at once"
    assert claim(store, **limits) == []
    assert {*claim(store, "other")} == {"a2", "a3", "b2", "d2", "d3"}


@pytest.mark.parametrize(
    ("given", "rates"),
    [
        (None, ()),
        ((), ()),
        (Rate(2, 1.0), (Rate(2, 1.0),)),
        ((2, 1.0), (Rate(2, 1.0),)),
        ([Rate(2, 1.0), Rate(3, 1.0, per="key")], (Rate(2, 1.0), Rate(3, 1.0, per="key"))),
    ],
)
def test_the_rates_of_a_queue(given: Any, rates: Any) -> None:
    assert rates_of(given) == rates


def test_a_rate_of_three_numbers_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"rate=\(1, 2, 3\): use Rate\(runs, seconds\), or \(runs, seconds\)"
    ):
        rates_of((1, 2, 3))  # type: ignore[arg-type]


# --- the ledger --------------------------------------------------------------------------------------


def test_a_run_stands_where_its_last_change_has_put_it(store: Store) -> None:
    def state() -> tuple[str, str, int]:
        row = store.ledger.find("r")
        assert row is not None
        return row.run.status, row.current, row.stretch

    begin(store, "r", task="what it was asked", priority=3, key="k")
    assert store.ledger.begin(NewRun("r", "a", "v", "{}", "asked")) is False, "there is one"
    assert state() == ("pending", "r", 0)
    assert store.ledger.follow("r", lambda _: "again") is False, "it waits for nothing"
    end(store, "r", "interrupted", error="waits", waiting="[]")
    assert state() == ("interrupted", "r", 0)
    store.ledger.cancel("r")
    assert state() == ("cancelled", "r", 0)
    assert store.ledger.follow("r", lambda _: None) is False, "something is waited for"
    assert state() == ("interrupted", "r", 0)
    store.ledger.decide("r", lambda row, decided: {"t": f"{row.stretch}{len(decided)}"}, lambda _: None)
    assert store.ledger.decided() == {("r", "t")}
    seen: list[Any] = []

    def again(decided: Any) -> str:
        seen.append(decided)
        return "again"

    store.ledger.decide("r", lambda _, decided: {"u": "2"}, again)
    assert seen == [{"t": "00", "u": "2"}]
    assert store.ledger.decided() == set()
    assert state() == ("pending", "r/1", 1)
    assert store.payloads(["r/1"])[0].order == "again"
    row = store.ledger.find("r")
    assert row is not None
    assert (row.run.priority, row.run.key, row.run.task, row.note) == (3, "k", "what it was asked", None)
    store.ledger.cancel("r")
    store.ledger.save_cancelled_ending("r", "r", "of an earlier part")
    assert store.ledger.cancelled_ending("r") is None
    store.ledger.save_cancelled_ending("r", "r/1", "so far")
    assert store.ledger.cancelled_ending("r") == "so far"
    with store.database.transaction() as db:
        assert store.ledger.cancelled(db, ["r", "r/1"]) == ["r/1"]
        assert store.ledger.cancelled(db, []) == []
    store.ledger.uncancel("r")
    assert (state(), store.ledger.cancelled_ending("r")) == (("pending", "r/1", 1), None)
    end(store, "r", "completed", cost=0.5, tokens=7, model="m", steps=2, tools="add look ", result="done")
    assert state() == ("completed", "r/1", 1)
    run = store.ledger.find("r")
    assert run is not None
    assert (run.run.cost, run.run.tokens, run.run.model, run.run.steps) == (0.5, 7, "m", 2)
    assert (run.run.tools, run.run.result, run.run.error) == (("add", "look"), "done", None)
    store.ledger.cancel("r")
    assert state() == ("completed", "r/1", 1), "what has ended stays as it is"


def test_pages_of_a_list(store: Store) -> None:
    notes: dict[str, dict[str, Any]] = {
        "one": {"cost": 0.1, "tools": "add ", "model": "m", "result": "ten % of it"},
        "two": {"cost": 0.2, "tools": "add_more ", "model": "n"},
        "three": {"cost": None, "tools": None},
    }
    for number, (run_id, note) in enumerate(notes.items()):
        begin(store, run_id, task=f"Task {run_id}")
        end(store, run_id, "failed" if run_id == "three" else "completed", **note)
        change(
            store,
            "UPDATE wesichain_runs SET created_at = :at WHERE run = :run",
            at=1000 + 1000 * number,
            run=run_id,
        )
        change(
            store,
            "UPDATE {workflows} SET updated_at = :at WHERE workflow_uuid = :run",
            at=1000 + 3000 * number,
            run=run_id,
        )
    begin(store, "open", agent="b")

    def listed(
        limit: int = 9, state: str | None = None, agent: str | None = "a", after: Any = None, **filters: Any
    ) -> Any:
        return " ".join(
            row.run.run_id
            for row in store.ledger.listed(RunPage(limit, state, agent, after, cast("Any", filters)))
        )

    assert listed(agent=None) == "open three two one"
    assert listed() == "three two one"
    assert listed(2) == "three two"
    assert listed(2, after=store.ledger.place("three")) == "two one"
    assert listed(state="failed") == "three"
    assert listed(state="running") == ""
    assert listed(search="TASK TW") == "two"
    assert listed(search="task two n") == "two"
    assert listed(search="10%") == ""
    assert listed(search="n % of") == "one"
    assert listed(tool="add") == "one"
    assert listed(tool="add_more") == "two"
    assert listed(since=2.0) == "three two"
    assert listed(until=2.0) == "one"
    assert listed(until=2.0005) == "two one"
    assert listed(least_cost=0.2) == "two"
    assert listed(most_cost=0.1) == "one"
    assert listed(least_seconds=2.0) == "three two"
    assert listed(least_seconds=2.001) == "three"
    over = [row.run.run_id for row in store.ledger.listed(RunPage(9), over=60.0)]
    assert over == ["three", "two", "one"], "what is open is not over"
    assert store.ledger.listed(RunPage(9), over=1e10) == []
    assert [(one.state, one.runs, one.cost) for one in store.ledger.totals()] == [
        ("completed", 2, pytest.approx(0.3)),
        ("failed", 1, None),
        ("pending", 1, None),
    ]
    many = [f"x{number}" for number in range(1000)]
    assert store.ledger.known([*many, "one", "open"]) == {"one", "open"}
    with pytest.raises(DurableError, match="there is no run 'nobody' in this database"):
        store.ledger.place("nobody")


def test_the_numbers_of_a_queue(store: Store) -> None:
    begin(store, "waits")
    end(store, "waits", "interrupted")
    begin(store, "runs")
    assert claim(store) == ["runs"]
    begin(store, "queued")
    begin(store, "delayed", delay=60.0)
    change(store, "UPDATE {workflows} SET updated_at = updated_at - 5000 WHERE status != 'PENDING'")
    (found,) = store.ledger.stats()
    assert (found.queue, found.queued, found.running, found.waiting) == ("a", 2, 1, 1)
    assert 5.0 <= found.oldest_queued_seconds < 60.0


def test_a_run_is_erased_with_all_that_is_kept_of_it_once_it_is_over(store: Store) -> None:
    begin(store, "r")
    assert claim(store, "dead") == ["r"]
    store.leases.recover("dead")
    assert store.database.read("SELECT id FROM wesichain_suspects") != [], "its process has died"
    (mine,) = store.queue.claim("me", Serving("a", "v"), free=1)
    child = NewChild("c", "r", "inner", "dig")
    store.steps.keep(
        StepRow("r", mine.owner, 1, "ask 1", "{}", 0, 0, (child, ChildResult("c", "failed", "ill")))
    )
    found = store.children.find("c")
    assert found is not None
    assert (found.run.parent, found.run.agent, found.run.status, found.run.error) == (
        "r",
        "inner",
        "failed",
        "ill",
    )
    assert found.scope == ""
    assert abs(found.run.created_at - time.time()) < 60
    assert abs(found.run.updated_at - time.time()) < 60
    row = store.ledger.find("r")
    assert row is not None
    with pytest.raises(DurableError, match="the run 'r' is running: cancel it before it is deleted"):
        erase(store, row)
    store.ledger.cancel("r")
    row = store.ledger.find("r")
    assert row is not None
    erase(store, row)
    assert (store.ledger.find("r"), store.children.find("c"), store.steps.read("r")) == (None, None, [])
    tables = sa.inspect(store.database.engine).get_table_names()
    kept = {"wesichain_format", "dbos_migrations"}
    assert [
        name for name in tables if name not in kept and store.database.read(f"SELECT 1 FROM {name} LIMIT 1")
    ] == []


def test_the_error_that_refused_a_run_is_read_as_it_was_written(store: Store) -> None:
    begin(store, "r")
    (row,) = store.queue.claim("me", Serving("a", "v"), free=1)
    refused = ("ConfigError", "no such tool")
    assert store.ledger.end("r", row.id, WorkflowResult("", None, refused=refused), owner=row.owner)
    (found,) = store.payloads(["r"])
    assert (found.ending, found.error) == (None, refused)


def test_what_is_not_ours_is_not_read(store: Store) -> None:
    begin(store, "r")
    assert store.payloads(["nobody", "r"])[0] == store.payloads(["r"])[0]
    assert (store.payloads(["r"])[0].ending, store.payloads(["r"])[0].error) == (None, None)
    for column, value in (("serialization", "pickle"), ("inputs", "no JSON")):
        change(store, f"UPDATE {{workflows}} SET {column} = '{value}'")
        change(store, "DELETE FROM {inputs}")
        with pytest.raises(DurableError, match="the input of the run 'r' cannot be read: it is not JSON"):
            store.payloads(["r"])


@pytest.mark.parametrize(
    ("check", "given", "says"),
    [
        (checked_id, "r" * 128, ""),
        (checked_id, "r" * 129, "'" + "r" * 129 + "' is not a run id: use letters, digits and _ . : @ - (128 at most)"),
        (checked_id, "é" * 200, "'" + "é" * 149 + " is not a run id: use letters, digits and _ . : @ - (128 at most)"),
        (checked_id, 5, "5 is not a run id: use letters, digits and _ . : @ - (128 at most)"),
        (checked_name, "n" * 64, ""),
        (checked_name, "é" * 99, "'" + "é" * 80 + "' is not a name: use letters, digits and _ . - (64 at most)"),
        (checked_version, "v" * 64, ""),
        (checked_version, "é" * 99, "'" + "é" * 80 + "' is not a version: use letters, digits and _ . + - (64 at most)"),
    ],
)  # fmt: skip
def test_the_names_that_runs_agents_and_versions_may_have(check: Any, given: Any, says: str) -> None:
    if not says:
        assert check(given) == given
        return
    with pytest.raises(WesichainError) as refused:
        check(given)
    assert str(refused.value) == says


def test_a_task_is_shown_on_one_line_and_not_as_a_whole() -> None:
    assert task_preview("a\n  b") == "a b"
    assert task_preview("x" * 600) == "x" * 500
    assert task_preview(" " * 600 + "y" * 600) == "y" * 400


def test_a_step_is_written_once_by_the_one_who_has_the_run(url: str) -> None:
    with closing(Store(url)) as store:
        store.ledger.begin(NewRun("r", "a", "v", "{}", ""))
        (mine,) = store.queue.claim("me", Serving("a", "v"), free=1)
        step = StepRow("r", mine.owner, 1, "ask 1", "{}", 0, 0)
        store.steps.keep(step)
        store.steps.keep(step)  # the answer to the first try was lost
        assert [(one.number, one.name) for one in store.steps.read("r")] == [(1, "ask 1")]
        with pytest.raises(LostRunError, match="another process has taken the run over"):
            store.steps.keep(StepRow("r", mine.owner, 1, "ask 2", "{}", 0, 0))  # another one's first
        with pytest.raises(LostRunError, match="another process has taken the run over"):
            store.steps.keep(StepRow("r", "another", 1, "ask 1", "{}", 0, 0))
        store.ledger.cancel("r")
        for run_id in ("r", "one that was deleted"):
            with pytest.raises(CancelledRunError, match="the run was cancelled"):
                store.steps.keep(StepRow(run_id, mine.owner, 2, "ask 2", "{}", 0, 0))


@pytest.mark.parametrize("act", ["cancel", "uncancel", "follow", "decide"])
def test_a_run_that_was_deleted_meanwhile_is_named(url: str, act: str) -> None:
    more: Any = {"follow": [lambda _: "{}"], "decide": [lambda *_: {}, lambda _: None]}.get(act, [])
    missing = pytest.raises(DurableError, match="there is no run 'r' in this database")
    with closing(Store(url)) as store, missing:
        getattr(store.ledger, act)("r", *more)


def test_a_machine_without_proc_is_known_by_its_card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = leases.this_machine()
    monkeypatch.setattr(posix_system, "_BOOT", tmp_path / "nothing")
    name, card = leases.this_machine().split()
    assert (name, leases.this_machine()) == (here.split()[0], f"{name} {card}")
    assert int(card, 16) > 0
