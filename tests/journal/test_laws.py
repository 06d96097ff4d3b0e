"""The laws of the journal: killed before and after every append, a run ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from tests.journal.programs import KINDS, Crash, Program, Step, World, crashing, drive
from wesichain.errors import RunInterruptedError
from wesichain.journal import Journals
from wesichain.store import Entry, MemoryLogs
from wesichain.testing import FakeClock

THOROUGH = bool(os.environ.get("WESICHAIN_THOROUGH"))


async def uncut(steps: tuple[Step, ...]) -> tuple[Any, World, int]:
    """The value of a program, what it did, and the number of its appends."""
    clock, world = FakeClock(), World()
    logs = crashing(clock)
    value = await drive(logs, clock, Program(steps, world))
    return value, world, logs.appends


async def cut(steps: tuple[Step, ...], at: int, *, stores_first: bool) -> tuple[Any, World]:
    """The same, of a program whose process dies at one append, and which another process continues."""
    clock, world = FakeClock(), World()
    logs = crashing(clock)
    logs.crash_at, logs.stores_first = at, stores_first
    try:
        return await drive(logs, clock, Program(steps, world)), world
    except Crash:
        logs.restart()
    return await drive(logs, clock, Program(steps, world)), world


async def check_every_cut(steps: tuple[Step, ...]) -> int:
    """Check the law for one program; returns the number of its cuts."""
    value, world, appends = await uncut(steps)
    for at, stores_first in itertools.product(range(appends), (False, True)):
        found, after = await cut(steps, at, stores_first=stores_first)
        where = f"{steps} cut at append {at}, stored {stores_first}"
        check_value(value, found, where)
        for name, count in after.effects.items():
            most = world.effects[name] + (0 if is_once(steps, name) else 1)
            assert count <= most, f"{where}: {name} was done {count} times"
    return 2 * appends


def steps_of(value: Any) -> list[Any] | None:
    steps: list[Any] | None = value if value.__class__ is list else None
    return steps


def check_value(expected: object, found: Any, where: str) -> None:
    """A step that is done once may be of unknown outcome after a cut; everything else is equal."""
    several = steps_of(expected)
    if several is not None:
        assert len(found) == len(several), where
        for one, other in zip(several, found, strict=True):
            check_value(one, other, where)
    else:
        assert found in (expected, "unknown"), where


def is_once(steps: tuple[Step, ...], name: str) -> bool:
    """Whether the step with this path is one that is done once."""
    step = None
    inside: tuple[Step, ...] = steps
    path = name.split(".")
    while path:
        step = inside[int(path.pop(0))]
        if path and step.kind == "gather":
            inside = step.inside[int(path.pop(0))]
        elif path:
            inside = step.inside[0]
    assert step is not None
    return step.kind in ("once", "reconciled", "unique")


@pytest.mark.parametrize("first", KINDS)
def test_every_program_of_three_steps_survives_every_cut(first: str) -> None:
    third = KINDS if THOROUGH else ("unique", "ask")
    rest = [(), *itertools.product(KINDS, repeat=1), *itertools.product(KINDS, third)]

    async def check() -> int:
        return sum([await check_every_cut(tuple(map(Step, (first, *kinds)))) for kinds in rest])

    assert asyncio.run(check()) > 200


@pytest.mark.parametrize("branches", [*itertools.combinations_with_replacement(KINDS, 2)], ids="-".join)
def test_every_pair_of_steps_side_by_side_survives_every_cut(branches: tuple[str, str]) -> None:
    first, second = branches
    programs = [
        (Step("gather", ((Step(first),), (Step(second),))),),
        (Step("gather", ((Step(first), Step("once")), (Step(second), Step("perform")))), Step("once")),
        (Step("below", ((Step(first),),)), Step("gather", ((Step(second),), (Step(first),)))),
    ]

    async def check() -> int:
        return sum([await check_every_cut(program) for program in programs])

    assert asyncio.run(check()) > 10


def programs(depth: int) -> st.SearchStrategy[tuple[Step, ...]]:
    single = st.sampled_from(KINDS).map(Step)
    if depth == 0:
        return st.lists(single, min_size=1, max_size=3).map(tuple)
    inner = programs(depth - 1)
    below = inner.map(lambda steps: Step("below", (steps,)))
    gather = st.lists(inner, min_size=1, max_size=4).map(lambda branches: Step("gather", tuple(branches)))
    return st.lists(single | below | gather, min_size=1, max_size=3).map(tuple)


@given(programs(2))
def test_a_nested_program_survives_every_cut(steps: tuple[Step, ...]) -> None:
    asyncio.run(check_every_cut(steps))


@given(programs(1), st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=6))
def test_a_program_survives_many_cuts(steps: tuple[Step, ...], cuts: list[tuple[int, bool]]) -> None:
    async def check() -> None:
        expected, _, _ = await uncut(steps)
        clock, world = FakeClock(), World()
        logs = crashing(clock)
        for at, stores_first in cuts:
            logs.restart()
            logs.appends, logs.crash_at, logs.stores_first = 0, at, stores_first
            try:
                await drive(logs, clock, Program(steps, world))
            except Crash:
                continue
        logs.restart()
        check_value(expected, await drive(logs, clock, Program(steps, world)), f"{steps} {cuts}")
        done_once = {name: count for name, count in world.effects.items() if is_once(steps, name)}
        assert all(count == 1 for count in done_once.values()), (steps, cuts, done_once)

    asyncio.run(check())


# --- what comes from outside while a run is under way ----------------------------------------------


class MeddlingLogs(MemoryLogs):
    """Logs in memory: before one append of the run's process, somebody else does something to the run."""

    def __init__(self, *, clock: FakeClock, at: int, meddle: Callable[[], Awaitable[None]]) -> None:
        super().__init__(clock=clock)
        self._left = at
        self._meddle = meddle
        self.has_meddled = False

    @override
    async def append(self, log: str, entries: Sequence[Entry], *, after: int, **options: Any) -> None:
        if not self.has_meddled and after:
            self._left -= 1
            if self._left < 0:
                self.has_meddled = True
                await self._meddle()
        await super().append(log, entries, after=after, **options)


def stop(journals: Journals) -> Awaitable[None]:
    return journals.stop("run", "enough", by="ann")


def signal(journals: Journals) -> Awaitable[None]:
    return journals.signal("run", "signal", "signalled", id="only")


async def meddled(steps: tuple[Step, ...], at: int, act: Callable[[Journals], Awaitable[None]]) -> Any:
    """The value of a program that something is done to before one of its appends; None if it has fewer."""
    clock, world = FakeClock(), World()

    async def meddle() -> None:
        await act(Journals(logs, clock=clock))

    logs = MeddlingLogs(clock=clock, at=at, meddle=meddle)
    value = None
    for _ in range(10):
        try:
            value = await drive(logs, clock, Program(steps, world), lease=60.0)
            break
        except RunInterruptedError:
            await Journals(logs, clock=clock).resume("run")
    assert all(count == 1 for name, count in world.effects.items() if is_once(steps, name))
    return value if logs.has_meddled else None


@pytest.mark.parametrize("act", [stop, signal])
@pytest.mark.parametrize("first", KINDS)
def test_a_stop_or_a_signal_before_every_append_changes_no_value(
    first: str, act: Callable[[Journals], Awaitable[None]]
) -> None:
    async def check() -> None:
        for second, third in itertools.product(KINDS, ("once", "receive")):
            steps = tuple(map(Step, (first, second, third)))
            expected, _, _ = await uncut(steps)
            for at in itertools.count():
                value = await meddled(steps, at, act)
                if value is None:
                    break
                assert value == expected, f"{steps}, before append {at}"

    asyncio.run(check())
