"""What is done with the runs of a store: listed, read, stopped, forked, moved, deleted, encrypted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.waiting import until
from wesichain.errors import (
    ApprovalExpiredError,
    ConfigError,
    JournalConflictError,
    RunEndedError,
    RunIdConflictError,
    RunInterruptedError,
    StoreError,
)
from wesichain.journal import AesCipher, Journal, Journals, MemoryJournals
from wesichain.store import MemoryLogs
from wesichain.testing import FakeClock


async def ask(journal: Journal, text: str = "?") -> str:
    return await journal.ask("name", text, expects=str)


async def double(journal: Journal, number: int) -> int:
    await journal.perform("noted", lambda: number)
    return 2 * number


async def fail(journal: Journal) -> None:
    await journal.perform("noted", lambda: 1)
    raise LookupError("gone")


async def interrupted(journals: Journals, function: Callable[..., Any], run_id: str, **options: Any) -> None:
    with pytest.raises(RunInterruptedError):
        await journals.run(function, run_id=run_id, **options)


async def some_runs() -> Journals:
    """One run that has completed, one that has failed, one that waits, and one that was stopped."""
    clock = FakeClock()
    journals = MemoryJournals(clock=clock)
    await journals.run(double, 4, run_id="completed")
    clock.advance(10.0)
    with pytest.raises(LookupError):
        await journals.run(fail, run_id="failed")
    clock.advance(10.0)
    await interrupted(journals, ask, "waiting", by="ann")
    clock.advance(10.0)
    await interrupted(journals, ask, "stopped")
    await journals.stop("stopped", "enough", by="bob")
    return journals


async def test_runs_are_listed_the_latest_first() -> None:
    journals = await some_runs()
    rows = await journals.list()
    assert [(row.run_id, row.state) for row in rows] == [
        ("stopped", "stopped"),
        ("waiting", "waiting"),
        ("failed", "failed"),
        ("completed", "completed"),
    ]
    assert [row.run_id for row in await journals.list(limit=2, after=rows[0])] == ["waiting", "failed"]
    assert rows[1].by == "ann"
    assert rows[3].task == "4"
    assert rows[3].program.endswith("test_journals.double")
    assert [row.run_id for row in await journals.list(waiting=True)] == ["waiting"]
    assert [row.run_id for row in await journals.list("failed")] == ["failed"]
    assert [row.run_id for row in await journals.list(program=rows[3].program)] == ["completed"]
    assert await journals.stats() == {"completed": 1, "failed": 1, "waiting": 1, "stopped": 1}


async def test_a_stopped_run_goes_on_when_it_is_resumed() -> None:
    journals = await some_runs()
    for _ in range(2):
        with pytest.raises(RunInterruptedError, match="enough"):
            await journals.run(ask, run_id="stopped")
    await journals.stop("stopped")  # it is stopped
    await journals.resume("stopped", by="bob")
    await interrupted(journals, ask, "stopped")
    await journals.answer("stopped", {"name": "ann"})
    assert await journals.run(ask, run_id="stopped") == "ann"


@pytest.mark.parametrize(
    ("run_id", "error", "message"),
    [
        ("completed", RunEndedError, "has completed"),
        ("waiting", ConfigError, "was not stopped and has not failed"),
        ("unknown", ConfigError, "there is no run 'unknown'"),
    ],
)
async def test_what_cannot_be_resumed(run_id: str, error: type[Exception], message: str) -> None:
    journals = await some_runs()
    with pytest.raises(error, match=message):
        await journals.resume(run_id)


@pytest.mark.parametrize("run_id", ["completed", "failed"])
async def test_an_ended_run_takes_nothing_from_outside(run_id: str) -> None:
    journals = await some_runs()
    for work in (
        journals.stop(run_id),
        journals.signal(run_id, "name"),
        journals.answer(run_id, {"name": 1}),
    ):
        with pytest.raises(RunEndedError, match="has ended, and takes nothing more"):
            await work


async def test_a_run_under_way_is_stopped_before_its_next_step() -> None:
    release, calls = asyncio.Event(), list[str]()

    async def first() -> None:
        calls.append("first")
        await release.wait()

    async def function(journal: Journal) -> str:
        await journal.perform("first", first)
        return await journal.perform("second", lambda: "done")

    journals = MemoryJournals()
    running = asyncio.ensure_future(journals.run(function, run_id="1"))
    await until(lambda: calls)
    await journals.stop("1", "enough", by="ann")
    assert (await journals.list())[0].state == "running"
    release.set()
    with pytest.raises(RunInterruptedError, match="enough"):
        await running
    assert (await journals.list())[0].state == "stopped"
    await journals.resume("1")
    assert await journals.run(function, run_id="1") == "done"
    assert calls == ["first"]


async def test_an_expired_question_takes_no_answer() -> None:
    async def function(journal: Journal) -> str:
        return await journal.ask("name", "?", expects=str, timeout=60.0, default="nobody")

    clock = FakeClock()
    journals = MemoryJournals(clock=clock)
    await interrupted(journals, function, "1")
    clock.advance(60.0)
    with pytest.raises(ApprovalExpiredError, match="the question 'name' has expired"):
        await journals.answer("1", {"name": "ann"})
    assert await journals.run(function, run_id="1") == "nobody"


async def test_a_result_is_waited_for() -> None:
    journals = MemoryJournals()
    await interrupted(journals, ask, "1")
    with pytest.raises(TimeoutError):
        await journals.result("1", timeout=0.01)
    waiting = asyncio.ensure_future(journals.result("1"))
    await journals.answer("1", {"name": "ann"})
    await journals.run(ask, run_id="1")
    assert await waiting == "ann"
    with pytest.raises(LookupError):
        await journals.run(fail, run_id="2")
    with pytest.raises(LookupError, match="gone"):
        await journals.result("2")


# --- reading ---------------------------------------------------------------------------------------


async def test_a_run_that_is_read_cannot_act() -> None:
    journals = await some_runs()
    journal = await journals.open("completed")
    assert [entry.name for entry in journal.entries()] == ["begin", "go 1", "perform noted", "end"]
    assert await journal.perform("noted", lambda: 1 / 0) == 4  # from the log
    with pytest.raises(ConfigError, match="was opened for reading"):
        await journal.perform("other", lambda: 1 / 0)


async def test_what_another_program_does_not_ask_for_is_listed() -> None:
    async def first(journal: Journal) -> None:
        await journal.perform("a", int)
        await journal.perform("b", int, effect="once")
        await journal.ask("name", "?")

    async def second(journal: Journal) -> tuple[str, ...]:
        await journal.perform("b", int)
        return journal.unclaimed

    second.__qualname__ = first.__qualname__
    journals = MemoryJournals()
    await interrupted(journals, first, "1")
    await journals.answer("1", {"name": "ann"})
    found = await journals.run(second, run_id="1")
    assert "perform a" in found
    assert "perform b" not in found
    assert [name.split()[0] for name in (await journals.open("1")).unclaimed] == ["perform", "asked"]


# --- copies ----------------------------------------------------------------------------------------


async def test_a_fork_goes_on_from_an_entry() -> None:
    calls: list[str] = []

    async def function(journal: Journal) -> str:
        await journal.perform("first", lambda: calls.append(f"first of {journal.run_id}"))
        name = await journal.ask("name", "?", expects=str)
        await journal.perform("last", lambda: calls.append(f"last of {journal.run_id}"))
        return name

    journals = MemoryJournals()
    await interrupted(journals, function, "1")
    await journals.answer("1", {"name": "ann"})
    await journals.run(function, run_id="1")
    answer = next(
        entry.name for entry in (await journals.open("1")).entries() if entry.name.startswith("answer")
    )
    await journals.fork("1", "2", before=answer)
    await journals.fork("1", "3", before="perform last")
    assert await journals.run(function, run_id="3") == "ann"
    await interrupted(journals, function, "2")
    await journals.answer("2", {"name": "bob"})
    assert await journals.run(function, run_id="2") == "bob"
    assert calls == ["first of 1", "last of 1", "last of 3", "last of 2"]
    assert await journals.result("1") == "ann"


@pytest.mark.parametrize(
    ("to", "before", "error", "message"),
    [
        ("new", "perform other", ConfigError, "has no entry 'perform other'"),
        ("new", "begin", ConfigError, "nothing before the entry 'begin'"),
        ("waiting", "perform noted", RunIdConflictError, "there is a run 'waiting' already"),
    ],
)
async def test_forks_that_are_refused(to: str, before: str, error: type[Exception], message: str) -> None:
    journals = await some_runs()
    with pytest.raises(error, match=message):
        await journals.fork("completed", to, before=before)


async def test_a_run_is_moved_to_other_journals() -> None:
    journals, other = await some_runs(), MemoryJournals()
    await journals.move("waiting", other)
    assert not await journals.list(waiting=True)
    assert (await other.list())[0].state == "waiting"
    await other.answer("waiting", {"name": "ann"})
    assert await other.run(ask, run_id="waiting") == "ann"
    with pytest.raises(ConfigError, match="there is no run 'waiting'"):
        await journals.move("waiting", other)


@pytest.mark.parametrize("verb", ["delete", "move", "resume"])
async def test_a_run_under_way_is_not_touched(verb: str) -> None:
    release, calls = asyncio.Event(), list[int]()

    async def function(journal: Journal) -> None:
        calls.append(1)
        await journal.perform("wait", release.wait)

    logs = MemoryLogs()
    first, second = Journals(logs), Journals(logs)
    running = asyncio.ensure_future(first.run(function, run_id="1"))
    await until(lambda: calls)
    for journals in (first, second):
        work = {"delete": journals.delete, "resume": journals.resume}.get(verb)
        with pytest.raises(JournalConflictError, match="a living process works on the run '1'"):
            await (journals.move("1", MemoryJournals()) if work is None else work("1"))
    release.set()
    await running
    await second.delete("1")
    assert not await first.list()


async def test_ended_runs_are_pruned() -> None:
    journals = await some_runs()
    assert await journals.prune(older_than=25.0) == 1
    assert [row.run_id for row in await journals.list()] == ["stopped", "waiting", "failed"]
    assert await journals.prune(older_than=0.0) == 1
    assert [row.run_id for row in await journals.list()] == ["stopped", "waiting"]


# --- encryption ------------------------------------------------------------------------------------


async def test_what_is_stored_can_be_encrypted() -> None:
    keys = {"old": os.urandom(32), "new": os.urandom(32)}
    logs = MemoryLogs()
    old = Journals(logs, cipher=AesCipher({"old": keys["old"]}, current="old"))
    await interrupted(old, ask, "1", text="the secret of ann", by="ann")
    await old.answer("1", {"name": "the name of ann"})
    await old.close()
    stored = repr([await logs.read("1"), await old.list()])
    for secret in ("secret of", "name of ann", "by='ann'"):
        assert secret not in stored
    new = Journals(logs, cipher=AesCipher(keys, current="new"))
    assert await new.run(ask, run_id="1", text="the secret of ann") == "the name of ann"
    await new.fork("1", "2", before="end")
    assert await new.run(ask, run_id="2", text="the secret of ann") == "the name of ann"
    await new.close()
    with pytest.raises(StoreError, match="is encrypted: open the journals with the cipher"):
        await Journals(logs).result("1")
    with pytest.raises(StoreError, match="which this cipher does not have"):
        await old.result("1")


async def test_an_entry_of_one_run_cannot_stand_in_for_that_of_another() -> None:
    logs = MemoryLogs()
    journals = Journals(logs, cipher=AesCipher({"k": os.urandom(16)}, current="k"))
    for run_id in ("1", "2"):
        await journals.run(double, int(run_id), run_id=run_id)
    await logs.delete("2")
    await logs.append("2", await logs.read("1"), after=0)
    with pytest.raises(StoreError, match="cannot be opened; the key or the data is another one"):
        await journals.result("2")


@pytest.mark.parametrize(
    ("keys", "current", "message"),
    [
        ({"a": b"x" * 32}, "b", "there is no key with this id"),
        ({"a": b"x" * 31}, "a", "has 31 bytes"),
        ({"a:b": b"x" * 32}, "a:b", "an id without ':'"),
    ],
)
def test_keys_that_are_refused(keys: dict[str, bytes], current: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AesCipher(keys, current=current)
