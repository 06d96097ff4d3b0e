"""The virtual loop on its own."""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from wesichain.testing.simulation import loop as loops
from wesichain.testing.simulation.loop import StuckError, VirtualWatch, virtual_loop


def test_a_loop_that_turns_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "_MOST_TURNS", 50)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(StuckError, match="no end after 50 turns of the event loop"):
        virtual_loop(1).run(spin())


def test_async_generators_of_the_thread_are_closed_as_before_when_the_loop_has_ended() -> None:
    async def main() -> None: ...

    before = sys.get_asyncgen_hooks()
    virtual_loop(1).run(main())
    assert sys.get_asyncgen_hooks() == before


def test_an_async_generator_that_nobody_iterates_any_more_is_closed() -> None:
    events: list[str] = []

    async def numbers() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(1)
            events.append("closed")

    async def main() -> None:
        generator = numbers()
        await anext(generator)
        del generator
        gc.collect()
        await asyncio.sleep(2)

    virtual_loop(1).run(main())
    assert events == ["closed"]


def test_the_names_of_tasks_are_given_or_those_of_every_run() -> None:
    async def main() -> list[str]:
        async def nothing() -> None: ...

        tasks = [asyncio.create_task(nothing(), name="mine"), asyncio.create_task(nothing())]
        await asyncio.gather(*tasks)
        return [task.get_name() for task in tasks]

    names = [virtual_loop(1).run(main()) for _ in range(2)]
    assert names[0] == names[1]
    assert names[0][0] == "mine"


def test_what_is_left_may_run_for_less_than_the_given_time() -> None:
    loop, ran = virtual_loop(1), list[float]()
    for delay in (1.0, 1.0, 4.0, 5.0, 6.0):
        loop.call_later(delay, lambda: ran.append(loop.time()))
    loop.settle(5.0)
    assert (ran, loop.time()) == ([1.0, 1.0, 4.0], 4.0)
    loop.settle(2.5)
    assert ran == [1.0, 1.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_ends_a_program_ends_the_loop(error: type[BaseException]) -> None:
    async def main() -> None:
        def leave() -> None:
            raise error

        asyncio.get_running_loop().call_soon(leave)
        await asyncio.sleep(1)

    with pytest.raises(error):
        virtual_loop(1).run(main())


def test_a_callback_that_fails_does_not_end_the_loop() -> None:
    async def main() -> str:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(5)
        return "went on"

    assert virtual_loop(1).run(main()) == "went on"


def test_code_of_a_dead_process_leaves_nothing_that_was_never_awaited() -> None:
    async def inner() -> None: ...

    async def outer(waiting: Any) -> None:
        await waiting

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except BaseException:
                ended.append("")
                if len(ended) > 2:
                    raise

    ended: list[str] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        loops._close(outer(inner()))

        async def main() -> None:
            code = stubborn()
            code.send(None)
            loops._close(code)

        virtual_loop(1).run(main())
        gc.collect()
    assert (len(ended), [str(one.message) for one in warned]) == (3, [])


def test_a_thread_that_never_returns_ends_the_simulation() -> None:
    async def wait() -> None:
        loop: Any = asyncio.get_running_loop()
        future = loop.create_future()
        loop.wait_for_thread(future)
        await future

    with pytest.raises(StuckError, match=r"has not returned within 0\.05 s"):
        virtual_loop(1, thread_seconds=0.05).run(wait())


def test_a_watch_looks_once_a_pause_until_it_is_stopped() -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        looks: list[float] = []

        def look() -> float:
            looks.append(loop.time())
            return 1.0

        watch = VirtualWatch(loop, look)
        watch.start()
        watch.wake()  # ends the first pause, and begins no second row of looks
        await asyncio.sleep(2.5)
        watch.stop()
        await asyncio.sleep(10)
        assert [at - looks[0] for at in looks] == pytest.approx([0.0, 1.0, 2.0])

    virtual_loop(1).run(main())
