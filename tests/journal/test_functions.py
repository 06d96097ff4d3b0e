"""Functions as runs: what is returned, what fails, what is refused, and what stray tasks may do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from typing_extensions import override

from tests.waiting import until
from wesichain.errors import (
    CodecError,
    ConfigError,
    JournalConflictError,
    OutcomeUnknownError,
    PerformFailedError,
    RunEndedError,
    RunIdConflictError,
    RunInterruptedError,
    WaitTimeoutError,
)
from wesichain.journal import Journal, Journals, MemoryJournals
from wesichain.policy import Backoff
from wesichain.store import Entry, MemoryLogs, StoreUnavailableError
from wesichain.testing import FakeClock


def names(journal: Journal) -> list[str]:
    return [entry.name for entry in journal.entries()]


async def test_the_program_of_the_readme() -> None:
    charged: list[str] = []

    def charge(item: str) -> str:
        charged.append(item)
        return "R-1"

    async def order(journal: Journal, item: str) -> str:
        price = await journal.perform("price", lambda: 12)
        if not await journal.ask("approve", f"Buy {item} for {price}?", expects=bool):
            return "refused"
        return await journal.perform("charge", lambda: charge(item), effect="once")

    journals = MemoryJournals()
    with pytest.raises(RunInterruptedError, match="it waits for question 'approve'") as interrupted:
        await journals.run(order, "lamp", run_id="order-43")
    [pending] = interrupted.value.outcome.pending
    assert (pending.kind, pending.name, pending.question) == ("question", "approve", "Buy lamp for 12?")
    await journals.answer("order-43", {"approve": True}, by="ann")
    assert await journals.run(order, "lamp", run_id="order-43") == "R-1"
    assert await journals.run(order, "lamp", run_id="order-43") == "R-1"
    assert await journals.result("order-43") == "R-1"
    assert charged == ["lamp"]
    [answer] = [
        entry for entry in (await journals.open("order-43")).entries() if entry.name.startswith("answer")
    ]
    assert answer.by == "ann"


@pytest.mark.parametrize(
    ("value", "returned"),
    [
        (None, None),
        ((1, "two"), [1, "two"]),
        ({"a": 1.5}, {"a": 1.5}),
    ],
)
async def test_a_step_returns_what_the_log_gives_back(value: object, returned: object) -> None:
    async def function(journal: Journal) -> Any:
        return [await journal.perform("step", lambda: value)]

    journals = MemoryJournals()
    assert await journals.run(function, run_id="1") == [returned]
    assert await journals.run(function, run_id="1") == [returned]


async def test_a_sync_function_may_be_a_run() -> None:
    def double(journal: Journal, number: int, *, plus: int = 0) -> str:
        return f"{journal.run_id}: {2 * number + plus}"

    assert await MemoryJournals().run(double, 4, plus=1, run_id="1") == "1: 9"


def test_a_run_without_an_event_loop() -> None:
    journals = MemoryJournals()

    async def ask(journal: Journal) -> str:
        return await journal.ask("name", "Who?", expects=str)

    with pytest.raises(RunInterruptedError):
        journals.run_sync(ask, run_id="1")
    journals.answer_sync("1", {"name": "ann"})
    assert journals.run_sync(ask, run_id="1") == "ann"
    assert journals.result_sync("1") == "ann"
    assert [row.run_id for row in journals.list_sync()] == ["1"]
    journals.delete_sync("1")
    assert journals.list_sync() == []


# --- failures --------------------------------------------------------------------------------------


class SoldOut(LookupError):
    """What a shop raises."""


async def test_a_failed_step_raises_the_same_live_and_continued() -> None:
    seen: list[tuple[Any, ...]] = []

    async def function(journal: Journal) -> str:
        try:
            await journal.perform("buy", sold_out)
        except PerformFailedError as error:
            seen.append((str(error), error.name, error.is_a(SoldOut), error.is_a(OSError), error.chain))
        return str(await journal.ask("next", "What else?"))

    def sold_out() -> None:
        raise SoldOut("no lamps") from ConnectionError("timed out")

    journals = MemoryJournals()
    with pytest.raises(RunInterruptedError):
        await journals.run(function, run_id="1")
    await journals.answer("1", {"next": "nothing"})
    assert await journals.run(function, run_id="1") == "nothing"
    assert seen[0] == seen[1]
    text, name, is_sold_out, is_os_error, _ = seen[0]
    assert (text, name) == ("the step 'buy' failed: SoldOut: no lamps", "buy")
    assert is_sold_out
    assert is_os_error  # by its cause


async def test_a_failed_run_raises_its_error_until_it_is_resumed() -> None:
    shop: dict[str, int] = {}

    async def function(journal: Journal) -> int:
        await journal.perform("order", lambda: "ordered")
        return await journal.perform("count", lambda: shop["lamps"])

    journals = MemoryJournals()
    for _ in range(2):
        with pytest.raises(PerformFailedError, match="KeyError"):
            await journals.run(function, run_id="1")
    assert (await journals.list())[0].state == "failed"
    shop["lamps"] = 3
    with pytest.raises(PerformFailedError):
        await journals.run(function, run_id="1")
    await journals.resume("1", by="ann")
    assert (await journals.list())[0].state == "queued"
    assert await journals.run(function, run_id="1") == 3
    done = names(await journals.open("1"))
    assert done.count("perform order") == 1
    assert done.count("perform count") == 2


async def test_a_failure_beside_a_later_success_is_made_again_after_a_resume() -> None:
    fails = [True]

    async def function(journal: Journal) -> list[str]:
        return await journal.gather(journal.perform("first", first), journal.perform("second", second))

    async def first() -> str:
        if fails[0]:
            raise ConnectionError("away")
        return "first"

    async def second() -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "second"

    journals = MemoryJournals()
    with pytest.raises(PerformFailedError):
        await journals.run(function, run_id="1")
    fails[0] = False
    await journals.resume("1")
    assert await journals.run(function, run_id="1") == ["first", "second"]


async def test_the_failure_of_a_step_that_is_done_once_is_kept() -> None:
    calls: list[int] = []

    async def function(journal: Journal) -> None:
        await journal.perform("charge", charge, effect="once")

    def charge() -> None:
        calls.append(1)
        raise ZeroDivisionError

    journals = MemoryJournals()
    with pytest.raises(PerformFailedError, match="ZeroDivisionError"):
        await journals.run(function, run_id="1")
    await journals.resume("1")
    with pytest.raises(PerformFailedError, match="ZeroDivisionError"):
        await journals.run(function, run_id="1")
    assert len(calls) == 1


async def test_a_step_is_retried_with_growing_waits() -> None:
    clock, calls = FakeClock(), list[int]()

    def flaky() -> str:
        calls.append(1)
        if len(calls) < 4:
            raise ConnectionError("away")
        return "there"

    async def function(journal: Journal) -> str:
        return await journal.perform("call", flaky, retry=Backoff(1.0, 2.0, 30.0, attempts=4))

    journals = MemoryJournals(clock=clock)
    assert await journals.run(function, run_id="1") == "there"
    assert clock.slept[:3] == [1.0, 2.0, 4.0]
    assert names(await journals.open("1"))[2:6] == [
        "retry call 1",
        "retry call 2",
        "retry call 3",
        "perform call",
    ]


async def test_a_value_that_cannot_be_written_is_an_error_and_its_effect_is_not_repeated() -> None:
    calls: list[int] = []

    async def function(journal: Journal) -> None:
        await journal.perform("step", step)

    def step() -> object:
        calls.append(1)
        return object()

    journals = MemoryJournals()
    for _ in range(2):
        with pytest.raises(CodecError, match="step 'step' returned a value that cannot be written"):
            await journals.run(function, run_id="1")
    assert len(calls) == 1


_REFUSED_STEPS: list[tuple[Callable[[Journal], Awaitable[object]], str]] = [
    (lambda j: j.perform("a", int, effect=cast("Any", "twice")), "use 'idempotent', 'once' or 'pure'"),
    (lambda j: j.perform("", int), "is no name for a step"),
    (lambda j: j.perform("a ?", int), "is no name for a step"),
    (lambda j: j.perform("a", int, effect="once", retry=Backoff()), "is not retried"),
    (lambda j: j.perform("a", int, unique=""), "name what is done once"),
    (lambda j: j.until("a", datetime(2026, 1, 1)), "has no time zone"),  # noqa: DTZ001  # what is refused
    (lambda j: j.ask("a", "?", expects=cast("Any", object())), "use a type"),
]


@pytest.mark.parametrize(("call", "message"), _REFUSED_STEPS)
async def test_what_a_step_refuses(call: Any, message: str) -> None:
    async def function(journal: Journal) -> None:
        await call(journal)

    with pytest.raises(ConfigError, match=message):
        await MemoryJournals().run(function, run_id="1")


@pytest.mark.parametrize("verb", ["perform", "ask", "until", "below"])
async def test_a_name_is_used_once(verb: str) -> None:
    async def function(journal: Journal) -> None:
        for _ in range(2):
            match verb:
                case "perform":
                    await journal.perform("name", int)
                case "ask":
                    await journal.ask("name", "?", timeout=-1.0, default=None)
                case "until":
                    await journal.until("name", -1.0)
                case _:
                    journal.below("name")

    with pytest.raises(ConfigError, match="the name 'name' is used twice in the run '1'"):
        await MemoryJournals().run(function, run_id="1")


async def test_below_a_name_names_are_used_again() -> None:
    async def function(journal: Journal) -> list[str]:
        parts = [journal.below(f"day {day}/x") for day in range(3)]
        return [await part.perform("step", lambda: "same") for part in parts]

    journals = MemoryJournals()
    assert await journals.run(function, run_id="1") == ["same"] * 3
    assert "day 2%2Fx/perform step" in names(await journals.open("1"))


_OTHER_RUNS: list[tuple[Callable[[Journal], object] | None, tuple[str, ...], str]] = [
    (lambda journal: 1, (), "is one of"),
    (None, ("other",), "has other arguments"),
]


@pytest.mark.parametrize(("function", "args", "message"), _OTHER_RUNS)
async def test_a_run_id_belongs_to_one_function_and_its_arguments(
    function: Any, args: tuple[str, ...], message: str
) -> None:
    async def first(journal: Journal, *_: str) -> int:
        return 1

    journals = MemoryJournals()
    await journals.run(first, "argument", run_id="1")
    with pytest.raises(RunIdConflictError, match=message):
        await journals.run(function or first, *args, run_id="1")


_REFUSED_CALLS: list[tuple[Callable[[Any], Awaitable[object]], str]] = [
    (lambda j: j.run(None, run_id="1"), "is not a function"),
    (lambda j: j.run(int, object(), run_id="1"), "cannot be stored"),
    (lambda j: j.run(int, run_id=""), "a run is named by a text"),
    (lambda j: j.open("unknown"), "there is no run 'unknown'"),
    (lambda j: j.answer("unknown", {}), "give each answer"),
    (lambda j: j.signal("unknown", "name", object()), "cannot be stored"),
    (lambda j: j.delete("unknown"), "there is no run 'unknown'"),
    (lambda j: j.fork("unknown", "to", before="end"), "there is no run 'unknown'"),
]


@pytest.mark.parametrize(("call", "message"), _REFUSED_CALLS)
async def test_what_journals_refuse(call: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await call(MemoryJournals())


# --- waiting ---------------------------------------------------------------------------------------


async def test_a_question_expires_and_has_a_default() -> None:
    async def function(journal: Journal) -> list[Any]:
        first = await journal.ask("first", "?", expects=int, timeout=60.0, default=7)
        try:
            await journal.ask("second", "?", timeout=timedelta(minutes=1))
        except WaitTimeoutError as error:
            return [first, error.name]
        return []

    clock = FakeClock()
    journals = MemoryJournals(clock=clock)
    for _ in range(2):
        with pytest.raises(RunInterruptedError):
            await journals.run(function, run_id="1")
        clock.advance(61.0)
    assert await journals.run(function, run_id="1") == [7, "second"]


async def test_an_answer_that_came_in_time_counts_though_the_run_continues_later() -> None:
    async def function(journal: Journal) -> str:
        return await journal.ask("name", "?", expects=str, timeout=60.0, default="nobody")

    clock = FakeClock()
    journals = MemoryJournals(clock=clock)
    with pytest.raises(RunInterruptedError):
        await journals.run(function, run_id="1")
    await journals.answer("1", {"name": "ann"})
    clock.advance(600.0)
    assert await journals.run(function, run_id="1") == "ann"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"count": "three"}, "the answer to 'count' is not what it asks for"),
        ({"count": 3, "name": 4}, "the answer to 'name' is not what it asks for"),
        ({"other": 1}, "asks nothing with the name or token 'other'; it waits for 'count', 'name'"),
    ],
)
async def test_answers_are_checked_and_all_are_taken_or_none(answers: dict[str, Any], message: str) -> None:
    async def function(journal: Journal) -> list[Any]:
        return await journal.gather(
            journal.ask("count", "How many?", expects=int), journal.ask("name", "Who?", expects=str)
        )

    journals = MemoryJournals()
    with pytest.raises(RunInterruptedError):
        await journals.run(function, run_id="1")
    with pytest.raises(ConfigError, match=message):
        await journals.answer("1", answers)
    assert len((await journals.list())[0].pending) == 2
    await journals.answer("1", {"count": 3})
    [waiting] = (await journals.list())[0].pending
    with pytest.raises(ConfigError, match="was answered already"):
        await journals.answer("1", {"count": 4})
    await journals.answer("1", {waiting.token: "ann"})
    assert await journals.run(function, run_id="1") == [3, "ann"]
    with pytest.raises(RunEndedError):
        await journals.answer("1", {"count": 5})


async def test_signals_of_one_name_are_a_queue_and_an_id_is_one_signal() -> None:
    async def function(journal: Journal) -> list[Any]:
        await journal.receive("start")
        return [await journal.receive("paid") for _ in range(3)]

    journals = MemoryJournals()
    with pytest.raises(RunInterruptedError):
        await journals.run(function, run_id="1")
    for value in (1, 2):
        await journals.signal("1", "paid", value, by="bank", id=f"payment {value}")
        await journals.signal("1", "paid", value, by="bank", id=f"payment {value}")
    await journals.signal("1", "start")
    with pytest.raises(RunInterruptedError, match="signal 'paid'"):
        await journals.run(function, run_id="1")
    await journals.signal("1", "paid", 3)
    assert await journals.run(function, run_id="1") == [1, 2, 3]


async def test_a_signal_may_be_waited_for_until_a_moment() -> None:
    async def function(journal: Journal) -> list[Any]:
        first = await journal.receive("news", timeout=60.0, default="none")
        return [first, await journal.receive("news", timeout=60.0, default="none")]

    clock = FakeClock()
    journals = MemoryJournals(clock=clock)
    with pytest.raises(RunInterruptedError):
        await journals.run(function, run_id="1")
    clock.advance(61.0)
    with pytest.raises(RunInterruptedError):
        await journals.run(function, run_id="1")
    await journals.signal("1", "news", "good")
    clock.advance(600.0)
    assert await journals.run(function, run_id="1") == ["none", "good"]


async def test_a_run_that_waits_for_a_moment_waits_in_the_process() -> None:
    async def function(journal: Journal) -> str:
        await journal.sleep("night", timedelta(hours=8))
        await journal.until("noon", datetime.fromtimestamp(1_700_000_000 + 12 * 3600, UTC))
        return "awake"

    clock = FakeClock()
    assert await MemoryJournals(clock=clock).run(function, run_id="1") == "awake"
    assert clock.time() >= 1_700_000_000 + 12 * 3600


async def test_a_run_that_sleeps_in_the_process_can_be_stopped() -> None:
    async def function(journal: Journal) -> None:
        await journal.sleep("long", 3600.0)

    journals = MemoryJournals()
    running = asyncio.ensure_future(journals.run(function, run_id="1"))

    async def is_asleep() -> bool:
        rows = await journals.list()
        return bool(rows) and rows[0].state == "waiting"

    while not await is_asleep():  # the store has no events
        await asyncio.sleep(0.001)
    await journals.stop("1", "enough", by="ann")
    with pytest.raises(RunInterruptedError, match="enough"):
        await running
    assert (await journals.list())[0].state == "stopped"


async def test_except_exception_around_a_wait_does_not_catch_it() -> None:
    async def function(journal: Journal) -> str:
        try:
            return await journal.ask("name", "?", expects=str)
        except Exception:  # as users write it
            return "caught"

    journals = MemoryJournals()
    with pytest.raises(RunInterruptedError):
        await journals.run(function, run_id="1")


# --- side by side ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["gather", "asyncio.gather", "TaskGroup"])
async def test_branches_that_wait_may_be_gathered_in_any_way(how: str) -> None:
    done: list[str] = []

    async def function(journal: Journal) -> list[Any]:
        branches = [journal.ask("name", "?"), journal.perform("step", lambda: done.append("step"))]
        if how == "gather":
            return await journal.gather(*branches)
        if how == "asyncio.gather":
            return await asyncio.gather(*branches)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(branch) for branch in branches]
        return [task.result() for task in tasks]

    journals = MemoryJournals()
    with pytest.raises(RunInterruptedError, match="question 'name'"):
        await journals.run(function, run_id="1")
    await journals.answer("1", {"name": "ann"})
    assert await journals.run(function, run_id="1") == ["ann", None]
    assert len(done) <= 2
    if how == "gather":
        assert len(done) == 1


async def test_a_failure_in_a_task_group_beside_a_wait_is_the_failure_of_the_run() -> None:
    async def function(journal: Journal) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(journal.perform("fails", fail))
            group.create_task(journal.ask("name", "?"))

    async def fail() -> None:
        raise LookupError("gone")

    journals = MemoryJournals()
    with pytest.raises(ExceptionGroup) as raised:
        await journals.run(function, run_id="1")
    assert isinstance(raised.value.exceptions[0], PerformFailedError)


async def test_a_step_under_way_when_the_function_ends_is_recorded_and_a_later_one_refused() -> None:
    release, refused = asyncio.Event(), list[Exception]()
    tasks: list[asyncio.Task[None]] = []

    async def stray(journal: Journal) -> None:
        await journal.perform("slow", release.wait, effect="once")
        try:
            await journal.perform("late", int)
        except RunEndedError as error:
            refused.append(error)

    async def function(journal: Journal) -> str:
        tasks.append(asyncio.create_task(stray(journal)))
        await asyncio.sleep(0.01)
        asyncio.get_running_loop().call_later(0.01, release.set)
        return "ended"

    journals = MemoryJournals()
    assert await journals.run(function, run_id="1") == "ended"
    await asyncio.gather(*tasks)
    assert names(await journals.open("1"))[-2:] == ["perform slow", "end"]
    assert "comes after the function of the run '1' has ended" in str(refused[0])


async def test_what_a_thread_returned_while_it_was_cancelled_is_recorded() -> None:
    started, release = threading.Event(), threading.Event()

    def charge() -> str:
        started.set()
        release.wait(30)
        return "R-1"

    async def function(journal: Journal) -> str:
        return await journal.perform("charge", charge, effect="once")

    journals = MemoryJournals()
    running = asyncio.ensure_future(journals.run(function, run_id="1"))
    await until(started.is_set)
    running.cancel()
    await asyncio.sleep(0)
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await journals.run(function, run_id="1") == "R-1"


# --- two processes ---------------------------------------------------------------------------------


async def test_two_tasks_with_the_same_run_are_one_run() -> None:
    calls: list[int] = []

    async def function(journal: Journal) -> str:
        await journal.perform("step", lambda: calls.append(1))
        return "value"

    journals = MemoryJournals()
    both = await asyncio.gather(*(journals.run(function, run_id="1") for _ in range(8)))
    assert both == ["value"] * 8
    assert len(calls) == 1


async def test_a_second_process_waits_while_the_first_lives() -> None:
    logs, release, calls = MemoryLogs(), asyncio.Event(), list[int]()

    async def slow() -> None:
        calls.append(1)
        await release.wait()

    async def function(journal: Journal) -> str:
        await journal.perform("step", slow)
        return "value"

    first = asyncio.ensure_future(Journals(logs).run(function, run_id="1"))
    await until(lambda: calls)
    second = asyncio.ensure_future(Journals(logs).run(function, run_id="1"))
    await asyncio.sleep(0.1)
    assert not second.done()
    release.set()
    assert await first == await second == "value"
    assert len(calls) == 1


async def test_a_process_that_was_taken_over_stops() -> None:
    logs, release, calls = MemoryLogs(), asyncio.Event(), list[str]()

    def function_of(process: str) -> Any:
        async def function(journal: Journal) -> str:
            await journal.perform("first", step)
            await journal.perform("second", lambda: calls.append(f"second of {process}"))
            return process

        async def step() -> None:
            calls.append(f"first of {process}")
            if process == "old":
                await release.wait()

        function.__qualname__ = "function"
        return function

    old = Journals(logs, lease=1e9)
    first = asyncio.ensure_future(old.run(function_of("old"), run_id="1"))
    await until(lambda: calls)
    go = (await logs.read("1"))[1]
    writer = go.body.split('"')[3]
    await logs.lease(f"writer/{writer}", writer, 0.0)  # it has been silent for too long
    assert await Journals(logs).run(function_of("new"), run_id="1") == "new"
    release.set()
    with pytest.raises(JournalConflictError, match="another process has taken the run '1' over"):
        await first
    assert calls == ["first of old", "first of new", "second of new"]


class AwayLogs(MemoryLogs):
    """Logs whose store cannot be used for so many appends."""

    def __init__(self, clock: FakeClock, away: int) -> None:
        super().__init__(clock=clock)
        self.away = away

    @override
    async def append(self, log: str, entries: Sequence[Entry], **options: Any) -> None:
        if self.away > 0:
            self.away -= 1
            raise StoreUnavailableError("the server is restarting")
        await super().append(log, entries, **options)


async def test_a_run_waits_while_its_store_is_away() -> None:
    async def function(journal: Journal) -> str:
        return await journal.perform("step", lambda: "done")

    clock = FakeClock()
    assert await Journals(AwayLogs(clock, 12), clock=clock).run(function, run_id="1") == "done"


async def test_a_store_that_stays_away_is_an_error_in_the_end() -> None:
    calls: list[int] = []

    async def function(journal: Journal) -> None:
        await journal.perform("step", lambda: calls.append(1))

    clock = FakeClock()
    logs = AwayLogs(clock, 10**6)
    with pytest.raises(StoreUnavailableError, match="the server is restarting"):
        await Journals(logs, clock=clock).run(function, run_id="1")
    assert sum(clock.slept) > 60.0
    assert calls == []


async def test_a_run_whose_store_was_away_for_long_has_not_failed() -> None:
    logs = AwayLogs(clock := FakeClock(), 0)

    async def function(journal: Journal) -> str:
        first = await journal.perform("first", leave)
        return first + await journal.perform("second", lambda: " and back")

    async def leave() -> str:
        logs.away = away.pop()
        return "away"

    away = [0, 10**6]
    journals = Journals(logs, clock=clock)
    with pytest.raises(StoreUnavailableError):
        await journals.run(function, run_id="1")
    logs.away = 0
    assert await journals.run(function, run_id="1") == "away and back"


# --- unique effects --------------------------------------------------------------------------------


def charging(calls: list[str], name: str = "charge", **options: Any) -> Any:
    async def function(journal: Journal) -> str:
        def charge() -> str:
            calls.append(journal.run_id)
            return f"paid by {journal.run_id}"

        return await journal.perform(name, charge, unique="charge:order-42", **options)

    return function


async def test_a_unique_step_is_done_by_one_of_many_runs() -> None:
    journals, calls = MemoryJournals(), list[str]()
    values = await asyncio.gather(*(journals.run(charging(calls), run_id=str(run)) for run in range(8)))
    assert len(calls) == 1
    assert set(values) == {f"paid by {calls[0]}"}


async def test_the_failure_of_a_unique_step_lets_another_run_do_it() -> None:
    journals, calls = MemoryJournals(), list[str]()

    async def failing(journal: Journal) -> None:
        await journal.perform("charge", lambda: 1 / 0, unique="charge:order-42")

    with pytest.raises(PerformFailedError):
        await journals.run(failing, run_id="1")
    assert await journals.run(charging(calls), run_id="2") == "paid by 2"


async def unfinished_charge(logs: MemoryLogs) -> None:
    """A run whose process has ended while it charged."""
    entered = asyncio.Event()

    async def charge() -> None:
        entered.set()
        await asyncio.Event().wait()

    async def function(journal: Journal) -> None:
        await journal.perform("charge", charge, unique="charge:order-42")

    journals = Journals(logs)
    running = asyncio.ensure_future(journals.run(function, run_id="killed"))
    await entered.wait()
    running.cancel()
    await asyncio.wait([running])
    await journals.close()


_OUTCOMES: list[tuple[Callable[[str, object], object] | None, str | None]] = [
    (lambda unique, _: f"found {unique}", "found charge:order-42"),
    (lambda _, __: None, None),
    (None, None),
]


@pytest.mark.parametrize(("outcome", "value"), _OUTCOMES, ids=["happened", "did not", "unknown"])
async def test_a_unique_step_of_a_killed_run_is_reconciled_or_unknown(
    outcome: Any, value: str | None
) -> None:
    logs, calls = MemoryLogs(), list[str]()
    await unfinished_charge(logs)
    run = Journals(logs).run(charging(calls, reconcile=outcome), run_id="2")
    if value is None:
        with pytest.raises(OutcomeUnknownError, match="begun by the run 'killed'") as raised:
            await run
        assert raised.value.unique == "charge:order-42"
    else:
        assert await run == value
    assert calls == []


async def test_one_run_has_one_step_of_a_unique() -> None:
    async def function(journal: Journal) -> None:
        for name in ("first", "second"):
            await journal.perform(name, str, unique="same")

    with pytest.raises(ConfigError, match="the step 'perform first' of the same run has this unique"):
        await MemoryJournals().run(function, run_id="1")
