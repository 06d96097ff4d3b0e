"""Patience: what is tried again, when, and for how long."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.llm.provider_kit import OPENAI, REQUEST, HandClock, Provider, ask, each_provider, each_way, fault
from tests.llm.toxic_server import ToxicServer, reply, reset, then
from wesichain.core import LlmResponse, TextChunk
from wesichain.errors import LlmResponseError, LlmTransportError
from wesichain.llm.transport.faults import retry_after
from wesichain.llm.transport.retry_limits import RetryLimits

BUSY = reply(503, "{}")


@each_provider
@each_way
async def test_retryable_faults_are_tried_again_with_backoff(provider: Provider, how: str) -> None:
    clock = HandClock()
    answers = [BUSY, reset, reply(200, ""), reply(200, provider.good(how))]
    manner = {"retries": 3, "clock": clock, "chance": lambda: 0.5}
    async with ToxicServer(*answers) as server, provider.client(server.url, **manner) as client:
        response = await ask(client, how)
    assert (response.content, response.usage.total_tokens) == ("hello", 5)
    assert clock.pauses == [0.375, 0.75, 1.5]  # half a second, doubled each time, less a quarter by chance
    assert len({received.body for received in server.received}) == 1


async def test_retry_after_is_ignored_on_success() -> None:
    clock = HandClock()
    answer = reply(200, OPENAI.whole, {"retry-after": "30"})
    async with ToxicServer(answer) as server, OPENAI.client(server.url, retries=1, clock=clock) as client:
        await client.complete(REQUEST)
    assert clock.pauses == []


async def test_a_pause_beyond_the_deadline_is_not_begun() -> None:
    clock = HandClock()
    answer = reply(429, "{}", {"retry-after": "86400"})
    manner = {"retries": 5, "clock": clock, "total": None}  # which alone would refuse it too
    async with ToxicServer(answer) as server, OPENAI.client(server.url, **manner) as client:
        error = await fault(client, "json")
    assert (clock.pauses, error.retryable, error.retry_after) == ([], True, 86_400.0)


async def test_the_total_is_over_all_attempts() -> None:
    clock = HandClock()
    manner = {"retries": 1000, "clock": clock, "total": 60.0}
    async with ToxicServer(BUSY) as server, OPENAI.client(server.url, **manner) as client:
        await fault(client, "json")
    assert 50 < sum(clock.pauses) < 60


@pytest.mark.parametrize(("total", "pauses"), [(60.0, []), (90.0, [60.0])])
async def test_a_pause_that_leaves_no_time_for_an_attempt_is_not_begun(
    total: float, pauses: list[float]
) -> None:
    clock = HandClock()
    answer = reply(429, "{}", {"retry-after": "60"})
    manner = {"retries": 1, "clock": clock, "deadline": 100.0, "total": total}
    async with ToxicServer(answer) as server, OPENAI.client(server.url, **manner) as client:
        error = await fault(client, "json")
    assert (clock.pauses, error.retry_after) == (pauses, 60.0)


async def test_a_refusal_is_not_tried_again() -> None:
    clock = HandClock()
    answer = reply(400, "{}")
    async with ToxicServer(answer) as server, OPENAI.client(server.url, retries=5, clock=clock) as client:
        await fault(client, "json")
    assert (len(server.received), clock.pauses) == (1, [])


@each_provider
async def test_a_stream_is_tried_again_only_before_its_first_piece(provider: Provider) -> None:
    answers = [BUSY, then(provider.beginning), reply(200, provider.stream)]
    manner = {"retries": 5, "clock": HandClock()}
    async with ToxicServer(*answers) as server, provider.client(server.url, **manner) as client:
        items = client.stream(REQUEST)
        assert await anext(items) == TextChunk("he")
        with pytest.raises(LlmResponseError, match="cut off"):
            await anext(items)
    assert len(server.received) == 2


@each_provider
async def test_a_slow_reader_is_never_interrupted(provider: Provider) -> None:
    answer = reply(200, provider.stream)
    async with ToxicServer(answer) as server, provider.client(server.url, deadline=0.3) as client:
        async for item in client.stream(REQUEST):
            await asyncio.sleep(0.2)
            last = item
    assert isinstance(last, LlmResponse)


@given(attempt=st.integers(0, 60), chance=st.floats(0, 1))
def test_backoff_is_never_negative_nor_longer_than_eight_seconds(attempt: int, chance: float) -> None:
    pause = RetryLimits(chance=lambda: chance).pause(attempt, LlmTransportError("busy", retryable=True))
    assert 0.25 <= pause <= 8.0


@given(value=st.text(max_size=40), now=st.floats(0, 1e11))
def test_retry_after_of_any_text_is_a_wait_or_nothing(value: str, now: float) -> None:
    for name in ("retry-after", "retry-after-ms"):
        wait = retry_after({name: value}, now=now)
        assert wait is None or 0 <= wait < float("inf")
