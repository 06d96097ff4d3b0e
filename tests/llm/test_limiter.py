"""The rate limiter: no minute sees more than is allowed, and who comes first goes first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from tests.draws import draws
from wesichain.agent import Clock
from wesichain.core import LlmRequest, LlmResponse, Message, Role, TextChunk, Usage
from wesichain.errors import ConfigError
from wesichain.llm import LlmTraits, StreamingLlm, StreamItem
from wesichain.llm.limiter import RateLimiter


class QueueClock(Clock):
    """Time that passes only when every task sleeps: the next sleeper wakes at once."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []
        self._number = count()

    @override
    def time(self) -> float:
        return self.now

    @override
    def monotonic(self) -> float:
        return self.now

    @override
    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        wake = asyncio.Event()
        self._sleepers.append((self.now + seconds, next(self._number), wake))
        await wake.wait()

    async def run_out(self) -> None:
        """Let time pass until nobody sleeps."""
        while True:
            for _ in range(10):
                await asyncio.sleep(0)
            if not self._sleepers:
                return
            first = min(self._sleepers)
            self._sleepers.remove(first)
            self.now = max(self.now, first[0])
            first[2].set()


class Model:
    """A model that notes when it is asked; a request takes `seconds`, and `tokens` as it says."""

    model = "m"
    traits = LlmTraits(native_output=True)

    def __init__(self, clock: Clock, *, seconds: float = 0.0, tokens: int = 0) -> None:
        self.log: list[tuple[str, float]] = []
        self.at_once = self.most_at_once = 0
        self._clock = clock
        self._seconds = seconds
        self._tokens = tokens

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.log.append((request.messages[0].text[:8], self._clock.monotonic()))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self._clock.sleep(self._seconds)
        self.at_once -= 1
        return LlmResponse("ok", usage=Usage(self._tokens, 0))

    async def stream(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        yield TextChunk("o")
        yield await self.complete(request)


def request(text: str) -> LlmRequest:
    return LlmRequest("m", (Message(Role.USER, text),))


async def ask_all(llm: RateLimiter, clock: QueueClock, texts: list[str]) -> None:
    tasks = [asyncio.create_task(llm.complete(request(text))) for text in texts]
    await clock.run_out()
    await asyncio.gather(*tasks)


async def test_requests_wait_for_their_minute_in_order() -> None:
    clock = QueueClock()
    model = Model(clock)
    await ask_all(RateLimiter(model, requests_per_minute=2, clock=clock), clock, list("abcde"))
    assert model.log == [("a", 0.0), ("b", 0.0), ("c", 60.0), ("d", 60.0), ("e", 120.0)]


async def test_tokens_are_guessed_and_then_put_right() -> None:
    clock = QueueClock()
    model = Model(clock, tokens=90)
    llm = RateLimiter(model, requests_per_minute=100, tokens_per_minute=100, clock=clock)
    await ask_all(llm, clock, ["first" + "." * 39])  # guessed at 11 tokens, it took 90
    await ask_all(llm, clock, ["small", "second" + "." * 38])
    assert model.log == [("first...", 0.0), ("small", 0.0), ("second..", 60.0)]


async def test_a_request_larger_than_the_allowance_has_a_minute_of_its_own() -> None:
    clock = QueueClock()
    model = Model(clock)
    llm = RateLimiter(model, requests_per_minute=100, tokens_per_minute=10, clock=clock)
    await ask_all(llm, clock, ["small", "huge" * 100, "small"])
    assert [at for _, at in model.log] == [0.0, 60.0, 120.0]


async def test_no_more_than_so_many_at_once() -> None:
    clock = QueueClock()
    model = Model(clock, seconds=5.0)
    llm = RateLimiter(model, requests_per_minute=1000, concurrency=3, clock=clock)
    await ask_all(llm, clock, [str(number) for number in range(10)])
    assert model.most_at_once == 3
    assert [name for name, _ in model.log] == [str(number) for number in range(10)]


async def test_one_who_gives_up_frees_the_place() -> None:
    clock = QueueClock()
    model = Model(clock)
    llm = RateLimiter(model, requests_per_minute=1, concurrency=2, clock=clock)
    first, second = [asyncio.create_task(llm.complete(request(text))) for text in "ab"]
    await first
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    await ask_all(llm, clock, ["c"])
    assert model.log == [("a", 0.0), ("c", 60.0)]


async def test_streams_count_too() -> None:
    clock = QueueClock()
    model = Model(clock)
    llm = RateLimiter(model, requests_per_minute=1, clock=clock)
    assert isinstance(llm, StreamingLlm)

    async def stream() -> list[StreamItem]:
        return [item async for item in llm.stream(request("a"))]

    tasks = [asyncio.create_task(stream()) for _ in range(2)]
    await clock.run_out()
    assert await asyncio.gather(*tasks) == [[TextChunk("o"), LlmResponse("ok")]] * 2
    assert [at for _, at in model.log] == [0.0, 60.0]


def test_it_lives_through_several_event_loops() -> None:
    clock = QueueClock()
    llm = RateLimiter(Model(clock), requests_per_minute=100, concurrency=1, clock=clock)
    for _ in range(3):
        asyncio.run(ask_all(llm, clock, list("abc")))


@draws(50)
@given(
    gaps=st.lists(st.integers(0, 50), min_size=1, max_size=25),
    sizes=st.lists(st.sampled_from([0, 3, 9, 19, 60]), min_size=25, max_size=25),
    per_minute=st.integers(1, 5),
)
def test_no_minute_ever_sees_more_than_is_allowed(gaps: list[int], sizes: list[int], per_minute: int) -> None:
    clock = QueueClock()
    model = Model(clock)
    llm = RateLimiter(model, requests_per_minute=per_minute, tokens_per_minute=20, clock=clock)

    async def main() -> None:
        tasks = []
        for number, gap in enumerate(gaps):
            clock.now += gap
            text = f"{number:04}".ljust(4 + 4 * sizes[number], ".")
            tasks.append(asyncio.create_task(llm.complete(request(text))))
            await asyncio.sleep(0)
        await clock.run_out()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    names = [name[:4] for name, _ in model.log]
    assert sorted(names) == names
    for _, start in model.log:
        window = [int(name[:4]) for name, at in model.log if start - 60 < at <= start]
        assert len(window) <= per_minute
        assert sum(1 + sizes[number] for number in window) <= 20 or len(window) == 1


@pytest.mark.parametrize("limits", [{"requests_per_minute": 0}, {"requests_per_minute": 1, "concurrency": 0}])
def test_limits_that_let_nothing_through_are_config_errors(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="allows no requests"):
        RateLimiter(Model(QueueClock()), **limits)


def test_it_is_its_model_to_the_runtime() -> None:
    llm = RateLimiter(Model(QueueClock()), requests_per_minute=1)
    assert (llm.model, llm.traits) == ("m", LlmTraits(native_output=True))
