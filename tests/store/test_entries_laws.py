"""Stores of journals' logs do what memory does, whatever the order, the clock and the process."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.draws import draws
from tests.store.entry_writer import made
from tests.store.test_entries import drop_tables
from wesichain.errors import StoreError
from wesichain.store import Charge, Claim, Entry, Logs, MemoryLogs, PostgresLogs, Query, Summary
from wesichain.testing import FakeClock

LOGS, UNIQUES = ("a", "A"), ("u", "v")
PARTS = {hashlib.sha256(data).hexdigest(): data for data in (b"one", b"two")}

_NAME = st.sampled_from(LOGS)
_APPEND = st.fixed_dictionaries(
    {
        "log": _NAME,
        "count": st.integers(1, 3),
        "after": st.sampled_from(["head", "head", "head", "late", "early", "again"]),
        "summary": st.sampled_from([None, Summary("p", "waiting", due=5.0, pending="[1]"), Summary("q")]),
        "claims": st.lists(st.sampled_from(UNIQUES), max_size=2),
        "releases": st.lists(st.sampled_from(UNIQUES), max_size=1),
        "charges": st.lists(
            st.builds(
                Charge,
                st.just("acme"),
                st.sampled_from(["day", 60.0]),
                st.sampled_from([1.0, 2.5, -1.0]),
                st.sampled_from([None, 4.0]),
            ),
            max_size=2,
        ),
        "parts": st.dictionaries(st.sampled_from([*PARTS]), st.none(), max_size=2),
    }
)
_STEP = st.one_of(
    *[st.tuples(st.just("append"), _APPEND)] * 4,
    st.tuples(st.just("delete"), _NAME, st.sampled_from([None, "head", 1])),
    st.tuples(st.just("drop"), _NAME, st.integers(0, 12)),
    st.tuples(st.just("delete many"), st.dictionaries(_NAME, st.integers(0, 4))),
    st.tuples(st.just("lease"), _NAME, st.sampled_from(["ann", "bob"]), st.sampled_from([0.0, 30.0, 60.0])),
    st.tuples(st.just("another process")),
    st.tuples(st.just("close")),
)
_CLOCK = st.tuples(st.just("clock"), st.sampled_from([0.5, 20.0, 61.0, 90_000.0, -15.0, -3_000.0]))


class Twin:
    """A store and memory, which get the same calls, and have to give the same answers."""

    def __init__(self, make: Callable[[], Logs], model: Logs, clock: FakeClock | None) -> None:
        self._make, self.model, self._clock = make, model, clock
        self.stores = [make()]

    async def step(self, number: int, step: Any) -> None:
        if step[0] == "another process":
            self.stores.append(self._make())
        elif step[0] == "close":
            await self.stores[-1].close()
        elif step[0] == "clock":
            assert self._clock is not None
            self._clock.jump(step[1])
        else:
            call = await self._call(number, step)
            expected, found = await outcome(call, self.model), await outcome(call, self.stores[-1])
            if step[0] == "lease" and self._clock is None:
                expected, found = expected > 0, found > 0
            assert found == expected, step
        await self.check()

    async def _call(self, number: int, step: Any) -> Callable[[Logs], Any]:
        heads = {info.name: info.seq for info in await self.model.list(Query())}
        match step:
            case ("append", given):
                return self._append(number, given, heads.get(given["log"], 0))
            case ("delete", log, seq):
                head = heads.get(log, 0)
                return lambda logs: logs.delete(log, seq=head if seq == "head" else seq)
            case ("drop", log, before):
                return lambda logs: logs.delete(log, before=before)
            case ("delete many", many):
                return lambda logs: logs.delete_many(many)
            case (_, log, holder, seconds):
                return lambda logs: logs.lease(log, holder, seconds)
            case _:
                raise AssertionError(step)

    def _append(self, number: int, given: Mapping[str, Any], head: int) -> Callable[[Logs], Any]:
        count, log = given["count"], given["log"]
        after = {"head": head, "late": head + 1, "early": max(0, head - 1), "again": max(0, head - count)}[
            given["after"]
        ]
        mark = 0 if given["after"] == "again" else number % 3
        parts = {name: PARTS[name] for name in given["parts"]}
        entries = [
            Entry(seq, f"e{seq}", f'"{mark}"', 1.5, by="ann" if mark else "", parts=parts)
            for seq in range(after + 1, after + count + 1)
        ]
        return lambda logs: logs.append(
            log,
            entries,
            after=after,
            summary=given["summary"],
            claims=[Claim(unique, f"e{after + 1}") for unique in given["claims"]],
            releases=given["releases"],
            charges=given["charges"],
        )

    async def check(self) -> None:
        expected = await self.view(self.model)
        for store in self.stores:
            assert await self.view(store) == expected

    async def view(self, logs: Logs) -> list[Any]:
        found: list[Any] = [[*await logs.read(log, since=since)] for log in LOGS for since in (1, 3)]
        found += [[dict(entry.parts) for entry in await logs.read(log)] for log in LOGS]
        for query in (Query(), Query(waiting=True), Query(program="q", limit=1), Query(due_before=5.0)):
            infos = [*await logs.list(query)]
            if self._clock is None:  # times are those of the server
                infos = sorted([(info.name, info.seq, info.summary) for info in infos], key=str)  # type: ignore[misc]
            found.append(infos)
        found += [await logs.holder(unique) for unique in UNIQUES]
        return [*found, *[await logs.charged("acme", period) for period in ("day", 60.0)]]

    async def close(self) -> None:
        for store in self.stores:
            await store.close()


async def outcome(call: Callable[[Logs], Any], logs: Logs) -> Any:
    try:
        return await call(logs)
    except StoreError as error:
        return type(error), str(error)


_BEGIN: dict[str, Any] = {
    "count": 2,
    "after": "head",
    "summary": None,
    "claims": [],
    "releases": [],
    "charges": [],
    "parts": {},
}
_CLAIM: dict[str, Any] = _BEGIN | {"log": "a", "claims": ["u"], "charges": [Charge("acme", 60.0, 1.0)]}


@pytest.mark.parametrize("kind", ["folder", "sqlite"])
@draws(25)
@example([("append", _CLAIM), ("delete", "a", None), ("another process",), ("append", _BEGIN | {"log": "a"})])
@example([("append", _CLAIM), ("drop", "a", 9), ("another process",), ("append", _CLAIM | {"log": "A"})])
@example(
    [
        ("lease", "a", "ann", 60.0),
        ("clock", -3_000.0),
        ("lease", "a", "bob", 30.0),
        ("clock", 61.0),
        ("lease", "a", "bob", 30.0),
    ]
)
@given(steps=st.lists(st.one_of(_STEP, _STEP, _CLOCK), max_size=20))
def test_files_do_what_memory_does(kind: str, steps: list[Any]) -> None:
    async def law(folder: Path) -> None:
        clock = FakeClock()
        twin = Twin(lambda: made(kind, folder, clock), MemoryLogs(clock=clock), clock)
        for number, step in enumerate(steps):
            await twin.step(number, step)
        await twin.close()

    with TemporaryDirectory() as folder:
        asyncio.run(law(Path(folder)))


@draws(10, shares_fixtures=True)
@example([("append", _CLAIM), ("append", _CLAIM | {"after": "again"}), ("append", _CLAIM | {"log": "A"})])
@given(steps=st.lists(_STEP, max_size=15))
def test_postgres_does_what_memory_does(postgres: str, steps: list[Any]) -> None:
    async def law() -> None:
        twin = Twin(lambda: PostgresLogs(postgres, connections=1), MemoryLogs(), None)
        for number, step in enumerate(steps):
            await twin.step(number, step)
        await twin.close()

    drop_tables(postgres)
    asyncio.run(law())
