"""The contract suite for stores of journals' logs. Subclass it and implement `make_logs`; pytest runs it.

class TestMyLogs(LogsContract):
    async def make_logs(self):
        return MyLogs(...)
"""

from __future__ import annotations

import asyncio
import hashlib
from abc import abstractmethod
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest
from typing_extensions import override

from wesichain.core.internal import replace
from wesichain.errors import CodecError, ConfigError
from wesichain.store import (
    Charge,
    Claim,
    Entry,
    LimitReachedError,
    LogConflictError,
    LogInfo,
    Logs,
    Query,
    Summary,
    UniqueConflictError,
)

from .store_contract import StoreContract, law, run_in_loops

_NAMES = (
    " ",
    "a'; DROP TABLE entries; --",
    "%s",
    "?",
    "@#!",
    "../../etc",
    "con",
    "ü😀",
    "a",
    "A",
    "a.",
    "x" * 1_000,
)
_TEXTS = ("", "é", "日本", "😀", '{"a": "\\u0041\\n"}', "line\nline\r\n\u2028", "\x01\x7f\\", "x" * 300_000)
_TIMES = (0.0, 1.5, 1_700_000_000.123456, 0.1 + 0.2, 1e-9, -1.0)


class LogsContract(StoreContract[Logs]):
    """The contract of a store of logs, `wesichain.store.Logs`: each of its rules is a test."""

    @abstractmethod
    async def make_logs(self) -> Logs:
        """Return an empty store."""

    async def make_another(self, logs: Logs) -> Logs:
        """Return another object for the same logs, as another process would have; by default the same one."""
        return logs

    @override
    async def make(self) -> Logs:
        return await self.make_logs()

    @override
    async def done(self, store: Logs) -> None:
        await store.close()

    # --- appending -----------------------------------------------------------------------------------

    @law
    async def test_entries_are_read_back_unchanged_from_any_number_on(self, logs: Logs) -> None:
        entries = [
            Entry(number, f"name {number} {text[:50]}", text, at, by=text[:9], notes=text)
            for number, (text, at) in enumerate(zip(_TEXTS, _TIMES * 2, strict=False), 1)
        ]
        await logs.append("t", entries[:3], after=0)
        for entry in entries[3:]:
            await logs.append("t", [entry], after=entry.seq - 1)
        other = await self.make_another(logs)
        for since in (-1, 0, 1, 2, 5, len(entries), len(entries) + 1, 10_000):
            assert [*await other.read("t", since=since)] == entries[max(0, since - 1) :]
        if other is not logs:
            await other.close()

    @law
    async def test_an_append_after_another_entry_writes_nothing(self, logs: Logs) -> None:
        await logs.append("t", _entries("a", "b"), after=0)
        before = [*await logs.read("t")], await logs.list(Query())
        for after in (0, 1, 3, 7):
            with pytest.raises(LogConflictError, match="'t'"):
                await logs.append(
                    "t", _entries("x", "y", "z", after=after), after=after, summary=Summary("p")
                )
        with pytest.raises(LogConflictError):
            await logs.append("new", _entries("x", after=1), after=1)
        assert ([*await logs.read("t")], await logs.list(Query())) == before
        assert await logs.read("new") in ([], ())

    @law
    async def test_an_append_that_was_written_may_be_repeated(self, logs: Logs) -> None:
        await logs.append("t", _entries("a", "b"), after=0, claims=[Claim("u", "a")], charges=[_charge(3.0)])
        await logs.append("t", _entries("c", after=2), after=2)
        await logs.append("t", _entries("a", "b"), after=0, claims=[Claim("u", "a")], charges=[_charge(3.0)])
        await logs.append("t", _entries("c", after=2), after=2)
        assert [entry.name for entry in await logs.read("t")] == ["a", "b", "c"]
        assert await logs.charged("acme", 3600.0) == 3.0
        for change in ({"name": "x"}, {"body": "{}"}, {"at": 9.0}):
            with pytest.raises(LogConflictError):
                await logs.append(
                    "t", [replace(entry, **change) for entry in _entries("c", after=2)], after=2
                )

    @law
    async def test_what_no_store_could_hold_is_refused_and_changes_nothing(self, logs: Logs) -> None:
        for text in ("a\0b", "a\ud800b"):
            refused: list[Coroutine[Any, Any, Any]] = [
                logs.append(text, _entries("a"), after=0),
                logs.append("t", _entries(text), after=0),
                logs.append("t", [Entry(1, "a", text, 1.0)], after=0),
                logs.append("t", [Entry(1, "a", "", 1.0, by=text)], after=0),
                logs.append("t", [Entry(1, "a", "", 1.0, notes=text)], after=0),
                logs.append("t", _entries("a"), after=0, summary=Summary(program=text)),
                logs.append("t", _entries("a"), after=0, claims=[Claim(text, "a")]),
                logs.append("t", _entries("a"), after=0, charges=[Charge(text, "day", 1.0)]),
                logs.lease(text, "h", 1.0),
            ]
            for call in refused:
                with pytest.raises(CodecError):
                    await call
            assert [*await logs.read(text)] == []
            assert await logs.delete(text)
            assert await logs.delete_many({text: 1}) == 0
            assert await logs.holder(text) is None
            assert [*await logs.list(Query(state=text))] == []
            assert [*await logs.list(Query(program=text))] == []
        nan, infinity = float("nan"), float("inf")
        wrong: list[Coroutine[Any, Any, Any]] = [
            logs.append("", _entries("a"), after=0),
            logs.append("é" * 501, _entries("a"), after=0),
            logs.append("t", [], after=0),
            logs.append("t", _entries("a", after=1), after=0),
            logs.append("t", [*_entries("a"), *_entries("b")], after=0),
            logs.append("t", [Entry(1, "a", "", nan)], after=0),
            logs.append("t", [Entry(1, "a", "", 1.0, parts={"../etc": b""})], after=0),
            logs.append("t", _entries("a"), after=0, summary=Summary(cost=infinity)),
            logs.append("t", _entries("a"), after=0, charges=[Charge("acme", "year", 1.0)]),
            logs.append("t", _entries("a"), after=0, charges=[Charge("acme", "day", nan)]),
            logs.lease("t", "h", infinity),
        ]
        for call in wrong:
            with pytest.raises(ConfigError):
                await call
        assert [*await logs.list(Query())] == []

    @law
    async def test_logs_of_any_names_do_not_mix(self, logs: Logs) -> None:
        for name in _NAMES:
            await logs.append(name, [Entry(1, "a", name, 1.0)], after=0)
            assert await logs.lease(name, f"holder {name}", 60.0) == 0.0
        for name in _NAMES:
            assert [entry.body for entry in await logs.read(name)] == [name]
            assert await logs.lease(name, "other", 60.0) > 0.0
        assert {info.name for info in await logs.list(Query())} == {*_NAMES}
        assert await logs.delete("a")
        assert {info.name for info in await logs.list(Query())} == {*_NAMES} - {"a"}

    @law
    async def test_of_writers_that_follow_the_same_entry_one_wins(self, logs: Logs) -> None:
        other = await self.make_another(logs)

        async def write(writer: int) -> int:
            store, refused = (logs, other)[writer % 2], 0
            for number in range(5):
                while True:
                    seq = len(await store.read("t"))
                    try:
                        await store.append(
                            "t",
                            [
                                Entry(seq + 1, f"{writer} {number}", "", 1.0),
                                Entry(seq + 2, "+", str(writer), 1.0),
                            ],
                            after=seq,
                        )
                        break
                    except LogConflictError:
                        refused += 1
            return refused

        await asyncio.gather(*[write(writer) for writer in range(6)])
        found = await logs.read("t")
        assert [entry.seq for entry in found] == [*range(1, 61)]
        assert {entry.name for entry in found[1::2]} == {"+"}, "an append was parted"
        for writer in range(6):
            own = [entry.name for entry in found[::2] if entry.name.startswith(f"{writer} ")]
            assert own == [f"{writer} {number}" for number in range(5)]
        if other is not logs:
            await other.close()

    @law
    async def test_appends_that_wait_together_do_not_spoil_each_other(self, logs: Logs) -> None:
        await logs.append("taken", _entries("a"), after=0, claims=[Claim("u", "a")])
        calls = [logs.append(f"t{number}", _entries("a", "b"), after=0) for number in range(8)]
        calls += [logs.append(f"late{number}", _entries("a", after=4), after=4) for number in range(4)]
        calls += [
            logs.append(f"u{number}", _entries("b"), after=0, claims=[Claim("u", "b")]) for number in range(4)
        ]
        calls += [
            logs.append(f"c{number}", _entries("c"), after=0, charges=[_charge(1.0, most=2.0)])
            for number in range(4)
        ]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert found[:8] == [None] * 8
        assert {type(error) for error in found[8:12]} == {LogConflictError}
        assert {type(error) for error in found[12:16]} == {UniqueConflictError}
        assert sorted(map(str, map(type, found[16:]))) == sorted(
            map(str, [type(None)] * 2 + [LimitReachedError] * 2)
        )
        written = {info.name: info.seq for info in await logs.list(Query())}
        accepted = {f"c{number}": 1 for number in range(4) if found[16 + number] is None}
        assert written == {"taken": 1, **{f"t{number}": 2 for number in range(8)}, **accepted}

    @law
    async def test_parts_come_back_with_the_entries_that_have_them(self, logs: Logs) -> None:
        one, two = _part(b"one" * 100_000), _part(b"\0\xff two")
        entries = [
            Entry(1, "a", "", 1.0, parts=one),
            Entry(2, "b", "", 1.0),
            Entry(3, "c", "", 1.0, parts=one | two),
        ]
        await logs.append("t", entries, after=0)
        await logs.append("other", [Entry(1, "a", "", 1.0, parts=two)], after=0)
        assert [*await logs.read("t")] == entries
        assert [dict(entry.parts) for entry in await logs.read("t")] == [one, {}, one | two]
        await logs.delete("other")
        await logs.delete("t", before=3)
        assert [dict(entry.parts) for entry in await logs.read("t")] == [one | two]
        await logs.append("t", [Entry(4, "d", "", 1.0, parts=two)], after=3)
        await logs.delete("t", before=4)
        assert [dict(entry.parts) for entry in await logs.read("t")] == [two]

    # --- lists ---------------------------------------------------------------------------------------

    @law
    async def test_lists_show_the_last_summary_and_both_times(self, logs: Logs) -> None:
        summary = Summary("p", "waiting", "task\0😀", "ann", 1.25, 77.5, '[{"name": "ask"}]')
        begun = await logs.now()
        await logs.append("t", _entries("a"), after=0)
        assert (await _info(logs, "t")).summary == Summary()
        await logs.append("t", _entries("b", after=1), after=1, summary=summary)
        await logs.append("t", _entries("c", after=2), after=2)
        found = await _info(await self.make_another(logs), "t")
        assert (found.seq, found.summary) == (3, summary)
        assert begun <= found.begun_at <= found.at <= await logs.now()

    @law
    async def test_a_query_lists_what_matches_page_by_page(self, logs: Logs) -> None:
        for number in range(12):
            summary = Summary(
                program="pq"[number % 2],
                state=("queued", "running", "waiting")[number % 3],
                due=float(number) if number % 3 == 2 else None,
                pending="[1]" if number % 3 == 2 else "",
            )
            await logs.append(f"t{number:02}", _entries("a"), after=0, summary=summary)
        infos = [*await logs.list(Query())]
        places = [(info.at, info.name) for info in infos]
        assert places == sorted(places, reverse=True)
        assert len(infos) == 12
        queries = [
            Query(state="queued"),
            Query(program="q"),
            Query(waiting=True),
            Query(waiting=False),
            Query(due_before=5.0),
            Query(state="waiting", program="p", due_before=8.0),
            Query(state="none"),
            Query(limit=5),
            Query(limit=0),
        ]
        for query in queries:
            expected = [info for info in infos if _matches(info, query)][: query.limit]
            assert [*await logs.list(query)] == expected, query
        for place in range(0, 12, 3):
            page = await logs.list(Query(limit=3, after=places[place]))
            assert [*page] == infos[place + 1 : place + 4]
        assert [*await logs.list(Query(after=(places[-1][0], "")))] == []
        assert len(await logs.list(Query(after=(places[0][0] + 1.0, "")))) == 12

    @law
    async def test_an_append_moves_a_log_to_the_front_of_lists(self, logs: Logs) -> None:
        for name in ("a", "b", "c"):
            await logs.append(name, _entries("a"), after=0)
        for name in ("b", "a"):
            at = (await logs.list(Query(limit=1)))[0].at
            while await logs.now() <= at:
                pass
            await logs.append(name, _entries("b", after=1), after=1)
        assert [info.name for info in await logs.list(Query())] == ["a", "b", "c"]

    # --- deleting ------------------------------------------------------------------------------------

    @law
    async def test_a_deleted_log_begins_again_and_its_claims_stay(self, logs: Logs) -> None:
        await logs.append(
            "t", _entries("a", "b"), after=0, claims=[Claim("u", "a")], summary=Summary("p", "failed")
        )
        await logs.append("other", _entries("x"), after=0)
        assert not await logs.delete("t", seq=1)
        assert len(await logs.read("t")) == 2
        assert await logs.delete("t", seq=2)
        assert await logs.delete("t")
        assert await logs.delete("t", seq=9)
        assert [*await logs.read("t")] == []
        assert [info.name for info in await logs.list(Query())] == ["other"]
        assert await logs.holder("u") == ("t", "a")
        with pytest.raises(LogConflictError):
            await logs.append("t", _entries("c", after=2), after=2)
        await logs.append("t", _entries("z"), after=0)
        assert [entry.name for entry in await logs.read("t")] == ["z"]
        assert (await _info(logs, "t")).summary == Summary()

    @law
    async def test_a_number_is_used_once_also_after_the_beginning_was_deleted(self, logs: Logs) -> None:
        await logs.append("t", _entries("a", "b", "c"), after=0, summary=Summary("p"))
        await logs.append("t", _entries("d", after=3), after=3)
        info = await _info(logs, "t")
        assert not await logs.delete("t", seq=3, before=2)
        for before, left in ((-5, "abcd"), (1, "abcd"), (3, "cd"), (2, "cd"), (5, ""), (99, "")):
            assert await logs.delete("t", seq=4, before=before)
            assert "".join([entry.name for entry in await logs.read("t")]) == left
            assert await _info(logs, "t") == info
        with pytest.raises(LogConflictError):
            await logs.append("t", _entries("x"), after=0)
        await logs.append("t", _entries("e", after=4), after=4)
        other = await self.make_another(logs)
        assert [(entry.seq, entry.name) for entry in await other.read("t")] == [(5, "e")]
        assert await logs.delete("nobody", before=4)
        assert [*await logs.read("nobody")] == []

    @law
    async def test_many_are_deleted_that_have_not_changed(self, logs: Logs) -> None:
        for name in ("a", "b", "c"):
            await logs.append(name, _entries("x", "y"), after=0)
        assert await logs.delete_many({"a": 2, "b": 1, "nobody": 2}) == 1
        assert await logs.delete_many({}) == 0
        assert {info.name for info in await logs.list(Query())} == {"b", "c"}

    # --- leases --------------------------------------------------------------------------------------

    @law
    async def test_a_lease_belongs_to_one_holder_until_it_ends_or_is_given_up(self, logs: Logs) -> None:
        other = await self.make_another(logs)
        assert await logs.lease("t", "ann", 60.0) == 0.0
        assert 0.0 < await other.lease("t", "bob", 60.0) <= 60.0
        assert 0.0 < await other.lease("t", "bob", 0.0) <= 60.0
        assert await logs.lease("t", "ann", 600.0) == 0.0
        assert 60.0 < await other.lease("t", "bob", 60.0) <= 600.0
        assert await logs.lease("t", "ann", 0.0) == 0.0
        assert await other.lease("t", "bob", 0.05) == 0.0
        until = await logs.now() + 20.0
        while (wait := await logs.lease("t", "ann", 60.0)) > 0:
            assert await logs.now() < until
            await asyncio.sleep(wait)
        assert await other.lease("t", "bob", 1.0) > 1.0
        assert [*await logs.list(Query())] == []

    @law
    async def test_of_many_that_ask_for_a_lease_one_gets_it(self, logs: Logs) -> None:
        waits = await asyncio.gather(*[logs.lease("t", f"holder {number}", 60.0) for number in range(12)])
        assert sorted(wait > 0 for wait in waits) == [False] + [True] * 11

    # --- claims --------------------------------------------------------------------------------------

    @law
    async def test_a_claim_is_of_one_entry_over_all_logs_until_it_is_released(self, logs: Logs) -> None:
        unique = "charge:" + "é" * 3_000
        await logs.append("a", _entries("pay"), after=0, claims=[Claim(unique, "pay"), Claim("v", "pay")])
        assert await (await self.make_another(logs)).holder(unique) == ("a", "pay")
        with pytest.raises(UniqueConflictError) as caught:
            await logs.append("b", _entries("pay"), after=0, claims=[Claim("w", "pay"), Claim(unique, "pay")])
        assert (caught.value.unique, caught.value.log, caught.value.name) == (unique, "a", "pay")
        assert [*await logs.read("b")] == []
        assert await logs.holder("w") is None
        await logs.append("a", _entries("again", after=1), after=1, claims=[Claim(unique, "pay")])
        with pytest.raises(UniqueConflictError):
            await logs.append("a", _entries("other", after=2), after=2, claims=[Claim(unique, "other")])
        await logs.append("b", _entries("no"), after=0, releases=[unique])
        assert await logs.holder(unique) == ("a", "pay")
        await logs.append(
            "a", _entries("other", after=2), after=2, releases=[unique], claims=[Claim(unique, "other")]
        )
        assert await logs.holder(unique) == ("a", "other")
        await logs.append("a", _entries("end", after=3), after=3, releases=[unique, "v", "unknown"])
        assert await logs.holder(unique) is None
        await logs.append("b", _entries("pay", after=1), after=1, claims=[Claim(unique, "pay")])
        assert await logs.holder(unique) == ("b", "pay")
        assert await logs.holder(unique[:-1]) is None

    @law
    async def test_of_many_claims_at_once_one_is_made(self, logs: Logs) -> None:
        other = await self.make_another(logs)
        calls = [
            (logs, other)[number % 2].append(
                f"t{number}",
                _entries("a"),
                after=0,
                claims=[Claim("u", "a"), Claim("v", "a")][:: 1 if number % 2 else -1],
            )
            for number in range(10)
        ]
        found = await asyncio.gather(*calls, return_exceptions=True)
        winners = [f"t{number}" for number, error in enumerate(found) if error is None]
        assert len(winners) == 1
        assert {type(error) for error in found if error is not None} == {UniqueConflictError}
        assert await logs.holder("u") == await logs.holder("v") == (winners[0], "a")
        assert [info.name for info in await logs.list(Query())] == winners

    # --- charges -------------------------------------------------------------------------------------

    @law
    async def test_charges_are_added_up_to_the_limit(self, logs: Logs) -> None:
        assert await logs.charged("acme", "day") == 0.0
        await logs.append(
            "a", _entries("x"), after=0, charges=[_charge(2.0, most=5.0), _charge(1.0, most=5.0)]
        )
        with pytest.raises(LimitReachedError) as caught:
            await logs.append("b", _entries("x"), after=0, charges=[_charge(2.5, most=5.0)])
        assert (caught.value.limit, caught.value.used, caught.value.most) == ("acme", 3.0, 5.0)
        assert [*await logs.read("b")] == []
        await logs.append("b", _entries("x"), after=0, charges=[_charge(2.0, most=5.0)])
        await logs.append(
            "b", _entries("y", after=1), after=1, charges=[_charge(4.0), Charge("other", 3600.0, 1.0)]
        )
        assert await (await self.make_another(logs)).charged("acme", 3600.0) == 9.0
        assert await logs.charged("acme", 7200.0) == 0.0
        await logs.append(
            "b", _entries("z", after=2), after=2, charges=[_charge(-3.0, most=1.0, at=await logs.now())]
        )
        assert await logs.charged("acme", 3600.0) == 6.0
        await logs.append("b", _entries("w", after=3), after=3, charges=[_charge(-1.0, at=5.0)])
        assert await logs.charged("acme", 3600.0) == 6.0
        assert await logs.charged("other", 3600.0) == 1.0

    @law
    async def test_calendar_periods_and_windows_are_counted_apart(self, logs: Logs) -> None:
        periods: Sequence[str | float] = ("hour", "day", "week", "month", 86_400.0)
        charges = [Charge("l" * 4_000, period, amount) for amount, period in enumerate(periods, 1)]
        await logs.append("a", _entries("x"), after=0, charges=charges)
        found = [await logs.charged("l" * 4_000, period) for period in periods]
        assert found == [1.0, 2.0, 3.0, 4.0, 5.0]

    @law
    async def test_charges_at_once_do_not_exceed_the_limit(self, logs: Logs) -> None:
        other = await self.make_another(logs)
        calls = [
            (logs, other)[number % 2].append(
                f"t{number}", _entries("a"), after=0, charges=[_charge(1.0, most=7.0)]
            )
            for number in range(20)
        ]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in found].count(type(None)) == 7
        assert await logs.charged("acme", 3600.0) == 7.0
        assert len(await logs.list(Query())) == 7

    # --- the store -----------------------------------------------------------------------------------

    @law
    async def test_it_opens_again_after_it_was_closed(self, logs: Logs) -> None:
        await logs.append("t", _entries("a"), after=0)
        for _ in range(2):
            await logs.close()
            assert [entry.name for entry in await logs.read("t")] == ["a"]
        await logs.close()
        await logs.append("t", _entries("b", after=1), after=1)
        assert [entry.name for entry in await logs.read("t")] == ["a", "b"]

    @law
    async def test_several_event_loops_share_it_at_once(self, logs: Logs) -> None:
        def share() -> None:
            async def work(number: int) -> None:
                for seq in range(5):
                    await logs.append(f"t{number}", _entries(str(seq), after=seq), after=seq)
                assert len(await logs.read(f"t{number}")) == 5

            run_in_loops(work)

        await asyncio.to_thread(share)
        assert [info.seq for info in await logs.list(Query())] == [5] * 4

    @law
    async def test_the_clock_goes_on(self, logs: Logs) -> None:
        first = await logs.now()
        await logs.append("t", _entries("a"), after=0)
        info = await _info(logs, "t")
        assert 1.6e9 < first <= info.begun_at <= info.at <= await logs.now()


def _entries(*names: str, after: int = 0) -> list[Entry]:
    return [Entry(seq, name, f'"{name}"', 1.0 + seq) for seq, name in enumerate(names, after + 1)]


def _charge(amount: float, *, most: float | None = None, at: float | None = None) -> Charge:
    return Charge("acme", 3600.0, amount, most, at)


def _part(data: bytes) -> dict[str, bytes]:
    return {hashlib.sha256(data).hexdigest(): data}


async def _info(logs: Logs, name: str) -> LogInfo:
    return next(info for info in await logs.list(Query()) if info.name == name)


def _matches(info: LogInfo, query: Query) -> bool:
    summary = info.summary
    return (
        query.state in (None, summary.state)
        and query.program in (None, summary.program)
        and query.waiting in (None, bool(summary.pending))
        and (query.due_before is None or (summary.due is not None and summary.due <= query.due_before))
    )
